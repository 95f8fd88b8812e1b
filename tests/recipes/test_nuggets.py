"""Nuggets in a build: their places, their importance, and what becomes of failures."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.errors import FailureStatus
from freshstack_dspy.recipes.build import build

from .domain import domain
from .scripted import Inputs, ScriptedProvider, nuggetize, rate, when
from .test_deferred import by_hand, defer, hand_in, task
from .test_failures import DIAL, WAYS_TO_FAIL, assert_replayed_alike

IMPORTANCE = {"nuggets": {"importance": True}}


def misquote(inputs: Inputs) -> Any:
    made = nuggetize(inputs)["nuggets"]
    return {"nuggets": [each | {"quote": f"{each['quote']} indeed"} for each in made]}


def overdo(inputs: Inputs) -> Any:
    return {"nuggets": [{"quote": "", "text": f"fact {number}"} for number in range(11)]}


def test_nuggets_lie_where_the_answer_states_them(tmp_path: Path) -> None:
    collection = build(domain(tmp_path), provider=ScriptedProvider())
    answers = {query.query_id: query.answer for query in collection.queries}

    assert all(
        answers[nugget.query_id][slice(*nugget.answer_span)] == nugget.text
        for nugget in collection.nuggets
        if nugget.answer_span
    )
    assert None not in [nugget.answer_span for nugget in collection.nuggets]
    assert {None} == {nugget.importance for nugget in collection.nuggets}


def test_misquoted_nuggets_are_kept_counted_and_judged(tmp_path: Path) -> None:
    provider = ScriptedProvider(NuggetizeAnswer=when(DIAL, misquote, nuggetize))
    config = domain(tmp_path)
    collection = build(config, provider=provider)
    (failure,) = collection.failures
    nuggets = [nugget for nugget in collection.nuggets if nugget.query_id == "10"]

    assert provider.calls["NuggetizeAnswer"] == 5  # three queries, and two re-asks of one
    assert [(nugget.text, nugget.answer_span) for nugget in nuggets] == [
        ("Call reset twice", None),
        ("The moon must be full", None),
    ]
    assert "partly_supported" in [part.slice for part in collection.slices]
    assert (failure.query_id, failure.step, failure.status) == ("10", "nuggets", "unparsed")
    assert failure.message.startswith("2 of 2 nuggets have no place in the answer")
    assert collection.manifest.counts.failures == {"nuggets": {"unparsed": 1}}
    assert collection.manifest.ledger["nuggets"].failed == 1
    assert_replayed_alike(config, collection)


def test_a_reply_above_the_cap_is_sent_back_and_never_cut(tmp_path: Path) -> None:
    provider = ScriptedProvider(NuggetizeAnswer=when(DIAL, overdo, nuggetize))
    collection = build(domain(tmp_path), provider=provider)
    (failure,) = collection.failures

    assert "at most 10 nuggets are allowed, and there are 11" in failure.message
    assert "10" not in {nugget.query_id for nugget in collection.nuggets}


def test_importance_is_one_more_call_for_each_query(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    config = domain(tmp_path, **IMPORTANCE)
    collection = build(config, provider=provider)

    assert provider.calls["RateImportance"] == len(collection.queries)
    assert {nugget.text: nugget.importance for nugget in collection.nuggets} == {
        "Call reset twice": "vital",
        "The moon must be full": "okay",
        "Install it with pip": "vital",
        "Python 3.11 is needed": "vital",
        "Nobody knows": "vital",
    }
    assert all(nugget.importance_call_id != nugget.call_id for nugget in collection.nuggets)
    assert collection.manifest.ledger["importance"].calls == 3
    assert_replayed_alike(config, collection)


@pytest.mark.parametrize("status", WAYS_TO_FAIL)
def test_a_failed_rating_is_a_failure_and_no_rating(tmp_path: Path, status: FailureStatus) -> None:
    provider = ScriptedProvider(RateImportance=when(DIAL, WAYS_TO_FAIL[status], rate))
    config = domain(tmp_path, **IMPORTANCE)
    collection = build(config, provider=provider)
    (failure,) = collection.failures

    assert (failure.query_id, failure.step, failure.status) == ("10", "importance", status)
    for nugget in collection.nuggets:
        rated = (nugget.importance is not None, nugget.importance_call_id is not None)
        assert rated == (nugget.query_id != "10",) * 2
    assert_replayed_alike(config, collection)


def test_ratings_are_deferred_with_the_judgments(tmp_path: Path) -> None:
    config = domain(tmp_path, **IMPORTANCE)
    first = defer(config)
    hand_in(config, [by_hand(request) for request in first], tmp_path)
    second = defer(config)

    assert "RateImportance" not in {task(request) for request in first}
    assert {"JudgeSupport", "RateImportance"} <= {task(request) for request in second}
    hand_in(config, [by_hand(request) for request in second], tmp_path)

    collection = build(config, mode="defer")
    assert None not in [nugget.importance for nugget in collection.nuggets]
