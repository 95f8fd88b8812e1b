"""Diagnose a pool: what each technique and retriever contributed, and what it may lack."""

from collections import Counter, defaultdict
from collections.abc import Collection as Ids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from math import comb
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
from freshstack_dspy.measures.kappa import vote_agreement
from freshstack_dspy.measures.measure import Measure, parse_measures
from freshstack_dspy.measures.qrels import About, NuggetQrels
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    DRY_RUN,
    ORACLES,
    RELEVANT,
    TECHNIQUES,
    CandidateOrigin,
    Found,
    Judgment,
    Record,
    SliceName,
    Technique,
    TechniqueRank,
    Vote,
)
from freshstack_dspy.rows import load_pandas
from freshstack_dspy.stored.contents import FROM_PASSAGES, Contents, Slices, slices_of
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run
from freshstack_dspy.stored.record_files import rows

if TYPE_CHECKING:
    import pandas as pd


class SelfAgreement(Record):
    """The votes of a collection's judge, in other orders of the chunks."""

    pairs: int
    """Pairs of nugget and chunk with at least two labels."""
    agreement: Estimate
    """The mean over these of the share of agreeing pairs of votes; see `vote_agreement`."""
    unanimous: Estimate
    """The share of these on which all votes with a label agree."""
    failed_votes: int
    """Votes without a label; they are in no value."""


def self_agreement(
    judgments: Sequence[Judgment], query_ids: Ids[str] | None = None
) -> SelfAgreement:
    """Compute how often the votes on a pair agree; pairs with fewer than two votes do not count.

    `query_ids` are those of the queries whose pairs count; None: of all.
    """
    voted = [
        labels
        for query_id, votes in rows(judgments, "query_id", "votes")
        if votes and (query_ids is None or query_id in query_ids)
        if len(labels := _labels_of(votes)) > 1
    ]
    labelled = ([label for label in labels if label is not None] for labels in voted)
    several = [labels for labels in labelled if len(labels) > 1]
    unanimous = Estimate(reason="nothing was judged twice")
    if several:
        unanimous = Estimate(value=sum(len(set(each)) == 1 for each in several) / len(several))
    return SelfAgreement(
        pairs=len(several),
        agreement=vote_agreement(several),
        unanimous=unanimous,
        failed_votes=sum(labels.count(None) for labels in voted),
    )


def _labels_of(votes: Sequence[Vote]) -> list[int | None]:
    """The label of each vote: the highest of its parts, None where one of them failed."""
    by_vote: defaultdict[int, list[int | None]] = defaultdict(list)
    for vote in votes:
        by_vote[vote.vote].append(vote.label)
    return [
        None if None in labels else max(filter(None, labels), default=0)
        for labels in by_vote.values()
    ]


QueryChunk = tuple[str, str]
"""The ids of a query and of a chunk."""


class Finds(NamedTuple):
    """How a candidate was found, with the fields of `Candidate`."""

    pooled_by: tuple[TechniqueRank, ...]
    ranked_below: tuple[TechniqueRank, ...]
    found_by: tuple[Found, ...]
    lost_without: tuple[str, ...]


@dataclass(frozen=True)
class Pooled:
    """The pool of some queries. A chunk is relevant to a query if it supports one of its nuggets."""

    qrels: NuggetQrels
    """All judgments of these queries, of chunks outside of the pool too."""
    answerable: frozenset[str]
    """Those of the queries whose every nugget is supported."""
    candidates: dict[QueryChunk, Finds]
    """What the techniques pooled."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in; their ranks are not known."""
    support: dict[QueryChunk, set[str]]
    """Each relevant chunk, pooled or not, with the nuggets that it supports."""

    @cached_property
    def top_k(self) -> int:
        """The deepest rank that was pooled; 0 where nothing was."""
        return max(
            (by.rank for each in self.candidates.values() for by in each.pooled_by), default=0
        )

    @cached_property
    def relevant(self) -> dict[QueryChunk, Finds]:
        """The pooled chunks that are relevant."""
        return {pair: each for pair, each in self.candidates.items() if pair in self.support}

    @cached_property
    def supported(self) -> set[str]:
        """The nuggets that a chunk supports, pooled or not."""
        return set().union(*self.support.values())

    @cached_property
    def techniques(self) -> tuple[Technique, ...]:
        """The techniques that pooled anything, in the order of `TECHNIQUES`."""
        pooled = {by.technique for each in self.candidates.values() for by in each.pooled_by}
        return tuple(technique for technique in TECHNIQUES if technique in pooled)

    @cached_property
    def retrievers(self) -> tuple[str, ...]:
        """The retrievers that found anything in the pool, sorted by name."""
        names = {by.retriever for each in self.candidates.values() for by in each.found_by}
        return tuple(sorted(names))


