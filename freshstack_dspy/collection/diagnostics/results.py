"""Pooling results: each technique and retriever evaluated on the qrels (FreshStack, Table 4)."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.diagnostics.pooled import Pooled, QueryChunk, pooled
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures import FRESHSTACK_MEASURES, NuggetQrels, Run, evaluate, parse_measure
from freshstack_dspy.records import Candidate, Record, ScoredChunk, SliceName, Technique

Setting = Literal["inference", "oracle"]
_ORACLES: tuple[Technique, ...] = ("answer", "nuggets")
"""They search with the answer, or with what was made of it."""


class PoolingResult(Record):
    """One row of the table: how well one technique finds what supports the nuggets."""

    setting: Setting
    """`oracle` techniques know the answer; `inference` techniques know the question only."""
    technique: Technique
    retriever: str | None
    """None: all retrievers of the pool, fused."""
    means: dict[str, float]
    """By measure, the mean over all queries of these slices."""
    without_results: int
    """Queries for which it holds no pooled chunk: 0 in every measure."""


class _List(NamedTuple):
    technique: Technique
    retriever: str | None

    def __str__(self) -> str:
        return f"{self.technique} by {self.retriever or 'fusion'}"


def pooling_results(
    contents: Contents,
    slices: Sequence[SliceName],
    measures: Sequence[str] = FRESHSTACK_MEASURES,
) -> tuple[PoolingResult, ...]:
    """Evaluate every technique with every retriever, and with all of them fused.

    The values are those of a run that the retriever makes with the technique's text at the
    pool's depth, though only the ranks of pooled chunks are known: every chunk that counts was
    judged, and what the techniques judged is the pool. A chunk at any other rank has no label,
    supports nothing and only takes up its place, which is kept for it. Chunks that were judged
    besides the pool, as the holes of a run, have no known rank; they are left out of the qrels.

    Args:
        contents: The records of a collection.
        slices: Whose queries.
        measures: Names of measures; those at a cut-off below the pool's depth see a full list.

    Returns:
        By technique, then retriever, the fusion last; none where nothing was pooled.

    Raises:
        CollectionError: A name is not that of a slice, or two pooled chunks have one rank in a list.
        ConfigError: A measure is unknown.
    """
    pool = pooled(contents, slices)
    if not pool.candidates:
        return ()
    qrels = _qrels_of_pool(contents.qrels_of(slices), pool)
    longest = max(len(chunk_id) for labels in qrels.labels.values() for chunk_id in ("", *labels))
    cutoffs = [parse_measure(name).k for name in measures]
    deepest = sys.maxsize if None in cutoffs else max((k for k in cutoffs if k), default=0)
    results = []
    for technique in pool.techniques:
        for retriever in (*pool.retrievers, None):
            run = _run(pool, _List(technique, retriever), deepest, filler="-" * (longest + 1))
            found = evaluate(qrels, run, measures)
            results.append(
                PoolingResult(
                    setting="oracle" if technique in _ORACLES else "inference",
                    technique=technique,
                    retriever=retriever,
                    means=found.means,
                    without_results=len(found.absent),
                )
            )
    return tuple(results)


def _qrels_of_pool(qrels: NuggetQrels, pool: Pooled) -> NuggetQrels:
    labels: dict[str, dict[str, int]] = {}
    failed: dict[str, frozenset[str]] = {}
    for query_id, nuggets in qrels.nuggets.items():
        for nugget in nuggets:
            labels[nugget] = {
                chunk_id: label
                for chunk_id, label in qrels.labels[nugget].items()
                if QueryChunk(query_id, chunk_id) in pool.candidates
            }
            failed[nugget] = frozenset(
                chunk_id
                for chunk_id in qrels.failed[nugget]
                if QueryChunk(query_id, chunk_id) in pool.candidates
            )
    return replace(qrels, labels=labels, failed=failed)


def _run(pool: Pooled, of: _List, deepest: int, *, filler: str) -> Run:
    """Make a run of the ranks in a list; a rank without a pooled chunk gets an id of no chunk.

    Args:
        pool: Whose chunks.
        of: Which list.
        deepest: The last rank that a measure looks at.
        filler: Longer than the id of any chunk with a label, so that no made-up id is one.
    """
    ranks: dict[str, dict[int, str]] = {}
    for pair, candidate in pool.candidates.items():
        rank = _rank(candidate, of)
        if rank is None:
            continue
        other = ranks.setdefault(pair.query_id, {}).setdefault(rank, pair.chunk_id)
        if other != pair.chunk_id:
            raise CollectionError(
                f"pool.jsonl gives chunks {other!r} and {pair.chunk_id!r} of query "
                f"{pair.query_id!r} the same rank, {rank}, for {of}"
            )
    rankings = {
        query_id: tuple(
            ScoredChunk(by_rank.get(rank, f"{filler}{rank}"), -float(rank))
            for rank in range(1, min(deepest, max(by_rank)) + 1)
        )
        for query_id, by_rank in ranks.items()
    }
    return Run(str(of), rankings)


def _rank(candidate: Candidate, of: _List) -> int | None:
    if of.retriever is None:
        fused = (*candidate.pooled_by, *candidate.ranked_below)
        return next((by.rank for by in fused if by.technique == of.technique), None)
    return next(
        (
            by.rank
            for by in candidate.found_by
            if (by.technique, by.retriever) == (of.technique, of.retriever)
        ),
        None,
    )
