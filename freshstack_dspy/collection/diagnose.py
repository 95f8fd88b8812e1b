"""The depth curve: what a pool of every smaller depth would hold."""

import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal, NamedTuple

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.self_agreement import (
    BatchAgreement,
    SelfAgreement,
    batch_agreement,
    self_agreement,
)
from freshstack_dspy.collection.slices import Slices, check_any, slices_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
from freshstack_dspy.measures.measure import parse_measure
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


class QueryChunk(NamedTuple):
    """A chunk as a candidate of a query."""

    query_id: str
    chunk_id: str


class Pooled(NamedTuple):
    """The pool of some queries. A chunk is relevant to a query if it supports one of its nuggets."""

    queries: dict[str, QuerySlice]
    """The queries by id, ascending."""
    candidates: dict[QueryChunk, Candidate]
    """What the techniques pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in; their ranks are not known."""
    support: dict[QueryChunk, frozenset[str]]
    """Each relevant chunk, pooled or not, with the nuggets that it supports."""
    top_k: int
    """The deepest rank that was pooled; 0 where nothing was."""

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
        found = {by.retriever for each in self.candidates.values() for by in each.found_by}
        return tuple(sorted(found))


def pooled(contents: Contents, slices: Sequence[SliceName]) -> Pooled:
    """Take the pool of the queries in some slices, with what supports their nuggets.

    Args:
        contents: The records of a collection.
        slices: Whose queries; those without nuggets are left out, as from every evaluation.

    Raises:
        CollectionError: A name is not that of a slice.
    """
    wanted = set(contents.queries_in(slices))
    candidates: dict[QueryChunk, Candidate] = {}
    outside: Counter[CandidateOrigin] = Counter()
    for candidate in contents.pool:
        if candidate.query_id not in wanted:
            continue
        if candidate.pooled_by:
            candidates[QueryChunk(candidate.query_id, candidate.chunk_id)] = candidate
        else:
            outside[candidate.origin] += 1
    support: defaultdict[QueryChunk, set[str]] = defaultdict(set)
    for judgment in contents.judgments:
        supports = judgment.label is not None and judgment.label >= contents.threshold
        if supports and judgment.query_id in wanted:
            pair = QueryChunk(judgment.query_id, judgment.chunk_id)
            support[pair].add(judgment.nugget_id)
    return Pooled(
        queries={part.query_id: part for part in contents.slices if part.query_id in wanted},
        candidates=candidates,
        outside={origin: outside[origin] for origin in sorted(outside)},
        support={pair: frozenset(nuggets) for pair, nuggets in support.items()},
        top_k=max((by.rank for each in candidates.values() for by in each.pooled_by), default=0),
    )


def best_rank(candidate: Candidate) -> int:
    """The best rank that any technique's fused list gives a pooled chunk."""
    return min(by.rank for by in candidate.pooled_by)


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
    """None where no pooled chunk supports any."""


def depth_curve(pool: Pooled) -> tuple[Depth, ...]:
    """Say, for each depth from 1 to the pool's, what a pool of that depth would hold.

    It is exact: a build with a smaller `pool.top_k` judges just the chunks whose best rank in a
    technique's fused list is at most that. A depth that adds no chunk is left out.
    """
    ranks = {pair: best_rank(candidate) for pair, candidate in pool.candidates.items()}
    nugget_ranks: dict[str, int] = {}
    for pair, nuggets in pool.support.items():
        for nugget in nuggets if pair in ranks else ():
            nugget_ranks[nugget] = min(ranks[pair], nugget_ranks.get(nugget, ranks[pair]))
    of_chunks = sorted(ranks.values())
    of_relevant = sorted(rank for pair, rank in ranks.items() if pair in pool.support)
    of_nuggets = sorted(nugget_ranks.values())
    curve = []
    for depth in sorted(set(of_chunks)):
        chunks, relevant, nuggets_there = (
            bisect_right(each, depth) for each in (of_chunks, of_relevant, of_nuggets)
        )
        curve.append(
            Depth(
                depth=depth,
                chunks=chunks,
                chunk_share=chunks / len(of_chunks),
                relevant=relevant,
                relevant_share=relevant / len(of_relevant) if of_relevant else None,
                nuggets=nuggets_there,
                nugget_share=nuggets_there / len(of_nuggets) if of_nuggets else None,
            )
        )
    return tuple(curve)