def pooled(contents: Contents, slices: Sequence[SliceName]) -> Pooled:
    """Give the pool of the queries with nuggets in some slices, with the support of their nuggets."""
    qrels = contents.qrels_of(slices)
    candidates: dict[QueryChunk, Finds] = {}
    outside: Counter[CandidateOrigin] = Counter()
    of_pool = "query_id", "chunk_id", "origin", *Finds._fields
    for query_id, chunk_id, origin, *finds in rows(contents.pool, *of_pool):
        candidate = Finds(*finds)
        if query_id in qrels.nuggets and candidate.pooled_by:
            candidates[query_id, chunk_id] = candidate
        elif query_id in qrels.nuggets:
            outside[origin] += 1
    support: defaultdict[QueryChunk, set[str]] = defaultdict(set)
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    labels = contents.labels.of(
        id_ for id_, query_id in owners.items() if query_id in qrels.nuggets
    )
    for nugget_id, chunk_ids in zip(labels, labels.having(contents.threshold), strict=True):
        for chunk_id in chunk_ids:
            support[owners[nugget_id], chunk_id].add(nugget_id)
    answerable = {part.query_id for part in contents.slices if part.slice == "answerable"}
    return Pooled(
        qrels=qrels,
        answerable=frozenset(answerable & qrels.nuggets.keys()),
        candidates=candidates,
        outside=dict(sorted(outside.items())),
        support=dict(support),
    )


class Depth(Record):
    """What would have been judged with `pool.top_k` of this depth."""

    depth: int
    chunks: int
    """Chunks among the first `depth` of any technique's fused list."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Nuggets that one of these chunks supports."""


def depth_curve(pool: Pooled) -> tuple[Depth, ...]:
    """Say, for each depth from 1 to the pool's, what a pool of that depth would hold.

    It is exact: a build with a smaller `pool.top_k` judges just the chunks whose best rank in a
    technique's fused list is at most that. A depth that adds no chunk is left out; the last is
    the whole pool.
    """
    at: defaultdict[int, list[QueryChunk]] = defaultdict(list)
    for pair, each in pool.candidates.items():
        at[min(by.rank for by in each.pooled_by)].append(pair)
    curve, chunks, relevant, nuggets = [], 0, 0, set[str]()
    for depth, pairs in sorted(at.items()):
        supported = [pool.support[pair] for pair in pairs if pair in pool.support]
        chunks, relevant = chunks + len(pairs), relevant + len(supported)
        nuggets.update(*supported)
        curve.append(Depth(depth=depth, chunks=chunks, relevant=relevant, nuggets=len(nuggets)))
    return tuple(curve)


def estimated_relevant(pool: Pooled) -> float | None:
    """Estimate the number of relevant chunks from the overlap of the techniques; None for one.

    S + (t - 1) / t f1 (f1 - 1) / 2 (f2 + 1), of S relevant chunks that t techniques pooled, f1 of
    them by exactly one and f2 by exactly two. Techniques overlap more than independent samples
    would, so it is a lower bound of what they could reach.

    Source: Chao, Estimating the population size for capture-recapture data with unequal
    catchability, Biometrics 43, 1987: Chao2, in the bias-corrected form.
    """
    techniques = len(pool.techniques)
    if techniques < 2:
        return None
    relevant = pool.relevant
    counts = Counter(len({by.technique for by in each.pooled_by}) for each in relevant.values())
    missing = counts[1] * (counts[1] - 1) / (2 * (counts[2] + 1))
    return len(relevant) + (techniques - 1) / techniques * missing


class Finder(Record):
    """What one retriever found with one technique's text."""

    technique: Technique
    retriever: str
    found: int
    """Relevant chunks among its first `top_k`."""
    alone: int
    """Relevant chunks among its first `top_k` and those of no other."""


