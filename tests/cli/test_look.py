"""`freshstack show`, `explain`, `diagnose`: for people on 80 columns, and as JSON."""

import dataclasses
import json
from pathlib import Path

import pytest

from freshstack_dspy import Collection, Judgment
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.records import Vote
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, D, write_small

from .conftest import Command

COUNTER = "labels by extractive/baseline, a word counter"


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def supporting(built: Path) -> Judgment:
    """A judgment of the built collection that says yes."""
    return next(each for each in Collection.load(built).judgments if each.label)


def test_show_lists_the_queries(freshstack: Command, built: Path) -> None:
    done = freshstack("show", built)
    rows = json.loads(freshstack("show", built, "--json").out)

    assert (done.code, done.err) == (0, "")
    assert COUNTER in done.out
    assert max(len(line) for line in done.out.splitlines() if str(built) not in line) <= 80
    parts = Collection.load(built).slices
    assert [(row["query_id"], row["nuggets"], row["supported"], row["slice"]) for row in rows] == [
        (part.query_id, part.nuggets, part.supported, part.slice) for part in parts
    ]
    assert "2 queries" in freshstack("show", built, "--slices", "supported").out
    assert f"freshstack show {built} QUERY" in done.out


def test_diff_names_what_moved(freshstack: Command, tmp_path: Path) -> None:
    write_small(tmp_path / "before")
    first, *others = CONTENTS.judgments
    judgments = (first.model_copy(update={"label": 0}), *others)
    changed = dataclasses.replace(CONTENTS, judgments=judgments)
    write_collection(tmp_path / "after", changed, CHUNKS, PROVENANCE)

    done = freshstack("diff", "before", "after")
    found = json.loads(freshstack("diff", "before", "after", "--json").out)
    same = freshstack("diff", "before", "before").out

    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert f"labels down: 1\n  1 → 0  {first.nugget_id} in {first.chunk_id}: " in done.out
    (change,) = found["changes"]
    assert (change["move"], change["before"]["label"], change["after"]["label"]) == ("down", 1, 0)
    assert len(Collection.load(tmp_path / "before").diff(tmp_path / "after").changes) == 1
    assert "labels" not in same


def test_an_explanation_leads_from_pool_to_reason(
    freshstack: Command, built: Path, supporting: Judgment
) -> None:
    done = freshstack("explain", built, supporting.query_id, supporting.chunk_id)

    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert f"chunk {supporting.chunk_id}" in lines
    assert any(line.startswith("  question: rank 1; bm25 1") for line in lines)
    assert any(
        line.startswith(f"  {supporting.nugget_id}, vital: supports ({supporting.label}), nugget ")
        for line in lines
    )
    start, end = supporting.evidence[0]
    assert any(line.startswith(f"    bytes {start:,} to {end:,}: “") for line in lines)
    assert f"  {supporting.call_id}" in lines
    assert "--config BUILD.toml shows the call" in done.out
    assert COUNTER in lines
    assert max(map(len, lines)) <= 80


def test_the_call_is_looked_up_where_the_build_records_its_replies(
    freshstack: Command, built: Path, supporting: Judgment
) -> None:
    words = ("explain", built, supporting.query_id, supporting.chunk_id)
    config = built.parent / "build.toml"

    done = freshstack(*words, "--config", config)
    (call, *_) = json.loads(freshstack(*words, "--config", config, "--json").out)["calls"]

    assert "extractive/baseline, JudgeSupportLevel" in done.out
    assert call["call_id"] == call["reply"]["key"] == supporting.call_id
    assert (call["reply"]["status"], call["reply"]["finish_reason"]) == ("ok", "stop")


def test_votes_parts_and_failures_are_shown(freshstack: Command, tmp_path: Path) -> None:
    votes = (
        Vote(vote=1, part=2, label=1, status="ok", reason="reason 1.2", call_id="k2"),
        Vote(vote=2, part=1, label=None, status="truncated", reason="", call_id="k2"),
    )
    voted = CONTENTS.judgments[0].model_copy(update={"votes": votes, "parts": 2})
    judgments = (voted, *CONTENTS.judgments[1:])
    write_small(tmp_path / "small", dataclasses.replace(CONTENTS, judgments=judgments))

    voted_out = freshstack("explain", tmp_path / "small", "12", A).out
    failed_out = freshstack("explain", tmp_path / "small", "123", D).out

    assert "vote 1, part 2: label 1 [call k2]" in voted_out
    assert "vote 2, part 1: no label (truncated) [call k2]" in voted_out
    assert "reason for nugget 12_0: reason 1.2 [call k2]" in voted_out
    assert "123_0: no label (refused)" in failed_out
    assert "failed in step support, refused: no [call k2]" in failed_out
    assert "judged without being a candidate" in failed_out


def test_no_text_of_a_collection_moves_the_cursor(freshstack: Command, tmp_path: Path) -> None:
    evil = "\x1b[2J\x9b31m\u202eevil\r\nquery 12: forged"
    chunks = tuple(each.model_copy(update={"text": f"a{evil}"}) for each in CHUNKS)
    contents = dataclasses.replace(
        CONTENTS,
        queries=tuple(each.model_copy(update={"title": evil}) for each in CONTENTS.queries),
        nuggets=tuple(each.model_copy(update={"text": evil}) for each in CONTENTS.nuggets),
        judgments=tuple(
            each.model_copy(update={"reason": evil, "call_id": evil}) for each in CONTENTS.judgments
        ),
        failures=tuple(each.model_copy(update={"message": evil}) for each in CONTENTS.failures),
    )
    write_collection(tmp_path / "small", contents, chunks, PROVENANCE)

    for words in (("explain", "12", A), ("explain", "123", D), ("show", "12"), ("show",)):
        out = freshstack(words[0], tmp_path / "small", *words[1:]).out
        assert "evil" in out
        assert not any(each in out for each in "\x1b\x9b\u202e\r")
