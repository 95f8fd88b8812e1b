import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.contexts import RequiredSubset, required_subset

Rating = st.one_of(st.none(), st.integers(0, 5))


@st.composite
def rated(
    draw: st.DrawFn, rating: "st.SearchStrategy[int | None]" = Rating
) -> list[list[int | None]]:
    questions = draw(st.integers(1, 5))
    row = st.lists(rating, min_size=questions, max_size=questions)
    return draw(st.lists(row, min_size=1, max_size=7))


def as_crux(ratings: list[list[int | None]], threshold: int) -> RequiredSubset:
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
    if not taken:
        return RequiredSubset((), tuple(others), ())
    best = [max(table[place][column] for place in taken) for column in columns]
    below = [
        place for place in others if all(b > r for b, r in zip(best, table[place], strict=True))
    ]
    return RequiredSubset(
        tuple(taken), tuple(place for place in others if place not in below), tuple(below)
    )


def test_by_hand() -> None:
    """The third answers most; then the last question is left, and the fourth comes before the fifth."""
    ratings = [[5, 0, 0], [1, 3, 0], [3, 4, 0], [0, 0, 3], [0, 0, 5], [2, 3, 1], [4, 0, 1]]
    found = required_subset(ratings, 3)

    assert found == RequiredSubset(
        required=(2, 3), partly_redundant=(0, 4, 6), redundant=(1, 5), undetermined=()
    )
    assert found.labels == {2: 3, 3: 3, 0: 2, 4: 2, 6: 2, 1: 1, 5: 1}


@given(rated(st.integers(0, 5)), st.integers(1, 5))
def test_complete_ratings_are_sorted_as_crux_sorts_them(
    ratings: list[list[int | None]], threshold: int
) -> None:
    assert required_subset(ratings, threshold) == as_crux(ratings, threshold)


@given(rated(), st.integers(1, 5))
def test_a_missing_rating_never_makes_a_passage_redundant(
    ratings: list[list[int | None]], threshold: int
) -> None:
    found, crux = required_subset(ratings, threshold), as_crux(ratings, threshold)
    incomplete = {place for place, row in enumerate(ratings) if None in row}

    assert found.required == crux.required
    assert found.partly_redundant == crux.partly_redundant
    assert sorted(found.redundant + found.undetermined) == sorted(crux.redundant)
    assert not incomplete & set(found.redundant)
    assert set(found.undetermined) <= incomplete


@given(rated(), st.integers(1, 5))
def test_the_required_answer_all_that_can_be_answered_and_each_adds_something(
    ratings: list[list[int | None]], threshold: int
) -> None:
    found = required_subset(ratings, threshold)
    answers = [
        {column for column, rating in enumerate(row) if rating is not None and rating >= threshold}
        for row in ratings
    ]
    covered: set[int] = set()
    for place in found.required:
        assert answers[place] - covered
        covered |= answers[place]

    assert covered == set().union(*answers)


def test_nothing_to_choose_from_and_bad_tables() -> None:
    assert required_subset([], 1) == RequiredSubset((), (), ())
    assert required_subset([[], []], 1) == RequiredSubset((), (0, 1), ())
    assert required_subset([[0, None]], 1).labels == {0: 2}
    with pytest.raises(ValueError, match="for each question"):
        required_subset([[1], [1, 2]], 1)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        required_subset([[1]], 0)
