"""The required subset of a query's passages, and which of the others are redundant beside it."""

from collections.abc import Sequence
from typing import NamedTuple


class RequiredSubset(NamedTuple):
    """Positions of passages, each in one of four lists; those but the first ascending."""

    required: tuple[int, ...]
    """In the order in which they were chosen."""
    partly_redundant: tuple[int, ...]
    redundant: tuple[int, ...]
    undetermined: tuple[int, ...] = ()
    """Redundant or partly so: a rating that would tell is missing."""

    @property
    def labels(self) -> dict[int, int]:
        """CRUX's labels: 3 required, 2 partly redundant, 1 redundant; none where undetermined."""
        lists = {3: self.required, 2: self.partly_redundant, 1: self.redundant}
        return {place: label for label, places in lists.items() for place in places}


def required_subset(ratings: Sequence[Sequence[int | None]], threshold: int) -> RequiredSubset:
    """Choose passages, greedily, until every question is answered that any of them answers.

    A passage answers a question where its rating is `threshold` or more. Each step takes the
    passage with the largest

        |{questions not answered yet, rating >= threshold}| + 0.1 * [one of them has rating > 0]

    and of equals the first. A passage that was not taken is redundant if, on every question, the
    best rating among those taken is higher than its own; else it is partly redundant. So where no
    passage says anything about some question, none is redundant.
    A rating that is missing answers nothing, and CRUX, which writes it -1, takes it to be lower
    than any; here a passage that is redundant only if so is undetermined.

    Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
    2506.20051, and `binarize_amount_rerank_greedy` of its code.

    Args:
        ratings: One row for each passage, one column for each question; None where there is none.
        threshold: The lowest rating that answers a question, at least 1.

    Returns:
        The lists; where no passage answers anything, all are partly redundant.

    Raises:
        ValueError: The rows differ in length, or the threshold is below 1.
    """
    rows = [[-1 if rating is None else rating for rating in row] for row in ratings]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("each passage has a rating, or None, for each question")
    if threshold < 1:
        raise ValueError(f"the threshold is at least 1, not {threshold!r}")
    questions = range(len(rows[0]) if rows else 0)
    open_ = set(questions)
    waiting = {
        question for question in questions if any(row[question] >= threshold for row in rows)
    }
    required: list[int] = []
    while waiting:
        place = _most_useful(rows, open_, threshold)
        required.append(place)
        answered = {question for question in open_ if rows[place][question] >= threshold}
        open_ -= answered
        waiting -= answered
    best = [
        max((rows[place][question] for place in required), default=-1) for question in questions
    ]
    others = [place for place in range(len(rows)) if place not in required]
    below = [
        place
        for place in others
        if required and all(high > own for high, own in zip(best, rows[place], strict=True))
    ]
    return RequiredSubset(
        required=tuple(required),
        partly_redundant=tuple(place for place in others if place not in below),
        redundant=tuple(place for place in below if None not in ratings[place]),
        undetermined=tuple(place for place in below if None in ratings[place]),
    )


def _most_useful(rows: Sequence[Sequence[int]], open_: set[int], threshold: int) -> int:
    def worth(place: int) -> tuple[int, bool]:
        row = rows[place]
        return sum(row[each] >= threshold for each in open_), any(row[each] > 0 for each in open_)

    return max(range(len(rows)), key=worth)
