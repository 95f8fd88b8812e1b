"""Diagnosing a pool: what each technique and retriever gave to it, and what it may lack."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.self_agreement import SelfAgreement, self_agreement
from freshstack_dspy.collection.slices import Slices, check_any, slices_of
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.records import (
    TECHNIQUES,
    Candidate,
    CandidateOrigin,
    QuerySlice,
    Record,
    ScoredChunk,
    SliceName,
    Technique,
)

if TYPE_CHECKING:
    import pandas as pd

_ORACLES: tuple[Technique, ...] = ("answer", "nuggets")
"""They search with the answer, or with what was made of it."""


class QueryChunk(NamedTuple):
    """A chunk as a candidate of a query."""

    query_id: str
    chunk_id: str


class Pooled(NamedTuple):
    """The pool of some queries. A chunk is relevant to a query if it supports one of its nuggets."""

    queries: dict[str, QuerySlice]
    candidates: dict[QueryChunk, Candidate]
    """What the techniques pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in; their ranks are not known."""
    support: dict[QueryChunk, set[str]]
    """Each relevant chunk, pooled or not, with the nuggets that it supports."""
    ranks: dict[QueryChunk, int]
    """The best rank that any technique's fused list gives each pooled chunk."""

    @property
    def top_k(self) -> int:
        """The deepest rank that was pooled; 0 where nothing was."""
        return max(
            (by.rank for each in self.candidates.values() for by in each.pooled_by), default=0
        )

    @property
    def relevant(self) -> dict[QueryChunk, Candidate]:
        """The pooled chunks that are relevant."""
        return {pair: each for pair, each in self.candidates.items() if pair in self.support}

    @property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques that pooled anything, in the order of `TECHNIQUES`."""
        pooled = {by.technique for each in self.candidates.values() for by in each.pooled_by}
        return tuple(technique for technique in TECHNIQUES if technique in pooled)

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The retrievers that found anything of the pool, by name."""
        return tuple(
            sorted({by.retriever for each in self.candidates.values() for by in each.found_by})
        )


def pooled(contents: Contents, slices: Sequence[SliceName]) -> Pooled:
    """Take the pool of the queries with nuggets in some slices, with what supports their nuggets."""
    wanted = set(contents.queries_in(slices))
    candidates: dict[QueryChunk, Candidate] = {}
    outside: Counter[CandidateOrigin] = Counter()
    for candidate in contents.pool:
        if candidate.query_id in wanted and candidate.pooled_by:
            candidates[QueryChunk(candidate.query_id, candidate.chunk_id)] = candidate
        elif candidate.query_id in wanted:
            outside[candidate.origin] += 1
    support: defaultdict[QueryChunk, set[str]] = defaultdict(set)
    for one in contents.judgments:
        if one.query_id in wanted and contents.supports(one):
            support[QueryChunk(one.query_id, one.chunk_id)].add(one.nugget_id)
    return Pooled(
        queries={part.query_id: part for part in contents.slices if part.query_id in wanted},
        candidates=candidates,
        outside={origin: outside[origin] for origin in sorted(outside)},
        support=dict(support),
        ranks={
            pair: min(by.rank for by in candidate.pooled_by)
            for pair, candidate in candidates.items()
        },
    )


class Depth(Record):
    """What would have been judged with `pool.top_k` of this depth; shares are of the whole pool."""

    depth: int
    chunks: int
    """Chunks among the first `depth` of any technique's fused list."""
    chunk_share: float
    relevant: int
    """Relevant chunks among them."""
    relevant_share: float | None
    """None where no pooled chunk is relevant."""
    nuggets: int
    """Nuggets that one of these chunks supports."""
    nugget_share: float | None


def depth_curve(pool: Pooled) -> tuple[Depth, ...]:
    """Say, for each depth from 1 to the pool's, what a pool of that depth would hold.

    It is exact: a build with a smaller `pool.top_k` judges just the chunks whose best rank in a
    technique's fused list is at most that. A depth that adds no chunk is left out.
    """
    nugget_ranks: dict[str, int] = {}
    for pair in pool.relevant:
        for nugget in pool.support[pair]:
            nugget_ranks[nugget] = min(pool.ranks[pair], nugget_ranks.get(nugget, pool.top_k))
    ranks = sorted(pool.ranks.values())
    of_relevant = sorted(pool.ranks[pair] for pair in pool.relevant)
    of_nuggets = sorted(nugget_ranks.values())

    def share(number: int, of: list[int]) -> float | None:
        return number / len(of) if of else None

    return tuple(
        Depth(
            depth=depth,
            chunks=(chunks := bisect_right(ranks, depth)),
            chunk_share=chunks / len(ranks),
            relevant=(relevant := bisect_right(of_relevant, depth)),
            relevant_share=share(relevant, of_relevant),
            nuggets=(nuggets := bisect_right(of_nuggets, depth)),
            nugget_share=share(nuggets, of_nuggets),
        )
        for depth in sorted(set(ranks))
    )