_Pair = tuple[Technique, str]


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
    found: Counter[_Pair] = Counter()
    alone: Counter[_Pair] = Counter()
    first: dict[_Pair, Fraction] = {}
    by_fusion = 0
    relevant = pool.relevant
    for candidate in relevant.values():
        ranks: dict[_Pair, int] = {
            (by.technique, by.retriever): by.rank for by in candidate.found_by
        }
        near_top = [pair for pair, rank in ranks.items() if rank <= pool.top_k]
        best = [pair for pair, rank in ranks.items() if rank == min(ranks.values())]
        found.update(near_top)
        by_fusion += not near_top
        if len(near_top) == 1:
            alone.update(near_top)
        for pair in best:
            first[pair] = first.get(pair, Fraction(0)) + Fraction(1, len(best))
    return Finders(
        top_k=pool.top_k,
        relevant=len(relevant),
        by_fusion=by_fusion,
        finders=tuple(
            Finder(
                technique=technique,
                retriever=retriever,
                found=found[technique, retriever],
                first=float(first.get((technique, retriever), 0)),
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
    What was judged besides the pool, as the holes of a run, is never lost.
    """
    relevant = pool.relevant
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
                relevant=len(lost & relevant.keys()),
                nuggets=len(gone),
                queries=len({pair.query_id for pairs in gone for pair in pairs} & answerable),
            )
        )
    return Losses(
        chunks=len(pool.candidates),
        relevant=len(relevant),
        nuggets=len(supporters),
        queries=len(answerable),
        without=tuple(losses),
    )


def _lost(
    pool: Pooled,
) -> Iterator[tuple[Literal["technique", "retriever"], str, set[QueryChunk]]]:
    for technique in pool.techniques:
        alone = {
            pair
            for pair, each in pool.candidates.items()
            if {by.technique for by in each.pooled_by} == {technique}
        }
        yield "technique", technique, alone
    for retriever in pool.retrievers:
        needing = {pair for pair, each in pool.candidates.items() if retriever in each.lost_without}
        yield "retriever", retriever, needing


class RankRate(Record):
    """How many of the chunks that were pooled at a rank are relevant."""

    rank: int
    """The best rank that a technique's fused list gives them."""
    chunks: int
    relevant: int
    rate: float


class MissingSupport(Record):
    """What the bottom of the pool, and the overlap of the techniques, say of what is below it."""

    top_k: int
    relevant: int
    """Pooled chunks that are relevant: S, as found."""
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
    that a single technique found mean that many were found by none. Techniques are not
    independent: they share the retrievers, and nuggets come from the answer. So they overlap
    more than by chance, and the estimate is a lower bound of what could be reached at this
    depth; what no technique comes near is beyond any such estimate.

    Source: Chao, Nonparametric estimation of the number of classes in a population,
    Scandinavian Journal of Statistics 11, 1984; the bias-corrected form as in Chao, Estimating
    the population size for capture-recapture data with unequal catchability, Biometrics 43, 1987.
    """
    relevant = pool.relevant
    ranks = {pair: best_rank(candidate) for pair, candidate in pool.candidates.items()}
    bottom_from = 3 * pool.top_k // 4 + 1
    above: set[str] = set()
    below: set[str] = set()
    for pair, nuggets in pool.support.items():
        at_bottom = pair in ranks and ranks[pair] >= bottom_from
        (below if at_bottom else above).update(nuggets)
    counts = Counter(
        len({by.technique for by in candidate.pooled_by}) for candidate in relevant.values()
    )
    techniques = len(pool.techniques)
    by_techniques = {number: counts[number] for number in range(1, techniques + 1)}
    return MissingSupport(
        top_k=pool.top_k,
        relevant=len(relevant),
        bottom_from=bottom_from,
        bottom_chunks=sum(rank >= bottom_from for rank in ranks.values()),
        bottom_relevant=sum(ranks[pair] >= bottom_from for pair in relevant),
        bottom_nuggets=len(below - above),
        rates=_rates(Counter(ranks.values()), Counter(ranks[pair] for pair in relevant)),
        by_techniques=by_techniques,
        chao1=_chao1(by_techniques),
        chao1_corrected=_chao1_corrected(by_techniques),
    )


def _rates(chunks: Counter[int], relevant: Counter[int]) -> tuple[RankRate, ...]:
    return tuple(
        RankRate(
            rank=rank,
            chunks=chunks[rank],
            relevant=relevant[rank],
            rate=relevant[rank] / chunks[rank],
        )
        for rank in sorted(chunks)
    )


_ONE = Estimate(reason="one technique alone overlaps with none")


def _chao1(by_techniques: dict[int, int]) -> Estimate:
    if len(by_techniques) < 2:
        return _ONE
    once, twice = by_techniques[1], by_techniques[2]
    if not twice:
        return Estimate(reason="no relevant chunk was pooled by exactly two techniques")
    return Estimate(value=sum(by_techniques.values()) + once**2 / (2 * twice))


def _chao1_corrected(by_techniques: dict[int, int]) -> Estimate:
    if len(by_techniques) < 2:
        return _ONE
    once, twice = by_techniques[1], by_techniques[2]
    return Estimate(value=sum(by_techniques.values()) + once * (once - 1) / (2 * (twice + 1)))


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
    alone: BatchAgreement | None = None
    """How far judging in batches agrees with judging alone; None where no sample was judged so."""


def diagnose(contents: Contents, slices: Slices = None) -> Diagnosis:
    """Diagnose the pool of the queries in some slices.

    Args:
        contents: The records of a collection.
        slices: Whose queries; None: those with a supported nugget.

    Raises:
        CollectionError: A name is not that of a slice, or no query is in these slices.
    """
    check_any(contents, slices)
    slices = slices_of(slices)
    pool = pooled(contents, slices)
    found = Diagnosis(
        slices=tuple(slices),
        queries=len(pool.queries),
        pooled=len(pool.candidates),
        outside=pool.outside,
        relevant=len(pool.support),
        relevant_outside=len(pool.support.keys() - pool.candidates.keys()),
        unknown=_unknown(pool),
        votes=_votes(contents, pool),
        alone=_alone(contents, pool),
    )
    if found.unknown:
        return found
    return found.model_copy(
        update={
            "finders": finders(pool),
            "losses": leave_one_out(pool),
            "depths": depth_curve(pool),
            "results": pooling_results(contents, slices),
            "missing": missing_support(pool),
        }
    )


def _votes(contents: Contents, pool: Pooled) -> SelfAgreement | None:
    found = self_agreement(each for each in contents.judgments if each.query_id in pool.queries)
    return found if found.pairs or found.failed_votes else None


def _alone(contents: Contents, pool: Pooled) -> BatchAgreement | None:
    single = tuple(each for each in contents.single_judgments if each.query_id in pool.queries)
    if not single:
        return None
    judgments = tuple(each for each in contents.judgments if each.query_id in pool.queries)
    return batch_agreement(
        Contents(judgments=judgments, single_judgments=single, threshold=contents.threshold)
    )


def _unknown(pool: Pooled) -> str | None:
    if not pool.queries:
        return "no query with nuggets is in these slices"
    if pool.candidates:
        return None
    return (
        "no technique pooled a chunk for these queries, or the collection was imported from a "
        "format that does not say who found what"
    )
