"""Contexts as CRUX measures them."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import NuggetQrels
from freshstack_dspy.answering.contexts import answer_coverage
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.density import (
    oracle_context,
    redundancy,
    required_chunks,
    required_subset,
)
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import Judged
from tests.measures import strategies
from tests.measures.five import LABELS, in_order, run, value

Rating = st.one_of(st.none(), st.integers(0, 5))


@st.composite
def rated(
    draw: st.DrawFn, rating: "st.SearchStrategy[int | None]" = Rating
) -> list[list[int | None]]:
    questions = draw(st.integers(1, 5))
    row = st.lists(rating, min_size=questions, max_size=questions)
    return draw(st.lists(row, min_size=1, max_size=7))


def as_crux(ratings: Sequence[Sequence[int | None]], threshold: int) -> dict[int, int]:
    """The greedy as CRUX describes it, with a rating that is missing as -1."""
    table = [[-1 if rating is None else rating for rating in row] for row in ratings]
    columns = range(len(table[0]))
    covered: set[int] = set()
    taken: list[int] = []
    while any(
        max(row[column] for row in table) >= threshold
        for column in columns
        if column not in covered
    ):
        left = [column for column in columns if column not in covered]
        scores = [
            sum(row[column] >= threshold for column in left)
            + 0.1 * max(row[column] > 0 for column in left)
            for row in table
        ]
        place = scores.index(max(scores))
        taken.append(place)
        covered |= {column for column in columns if table[place][column] >= threshold}
    others = [place for place in range(len(table)) if place not in taken]
    best = [max((table[place][column] for place in taken), default=-1) for column in columns]
    below = [
        place for place in others if all(b > r for b, r in zip(best, table[place], strict=True))
    ]
    return {
        **dict.fromkeys(taken, 3),
        **{place: 2 for place in others if place not in below},
        **dict.fromkeys(below, 1),
    }


def test_by_hand() -> None:
    """The third answers most; then the last question is left, and the fourth comes before the fifth."""
    ratings = [[5, 0, 0], [1, 3, 0], [3, 4, 0], [0, 0, 3], [0, 0, 5], [2, 3, 1], [4, 0, 1]]

    assert required_subset(ratings, 3) == {2: 3, 3: 3, 0: 2, 4: 2, 6: 2, 1: 1, 5: 1}
    assert required_subset([[5, 3], [None, 1]], 3) == {0: 3}


@given(rated(st.integers(0, 5)), st.integers(1, 5))
def test_complete_ratings_are_sorted_as_crux_sorts_them(
    ratings: list[list[int | None]], threshold: int
) -> None:
    assert required_subset(ratings, threshold) == as_crux(ratings, threshold)


TOKENS = {"a": 100, "b": 50, "c": 10, "d": 40, "e": 400}
FIVE = Judged(LABELS, tokens=TOKENS)
"""`a` alone supports both nuggets that can be supported: it is the required subset."""
judgments = st.builds(
    Judged,
    strategies.labels(5),
    st.integers(1, 5),
    st.fixed_dictionaries(
        {chunk: st.integers(1, 500) for chunk in strategies.CHUNKS + strategies.UNJUDGED}
    ),
)


def required(judged: Judged) -> list[str]:
    return [chunk for chunk, label in required_chunks(judged).items() if label == 3]


def test_by_hand_density() -> None:
    """(covered / tokens) / (2 / 100), to the power of w."""
    assert "".join(required(FIVE)) == "a"
    assert value("Density", "a", FIVE) == 1
    assert value("Density(w=1)", "ab", FIVE) == pytest.approx((2 / 150) / (2 / 100))
    assert value("Density", "ab", FIVE) == pytest.approx(math.sqrt(100 / 150))
    assert value("Density(w=1)", "ced", FIVE) == pytest.approx((1 / 450) / (2 / 100))
    assert value("Density(w=1)@1", "bd", FIVE) == pytest.approx((1 / 50) / (2 / 100))


def test_a_chunk_of_unknown_length_is_named_and_not_given_the_mean() -> None:
    """CRUX puts in a dummy passage of mean length."""
    with pytest.raises(CollectionError, match=r"length of chunk 'x' is not known.*judged_only"):
        value("Density", "ax", FIVE)
    with pytest.raises(CollectionError, match="length of chunk 'a' is not known"):
        value("Density", "b", Judged(LABELS, tokens={"b": 3}))

    qrels = NuggetQrels({"q": tuple(LABELS)}, LABELS, tokens=TOKENS)
    ranking = run({"q": in_order("x", "a", "b")})
    values = evaluate(qrels, ranking, ["Density(judged_only=True)@2"]).per_query["q"]
    assert list(values.values()) == [pytest.approx(math.sqrt(100 / 150))]


@given(judgments, strategies.rankings, st.sampled_from([0.25, 0.5, 1.0]))
def test_it_is_the_formula_of_the_paper_in_terms_of_coverage(
    judged: Judged, ranking: list[str], w: float
) -> None:
    """Eq. 5: Cov(Z) / token(Z) over Cov(P**) / token(P**), to the power of w."""
    oracle = required(judged)
    found = value(f"Density(w={w})", ranking, judged)
    if not oracle:
        assert found is None
        return
    assert judged.tokens is not None
    assert value("Cov", oracle, judged) == 1
    assert value(f"Density(w={w})", oracle, judged) == 1
    context = sum(judged.tokens[chunk] for chunk in ranking)
    tokens = sum(judged.tokens[chunk] for chunk in oracle)
    share = value("Cov", ranking, judged) or 0
    assert found == pytest.approx(((share / context) * tokens) ** w if ranking else 0)


GRADED = Judged(
    {
        "n0": {"a": 5, "b": 1, "c": 3, "f": 2, "g": 4, "h": 1},
        "n1": {"b": 3, "c": 4, "f": 3, "h": 0},
        "n2": {"d": 3, "e": 5, "f": 1, "g": 1},
    },
    3,
)
"""The ratings of `test_by_hand`, by letter: c and d are required, f is wholly redundant; h answers nothing."""


def test_by_hand_redundancy() -> None:
    """`b` lacks a rating, so it is wholly redundant only once it has one."""
    assert redundancy("cdafh" + "xyz", GRADED) == {
        "required": 2 / 8,
        "partly_redundant": 1 / 8,
        "redundant": 1 / 8,
        "unsupporting": 1 / 8,
        "unjudged": 3 / 8,
    }
    assert value("Required@3", "cad", GRADED) == pytest.approx(2 / 3)
    assert value("PartlyRedundant", "cad", GRADED) == pytest.approx(1 / 3)
    rated = {nugget: {"b": 0, "a": 0, **by_chunk} for nugget, by_chunk in GRADED.labels.items()}
    assert value("Redundant@2", "bc", GRADED) == 0
    assert value("Redundant@2", "bc", Judged(rated, 3)) == 1 / 2
    assert redundancy("", GRADED) == {}


@given(judgments, strategies.rankings)
def test_the_shares_of_a_ranking_add_up_to_1(judged: Judged, ranking: list[str]) -> None:
    """Those of chunks that support something add up to precision, and required ones to P**."""
    shares = redundancy(ranking, judged)
    if not ranking:
        assert shares == {}
        return
    assert math.fsum(shares.values()) == pytest.approx(1)
    supporting = [name for name in ranking if name in judged.supported]
    of_support = (shares["required"], shares["partly_redundant"], shares["redundant"])
    assert math.fsum(of_support) == pytest.approx(len(supporting) / len(ranking))
    assert 1 - shares["unjudged"] == pytest.approx(value("Judged", ranking, judged))
    oracle = oracle_context(judged)
    assert shares["required"] == pytest.approx(len({*oracle} & {*ranking}) / len(ranking))
    if oracle:
        assert value("Required", oracle, judged) == 1


RATED = {"n1": {"a": 5}, "n2": {"a": 3}, "n3": {"a": 4, "b": 5}, "n4": {"b": 3}, "n5": {"a": 2}}
JUDGED = Judged(RATED, 3, {"a": 60, "b": 40})


def test_by_hand_coverage_of_answer() -> None:
    """Two of the four that can be answered; the fifth no chunk answers."""
    assert answer_coverage({"n1": 3, "n2": 2, "n3": 5, "n4": 0, "n5": 5}, JUDGED) == 0.5
    # A rating that failed leaves none; CRUX stores it as -1 or -2 and mixes it in.
    assert answer_coverage({"n1": 3, "n3": 5, "n4": 0}, JUDGED) is None
