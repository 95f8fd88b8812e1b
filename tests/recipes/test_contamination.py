"""Closed-book answers are judged against the nuggets, one call for each query."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import build, plan

from .domain import domain
from .scripted import Said, ScriptedProvider, judge, when

ANSWER = "Call reset twice and install it with pip"


def answering(_: Any) -> Any:
    return {"answer": ANSWER}


def judged_answers(provider: ScriptedProvider) -> list[dict[str, Any]]:
    return [
        inputs
        for inputs in provider.asked
        if "chunks" in inputs and inputs["chunks"][0]["text"] == ANSWER
    ]


def test_what_the_closed_book_answer_holds_is_known(tmp_path: Path) -> None:
    """In one call for each query, also where the judge has votes and another shape."""
    provider = ScriptedProvider(AnswerClosedBook=answering)

    collection = build(domain(tmp_path, judge={"shape": "pairwise", "votes": 3}), provider=provider)

    found = {one.query_id: one for one in collection.contamination}
    assert {query_id: one.closed_book_coverage for query_id, one in found.items()} == {
        "10": 0.5,
        "2": 0.5,
        "x": 0.0,
    }
    (nugget_id,) = found["10"].known_nuggets or ()
    assert {n.nugget_id: n.text for n in collection.nuggets}[nugget_id] == "Call reset twice"
    asked, _, _ = judged_answers(provider)
    assert asked["chunks"] == [{"number": 1, "text": ANSWER}]
    counts = collection.manifest.counts.contamination
    assert (counts.scored, counts.nuggets, counts.known, counts.contaminated) == (3, 5, 2, 2)
    assert collection.contaminated() == ("10", "2")


def test_a_call_that_failed_is_a_failure_and_nothing_is_known(tmp_path: Path) -> None:
    def refusing(inputs: Any) -> Any:
        if "path" not in inputs["chunks"][0]:
            return Said("No.", "content_filter")
        return judge(inputs)

    provider = ScriptedProvider(JudgeSupportLevel=when("dial sticks", refusing, judge))

    collection = build(domain(tmp_path), provider=provider)

    (failure,) = collection.failures
    assert (failure.query_id, failure.step, failure.status) == ("10", "contamination", "refused")
    assert failure.chunk_ids == ()
    found = {one.query_id: one for one in collection.contamination}
    assert (found["10"].known_nuggets, found["10"].closed_book_coverage) == (None, None)
    assert found["2"].known_nuggets is not None
    assert collection.manifest.ledger["contamination"].failed == 1


@pytest.mark.parametrize(
    "sections",
    [
        {"contamination": {"score": False}},
        {"pool": {"techniques": ["question", "answer"], "depth": 5, "top_k": 5}},
    ],
    ids=["switched off", "no closed-book answer"],
)
def test_without_closed_book_answers_nothing_is_asked(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    config = domain(tmp_path, **sections)
    provider = ScriptedProvider()

    collection = build(config, provider=provider)

    assert not judged_answers(provider)
    assert "contamination" not in collection.manifest.ledger
    assert "contamination" not in [step.step for step in plan(config).steps]
    assert {one.closed_book_coverage for one in collection.contamination} == {None}
    assert len(collection.contamination) == 3