class Finder(Record):
    """What one retriever found with one technique's text."""

    technique: Technique
    retriever: str
    found: int
    """Relevant chunks among its first `top_k`."""
    first: float
    """Relevant chunks that no other ranks better, to whatever depth; where several give the same
    best rank, each gets an equal part."""
    alone: int
    """Relevant chunks among its first `top_k` and nobody else's."""


class Finders(Record):
    """Who found the relevant chunks of a pool; `first` adds up to `relevant`."""

    top_k: int
    relevant: int
    """Pooled chunks that support a nugget of their query."""
    by_fusion: int
    """Of these, those among the first `top_k` of no single list: only fusion raised them so far."""
    finders: tuple[Finder, ...]
    """By technique, then retriever."""


def finders(pool: Pooled) -> Finders:
    """Count, for every technique and retriever, the relevant chunks that it found."""
    found: Counter[tuple[Technique, str]] = Counter()
    alone: Counter[tuple[Technique, str]] = Counter()
    first: defaultdict[tuple[Technique, str], Fraction] = defaultdict(Fraction)
    by_fusion, top_k = 0, pool.top_k
    for candidate in pool.relevant.values():
        ranks: dict[tuple[Technique, str], int] = {}
        for by in candidate.found_by:
            ranks[by.technique, by.retriever] = by.rank
        near_top: list[tuple[Technique, str]] = [
            pair for pair, rank in ranks.items() if rank <= top_k
        ]
        best = [pair for pair, rank in ranks.items() if rank == min(ranks.values())]
        found.update(near_top)
        if len(near_top) == 1:
            alone.update(near_top)
        by_fusion += not near_top
        for pair in best:
            first[pair] += Fraction(1, len(best))
    return Finders(
        top_k=top_k,
        relevant=len(pool.relevant),
        by_fusion=by_fusion,
        finders=tuple(
            Finder(
                technique=technique,
                retriever=retriever,
                found=found[technique, retriever],
                first=float(first[technique, retriever]),
                alone=alone[technique, retriever],
            )
            for technique in pool.techniques
            for retriever in pool.retrievers
        ),
    )


class Loss(Record):
    """What a pool would lack without one technique, or without one retriever."""

    kind: Literal["technique", "retriever"]
    without: str
    """Its name."""
    chunks: int
    """Chunks that would not have been pooled, and so not judged."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Supported nuggets that would have no supporting chunk left."""
    queries: int
    """Answerable queries that would not be answerable: a nugget of theirs is lost."""


class Losses(Record):
    """What there is, and what would be lost without each technique and each retriever."""

    chunks: int
    """Pooled chunks."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Supported nuggets."""
    queries: int
    """Answerable queries."""
    without: tuple[Loss, ...]
    """The techniques in their order, then the retrievers by name."""


def leave_one_out(pool: Pooled) -> Losses:
    """Say what would be lost without each technique, and without each retriever, alone.

    A chunk is lost without a technique if no other technique pooled it, and without a retriever
    if pooling found so (`Candidate.lost_without`): the lists of every technique were fused anew
    without that retriever. So a chunk that would come in instead is not counted.
    What was judged besides the pool, as unjudged chunks of a run, is never lost.
    """
    answerable = {query_id for query_id, part in pool.queries.items() if part.slice == "answerable"}
    supporters: defaultdict[str, set[QueryChunk]] = defaultdict(set)
    for pair, nuggets in pool.support.items():
        for nugget in nuggets:
            supporters[nugget].add(pair)
    losses = []
    for kind, name, lost in _lost(pool):
        gone = [pairs for pairs in supporters.values() if pairs <= lost]
        losses.append(
            Loss(
                kind=kind,
                without=name,
                chunks=len(lost),
                relevant=len(lost & pool.support.keys()),
                nuggets=len(gone),
                queries=len({pair.query_id for pairs in gone for pair in pairs} & answerable),
            )
        )
    return Losses(
        chunks=len(pool.candidates),
        relevant=len(pool.relevant),
        nuggets=len(supporters),
        queries=len(answerable),
        without=tuple(losses),
    )


