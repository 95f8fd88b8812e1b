"""Pooling: which chunks of the corpus are judged for each query (FreshStack §3.4)."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from typing import Any, TypeVar, cast

from pydantic import JsonValue

from freshstack_dspy.config import FusionConfig, PoolConfig, base_of
from freshstack_dspy.index.fusion import PAPER_FUSION, fuse, fuse_texts
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.models import NO_MODELS
from freshstack_dspy.lm.request import SearchRequest, sha256_of
from freshstack_dspy.lm.store import FirstOf
from freshstack_dspy.lm.vectors import RERANK_STEP
from freshstack_dspy.recipes.corpus import (
    ChunkedCorpora,
    check_retrievers,
    chunk_corpora,
    index_corpora,
)
from freshstack_dspy.recipes.own_retrievers import (
    OwnRetriever,
    Placing,
    Records,
    open_retriever,
    raise_if_not_recorded,
    recorded_identities,
)
from freshstack_dspy.recipes.session import Session, SingleCall
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Found,
    Query,
    ScoredChunk,
    Technique,
    TechniqueRank,
)
from freshstack_dspy.stored.contents import searched

Texts = Mapping[str, Mapping[Technique, tuple[str, ...]]]
"""For each query id, what each technique searches with: one text, or one for each part."""
Rankings = dict[Technique, dict[str, Sequence[ScoredChunk]]]
"""What was found for one query, by technique and retriever."""
OwnRankings = Mapping[str, Mapping[tuple[str, Technique], Sequence[Sequence[ScoredChunk]]]]
"""What one's own retrievers found, by name, query and technique: a ranking for each text."""
Item = TypeVar("Item")
Result = TypeVar("Result")
Rest = TypeVar("Rest")
BLOCK = 500
"""Queries whose rankings, or pooled chunks, are in memory together."""


def blocks(of_queries: Iterable[Item]) -> Iterator[list[Item]]:
    """Give what there is of each query, of so many queries at a time."""
    left = iter(of_queries)
    while block := list(islice(left, BLOCK)):
        yield block


def asked_by_block(
    session: Session | SingleCall,
    step: str,
    function: Callable[[Item], Result],
    planned: Iterator[tuple[Sequence[Item], Rest]],
    queries: int,
) -> Iterator[tuple[list[Result], Rest]]:
    """Ask for the calls of one block of queries after the other, and give the rest of its plan too.

    If all blocks need as many calls as the first, their number is that of the step.
    """
    block = next(planned, None)
    total = len(block[0]) * max(queries, BLOCK) // BLOCK if block else 0
    with session.asking(step, total) as ask:
        while block is not None:
            yield ask(function, block[0]), block[1]
            block = next(planned, None)


