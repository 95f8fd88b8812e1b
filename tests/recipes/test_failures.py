"""Failures stay failures: counted, listed, never a label, and never the end of the build."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.errors import FailureStatus, FatalModelError, ReplyError, TransientModelError
from freshstack_dspy.recipes.build import build

from .domain import afresh, domain, files_of
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


def break_off(_: Inputs) -> Said:
    return Said('{"nuggets": [{"text": "call re', "length")


def ramble(_: Inputs) -> Said:
    return Said("Well, it depends.")


def say_nothing(_: Inputs) -> Any:
    return ReplyError("the provider refused the request", status="failed", call_id=None)


WAYS_TO_FAIL: dict[FailureStatus, Any] = {
    "refused": refuse,
    "truncated": break_off,
    "unparsed": ramble,
    "failed": say_nothing,
}


def slices(collection: Collection) -> dict[str, str]:
    return {part.query_id: part.slice for part in collection.slices}


def assert_replayed_alike(config: BuildConfig, collection: Collection) -> None:
    """A replay meets the same failures and gives the same bytes."""
    build(afresh(config), mode="replay")
    before = files_of(config.out)

    again = build(afresh(config), mode="replay")

    assert again.manifest.content_hash == collection.manifest.content_hash
    assert again.failures == collection.failures
    assert files_of(config.out) == before


@pytest.mark.parametrize("status", WAYS_TO_FAIL)
def test_a_query_without_nuggets_is_undetermined_and_the_build_goes_on(
    tmp_path: Path, status: FailureStatus
) -> None:
    provider = ScriptedProvider(NuggetizeAnswer=when(DIAL, WAYS_TO_FAIL[status], nuggetize))
    config = domain(tmp_path)

    collection = build(config, provider=provider)

    (failure,) = collection.failures
    assert (failure.query_id, failure.step, failure.status) == ("10", "nuggets", status)
    assert failure.call_id is not None
    assert slices(collection) == {"2": "answerable", "10": "undetermined", "x": "unanswerable"}
    for records in (collection.nuggets, collection.pool, collection.judgments):
        assert "10" not in {record.query_id for record in records}
    assert {expansion.query_id for expansion in collection.expansions} == {"2", "10", "x"}
    assert collection.manifest.counts.failures == {"nuggets": {status: 1}}
    assert collection.manifest.ledger["nuggets"].failed == 1
    assert_replayed_alike(config, collection)


@pytest.mark.parametrize("status", WAYS_TO_FAIL)
def test_a_failed_batch_has_judgments_without_labels_and_leaves_its_query_undetermined(
    tmp_path: Path, status: FailureStatus
) -> None:
    provider = ScriptedProvider(JudgeSupport=when(DIAL, WAYS_TO_FAIL[status], judge))
    config = domain(tmp_path)

    collection = build(config, provider=provider)

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
    assert_replayed_alike(config, collection)


@pytest.mark.parametrize("step", ["sub_questions", "closed_book_answer"])
def test_a_query_whose_expansion_failed_is_pooled_by_the_other_techniques(
    tmp_path: Path, step: str
) -> None:
    scripts = {
        "sub_questions": {"DecomposeQuestion": when(DIAL, refuse, decompose)},
        "closed_book_answer": {"AnswerClosedBook": when(DIAL, ramble, answer_closed_book)},
    }
    config = domain(tmp_path)

    collection = build(config, provider=ScriptedProvider(**scripts[step]))

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
    assert_replayed_alike(config, collection)


def test_where_all_nuggets_fail_the_collection_that_stands_is_kept(tmp_path: Path) -> None:
    """A server that says nothing of use must not replace a good collection with an empty one."""
    config = domain(tmp_path)
    good = build(config, provider=ScriptedProvider())

    with pytest.raises(FatalModelError, match="no nuggets came of any of the 3 answers"):
        build(config, mode="rerecord", provider=ScriptedProvider(NuggetizeAnswer=ramble))

    assert Collection.load(config.out).manifest == good.manifest


@pytest.mark.parametrize("mode", ["rerecord", "replay"])
def test_where_all_judging_fails_the_collection_that_stands_is_kept(
    tmp_path: Path, mode: Mode
) -> None:
    config = domain(tmp_path)
    good = build(config, provider=ScriptedProvider())
    failing = ScriptedProvider(JudgeSupport=refuse)
    with pytest.raises(FatalModelError) as caught:
        build(config, mode="rerecord", provider=failing)
    assert re.match(
        rf"no label came of any of the {len(good.judgments)} pairs .*; the first: .*refused",
        str(caught.value),
    )
    assert failing.calls["JudgeSupport"] < 10, "nothing was asked after it"

    with pytest.raises(FatalModelError, match="no label came"):
        build(config, mode=mode, provider=failing)

    assert Collection.load(config.out).manifest == good.manifest


def test_an_invalid_reply_is_asked_again_and_its_correction_counts(tmp_path: Path) -> None:
    """Each re-ask is a call of its own, in the ledger and in the replay."""
    seen: Counter[str] = Counter()

    def stumble(inputs: Inputs) -> Any:
        seen[inputs["answer"]] += 1
        return nuggetize(inputs) if seen[inputs["answer"]] > 1 else Said("{}")

    config = domain(tmp_path)

    collection = build(config, provider=ScriptedProvider(NuggetizeAnswer=stumble))

    account = collection.manifest.ledger["nuggets"]
    assert (account.calls, account.reasked, account.failed) == (6, 3, 0)
    assert collection.failures == ()
    assert len(collection.nuggets) == 5
    assert_replayed_alike(config, collection)


def test_building_again_asks_again_for_what_failed_and_for_nothing_else(tmp_path: Path) -> None:
    config = domain(tmp_path)
    first = build(config, provider=ScriptedProvider(NuggetizeAnswer=when(DIAL, refuse, nuggetize)))
    healed = ScriptedProvider()

    second = build(config, provider=healed)

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