def _lost(
    pool: Pooled,
) -> Iterator[tuple[Literal["technique", "retriever"], str, set[QueryChunk]]]:
    for technique in pool.techniques:
        alone = [
            pair
            for pair, candidate in pool.candidates.items()
            if {by.technique for by in candidate.pooled_by} == {technique}
        ]
        yield "technique", technique, set(alone)
    for retriever in pool.retrievers:
        lost = [pair for pair, one in pool.candidates.items() if retriever in one.lost_without]
        yield "retriever", retriever, set(lost)


class RankRate(Record):
    """How many of the chunks whose best rank in a technique's fused list is this are relevant."""

    rank: int
    chunks: int
    relevant: int
    rate: float


class MissingSupport(Record):
    """What the bottom of the pool, and the overlap of the techniques, say of what is below it."""

    top_k: int
    relevant: int
    """Pooled chunks that are relevant: S."""
    bottom_from: int
    """The first rank of the last quarter of the pool."""
    bottom_chunks: int
    """Chunks whose best rank is in the last quarter."""
    bottom_relevant: int
    """Relevant chunks among them: a pool that ends above the quarter lacks them."""
    bottom_nuggets: int
    """Nuggets that only these chunks support."""
    rates: tuple[RankRate, ...]
    """By rank, from 1; a rank that is no chunk's best is left out."""
    by_techniques: dict[int, int]
    """How many relevant chunks were pooled by exactly 1, 2, … techniques: f1, f2, …"""
    chao1: Estimate
    """S + f1² / 2 f2: how many relevant chunks there are at least (Chao 1984)."""
    chao1_corrected: Estimate
    """S + f1 (f1 - 1) / 2 (f2 + 1): the bias-corrected form, defined where f2 is 0 too."""


def missing_support(pool: Pooled) -> MissingSupport:
    """Estimate how much support the pool has missed.

    Chao's estimate takes the techniques for independent samples of the relevant chunks: many
    that a single technique found mean that many were found by none. Techniques share retrievers
    and nuggets come from the answer, so they overlap more than by chance: the estimate is a lower
    bound of what could be reached at this depth.

    Source: Chao, Nonparametric estimation of the number of classes in a population,
    Scandinavian Journal of Statistics 11, 1984; the bias-corrected form as in Chao, Estimating
    the population size for capture-recapture data with unequal catchability, Biometrics 43, 1987.
    """
    relevant, ranks = pool.relevant, pool.ranks
    bottom_from = 3 * pool.top_k // 4 + 1
    above: set[str] = set()
    below: set[str] = set()
    for pair, nuggets in pool.support.items():
        (below if ranks.get(pair, 0) >= bottom_from else above).update(nuggets)
    counts = Counter(len({by.technique for by in each.pooled_by}) for each in relevant.values())
    by_techniques = {number: counts[number] for number in range(1, len(pool.techniques) + 1)}
    once, twice = counts[1], counts[2]
    chao1 = corrected = Estimate(reason="one technique alone overlaps with none")
    if len(by_techniques) > 1:
        corrected = Estimate(value=len(relevant) + once * (once - 1) / (2 * (twice + 1)))
        chao1 = Estimate(reason="no relevant chunk was pooled by exactly two techniques")
        if twice:
            chao1 = Estimate(value=len(relevant) + once**2 / (2 * twice))
    at_rank, relevant_at = Counter(ranks.values()), Counter(ranks[pair] for pair in relevant)
    return MissingSupport(
        top_k=pool.top_k,
        relevant=len(relevant),
        bottom_from=bottom_from,
        bottom_chunks=sum(rank >= bottom_from for rank in ranks.values()),
        bottom_relevant=sum(ranks[pair] >= bottom_from for pair in relevant),
        bottom_nuggets=len(below - above),
        rates=tuple(
            RankRate(rank=rank, chunks=n, relevant=relevant_at[rank], rate=relevant_at[rank] / n)
            for rank, n in sorted(at_rank.items())
        ),
        by_techniques=by_techniques,
        chao1=chao1,
        chao1_corrected=corrected,
    )


class PoolingResult(Record):
    """How well one technique finds what supports the nuggets (Table 4 of the FreshStack paper)."""

    setting: Literal["inference", "oracle"]
    """`oracle` techniques know the answer; `inference` techniques know the question only."""
    technique: Technique
    retriever: str | None
    """None: all retrievers of the pool, fused."""
    means: dict[str, float]
    """By measure, the mean over all queries of these slices."""
    without_results: int
    """Queries for which it holds no pooled chunk: 0 in every measure."""


