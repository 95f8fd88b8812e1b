"""Reranking by a chat model whose order of the passages is known, and by vectors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any

import dspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import (
    ListwiseReranker,
    ModelConfig,
    PointwiseReranker,
    ReplyStore,
    SetwiseReranker,
    connect,
)
from freshstack_dspy.index.ranking import unit_rows
from freshstack_dspy.index.reranking import Mmr
from tests.recipes.scripted import Script, ScriptedProvider

Answers = Callable[[str, dict[int, int]], Any]
"""The outputs for a signature and the worth of each numbered passage."""


def knowing(task: str, worth: dict[int, int]) -> Any:
    """Answer as a model that knows the worth of each passage."""
    best = sorted(worth, key=lambda number: -worth[number])
    if task == "RankPassages":
        return {"ranking": best}
    if task == "ChooseBestPassage":
        return {"best": best[0]}
    grade = {"passage": best[0], "reason": "", "grade": min(3, worth[best[0]])}
    return {"grades": [grade]}


def scripted(answers: Answers) -> ScriptedProvider:
    """A provider; each passage's text is what it is worth."""

    def script(task: str) -> Script:
        return lambda inputs: answers(
            task, {each["number"]: int(each["text"]) for each in inputs["passages"]}
        )

    tasks = ("RankPassages", "ChooseBestPassage", "GradeRelevance")
    return ScriptedProvider(**{task: script(task) for task in tasks})


def shown(model: ScriptedProvider) -> list[list[int]]:
    """What the passages of each call are worth."""
    return [[int(each["text"]) for each in inputs["passages"]] for inputs in model.asked]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplyStore]:
    """One for all: hypothesis takes no fixture that is made for each test."""
    with_replies = ReplyStore(tmp_path_factory.mktemp("replies"))
    yield with_replies
    with_replies.close()


@contextmanager
def asking(store: ReplyStore, answers: Answers = knowing) -> Iterator[ScriptedProvider]:
    model = scripted(answers)
    lm = connect(
        ModelConfig(name="openai/scripted", reasks=0), mode="rerecord", store=store, provider=model
    )
    with dspy.context(lm=lm):
        yield model


COUNT = 25
WORTH = [(7 * place) % COUNT for place in range(COUNT)]
"""What each passage is worth, from 0 to 24, in the order in which they were found."""


def worths(order: Any) -> list[int]:
    return [WORTH[place] for place in order]


def test_windows_slide_from_the_last_passages_to_the_first(store: ReplyStore) -> None:
    with asking(store) as model:
        reranked = ListwiseReranker(window=10, step=5)(
            question="Which?", passages=[str(worth) for worth in WORTH]
        )

    assert len(shown(model)) == 1 + ceil((COUNT - 10) / 5)
    assert shown(model)[0] == WORTH[15:]
    assert shown(model)[1] == [*WORTH[10:15], *sorted(WORTH[15:], reverse=True)[:5]]
    assert sorted(reranked.order) == list(range(COUNT))
    assert worths(reranked.order)[:5] == [24, 23, 22, 21, 20]  # a window moves up its best five
    assert (reranked.completed, reranked.failed) == (0, 0)


@pytest.mark.parametrize(("count", "calls"), [(0, 0), (1, 0), (2, 1), (20, 1), (21, 2), (100, 9)])
def test_a_short_list_is_one_window(count: int, calls: int, store: ReplyStore) -> None:
    with asking(store) as model:
        reranked = ListwiseReranker()(question="Which?", passages=[str(n) for n in range(count)])

    assert len(shown(model)) == calls
    assert sorted(reranked.order) == list(range(count))
    assert reranked.order[:10] == tuple(range(count - 1, -1, -1))[:10]


@given(st.permutations(range(9)), st.integers(2, 5), st.integers(1, 10))
def test_setwise_finds_the_best_in_their_order(
    store: ReplyStore, worth: list[int], window: int, top_k: int
) -> None:
    program = SetwiseReranker(window, top_k)
    with asking(store) as model:
        order = program(question="Which?", passages=[str(each) for each in worth]).order

    best = sorted(range(9), key=lambda place: -worth[place])[:top_k]
    assert list(order) == [*best, *(place for place in range(9) if place not in best)]
    assert len(shown(model)) <= program.most_calls(9)
    assert max(map(len, shown(model))) <= window


@given(st.lists(st.integers(0, 3), max_size=8))
def test_pointwise_sorts_by_grades_and_leaves_ties_as_they_were(
    store: ReplyStore, worth: list[int]
) -> None:
    with asking(store) as model:
        order = PointwiseReranker()(question="Which?", passages=[str(each) for each in worth]).order

    assert list(order) == sorted(range(len(worth)), key=lambda place: -worth[place])
    assert len(shown(model)) == len(set(worth))  # equal requests are one


@given(st.lists(st.integers(-1, 8), min_size=1, max_size=9))
def test_what_a_ranking_leaves_out_follows_in_the_first_order(
    store: ReplyStore, said: list[int]
) -> None:
    passages = [str(place) for place in range(6)]
    with asking(store, lambda _task, _worth: {"ranking": said}):
        reranked = ListwiseReranker()(question="Which?", passages=passages)

    named = list(dict.fromkeys(number - 1 for number in said if 1 <= number <= 6))
    assert list(reranked.order) == [*named, *(place for place in range(6) if place not in named)]
    assert reranked.completed == (sorted(said) != [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    "program", [ListwiseReranker(4, 2), SetwiseReranker(), PointwiseReranker()]
)
def test_without_a_valid_reply_passages_stay_where_they_are(
    program: Any, store: ReplyStore
) -> None:
    def mute(_task: str, worth: dict[int, int]) -> Any:
        return "none" if 3 in worth.values() else knowing(_task, worth)

    with asking(store, mute):
        reranked = program(question="Which?", passages=["0", "3", "1", "2"])

    assert reranked.failed > 0
    assert sorted(reranked.order) == [0, 1, 2, 3]
    if isinstance(program, PointwiseReranker):
        assert reranked.order == (3, 1, 2, 0)


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), max_size=6),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_mmr_is_that_of_carbonell_and_goldstein(
    rows: list[list[int]], query: list[int], weight: float
) -> None:
    vectors = unit_rows(np.array(rows, float).reshape(len(rows), 3), "test", len(rows))
    (text,) = unit_rows(np.array([query], float), "test", 1)

    expected: list[int] = []
    while len(expected) < len(rows):

        def value(row: int) -> float:
            nearest = max((float(vectors[row] @ vectors[other]) for other in expected), default=0)
            return round(weight * float(vectors[row] @ text) - (1 - weight) * nearest, 6)

        left = [row for row in range(len(rows)) if row not in expected]
        expected.append(max(left, key=lambda row: (value(row), -row)))

    assert Mmr(weight=weight).order(text, vectors) == expected
