"""The density of contexts, and the required subset that it compares them with (CRUX).

Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
2506.20051, sections 3.2 and 3.3.
"""

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import Judged

REQUIRED = 3
"""CRUX's label of what is in the required subset."""
ChunkKind = Literal["required", "partly_redundant", "redundant", "unsupporting", "unjudged"]
"""What a chunk of a ranking is, next to the required subset: CRUX's labels 3, 2 and 1; judged, and
without support for any nugget; or not judged."""
CHUNK_KINDS: dict[ChunkKind, str] = {
    "required": "required",
    "partly_redundant": "partly redundant",
    "redundant": "redundant",
    "unsupporting": "without support",
    "unjudged": "unjudged",
}
"""What the kinds are called."""
_KINDS: dict[int, ChunkKind] = {REQUIRED: "required", 2: "partly_redundant", 1: "redundant"}


def required_subset(ratings: Sequence[Sequence[int | None]], threshold: int) -> dict[int, int]:
    """Choose passages greedily until every question is answered that any of them answers.

    A passage answers a question where its rating is `threshold` or more. Each step takes the
    passage with the largest

        |{questions not answered yet, rating >= threshold}| + 0.1 * [one of them has rating > 0]

    and the first of equals. A passage that was not taken is redundant if, on every question, the
    best rating among those taken is higher than its own; else it is partly redundant. So if no
    passage says anything about some question, no passage is redundant. A missing rating answers
    nothing. CRUX writes it as -1, lower than any other; here, a passage that would be redundant
    only because of that gets no label.

    Source: `binarize_amount_rerank_greedy` of CRUX's code.

    Args:
        ratings: One row for each passage, one column for each question; None where there is none.
        threshold: The lowest rating that answers a question, at least 1.

    Returns:
        CRUX's labels by position: first 3 of the required ones, in the order in which they were
        chosen, then 2 of those partly redundant, then 1 of the redundant ones.
    """
    rows = [[-1 if rating is None else rating for rating in row] for row in ratings]
    # One bit for each question: those that a passage answers, and those where its rating is above 0.
    answers, touches = ([_bits(row, lowest) for row in rows] for lowest in (threshold, 1))
    waiting = functools.reduce(operator.or_, answers, 0)
    left, required = -1, []  # -1 has every bit: all questions are open, answerable or not
    while waiting & left:
        worths = [
            ((answered & left).bit_count(), touched & left != 0)
            for answered, touched in zip(answers, touches, strict=True)
        ]
        required.append(max(range(len(worths)), key=worths.__getitem__))
        left &= ~answers[required[-1]]
    others = [place for place in range(len(rows)) if place not in required]
    best = [max(column) for column in zip(*(rows[place] for place in required), strict=True)]
    below = [
        place
        for place in others
        if required and all(high > own for high, own in zip(best, rows[place], strict=True))
    ]
    return {
        **dict.fromkeys(required, REQUIRED),
        **{place: 2 for place in others if place not in below},
        **{place: 1 for place in below if None not in ratings[place]},
    }


def _bits(row: Sequence[int], lowest: int) -> int:
    return sum(1 << question for question, rating in enumerate(row) if rating >= lowest)


def required_chunks(judged: Judged, candidates: Sequence[str] | None = None) -> dict[str, int]:
    """Give the labels of `required_subset` by chunk; the required chunks are the subset P**.

    Args:
        judged: The judgments of the query; its `rel` is the threshold.
        candidates: Ids of judged chunks to choose from; the first of equals is taken. None: all
            judged chunks by id. CRUX takes the passages of the topic's own documents, in the order
            of its file.
    """
    rated = set().union(*judged.labels.values())
    chunks = sorted(rated) if candidates is None else list(candidates)
    ratings = [[by_chunk.get(chunk) for by_chunk in judged.labels.values()] for chunk in chunks]
    return {chunks[at]: label for at, label in required_subset(ratings, judged.rel).items()}