class Searches:
    """The corpus of a run: its chunks, and pools from an index that is made when it is searched.

    Args:
        session: Its configuration says how documents are cut, indexed and searched.
        corpus: Chunks that are there already; by default the corpora of the configuration are cut
            when they are first needed.
        over: An index that is there already, in place of both.
    """

    def __init__(
        self,
        session: Session | SingleCall,
        corpus: ChunkedCorpora | None = None,
        *,
        over: HybridIndex | None = None,
    ) -> None:
        self._session, self._corpus, self._over = session, corpus, over
        self.unasked: set[str] = set()
        """Retrievers of one's own of which a plan does not know what they find."""

    @functools.cached_property
    def corpus(self) -> ChunkedCorpora:
        """All chunks and what they were cut from; cut now if they were not needed before."""
        session = self._session
        cut = self._corpus or chunk_corpora(session.config, session.progress)
        check_retrievers(session.config, len(cut.chunks))
        return cut

    @functools.cached_property
    def index(self) -> HybridIndex:
        """The index, made now if it was not needed before."""
        session = self._session
        if self._over is not None:
            return self._over
        models = session.models if isinstance(session, Session) else NO_MODELS
        return index_corpora(session.config, self.corpus, models=models, progress=session.progress)

    def chunks(self) -> Iterable[Chunk]:
        """All chunks."""
        return self._over.chunks() if self._over is not None else self.corpus.chunks

    @property
    def chunk_ids(self) -> Set[str]:
        """The ids of all chunks."""
        if self._over is not None:
            return {chunk.chunk_id for chunk in self._over.chunks()}
        return self.corpus.chunks.ids

    def chunks_by_id(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Chunks by their ids."""
        if self._over is not None:
            return self._over.chunks_by_id(chunk_ids)
        return self.corpus.chunks.chunks(chunk_ids)

    @functools.cached_property
    def own(self) -> Mapping[str, OwnRetriever]:
        """One's own retrievers of the pool, opened now if they were not before."""
        config = self._session.config
        return {
            name: open_retriever(name, source, config.pool.depth, config.file.parent)
            for name, source in config.pool.own.items()
        }

    @functools.cached_property
    def _identities(self) -> Mapping[str, str]:
        """What distinguishes one's own retrievers; a replay looks it up, and opens none."""
        session, sources = self._session, self._session.config.pool.own
        if (
            sources
            and isinstance(session, Session)
            and session.mode == "replay"
            and not session.dry
        ):
            corpus, folder = self.corpus.chunks.sums.searched, session.config.file.parent
            return recorded_identities(FirstOf(*session.replies), corpus, sources, folder)
        return {name: retriever.identity for name, retriever in self.own.items()}

    @functools.cached_property
    def _placing(self) -> Placing:
        return Placing(self.chunk_ids, self.chunks)

    @functools.cached_property
    def _records(self) -> Records:
        session = self._session
        if not isinstance(session, Session):
            return Records()
        corpus = self.corpus.chunks.sums.searched
        return Records(corpus, session.earlier_search, session.keep_search, session.progress)

    def try_own(self, texts: Texts) -> None:
        """Have one's own retrievers search for what is there before anything is paid for.

        Raises:
            CollectionError: One raises, or finds nothing, or nothing that is in the corpus.
        """
        for block in blocks(texts.items() if self.own else ()):
            self._own_rankings(dict(block))

    def _own_rankings(self, texts: Texts) -> OwnRankings:
        """What one's own retrievers find; in a plan, those of which it is recorded."""
        session, config = self._session, self._session.config.pool
        own: dict[str, dict[tuple[str, Technique], list[Sequence[ScoredChunk]]]] = {}
        for name, retriever in self.own.items():
            places: list[tuple[tuple[str, Technique], str]] = [
                ((query_id, technique), text)
                for technique in config.techniques
                for query_id, of_query in texts.items()
                if technique in of_query and (technique == "question" or not retriever.is_run)
                for text in searched(of_query[technique], config.lists)
            ]
            asked = [(query_id, text) for (query_id, _), text in places]
            rankings: list[list[ScoredChunk]] | None
            if not retriever.is_run and isinstance(session, Session) and session.dry:
                rankings = retriever.recorded_before(asked, config.depth, self._records)
            else:
                rankings = retriever.search(asked, config.depth, self._placing, self._records)
            if rankings is not None:
                own[name] = {}
                for (place, _), ranking in zip(places, rankings, strict=True):
                    own[name].setdefault(place, []).append(ranking)
            retriever.check()
        return own

    def pool(self, texts: Texts) -> list[Candidate]:
        """Pool chunks for many queries; see `pool`."""
        session = self._session
        if not isinstance(session, Session):
            own, config = self._own_rankings(texts), session.config
            return pool(self.index, texts, config.pool, config.fusion, own)
        pooled = (self._pool(session, dict(block)) for block in blocks(texts.items()))
        return list(chain.from_iterable(pooled))

    def _pool(self, session: Session, texts: Texts) -> list[Candidate]:
        config = session.config
        requests = {key: self._request(session, searched) for key, searched in texts.items()}
        recorded = {key: session.recorded_search(request) for key, request in requests.items()}
        candidates = {
            query_id: [_candidate(query_id, row, config.pool) for row in cast("list[Any]", rows)]
            for query_id, rows in recorded.items()
            if rows is not None
        }
        missing = {key: texts[key] for key in texts if key not in candidates}
        asks = config.pool.reranks and config.reranker is not None and config.reranker.asks_chat
        replies = SearchRequest(  # those of the reranker, which a replay names too
            corpus=self.corpus.chunks.sums.searched,
            settings={"replies": RERANK_STEP},
            texts=sha256_of([request.key for request in requests.values()]),
        )
        if asks and not missing:
            keys: Any = session.recorded_search(replies)
            session.reuse_replies(RERANK_STEP, keys or ())
        if missing:
            settings, before = config.pool, session.used().keys()
            if session.mode == "replay" and not session.dry:
                raise_if_not_recorded(settings.own)
            own = self._own_rankings(missing)
            if unknown := settings.own.keys() - own.keys():  # in a plan, others stand in for them
                self.unasked |= unknown
                names = [name for name in settings.names if name not in unknown] or ["bm25"]
                settings = settings.model_copy(update={"retrievers": tuple(names)})
            candidates |= {query_id: [] for query_id in missing}
            for candidate in pool(self.index, missing, settings, config.fusion, own):
                candidates[candidate.query_id].append(candidate)
            for query_id in () if unknown else missing:
                rows = [_row(candidate, settings) for candidate in candidates[query_id]]
                session.record_search(requests[query_id], rows)
            if asks and not unknown:
                known = before | {request.key for request in requests.values()}
                session.record_search(replies, [*sorted(session.used().keys() - known)])
        return [*chain.from_iterable(candidates[query_id] for query_id in texts)]

    def _request(
        self, session: Session, texts: Mapping[Technique, tuple[str, ...]]
    ) -> SearchRequest:
        """The search of one query: by the corpus, all settings and all texts."""
        config, models = session.config, session.models
        settings: dict[str, JsonValue] = {
            "pool": config.pool.model_dump(mode="json", exclude_none=True),
            "fusion": config.fusion.model_dump(mode="json"),
            "index": config.index.model_dump(mode="json", exclude={"path"}),
            "embedders": [[embedder.name, embedder.identity] for embedder in models.embedders],
            "reranker": [models.reranker.identity, models.rerank_depth] if models.reranker else [],
        }
        if config.languages:
            settings["languages"] = [*config.languages]
        if self._identities:
            settings["own"] = dict(self._identities)
        in_order = [json.dumps([name, *texts[name]]) for name in sorted(texts)]
        return SearchRequest(
            corpus=self.corpus.chunks.sums.searched, settings=settings, texts=sha256_of(in_order)
        )


def _row(candidate: Candidate, config: PoolConfig) -> JsonValue:
    """A candidate as it is recorded: techniques and retrievers by their numbers."""
    techniques, retrievers = config.techniques.index, config.names.index
    return [
        candidate.chunk_id,
        [[techniques(by.technique), by.rank] for by in candidate.pooled_by],
        [[techniques(by.technique), by.rank] for by in candidate.ranked_below],
        [
            [techniques(by.technique), retrievers(by.retriever), by.rank]
            for by in candidate.found_by
        ],
        [retrievers(name) for name in candidate.lost_without],
    ]


def _candidate(query_id: str, row: Any, config: PoolConfig) -> Candidate:
    chunk_id, pooled_by, ranked_below, found_by, lost_without = row
    techniques, retrievers = config.techniques, config.names
    return Candidate(
        query_id=query_id,
        chunk_id=chunk_id,
        pooled_by=tuple(TechniqueRank(technique=techniques[t], rank=n) for t, n in pooled_by),
        ranked_below=tuple(TechniqueRank(technique=techniques[t], rank=n) for t, n in ranked_below),
        found_by=tuple(
            Found(technique=techniques[t], retriever=retrievers[r], rank=n) for t, r, n in found_by
        ),
        lost_without=tuple(retrievers[r] for r in lost_without),
    )


def pool(
    index: HybridIndex,
    texts: Texts,
    config: PoolConfig,
    fusion: FusionConfig = PAPER_FUSION,
    own: OwnRankings | None = None,
) -> list[Candidate]:
    """Pool chunks for many queries at once.

    Each retriever gives its best `depth` chunks for each technique; for each technique they are
    fused, and the best `top_k` are pooled, of one file at most `per_file`. With `lists = "concatenate"` the texts of a technique
    are joined by line breaks and searched with as one (the paper); with `"fuse"` each is searched
    with, and their rankings by one retriever are first fused into one, by the same method.

    Args:
        index: The corpus.
        texts: For each query id, what each technique searches with.
        config: Techniques, retrievers, depth, top_k, per_file and lists; the retrievers may be any
            of the index's.
        fusion: How the retrievers' rankings become one; by default by the sum of their
            normalised scores, as in the paper.
        own: What retrievers that are not the index's found, for the techniques they count for.

    Returns:
        The candidates, by query in the given order, then by chunk id.

    Raises:
        IndexingError: The index has no such retriever, or its rankings cannot be fused.
    """
    rankings: dict[str, Rankings] = {
        query_id: {technique: {} for technique in config.techniques if technique in of_query}
        for query_id, of_query in texts.items()
    }
    for retriever in config.names:  # for all techniques at once: rerankers defer their requests so
        search: Any = functools.partial(index.search, retriever, depth=config.depth, fusion=fusion)
        places: list[tuple[str, Technique]] = [
            (query_id, technique)
            for technique in config.techniques
            for query_id in texts
            if technique in texts[query_id]
        ]
        if own is not None and retriever in own:
            found_there = own[retriever]
            places = [place for place in places if place in found_there]
            flat = [ranking for place in places for ranking in found_there[place]]
            search = functools.partial(_found_before, index, retriever, flat, config.depth)
        searches = [
            searched(texts[query_id][technique], config.lists) for query_id, technique in places
        ]
        fused_texts = fuse_texts(search, searches, config.depth, fusion)
        for (query_id, technique), ranking in zip(places, fused_texts, strict=True):
            rankings[query_id][technique][retriever] = ranking

    def fused(by_retriever: Mapping[str, Sequence[ScoredChunk]]) -> Sequence[ScoredChunk]:
        ranking = fuse(by_retriever, config.depth, fusion)
        return ranking if config.per_file is None else _capped(ranking, index, config.per_file)

    return [
        candidate
        for query_id, of_query in rankings.items()
        for candidate in _candidates(query_id, of_query, config, fusion, fused)
    ]


def _found_before(
    index: HybridIndex,
    retriever: str,
    rankings: Sequence[Sequence[ScoredChunk]],
    depth: int,
    texts: Sequence[str],
) -> Sequence[Sequence[ScoredChunk]]:
    """What a retriever of one's own found for texts, reranked where its name says so."""
    if base_of(retriever) == retriever:
        return rankings
    return [ranking[:depth] for ranking in index.rerank(texts, rankings)]


def _capped(ranking: Sequence[ScoredChunk], index: HybridIndex, per_file: int) -> list[ScoredChunk]:
    """A ranking with at most `per_file` chunks from each file."""
    above: Counter[tuple[str, str]] = Counter()
    kept = []
    for entry in ranking:
        file = index.file_of(entry.chunk_id)
        if above[file] < per_file:
            kept.append(entry)
        above[file] += 1
    return kept


def _candidates(
    query_id: str,
    rankings: Rankings,
    config: PoolConfig,
    fusion: FusionConfig,
    fused: Callable[[Mapping[str, Sequence[ScoredChunk]]], Sequence[ScoredChunk]],
) -> list[Candidate]:
    """The chunks that are pooled for a query, with every rank that tells why."""
    ranks: dict[str, list[TechniqueRank]] = {}
    found_by: dict[str, list[tuple[Technique, str, int]]] = {}
    pooled_without: dict[str, set[str]] = {retriever: set() for retriever in config.names}
    for technique, by_retriever in rankings.items():
        for rank, (chunk_id, _) in enumerate(fused(by_retriever), 1):
            ranks.setdefault(chunk_id, []).append(TechniqueRank(technique=technique, rank=rank))
        for retriever, ranking in by_retriever.items():
            for rank, (chunk_id, _) in enumerate(ranking, 1):
                found_by.setdefault(chunk_id, []).append((technique, retriever, rank))
        for retriever in config.names:  # also those that do not search for this technique
            others = {name: each for name, each in by_retriever.items() if name != retriever}
            if _weighs(others, fusion):
                rest = fused(others)[: config.top_k]
                pooled_without[retriever].update(chunk_id for chunk_id, _ in rest)
    return [
        Candidate(
            query_id=query_id,
            chunk_id=chunk_id,
            pooled_by=tuple(by for by in of_chunk if by.rank <= config.top_k),
            ranked_below=tuple(by for by in of_chunk if by.rank > config.top_k),
            found_by=tuple(
                Found(technique=technique, retriever=retriever, rank=rank)
                for technique, retriever, rank in found_by[chunk_id]
            ),
            lost_without=tuple(
                name for name in config.names if chunk_id not in pooled_without[name]
            ),
        )
        for chunk_id, of_chunk in sorted(ranks.items())
        if any(by.rank <= config.top_k for by in of_chunk)
    ]


def _weighs(retrievers: Iterable[str], fusion: FusionConfig) -> bool:
    """Whether any of these retrievers counts: what weighs 0 pools nothing by itself."""
    return fusion.method != "weighted" or any(fusion.weights.get(name, 1.0) for name in retrievers)


def with_seeds(queries: Sequence[Query], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Add the seeds of pooled queries that nothing pooled, so that they are judged in any case."""
    pooled: dict[str, dict[str, Candidate]] = {}
    for candidate in candidates:
        pooled.setdefault(candidate.query_id, {})[candidate.chunk_id] = candidate
    for query in queries:
        for chunk_id in query.seed_chunk_ids if query.query_id in pooled else ():
            seed = Candidate(query_id=query.query_id, chunk_id=chunk_id, origin="seed")
            pooled[query.query_id].setdefault(chunk_id, seed)
    return [of_query[chunk_id] for of_query in pooled.values() for chunk_id in sorted(of_query)]
