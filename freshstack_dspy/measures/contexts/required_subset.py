"""The required subset of a query's passages, and which of the others are redundant beside it."""

from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.measures.judged import Judged


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


class RequiredChunks(NamedTuple):
    """As `RequiredSubset`, with the ids of chunks for their positions."""

    required: tuple[str, ...]
    """In the order in which they were chosen."""
    partly_redundant: tuple[str, ...]
    redundant: tuple[str, ...]
    undetermined: tuple[str, ...] = ()
    """Redundant or partly so: a rating that would tell is missing."""

    @property
    def labels(self) -> dict[str, int]:
        """CRUX's labels: 3 required, 2 partly redundant, 1 redundant; none where undetermined."""
        lists = {3: self.required, 2: self.partly_redundant, 1: self.redundant}
        return {chunk: label for label, chunks in lists.items() for chunk in chunks}


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
    required = _greedy([_bits(row, threshold) for row in rows], [_bits(row, 1) for row in rows])
    taken = set(required)
    others = [place for place in range(len(rows)) if place not in taken]
    best = [max(column) for column in zip(*(rows[place] for place in required), strict=True)]
    below = {
        place
        for place in others
        if required and all(high > own for high, own in zip(best, rows[place], strict=True))
    }
    return RequiredSubset(
        required=tuple(required),
        partly_redundant=tuple(place for place in others if place not in below),
        redundant=tuple(place for place in sorted(below) if None not in ratings[place]),
        undetermined=tuple(place for place in sorted(below) if None in ratings[place]),
    )


def required_chunks(judged: Judged, candidates: Sequence[str] | None = None) -> RequiredChunks:
    """Choose the required subset P** of a query's chunks, and say which others are redundant.

    Args:
        judged: The judgments of the query; its `rel` is the threshold.
        candidates: Chunk ids to choose from, of equals the first. None: all judged chunks by id,
            so that the choice does not hang on how they are stored. CRUX takes the passages of
            the topic's own documents, in the order of its file.

    Returns:
        As `required_subset`, by chunk id.

    Raises:
        ValueError: A candidate has no label, or stands twice.
    """
    chunks = sorted(judged.chunks) if candidates is None else list(candidates)
    if unjudged := [chunk for chunk in chunks if chunk not in judged.chunks]:
        raise ValueError(
            f"chunk {unjudged[0]!r} has no label for this query, so it cannot be required; "
            "leave it out of the candidates"
        )
    if len(set(chunks)) != len(chunks):
        raise ValueError("a chunk stands twice among the candidates")
    labels = judged.labels.values()
    ratings = [[of.get(chunk) for of in labels] for chunk in chunks]
    places = required_subset(ratings, judged.rel)
    return RequiredChunks(*(tuple(chunks[place] for place in each) for each in places))


def required_only(judged: Judged) -> tuple[str, ...]:
    """Give `required_chunks(judged).required`, from the chunks that support a nugget alone."""
    chunks = sorted(judged.supported)
    touches = dict.fromkeys(chunks, 0)
    for place, labels in enumerate(judged.labels.values()):
        for chunk in chunks:
            if labels.get(chunk, 0) > 0:
                touches[chunk] |= 1 << place
    answers = [sum(1 << place for place in judged.supported[chunk]) for chunk in chunks]
    return tuple(chunks[place] for place in _greedy(answers, list(touches.values())))


def _bits(row: Sequence[int], lowest: int) -> int:
    """Give the questions whose rating is at least `lowest`, one bit for each."""
    return sum(1 << question for question, rating in enumerate(row) if rating >= lowest)


def _greedy(answers: Sequence[int], touches: Sequence[int]) -> list[int]:
    """Take the most useful passage until none answers anything that is not answered yet.

    Args:
        answers: The questions that each passage answers, one bit for each.
        touches: Those on which its rating is above 0.
    """
    waiting = 0
    for each in answers:
        waiting |= each
    open_, taken = -1, []  # -1 has every bit: all questions are open, answerable or not
    while waiting & open_:
        worths = [
            ((each & open_).bit_count(), touch & open_ != 0)
            for each, touch in zip(answers, touches, strict=True)
        ]
        place = max(range(len(worths)), key=worths.__getitem__)
        taken.append(place)
        open_ &= ~answers[place]
    return taken
