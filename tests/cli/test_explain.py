"""`freshstack explain`: the path of a judgment, for people and as JSON."""

import dataclasses
import json
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.config import load_config
from freshstack_dspy.records import Judgment, Vote
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, D, write_small

from .conftest import Command


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def supporting(built: Path) -> Judgment:
    """A judgment of the built collection that says yes."""
    return next(each for each in Collection.load(built).judgments if each.label)


def test_the_path_of_a_judgment_is_told(
    freshstack: Command, built: Path, supporting: Judgment
) -> None:
    collection = Collection.load(built)
    query = next(each for each in collection.queries if each.query_id == supporting.query_id)

    done = freshstack("explain", built, supporting.query_id, supporting.chunk_id)

    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"query {query.query_id}: {query.title}"
    assert f"chunk {supporting.chunk_id}" in lines
    assert any(line.startswith("  question: rank 1; bm25 1") for line in lines)
    assert any(
        line.startswith(f"  {supporting.nugget_id}: supports (1), nugget ") for line in lines
    )
    assert f"  {supporting.call_id}" in lines
    assert "replies were not looked up" in done.out
    assert max(map(len, lines)) <= 80


def test_the_call_is_looked_up_where_the_build_records_its_replies(
    freshstack: Command, built: Path, supporting: Judgment
) -> None:
    words = ("explain", built, supporting.query_id, supporting.chunk_id)
    config = built.parent / "build.toml"

    done = freshstack(*words, "--config", config)
    (call, *_) = json.loads(freshstack(*words, "--config", config, "--json").out)["calls"]

    assert "extractive/baseline, JudgeSupport" in done.out
    assert "were not looked up" not in done.out
    assert (call["call_id"], call["recorded"]) == (supporting.call_id, True)
    assert (call["model"], call["status"], call["finish_reason"]) == (
        "extractive/baseline",
        "ok",
        "stop",
    )


def test_a_reply_that_is_not_recorded_is_said_to_be_missing(
    freshstack: Command, tmp_path: Path, config: Path
) -> None:
    """The configuration of another build, which has no store yet; none is made."""
    write_small(tmp_path / "small")

    done = freshstack("explain", tmp_path / "small", "12", A, "--config", config)

    assert done.code == 0
    assert "not recorded in this store or these bundles" in done.out
    assert not load_config(config).cache.path.exists()


def test_labels_of_people_are_shown(
    freshstack: Command, built: Path, supporting: Judgment, labels_of_built: Path
) -> None:
    words = ("explain", built, supporting.query_id, supporting.chunk_id)

    done = freshstack(*words, "--labels", labels_of_built)

    assert "    human label 1 by ada" in done.out.splitlines()


def test_votes_parts_and_failures_are_shown(freshstack: Command, tmp_path: Path) -> None:
    votes = tuple(
        Vote(
            vote=number,
            part=part,
            label=label,
            status="ok" if label is not None else "truncated",
            reason=f"reason {number}.{part}",
            call_id="k2",
        )
        for number, part, label in ((1, 1, 0), (1, 2, 1), (2, 1, None))
    )
    voted = CONTENTS.judgments[0].model_copy(update={"votes": votes, "parts": 2})
    judgments = (voted, *CONTENTS.judgments[1:])
    contents = dataclasses.replace(CONTENTS, judgments=judgments)
    write_small(tmp_path / "small", contents)

    voted_out = freshstack("explain", tmp_path / "small", "12", A).out
    failed_out = freshstack("explain", tmp_path / "small", "123", D).out

    assert "vote 1, part 2: label 1; reason 1.2 [call k2]" in voted_out
    assert "vote 2, part 1: no label (truncated); reason 2.1 [call k2]" in voted_out
    assert "123_0: no label (refused)" in failed_out
    assert "failed in step support, refused: no [call k2]" in failed_out
    assert "judged without being a candidate" in failed_out


def test_wrong_ids_are_one_line_with_the_nearest(freshstack: Command, built: Path) -> None:
    done = freshstack("explain", built, "110", "x")

    assert (done.code, done.out) == (1, "")
    assert done.err == "error: small: there is no query '110' among its 3; the nearest are '10'\n"


def test_an_id_like_no_other_is_told_where_all_are(freshstack: Command, built: Path) -> None:
    assert freshstack("explain", built, "zzzz", "x").err == (
        "error: small: there is no query 'zzzz' among its 3; none is like it; its queries.jsonl "
        "lists them all\n"
    )


def test_a_nugget_has_its_number_in_the_call_and_support_its_reason(
    freshstack: Command, tmp_path: Path
) -> None:
    """The reasons of a batch name nuggets by number; one reason stands for all of them."""
    first = CONTENTS.nuggets[0]
    nuggets = tuple(
        first.model_copy(update={"nugget_id": f"{first.query_id}_{number}"}) for number in range(3)
    )
    judged = next(each for each in CONTENTS.judgments if each.chunk_id == A and each.label)
    judgments = tuple(
        judged.model_copy(
            update={
                "nugget_id": nugget.nugget_id,
                "query_id": first.query_id,
                "label": label,
                "reason": "It states nugget 3.",
                "call_id": "k",
            }
        )
        for nugget, label in zip(nuggets, (0, 0, 1), strict=True)
    )
    others = tuple(each for each in CONTENTS.nuggets if each.query_id != first.query_id)
    rest = tuple(each for each in CONTENTS.judgments if each.query_id != first.query_id)
    contents = dataclasses.replace(
        CONTENTS,
        nuggets=(*nuggets, *others),
        judgments=(*judgments, *rest),
        single_judgments=(),
    )
    write_small(tmp_path / "small", contents)

    lines = freshstack("explain", tmp_path / "small", first.query_id, A).out.splitlines()

    heads = [line for line in lines if "in its call" in line]
    assert heads == [
        f"  {first.query_id}_0: does not support (0), nugget 1 in its call",
        f"  {first.query_id}_1: does not support (0), nugget 2 in its call",
        f"  {first.query_id}_2: supports (1), nugget 3 in its call",
    ]
    assert [line.strip() for line in lines if "reason:" in line] == [
        "reason: It states nugget 3. [call k]",
        "reason: as above",
        "reason: It states nugget 3. [call k]",
    ]


def test_no_text_of_a_collection_moves_the_cursor(freshstack: Command, tmp_path: Path) -> None:
    """Not even \x9b, the one-byte form of an escape sequence's beginning, or \u202e."""
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

    for words in (("12", A), ("123", D)):
        out = freshstack("explain", tmp_path / "small", *words).out
        assert "evil" in out
        assert not any(each in out for each in "\x1b\x9b\u202e\r")
        as_json = freshstack("explain", tmp_path / "small", *words, "--json").out
        assert as_json.isascii()
        assert "\x1b" not in as_json


def test_beside_yes_and_no_a_finer_label_of_a_person_is_support(
    freshstack: Command, built: Path, supporting: Judgment, tmp_path: Path
) -> None:
    given = {name: getattr(supporting, name) for name in ("query_id", "nugget_id", "chunk_id")}
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({**given, "label": 7, "annotator": "ada"}))

    done = freshstack(
        "explain", built, supporting.query_id, supporting.chunk_id, "--labels", labels
    )

    assert done.code == 0, done.err
    assert "    human label 7 by ada" in done.out.splitlines()