def finders(pool: Pooled) -> tuple[Finder, ...]:
    """Count the relevant chunks that each retriever found; by technique, then retriever."""
    counts: Counter[tuple[Technique, str]] = Counter()
    alone: Counter[tuple[Technique, str]] = Counter()
    for candidate in pool.relevant.values():
        near: set[tuple[Technique, str]] = {
            (by.technique, by.retriever) for by in candidate.found_by if by.rank <= pool.top_k
        }
        counts.update(near)
        alone.update(near if len(near) == 1 else ())
    return tuple(
        Finder(technique=pair[0], retriever=pair[1], found=counts[pair], alone=alone[pair])
        for pair in product(pool.techniques, pool.retrievers)
    )


class Loss(Record):
    """What a pool would lack without one technique, or without one retriever."""

    without: str
    """Its name."""
    kind: Literal["technique", "retriever"]
    chunks: int
    """Chunks that would not have been pooled, and so not judged."""
    relevant: int
    """Relevant chunks among them."""
    nuggets: int
    """Supported nuggets that would have no supporting chunk left."""
    queries: int
    """Answerable queries that would not be answerable: a nugget of theirs is lost."""


def leave_one_out(pool: Pooled) -> tuple[Loss, ...]:
    """Say what would be lost without each technique, and without each retriever, alone.

    A chunk is lost without a technique if no other technique pooled it. It is lost without a
    retriever if `Candidate.lost_without` says so: pooling fused the lists of every technique anew
    without that retriever. Chunks that would come in instead are not counted.
    Chunks that were judged outside of the pool, as unjudged chunks of a run, are never lost.

    Returns:
        The techniques in their order, then the retrievers by name.
    """
    supporting = Counter(chain.from_iterable(pool.support.values()))
    lost: defaultdict[tuple[Literal["technique", "retriever"], str], set[QueryChunk]]
    lost = defaultdict(set)
    for pair, candidate in pool.candidates.items():
        techniques = {by.technique for by in candidate.pooled_by}
        if len(techniques) == 1:
            lost["technique", techniques.pop()].add(pair)
        for retriever in candidate.lost_without:
            lost["retriever", retriever].add(pair)

    def loss(kind: Literal["technique", "retriever"], without: str) -> Loss:
        relevant = {pair: pool.support[pair] for pair in lost[kind, without] & pool.support.keys()}
        missing = Counter(chain.from_iterable(relevant.values()))
        gone = {nugget for nugget, chunks in missing.items() if chunks == supporting[nugget]}
        queries = {query_id for (query_id, _), nuggets in relevant.items() if nuggets & gone}
        return Loss(
            without=without,
            kind=kind,
            chunks=len(lost[kind, without]),
            relevant=len(relevant),
            nuggets=len(gone),
            queries=len(queries & pool.answerable),
        )

    return (
        *(loss("technique", name) for name in pool.techniques),
        *(loss("retriever", name) for name in pool.retrievers),
    )


class PoolingResult(Record):
    """How well one technique finds what supports the nuggets (Table 4 of the FreshStack paper)."""

    technique: Technique
    knows: Literal["question", "answer"]
    """What it searches with is made of the question only, or of the answer (the oracle)."""
    retriever: str
    """`fusion`: all retrievers of the pool."""
    means: dict[str, float]
    """By measure, the mean over all queries of these slices."""


def pooling_results(
    pool: Pooled, measures: Sequence[str] = FRESHSTACK_MEASURES
) -> tuple[PoolingResult, ...]:
    """Evaluate every technique with every retriever, and with all of them fused.

    The values are those of a run that the retriever makes with the technique's text at the pool's
    depth. The ranks of pooled chunks suffice, as only these were judged: a chunk at any other rank
    has no label and only takes up its place. Chunks that were judged outside of the pool, as
    unjudged chunks of a run, have no known rank and are left out of the qrels.

    Returns:
        By technique, then retriever, the fusion last; none where nothing was pooled.
    """
    if not pool.candidates:
        return ()
    labels = dict(pool.qrels.labels)
    lists: _Lists = defaultdict(lambda: defaultdict(dict))
    pooled_ids: defaultdict[str, set[str]] = defaultdict(set)
    for (query_id, chunk_id), candidate in pool.candidates.items():
        pooled_ids[query_id].add(chunk_id)
        for by in (*candidate.pooled_by, *candidate.ranked_below):
            lists[by.technique, None][query_id][by.rank] = chunk_id
        for hit in candidate.found_by:
            lists[hit.technique, hit.retriever][query_id][hit.rank] = chunk_id
    for query_id, nuggets in pool.qrels.nuggets.items():
        for nugget in nuggets:
            if outside := labels[nugget].keys() - pooled_ids[query_id]:
                labels[nugget] = {id_: n for id_, n in labels[nugget].items() if id_ not in outside}
    qrels = replace(pool.qrels, labels=labels)
    return tuple(
        PoolingResult(
            technique=technique,
            knows="answer" if technique in ORACLES else "question",
            retriever=retriever or "fusion",
            means=_means(qrels, lists[technique, retriever], parse_measures(measures)),
        )
        for technique, retriever in product(pool.techniques, (*pool.retrievers, None))
    )


