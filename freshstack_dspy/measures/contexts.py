"""Contexts and answers as CRUX measures them: coverage, density and the required subset.

Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
2506.20051, sections 3.2 and 3.3.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.records import Record

T = TypeVar("T")


class RequiredSubset(NamedTuple, Generic[T]):
    """Passages by position, or chunks by id, each in one of four lists."""

    required: tuple[T, ...]
    """In the order in which they were chosen; the others ascending."""
    partly_redundant: tuple[T, ...]
    redundant: tuple[T, ...]
    undetermined: tuple[T, ...] = ()
    """Redundant or partly so: the rating that decides it is missing."""

    @property
    def labels(self) -> dict[T, int]:
        """CRUX's labels: 3 required, 2 partly redundant, 1 redundant; none where undetermined."""
        lists = {3: self.required, 2: self.partly_redundant, 1: self.redundant}
        return {each: label for label, passages in lists.items() for each in passages}


def required_subset(ratings: Sequence[Sequence[int | None]], threshold: int) -> RequiredSubset[int]:
    """Choose passages, greedily, until every question is answered that any of them answers.

    A passage answers a question where its rating is `threshold` or more. Each step takes the
    passage with the largest

        |{questions not answered yet, rating >= threshold}| + 0.1 * [one of them has rating > 0]

    and of equals the first. A passage that was not taken is redundant if, on every question, the
    best rating among those taken is higher than its own; else it is partly redundant. So where no
    passage has any information on some question, none is redundant. A rating that is missing
    answers nothing, and CRUX, which writes it -1, takes it to be lower than any; here a passage
    that is redundant only if so is undetermined.

    Source: `binarize_amount_rerank_greedy` of CRUX's code.

    Args:
        ratings: One row for each passage, one column for each question; None where there is none.
        threshold: The lowest rating that answers a question, at least 1.
    """
    rows = [[-1 if rating is None else rating for rating in row] for row in ratings]
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


def required_chunks(judged: Judged, candidates: Sequence[str] | None = None) -> RequiredSubset[str]:
    """Choose the required subset P** of a query's chunks, and which others are redundant.

    Args:
        judged: The judgments of the query; its `rel` is the threshold.
        candidates: Ids of judged chunks to choose from, of equals the first. None: all judged
            chunks by id. CRUX takes the passages of the topic's own documents, in the order of its
            file.
    """
    chunks = sorted(judged.chunks) if candidates is None else list(candidates)
    labels = judged.labels.values()
    ratings = [[of.get(chunk) for of in labels] for chunk in chunks]
    places = required_subset(ratings, judged.rel)
    return RequiredSubset(*(tuple(chunks[place] for place in each) for each in places))


def _bits(row: Sequence[int], lowest: int) -> int:
    """Give the questions whose rating is at least `lowest`, one bit for each."""
    return sum(1 << question for question, rating in enumerate(row) if rating >= lowest)


def _greedy(answers: Sequence[int], touches: Sequence[int]) -> list[int]:
    """Take the most useful passage until none answers anything that is not answered yet.

    Both lists have for each passage the questions, one bit for each: those that it answers, and
    those on which its rating is above 0.
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


def density(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, w: float = 0.5
) -> float:
    """Compute Density@k of the context Z, the top k chunks of a ranking (see `ranking.py`).

        ((covered(Z) / tokens(Z)) / (|A| / tokens(P**)))^w

    where A are the answerable nuggets, which some judged chunk supports, covered(Z) is how many of
    them a chunk of Z supports, and P** is the required subset of all judged chunks, which supports
    all of A (`required_chunks`). P** has density 1. A context that is shorter than P** for what it
    supports has more than 1: P** is chosen by what its chunks support, not by their length. An
    empty context supports nothing and has density 0.

    Source: CRUX, section 3.3, equation 5, with w = 0.5; its code has w = 1 by default, and takes
    the mean length for one that is not known.

    Raises:
        CollectionError: The length of a chunk of the context, or of the required subset, is not
            known.
    """
    covered = {place for chunk in ranking for place in judged.supported.get(chunk, ())}
    return _density(len(covered), _tokens(ranking, judged), judged, w) if ranking else 0.0


def _density(covered: int, tokens: int, judged: Judged, w: float) -> float:
    """Compute the density of a text that supports `covered` of the answerable nuggets."""
    required = _tokens(required_chunks(judged, sorted(judged.supported)).required, judged)
    if covered == 0:
        return 0.0
    if tokens == 0 or required == 0:
        raise CollectionError("a text that supports nuggets has 0 tokens, so it has no density")
    return float((covered * required / (len(judged.answerable) * tokens)) ** w)


def _tokens(chunks: Iterable[str], judged: Judged) -> int:
    lengths = {} if judged.tokens is None else judged.tokens
    total = 0
    for chunk in chunks:
        if chunk not in lengths:
            raise CollectionError(
                f"the length of chunk {chunk!r} is not known, which Density needs: evaluate on a "
                "collection that has its text, or only what is judged, as "
                "Density(judged_only=True)"
            )
        total += lengths[chunk]
    return total


class AnswerCoverage(Record):
    """What of a query's answerable nuggets a generated answer has."""

    coverage: float | None
    """Cov(y): the share of the answerable nuggets that the answer supports, what is not rated
    counting as not supported; None where no nugget is answerable."""
    supported: tuple[str, ...]
    """The answerable nuggets that it supports."""
    unsupported: tuple[str, ...]
    unrated: tuple[str, ...]
    """Those without a rating, as where the judge's reply was none."""
    beyond: tuple[str, ...]
    """Nuggets that it supports and no judged chunk does: from the model's memory, or made up. They
    count for nothing."""


def answer_coverage(ratings: Mapping[str, int | None], judged: Judged) -> AnswerCoverage:
    """Compute Cov(y), the coverage of a context, of a generated answer y.

    Source: CRUX, section 3.3, equation 3.

    Args:
        ratings: Nugget id -> how far the answer supports it, on the judge's scale; None, or left
            out, where there is no rating (CRUX writes -1).
        judged: The judgments of the query's chunks, by which a nugget is answerable; its `rel` is
            the threshold for the answer too.

    Raises:
        CollectionError: A nugget is not one of the query's.
    """
    if unknown := sorted(ratings.keys() - judged.labels.keys()):
        raise CollectionError(f"nugget {unknown[0]!r} is rated and is not one of the query's")
    lists: dict[str, list[str]] = {"supported": [], "unsupported": [], "unrated": [], "beyond": []}
    for place, nugget in enumerate(judged.labels):
        rating = ratings.get(nugget)
        answered = rating is not None and rating >= judged.rel
        if place not in judged.answerable:
            if answered:
                lists["beyond"].append(nugget)
        elif rating is None:
            lists["unrated"].append(nugget)
        else:
            lists["supported" if answered else "unsupported"].append(nugget)
    of = len(judged.answerable)
    return AnswerCoverage(
        coverage=len(lists["supported"]) / of if of else None,
        **{name: tuple(nuggets) for name, nuggets in lists.items()},
    )


def answer_density(
    ratings: Mapping[str, int | None], tokens: int, judged: Judged, *, w: float = 0.5
) -> float | None:
    """Compute Den(y), the density of a generated answer y, as `density` of a context.

    `tokens` is the length of the answer, counted as those of the chunks.
    """
    supported = answer_coverage(ratings, judged).supported
    return _density(len(supported), tokens, judged, w) if judged.answerable else None