def pooling_results(
    contents: Contents,
    slices: Sequence[SliceName],
    measures: Sequence[str] = FRESHSTACK_MEASURES,
) -> tuple[PoolingResult, ...]:
    """Evaluate every technique with every retriever, and with all of them fused.

    The values are those of a run that the retriever makes with the technique's text at the
    pool's depth, though only the ranks of pooled chunks are known: every chunk that counts was
    judged, and what the techniques judged is the pool. A chunk at any other rank has no label and
    only takes up its place. Chunks that were judged besides the pool, as unjudged chunks of a run,
    have no known rank; they are left out of the qrels.

    Returns:
        By technique, then retriever, the fusion last; none where nothing was pooled.
    """
    pool = pooled(contents, slices)
    qrels = _qrels_of_pool(contents.qrels_of(slices), pool)
    results = []
    for technique in pool.techniques:
        for retriever in (*pool.retrievers, None):
            found = evaluate(qrels, _run(pool, technique, retriever), measures)
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
    chunks: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pool.candidates:
        chunks[pair.query_id].add(pair.chunk_id)
    labels, failed = {}, {}
    for query_id, nuggets in qrels.nuggets.items():
        for nugget in nuggets:
            given = qrels.labels[nugget].items()
            labels[nugget] = {id_: label for id_, label in given if id_ in chunks[query_id]}
            failed[nugget] = qrels.failed[nugget] & chunks[query_id]
    return replace(qrels, labels=labels, failed=failed)


def _run(pool: Pooled, technique: Technique, retriever: str | None) -> Run:
    """The ranks in a list as a run; a rank without a pooled chunk has an id that no chunk has."""
    chunks: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for pair, one in pool.candidates.items():
        ranks = [by.rank for by in (*one.pooled_by, *one.ranked_below) if by.technique == technique]
        if retriever is not None:
            wanted = technique, retriever
            ranks = [by.rank for by in one.found_by if (by.technique, by.retriever) == wanted]
        for rank in ranks:
            chunks[pair.query_id][rank] = pair.chunk_id
    rankings = {
        query_id: tuple(
            ScoredChunk(by_rank.get(rank, f"\0{rank}"), -float(rank))
            for rank in range(1, max(by_rank) + 1)
        )
        for query_id, by_rank in chunks.items()
    }
    return Run(f"{technique} by {retriever or 'fusion'}", rankings)


class Diagnosis(Record):
    """What the records say of a pool; where they do not say who found what, why not."""

    slices: tuple[SliceName, ...]
    queries: int
    """Queries of these slices that have nuggets."""
    pooled: int
    """(Query, chunk) pairs that a technique pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in."""
    relevant: int
    """(Query, chunk) pairs where the chunk supports a nugget, pooled or not."""
    relevant_outside: int
    """Of these, those that no technique pooled."""
    unknown: str | None
    """Why there is nothing below, where there is not."""
    finders: Finders | None = None
    losses: Losses | None = None
    depths: tuple[Depth, ...] = ()
    results: tuple[PoolingResult, ...] = ()
    missing: MissingSupport | None = None
    votes: SelfAgreement | None = None
    """How far several votes of the judge agree; None where it had one vote."""

    def to_pandas(self) -> "pd.DataFrame":
        """Give the pooling results as a data frame: a row by technique and retriever."""
        import pandas as pd

        return pd.DataFrame(
            {
                "technique": one.technique,
                "setting": one.setting,
                "retriever": one.retriever or "fusion",
                **one.means,
            }
            for one in self.results
        )


def diagnose(collection: Contents | Path | str, slices: Slices = None) -> Diagnosis:
    """Diagnose the pool of the queries in some slices.

    Args:
        collection: A collection, its folder, or its records.
        slices: Whose queries; None: those with a supported nugget.

    Raises:
        CollectionError: A name is not that of a slice, or no query is in these slices.
    """
    contents = Collection.load(collection) if isinstance(collection, Path | str) else collection
    check_any(contents, slices)
    slices = slices_of(slices)
    pool = pooled(contents, slices)
    votes = self_agreement(each for each in contents.judgments if each.query_id in pool.queries)
    found = Diagnosis(
        slices=slices,
        queries=len(pool.queries),
        pooled=len(pool.candidates),
        outside=pool.outside,
        relevant=len(pool.support),
        relevant_outside=len(pool.support.keys() - pool.candidates.keys()),
        unknown=None,
        votes=votes if votes.pairs or votes.failed_votes else None,
    )
    if not pool.candidates:
        why = (
            "no technique pooled a chunk for these queries, or the collection was imported from a "
            "format that does not say who found what"
        )
        return found.model_copy(update={"unknown": why})
    return found.model_copy(
        update={
            "finders": finders(pool),
            "losses": leave_one_out(pool),
            "depths": depth_curve(pool),
            "results": pooling_results(contents, slices),
            "missing": missing_support(pool),
        }
    )