_Lists = defaultdict[tuple[Technique, str | None], defaultdict[str, dict[int, str]]]
"""The pooled chunks of every list by query and rank; None: of all retrievers, fused."""


def _means(
    qrels: NuggetQrels, by_query: Mapping[str, Mapping[int, str]], measures: Sequence[Measure]
) -> dict[str, float]:
    """Measure a list; each rank without a pooled chunk gets an id that no chunk has."""
    ranks = range(1, 1 + max(map(max, by_query.values()), default=0))
    others = [f"\0{rank}" for rank in ranks]
    values: defaultdict[str, list[float]] = defaultdict(list)
    for query_id in qrels.nuggets:
        by_rank = by_query.get(query_id, {})
        ranking = list(map(by_rank.get, ranks[: max(by_rank, default=0)], others))
        for measure in measures:
            values[measure.name].append(measure(ranking, qrels.judged(query_id, measure.rel)) or 0)
    return {name: fmean(each) for name, each in values.items()}


class FromPassages(Record):
    """What nuggets that were made from passages cannot hold, estimated from the passages found.

    A nugget is held by the relevant passages that it was made from or that support it. Both numbers
    are lower bounds: they know nothing of passages unlike any that was found.
    """

    nuggets: int
    """Those made from passages."""
    held_by_one: int
    """Those that only one passage holds."""
    lost_without_half: float
    """The share that no passage would hold without a random half of each query's relevant ones."""
    missing: float
    """How many more there are at least, by Chao2: for each query (m - 1)/m f1 (f1 - 1) / 2 (f2 + 1),
    of m relevant passages, with f1 nuggets held by exactly one of them and f2 by exactly two."""

    def __str__(self) -> str:
        return (
            f"{self.nuggets:,} {FROM_PASSAGES}: {self.held_by_one:,} are held by one relevant "
            f"passage only; without a random half of the relevant passages "
            f"{self.lost_without_half:.0%} of them would be lost, and by Chao2 at least "
            f"{self.missing:,.0f} more are missing"
        )


