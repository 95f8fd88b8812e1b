"""Failures stay failures: counted, listed, never a label, and never the end of the build."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, build, export_collection
from freshstack_dspy.config import Mode
from freshstack_dspy.errors import FailureStatus, FatalModelError, ReplyError, TransientModelError
from freshstack_dspy.formats.validate import validate

from .conftest import Built
from .domain import afresh, domain
from .scripted import (
    Inputs,
    Said,
    ScriptedProvider,
    answer_closed_book,
    decompose,
    judge,
    nuggetize,
    when,
)

DIAL = "The dial sticks"
"""The title of query 10; query 2 is about installing, x about the phase."""


def refuse(_: Inputs) -> Said:
    return Said("I would rather not.", "content_filter")


def ramble(_: Inputs) -> Said:
    return Said("Well, it depends.")


WAYS_TO_FAIL: dict[FailureStatus, Any] = {
    "refused": refuse,
    "truncated": lambda _: Said('{"nuggets": [{"text": "call re', "length"),
    "unparsed": ramble,
    "failed": lambda _: ReplyError("the provider refused it", status="failed", call_id=None),
}


def slices(collection: Collection) -> dict[str, str]:
    return {part.query_id: part.slice for part in collection.slices}


def built_and_replayed(folder: Path, provider: ScriptedProvider, **sections: Any) -> Collection:
    """Build, and see that a replay meets the same failures."""
    config = domain(folder, **sections)
    collection = build(config, provider=provider)
    again = build(afresh(config), mode="replay")

    assert again.manifest.content_hash == collection.manifest.content_hash
    assert again.failures == collection.failures
    return collection


@pytest.mark.parametrize("status", ["refused", "truncated"])
def test_a_query_without_nuggets_is_in_that_slice_and_the_build_goes_on(
    tmp_path: Path, status: FailureStatus
) -> None:
    provider = ScriptedProvider(NuggetizeAnswer=when(DIAL, WAYS_TO_FAIL[status], nuggetize))

    collection = built_and_replayed(tmp_path, provider)

    (failure,) = collection.failures
    assert (failure.query_id, failure.step, failure.status) == ("10", "nuggets", status)
    assert failure.call_id is not None
    assert slices(collection) == {"2": "answerable", "10": "without_nuggets", "x": "unanswerable"}
    for records in (collection.nuggets, collection.pool, collection.judgments):
        assert "10" not in {record.query_id for record in records}
    assert {expansion.query_id for expansion in collection.expansions} == {"2", "10", "x"}
    assert collection.manifest.counts.failures == {"nuggets": {status: 1}}
    assert collection.manifest.ledger["nuggets"].failed == 1


def test_a_doubtful_nugget_is_recorded_and_not_searched_with_judged_or_measured(
    tmp_path: Path,
) -> None:
    def doubting(inputs: Inputs) -> Any:
        made = nuggetize(inputs)["nuggets"]
        return {"nuggets": [each | {"doubtful": "moon" in each["text"]} for each in made]}

    collection = built_and_replayed(tmp_path, ScriptedProvider(NuggetizeAnswer=doubting))

    (doubtful,) = (one for one in collection.nuggets if one.doubtful)
    assert (doubtful.text, doubtful.importance) == ("The moon must be full", "okay")
    assert doubtful.nugget_id not in {one.nugget_id for one in collection.judgments}
    assert slices(collection)["10"] == "answerable"
    assert doubtful.nugget_id not in collection.qrels(slices="all").labels
    assert (
        "doubtful nuggets, which are not judged | 1"
        in (tmp_path / "collection/README.md").read_text()
    )
    searched = collection.texts(collection.queries)[doubtful.query_id]["nuggets"]
    assert doubtful.text not in searched
    sizes = export_collection(collection, "trec", tmp_path / "trec", slices="all").counts["nuggets"]
    assert sizes == len(collection.nuggets) - 1
    export_collection(collection, "hf", tmp_path / "hf", slices="all")
    assert not validate(tmp_path / "hf").faults


@pytest.mark.parametrize("status", ["unparsed", "failed"])
def test_a_failed_batch_has_judgments_without_labels_and_leaves_its_query_undetermined(
    tmp_path: Path, status: FailureStatus
) -> None:
    provider = ScriptedProvider(JudgeSupportLevel=when(DIAL, WAYS_TO_FAIL[status], judge))

    collection = built_and_replayed(tmp_path, provider)

    without_label = [judgment for judgment in collection.judgments if judgment.status != "ok"]
    pooled = [candidate.chunk_id for candidate in collection.pool if candidate.query_id == "10"]
    assert {(j.nugget_id, j.chunk_id) for j in without_label} == {
        (nugget_id, chunk_id) for nugget_id in ("10_0", "10_1") for chunk_id in pooled
    }
    assert {(j.label, j.status) for j in without_label} == {(None, status)}
    assert slices(collection) == {"2": "answerable", "10": "undetermined", "x": "unanswerable"}
    failed = [failure for failure in collection.failures if failure.step == "support"]
    assert sorted(chunk_id for failure in failed for chunk_id in failure.chunk_ids) == pooled
    assert collection.manifest.counts.failures == {
        "support": {status: len(failed)},
        "contamination": {status: 1},
    }
    assert collection.manifest.ledger["support"].failed == len(failed)


@pytest.mark.parametrize(
    ("step", "scripts"),
    [
        ("sub_questions", {"DecomposeQuestion": when(DIAL, refuse, decompose)}),
        ("closed_book_answer", {"AnswerClosedBook": when(DIAL, ramble, answer_closed_book)}),
    ],
)
def test_a_query_whose_expansion_failed_is_pooled_by_the_other_techniques(
    tmp_path: Path, step: str, scripts: dict[str, Any]
) -> None:
    collection = built_and_replayed(tmp_path, ScriptedProvider(**scripts))

    (failure,) = collection.failures
    assert (failure.query_id, failure.step) == ("10", step)
    techniques = {
        query_id: {
            by.technique
            for candidate in collection.pool
            if candidate.query_id == query_id
            for by in candidate.pooled_by
        }
        for query_id in ("2", "10")
    }
    assert techniques["2"] - techniques["10"] == {step}
    assert len(techniques["10"]) == 4
    assert slices(collection)["10"] == "partly_supported"


@pytest.mark.parametrize(
    ("task", "mode"), [("NuggetizeAnswer", "rerecord"), ("JudgeSupportLevel", "replay")]
)
def test_where_all_fails_the_collection_that_is_there_is_kept(
    usual: Built, copied: Callable[[str], BuildConfig], task: str, mode: Mode
) -> None:
    """A server that says nothing of use must not replace a good collection with an empty one."""
    config = copied("usual")
    failing = ScriptedProvider(**{task: refuse})
    with pytest.raises(FatalModelError, match="refused"):
        build(config, mode="rerecord", provider=failing)
    assert failing.calls[task] < 10, "nothing was asked after it"

    with pytest.raises(FatalModelError, match="refused"):
        build(config, mode=mode, provider=failing)

    assert Collection.load(config.out).manifest == usual.collection.manifest


def test_what_failed_is_asked_for_again_where_that_is_asked_for_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    config = domain(tmp_path)
    first = build(config, provider=ScriptedProvider(NuggetizeAnswer=when(DIAL, refuse, nuggetize)))
    healed = ScriptedProvider()

    again = build(config, provider=healed)
    assert (again.manifest.content_hash, healed.calls.total()) == (first.manifest.content_hash, 0)

    second = build(config, mode="rerecord", failed=True, provider=healed)

    assert healed.calls["NuggetizeAnswer"] == 1
    assert healed.calls["DecomposeQuestion"] == healed.calls["AnswerClosedBook"] == 0
    assert second.failures == ()
    assert slices(second)["10"] == "partly_supported"
    untouched = {j for j in first.judgments if j.query_id != "10"}
    assert untouched == {j for j in second.judgments if j.query_id != "10"}


def test_an_outage_stops_the_build_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    config = domain(tmp_path)

    def unreachable(_: Inputs) -> Any:
        return TransientModelError("connection refused")

    with pytest.raises(TransientModelError, match="running it again asks only for what is missing"):
        build(config, provider=ScriptedProvider(AnswerClosedBook=unreachable))
    again = ScriptedProvider()
    collection = build(config, provider=again)

    assert again.calls["NuggetizeAnswer"] == again.calls["DecomposeQuestion"] == 0
    assert again.calls["AnswerClosedBook"] == 3
    assert collection.failures == ()
