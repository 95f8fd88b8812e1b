"""`freshstack diagnose`: what it prints, on a screen of 80 columns and as JSON."""

import dataclasses
import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.run import Run, write_run
from freshstack_dspy.records import Candidate, Found, ScoredChunk, TechniqueRank, Vote
from tests.collection.small import CONTENTS, A, B, D, write_small

from .conftest import Command

SECOND = (
    (TechniqueRank(technique="question", rank=2),),
    (Found(technique="question", retriever="bm25", rank=2),),
)
RANKED = dataclasses.replace(
    CONTENTS,
    pool=tuple(
        each.model_copy(update={"pooled_by": SECOND[0], "found_by": SECOND[1]})
        if each.chunk_id == B
        else each
        for each in CONTENTS.pool
    ),
)
"""As `CONTENTS`, where two chunks are the first of one list."""


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of `small.py` with one chunk of two unjudged for query 12."""
    entries = (ScoredChunk(A, 2.0), ScoredChunk(D, 1.0))
    write_run(Run("mine", {"12": entries, "123": entries[:1]}), tmp_path / "mine.run")
    return tmp_path / "mine.run"


def test_every_diagnostic_has_its_table_and_fits_a_narrow_screen(
    freshstack: Command, built: Path
) -> None:
    done = freshstack("diagnose", built)

    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    for title in (
        "Who found the",
        "What would be lost without one technique, or without one retriever",
        "What a pool of each depth would hold",
        "Pooling results, as Table 4 of the FreshStack paper",
        "Signs of support below the pool",
    ):
        assert title in done.out
    assert "unjudged" not in done.out


def test_all_of_it_is_there_as_json(freshstack: Command, built: Path) -> None:
    found = json.loads(freshstack("diagnose", built, "--json").out)

    collection = Collection.load(built)
    assert found["content_hash"] == collection.manifest.content_hash
    diagnosis = found["diagnosis"]
    assert diagnosis["slices"] == ["answerable", "partly_supported"]
    assert diagnosis["unknown"] is None
    assert [each["without"] for each in diagnosis["losses"]["without"]][-2:] == ["bm25", "lsa"]
    assert {each["setting"] for each in diagnosis["results"]} == {"inference", "oracle"}
    assert found["runs"] == []


def test_other_slices_are_asked_for_by_name(freshstack: Command, built: Path) -> None:
    def queries(name: str) -> int:
        found = json.loads(freshstack("diagnose", built, "--slices", name, "--json").out)
        return int(found["diagnosis"]["queries"])

    assert queries("all") == 3
    assert queries("all") == queries("supported") + queries("unanswerable")
    assert freshstack("diagnose", built, "--slices", "answerabel").code == 2


def test_what_a_run_has_without_a_label_is_counted(
    freshstack: Command, tmp_path: Path, run: Path
) -> None:
    """Chunk d has no label for query 12; its failed judgment is of query 123."""
    write_small(tmp_path / "small", RANKED)

    table = freshstack("diagnose", tmp_path / "small", run, "--k", 2)
    found = json.loads(freshstack("diagnose", tmp_path / "small", run, "--json").out)

    assert "unjudged@2" in table.out
    assert [line.split()[1:8:2] for line in table.out.splitlines() if "mine.run" in line] == [
        ["mine.run", "0.250", "2", "0"]
    ]
    assert [(each["file"], each["k"], each["mean"]) for each in found["runs"]] == [
        ("mine.run", 10, 0.25)
    ]


def test_a_run_that_is_not_there_is_an_error(freshstack: Command, built: Path) -> None:
    done = freshstack("diagnose", built, "no.run")

    assert (done.code, done.out) == (1, "")
    assert "error: no.run: the run cannot be read: No such file or directory\n" in done.err


def test_of_an_imported_collection_it_says_what_is_not_known(
    freshstack: Command, tmp_path: Path, run: Path
) -> None:
    pool = tuple(
        Candidate(query_id=each.query_id, chunk_id=each.chunk_id, origin="imported")
        for each in CONTENTS.pool
    )
    write_small(tmp_path / "small", dataclasses.replace(CONTENTS, pool=pool))

    done = freshstack("diagnose", tmp_path / "small", run)

    assert done.code == 0
    assert "candidates that no technique pooled: 3 imported" in done.out
    assert "who found what is not known: no technique pooled a chunk" in done.out
    assert "Table 4" not in done.out
    assert "unjudged@10" in done.out


def test_votes_and_pairs_judged_alone_are_told(freshstack: Command, tmp_path: Path) -> None:
    first = CONTENTS.judgments[0]
    votes = tuple(
        Vote(vote=number, label=label, status="ok", reason="", call_id="k2")
        for number, label in ((1, 1), (2, 1), (3, 0))
    )
    judgments = (first.model_copy(update={"votes": votes}), *CONTENTS.judgments[1:])
    alone = first.model_copy(update={"call_id": "k3"})
    contents = dataclasses.replace(RANKED, judgments=judgments, single_judgments=(alone,))
    write_small(tmp_path / "small", contents)

    out = " ".join(freshstack("diagnose", tmp_path / "small").out.split())

    assert "1 pairs with several votes: two votes agree on 33.3%, all votes on 0.0%" in out
    assert "1 pairs judged in batches and alone: the same label for 100.0%" in out


def test_two_chunks_of_one_rank_are_refused(freshstack: Command, tmp_path: Path) -> None:
    """Of a pool that was edited; every list has one chunk at each rank."""
    write_small(tmp_path / "small")  # a and "b c" are both first, for the question by bm25

    done = freshstack("diagnose", tmp_path / "small")

    assert done.code == 1
    assert f"gives chunks {A!r} and {B!r} of query '12' the same rank, 1" in done.err


def test_a_rank_of_a_hostile_pool_takes_no_more_room_than_another(
    freshstack: Command, tmp_path: Path
) -> None:
    far = 10**15
    pool = tuple(
        each.model_copy(
            update={
                "pooled_by": (TechniqueRank(technique="question", rank=far),),
                "found_by": (Found(technique="question", retriever="\x1b[31mred", rank=far + 1),),
            }
        )
        if each.chunk_id == B
        else each
        for each in CONTENTS.pool
    )
    write_small(tmp_path / "small", dataclasses.replace(CONTENTS, pool=pool))

    done = freshstack("diagnose", tmp_path / "small")

    assert done.code == 0
    assert "\x1b" not in done.out
