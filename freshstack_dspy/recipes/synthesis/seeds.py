"""Seeds: the chunks that synthetic queries are made from, in the order in which they are sampled."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.corpus.tree import Glob
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.records import Candidate, Chunk, Query
from freshstack_dspy.text import jaccard, terms

_RELATED_BY = "lsa"
_LOOKED_AT = 10
"""Neighbours looked at for each chunk that is wanted: some are no seeds, or say the same."""


def sampled(config: QueriesConfig, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Put the chunks that can be seeds in the order in which they are sampled.

    Each chunk has its place by a hash of its id and `seed`, so those of a corpus that grows keep
    their order among themselves. With `sampling = "even"` the sources take turns.

    Args:
        config: Which chunks, in what order.
        chunks: All of the corpus.

    Raises:
        ConfigError: A glob cannot be understood.
        SourceError: No chunk can be a seed.
    """
    refused: Counter[str] = Counter()
    eligible = list(_eligible(config, chunks, refused))
    if not eligible:
        why = "; ".join(f"{number:,} {reason}" for reason, number in sorted(refused.items()))
        raise SourceError(
            f"none of the {len(chunks):,} chunks can be sampled ({why or 'the corpus is empty'}); "
            "lower min_tokens or widen sources, include and exclude of [queries], or add documents"
        )
    eligible.sort(key=lambda chunk: (_place(config.seed, chunk), chunk.chunk_id))
    if config.sampling == "proportional":
        return eligible
    of_source: dict[str, list[Chunk]] = {}
    for chunk in eligible:
        of_source.setdefault(chunk.source, []).append(chunk)
    turns = zip_longest(*(of_source[source] for source in sorted(of_source)))
    return [chunk for chunk in chain.from_iterable(turns) if chunk is not None]


def related(
    config: QueriesConfig,
    index: HybridIndex | None,
    seeds: Sequence[Chunk],
    eligible: Mapping[str, Chunk],
) -> list[tuple[Chunk, ...]]:
    """Give each seed its nearest neighbours by the `lsa` vectors of the index.

    A neighbour that says nearly the same as the seed, or as a nearer one, is passed over.

    Args:
        config: How many chunks belong together, and from which likeness on two say the same.
        index: Of the corpus; may be None where a seed stands alone.
        seeds: Whose neighbours.
        eligible: By id, the chunks that may be neighbours.

    Returns:
        For each seed a tuple of `config.chunks` chunks, the seed first; of fewer where there are
        not so many.
    """
    if config.chunks == 1:
        return [(seed,) for seed in seeds]
    assert index is not None
    rankings = index.search(
        _RELATED_BY, [seed.passage for seed in seeds], _LOOKED_AT * config.chunks
    )
    groups = []
    for seed, ranking in zip(seeds, rankings, strict=True):
        group, said = [seed], [set(terms(seed.passage))]
        for chunk_id, _ in ranking:
            chunk = eligible.get(chunk_id)
            if chunk is None or chunk_id == seed.chunk_id or len(group) == config.chunks:
                continue
            found = set(terms(chunk.passage))
            if all(jaccard(found, other) < config.near_duplicate for other in said):
                group.append(chunk)
                said.append(found)
        groups.append(tuple(group))
    return groups


def with_seeds(queries: Sequence[Query], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Add the seeds of pooled queries that nothing pooled, so that they are judged in any case.

    Args:
        queries: Some of them synthetic.
        candidates: By query, then by chunk id.

    Returns:
        The same order.
    """
    pooled: dict[str, dict[str, Candidate]] = {}
    for candidate in candidates:
        pooled.setdefault(candidate.query_id, {})[candidate.chunk_id] = candidate
    for query in queries:
        for chunk_id in query.seed_chunk_ids if query.query_id in pooled else ():
            seed = Candidate(query_id=query.query_id, chunk_id=chunk_id, origin="seed")
            pooled[query.query_id].setdefault(chunk_id, seed)
    return [of_query[chunk_id] for of_query in pooled.values() for chunk_id in sorted(of_query)]


def known_seeds(queries: Sequence[Query], chunks: Sequence[Chunk]) -> list[Query]:
    """Take those seeds out of queries that are read which this corpus does not have.

    Such a query was made from other documents, or from an earlier state of these.
    """
    known = {chunk.chunk_id for chunk in chunks}
    return [
        query
        if known.issuperset(query.seed_chunk_ids)
        else query.model_copy(
            update={"seed_chunk_ids": tuple(filter(known.__contains__, query.seed_chunk_ids))}
        )
        for query in queries
    ]


def _eligible(
    config: QueriesConfig, chunks: Sequence[Chunk], refused: Counter[str]
) -> Iterator[Chunk]:
    included, excluded = _globs("include", config.include), _globs("exclude", config.exclude)
    seen: set[str] = set()
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_id):
        if config.sources and chunk.source not in config.sources:
            refused["of other sources"] += 1
        elif included and not any(glob.matches(chunk.path) for glob in included):
            refused["outside include"] += 1
        elif any(glob.matches(chunk.path) for glob in excluded):
            refused["inside exclude"] += 1
        elif chunk.tokens < config.min_tokens:
            refused[f"shorter than min_tokens = {config.min_tokens}"] += 1
        elif chunk.passage in seen:
            refused["repeated word for word"] += 1
        else:
            seen.add(chunk.passage)
            yield chunk


def _globs(key: str, texts: Sequence[str]) -> list[Glob]:
    try:
        return [Glob.of(text) for text in texts]
    except ValueError as error:
        raise ConfigError(f"queries.{key}: {error}") from None


def _place(seed: int, chunk: Chunk) -> bytes:
    return hashlib.sha256(f"{seed}/{chunk.chunk_id}".encode()).digest()