def from_passages(contents: Contents) -> FromPassages | None:
    """Estimate what nuggets made from passages cannot hold; None where there are none.

    Source: Chao and Colwell, Thirty years of progeny from Chao's inequality, SORT 41, 2017: the
    bias-corrected form for incidence data. The share without a half is its exact expectation over
    all choices of half of the passages, the smaller half where their number is odd.
    """
    nuggets = [nugget for nugget in contents.nuggets if nugget.chunk_ids and not nugget.doubtful]
    if not nuggets:
        return None
    relevant: defaultdict[str, set[str]] = defaultdict(set)
    for query_id, chunk_id, relevance in rows(contents.pool, "query_id", "chunk_id", "relevance"):
        if relevance is not None and relevance.grade >= RELEVANT:
            relevant[query_id].add(chunk_id)
    holding = {
        nugget.nugget_id: relevant[nugget.query_id].intersection(nugget.chunk_ids)
        for nugget in nuggets
    }
    for query_id, nugget_id, chunk_id in contents.supporting("query_id", "nugget_id", "chunk_id"):
        if nugget_id in holding and chunk_id in relevant[query_id]:
            holding[nugget_id].add(chunk_id)
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for nugget in contents.nuggets:
        if number := len(holding.get(nugget.nugget_id, ())):
            numbers[nugget.query_id].append(number)
    if not numbers:
        return None
    lost = missing = 0.0
    for query_id, held in numbers.items():
        m, counts = len(relevant[query_id]), Counter(held)
        lost += sum(comb(m - number, m - m // 2) for number in held) / comb(m, m // 2)
        missing += (m - 1) / m * counts[1] * (counts[1] - 1) / (2 * (counts[2] + 1))
    every = [number for held in numbers.values() for number in held]
    return FromPassages(
        nuggets=len(every),
        held_by_one=every.count(1),
        lost_without_half=lost / len(every),
        missing=missing,
    )


class Diagnosis(Record, Shown):
    """What the records say of a pool; where they do not say who found what, why not."""

    dry_run: bool = False
    """Whether a word counter made labels, so that nothing is concluded of what follows."""
    slices: tuple[SliceName, ...]
    queries: int
    """Queries of these slices that have nuggets."""
    answerable: int
    """Those of them whose every nugget is supported."""
    nuggets: int
    """Their supported nuggets."""
    top_k: int
    """The deepest rank in a technique's fused list that was pooled."""
    pooled: int
    """(Query, chunk) pairs that a technique pooled."""
    relevant: int
    """The pairs among these where the chunk supports a nugget."""
    outside: dict[CandidateOrigin, int]
    """Candidates that no technique pooled, by how they came in."""
    relevant_outside: int
    """Relevant pairs that no technique pooled."""
    estimated_relevant: float | None
    """How many relevant pairs there are at least, by Chao2; None with fewer than two techniques."""
    unknown: str | None
    """Why there is nothing below, where there is not."""
    by_fusion: int
    """Relevant pooled pairs among the first `top_k` of no retriever: only fusion raised them."""
    finders: tuple[Finder, ...]
    losses: tuple[Loss, ...]
    depths: tuple[Depth, ...]
    results: tuple[PoolingResult, ...]
    from_passages: FromPassages | None
    """What the nuggets cannot hold, where they were made from passages."""
    votes: SelfAgreement | None
    """How far several votes of the judge agree; None where it had one vote."""
    missing_evidence: str | None = None
    """How many labels of support name no evidence, where they are of a judge who names it."""
    depth: int | None = None
    """How many chunks each retriever gave for each technique, where it is known."""
    about: About = Field(default_factory=About, exclude=True, repr=False)
    """The collection; written nowhere."""

    def __repr__(self) -> str:
        dry = f", {DRY_RUN}" if self.dry_run else ""
        return (
            f"Diagnosis({self.about.name!r}, {counted(self.queries, 'query', 'queries')}, "
            f"{counted(self.pooled, 'pooled chunk')}, {self.relevant:,} relevant{dry})"
        )

    __str__ = __repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Give the pooling results: a row by technique and retriever."""
        return [{**result.model_dump(exclude={"means"}), **result.means} for result in self.results]

    def to_pandas(self) -> "pd.DataFrame":
        """Give the pooling results as a data frame."""
        return load_pandas().DataFrame(self.to_rows())


def diagnose(collection: Contents | Path | str, slices: Slices = None) -> Diagnosis:
    """Diagnose the pool of the queries in some slices.

    Args:
        collection: A collection, its folder, or its records.
        slices: Whose queries; None: those with a supported nugget.

    Raises:
        CollectionError: A name is not that of a slice, or no query is in these slices.
    """
    contents = collection if isinstance(collection, Contents) else StoredCollection.load(collection)
    contents.check_any(slices)
    chosen, slices = slices, slices_of(slices)
    pool = pooled(contents, slices)
    relevant, top_k = pool.relevant.values(), pool.top_k
    votes = self_agreement(contents.judgments, pool.qrels.nuggets)
    unknown = (
        "no technique pooled a chunk for these queries, or the collection was imported from a "
        "format that does not say who found what"
    )
    stored = contents if isinstance(contents, StoredCollection) else None
    recorded: Any = (stored and stored.manifest.config.get("pool")) or {}
    on_support = stored is not None and stored.manifest.scale.name == "support"
    return Diagnosis(
        dry_run=stored is not None and is_dry_run(stored.manifest),
        slices=slices,
        queries=len(pool.qrels.nuggets),
        answerable=len(pool.answerable),
        nuggets=len(pool.supported),
        top_k=top_k,
        pooled=len(pool.candidates),
        relevant=len(relevant),
        outside=pool.outside,
        relevant_outside=len(pool.support) - len(relevant),
        estimated_relevant=estimated_relevant(pool),
        unknown=None if pool.candidates else unknown,
        by_fusion=sum(all(by.rank > top_k for by in each.found_by) for each in relevant),
        finders=finders(pool),
        losses=leave_one_out(pool),
        depths=depth_curve(pool),
        results=pooling_results(pool),
        from_passages=from_passages(contents),
        votes=votes if votes.pairs or votes.failed_votes else None,
        missing_evidence=stored.manifest.counts.missing_evidence if stored and on_support else None,
        depth=recorded.get("depth"),
        about=stored.about(chosen) if stored else About(),
    )
