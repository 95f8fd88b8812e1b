"""Pooling: which chunks of the corpus are judged for each query (FreshStack §3.4)."""

from collections.abc import Mapping, Sequence

from freshstack_dspy.config import FusionConfig, PoolConfig
from freshstack_dspy.index import HybridIndex, fuse
from freshstack_dspy.index.fusion import PAPER_FUSION
from freshstack_dspy.records import (
    Candidate,
    Expansion,
    Found,
    Nugget,
    Query,
    ScoredChunk,
    Technique,
    TechniqueRank,
)

Texts = Mapping[str, Mapping[Technique, str]]
"""For each query id, what each technique searches with."""
Rankings = dict[Technique, dict[str, Sequence[ScoredChunk]]]
"""What was found for one query, by technique and retriever."""


def technique_texts(
    query: Query, nuggets: Sequence[Nugget], expansions: Sequence[Expansion]
) -> dict[Technique, str]:
    """What each technique searches with; the lists are concatenated, as in the paper.

    A technique whose text a model failed to give is left out.
    """
    texts: dict[Technique, str] = {"question": query.text, "answer": query.answer}
    for expansion in expansions:
        texts[expansion.kind] = "\n".join(expansion.texts)
    if nuggets:
        texts["nuggets"] = "\n".join(nugget.text for nugget in nuggets)
    return texts


def pool(
    index: HybridIndex, texts: Texts, config: PoolConfig, fusion: FusionConfig = PAPER_FUSION
) -> list[Candidate]:
    """Pool chunks for many queries at once.

    Each retriever gives its best `depth` chunks for each technique's text; for each technique
    they are fused, and the best `top_k` are pooled.

    Args:
        index: The corpus.
        texts: For each query id, what each technique searches with.
        config: Techniques, retrievers, depth and top_k; the retrievers may be any of the index's.
        fusion: How the retrievers' rankings become one; by default by the sum of their
            normalised scores, as in the paper.

    Returns:
        The candidates, by query in the given order, then by chunk id.

    Raises:
        IndexingError: The index has no such retriever, or its rankings cannot be fused.
    """
    rankings: dict[str, Rankings] = {query_id: {} for query_id in texts}
    for technique in config.techniques:
        query_ids = [query_id for query_id in texts if technique in texts[query_id]]
        searches = [texts[query_id][technique] for query_id in query_ids]
        for retriever in config.retrievers:
            found = index.search(retriever, searches, config.depth, fusion=fusion)
            for query_id, ranking in zip(query_ids, found, strict=True):
                rankings[query_id].setdefault(technique, {})[retriever] = ranking
    return [
        candidate
        for query_id, of_query in rankings.items()
        for candidate in _candidates(query_id, of_query, config, fusion)
    ]


def _candidates(
    query_id: str, rankings: Rankings, config: PoolConfig, fusion: FusionConfig
) -> list[Candidate]:
    pooled_by: dict[str, list[TechniqueRank]] = {}
    for technique, by_retriever in rankings.items():
        fused = fuse(by_retriever, config.depth, fusion)
        for rank, (chunk_id, _) in enumerate(fused[: config.top_k], 1):
            by = TechniqueRank(technique=technique, rank=rank)
            pooled_by.setdefault(chunk_id, []).append(by)
    found_by: dict[str, list[Found]] = {chunk_id: [] for chunk_id in pooled_by}
    for technique, by_retriever in rankings.items():
        for retriever, ranking in by_retriever.items():
            for rank, (chunk_id, _) in enumerate(ranking, 1):
                if chunk_id in found_by:
                    found = Found(technique=technique, retriever=retriever, rank=rank)
                    found_by[chunk_id].append(found)
    return [
        Candidate(
            query_id=query_id,
            chunk_id=chunk_id,
            pooled_by=tuple(pooled_by[chunk_id]),
            found_by=tuple(found_by[chunk_id]),
        )
        for chunk_id in sorted(pooled_by)
    ]
