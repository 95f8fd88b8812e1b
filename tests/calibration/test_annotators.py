"""Annotators: how much they labelled, and whether at random."""

import random

from freshstack_dspy import Collection, HumanLabel, agree
from freshstack_dspy.calibration.labels import AnyLabel, PairId, labelled
from freshstack_dspy.records import AnswerLabel, Comment, LabelTask, NuggetList

from .people import label

PAIRS = [(f"q{n // 6}", f"q{n // 6}_0", f"c{n}") for n in range(90)]


def truth(pair: PairId) -> int:
    return int(pair[2].endswith(("0", "3", "6")))


def noisy(name: str, wrong: float, seed: int = 0) -> list[HumanLabel]:
    """Labels of one who is wrong with a probability; .5 is at random."""
    chance = random.Random(f"{name} {seed}")
    return [label(*pair, truth(pair) ^ (chance.random() < wrong), annotator=name) for pair in PAIRS]


JUDGED = {pair: truth(pair) for pair in PAIRS}


def at_random(labels: list[HumanLabel], judged: dict[PairId, int]) -> dict[str, str]:
    """Name the annotators at random of a collection with these judgments."""
    queries = sorted({query for query, _, _ in PAIRS})
    collection = Collection.of(
        queries=[
            {"query_id": query, "title": f"What of {query}?", "body": ""} for query in queries
        ],
        nuggets=[{"nugget_id": f"{of}_0", "query_id": of, "text": "It is."} for of in queries],
        judgments=[
            {"nugget_id": nugget, "chunk_id": chunk, "label": one}
            for (_, nugget, chunk), one in judged.items()
        ],
        chunks=[{"id": chunk, "text": f"About {chunk}."} for _, _, chunk in PAIRS],
    )
    return agree(collection, labels).random


def test_an_annotator_at_random_is_named_with_both_kappas() -> None:
    found = at_random(noisy("ana", 0.1) + noisy("bob", 0.5), JUDGED)

    assert list(found) == ["bob"]


def test_a_bad_judge_makes_no_one_suspect_and_hides_no_one() -> None:
    judged = {one.chunk_id: one.label for one in noisy("judge", 0.5)}
    bad = {pair: judged[pair[2]] for pair in PAIRS}
    two = noisy("ana", 0.1) + noisy("bob", 0.15)

    assert at_random(two, bad) == {}
    assert list(at_random(two + noisy("eve", 0.5), bad)) == ["eve"]
    assert at_random(noisy("ana", 0.5), JUDGED) == {}, "one alone: it may be the judge"


def test_honest_annotators_are_not_named() -> None:
    for seed in range(3):
        labels = noisy("ana", 0.1, seed) + noisy("bob", 0.25, seed)[:30] + noisy("eve", 0.2, seed)
        assert at_random(labels, JUDGED) == {}


def test_labelled_tasks_are_counted_by_annotator() -> None:
    tasks = [
        LabelTask(kind="support", query_id="1", nugget_id="1_0", chunk_id="a"),
        LabelTask(kind="support", query_id="1", nugget_id="1_0", chunk_id="b"),
        LabelTask(kind="nuggets", query_id="1"),
        LabelTask(kind="answer", query_id="1", run_id="bm25"),
    ]
    labels: list[AnyLabel] = [
        label("1", "1_0", "a", 1, "ana"),
        label("1", "1_0", "c", 1, "ana"),
        NuggetList(query_id="1", annotator="ana", nuggets=()),
        AnswerLabel(query_id="1", annotator="ana", run_id="bm25", agrees=True),
        Comment(query_id="1", annotator="bob", note="?"),
    ]

    assert labelled(labels, tasks) == {"ana": 3, "bob": 0}