def _labels(judged: Judged) -> dict[str, int]:
    """Give the labels of `required_chunks`, chosen among the chunks that support a nugget, by id."""
    if not judged.redundancy:
        judged.redundancy = required_chunks(judged, sorted(judged.supported))
    return judged.redundancy


def chunk_kinds(chunk_ids: Iterable[str], judged: Judged) -> dict[ChunkKind, list[str]]:
    """Sort chunks by their kind.

    Chunks that support a nugget have the label of `required_chunks`, chosen among all such chunks by
    id; one whose label a missing rating leaves open is `partly_redundant`.

    Source: CRUX, section 3.2 and Table 4; its labels are those of `required_subset`.
    """
    if judged.newly_found is not None:
        raise CollectionError(
            "which chunks are required and which are redundant is known of the collection's own "
            "chunks, and this is a run of passages"
        )
    labels = _labels(judged)
    kinds: dict[ChunkKind, list[str]] = {kind: [] for kind in get_args(ChunkKind)}
    for chunk in chunk_ids:
        kind: ChunkKind = "unsupporting" if chunk in judged.chunks else "unjudged"
        kinds[_KINDS[labels.get(chunk, 2)] if chunk in judged.supported else kind].append(chunk)
    return kinds


def redundancy(ranking: Sequence[str], judged: Judged) -> dict[ChunkKind, float]:
    """Compute the shares of the `chunk_kinds` of a ranking.

    They add up to 1; an empty ranking has none.
    """
    kinds = chunk_kinds(ranking, judged).items()
    return {kind: len(chunks) / len(ranking) for kind, chunks in kinds if ranking}


def mean_redundancy(shares: Iterable[Mapping[ChunkKind, float]]) -> dict[ChunkKind, float]:
    """Give the means of the `redundancy` of several rankings; empty ones do not count."""
    rankings = [of_ranking for of_ranking in shares if of_ranking]
    kinds = get_args(ChunkKind) if rankings else ()
    return {kind: fmean(of_ranking[kind] for of_ranking in rankings) for kind in kinds}


def share_of(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, kind: ChunkKind
) -> float | None:
    """Compute the share of one kind of chunk in the top k; see `redundancy`. None if it is empty."""
    return redundancy(ranking, judged).get(kind)


def density(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, w: float = 0.5
) -> float:
    """Compute Density@k of the context Z, the top k chunks of a ranking.

        ((covered(Z) / tokens(Z)) / (|A| / tokens(P**)))^w

    where A are the answerable nuggets, which some judged chunk supports, covered(Z) is how many of
    them a chunk of Z supports, and P** is the required subset of all judged chunks, which supports
    all of A (`required_chunks`). P** has density 1. A context that supports as much in fewer tokens
    has more than 1, because P** is chosen by what its chunks support, not by their length. An
    empty context supports nothing and has density 0.

    Source: CRUX, section 3.3, equation 5, with w = 0.5; its code defaults to w = 1, and replaces
    an unknown length with the mean.
    """
    if not ranking:
        return 0.0
    covered = {place for chunk in ranking for place in judged.supported.get(chunk, ())}
    return density_of(len(covered), sum(map(judged.length, ranking)), judged, w)


def oracle_context(judged: Judged) -> list[str]:
    """Give the oracle context Z*: the required subset P**, in the order in which it is chosen.

    It is chosen from the chunks that support a nugget; ties go to the first by id.
    """
    return [id_ for id_, label in _labels(judged.reference).items() if label == REQUIRED]


def oracle_tokens(judged: Judged) -> int:
    """Count the tokens of the oracle context."""
    return sum(map(judged.reference.length, oracle_context(judged)))


def density_of(covered: int, tokens: int, judged: Judged, w: float = 0.5) -> float:
    """Compute the density of a text from its tokens and the answerable nuggets that it supports."""
    required = oracle_tokens(judged)
    if not covered:
        return 0.0
    if tokens == 0 or required == 0:
        raise CollectionError("a text that supports nuggets has 0 tokens, so it has no density")
    return float((covered * required / (len(judged.answerable) * tokens)) ** w)
