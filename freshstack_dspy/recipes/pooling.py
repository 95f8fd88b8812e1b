"""Pooling: which chunks of the corpus are judged for each query (FreshStack §3.4)."""

from collections.abc import Mapping, Sequence

from freshstack_dspy.config import PoolConfig
from freshstack_dspy.index import HybridIndex, fuse_normalised_sum
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

Rankings = Mapping[str, Sequence[ScoredChunk]]


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
    index: HybridIndex, texts: Mapping[str, Mapping[Technique, str]], config: PoolConfig
) -> list[Candidate]:
    """Pool chunks for many queries at once.

    Each retriever gives its best `depth` chunks for each technique's text; for each technique
    they are fused by the sum of their normalised scores, and the best `top_k` are pooled.

    Args:
        index: The corpus.
        texts: For each query id, what each technique searches with.
        config: Techniques, retrievers, depth and top_k.

    Returns:
        The candidates, by query in the given order, then by chunk id.
    """
    pooled_by: dict[tuple[str, str], list[TechniqueRank]] = {}
    found_by: dict[tuple[str, str], list[Found]] = {}
    for technique in config.techniques:
        query_ids = [query_id for query_id in texts if technique in texts[query_id]]
        searches = [texts[query_id][technique] for query_id in query_ids]
        rankings = {
            retriever: index.search(retriever, searches, config.depth)
            for retriever in config.retrievers
        }
        for position, query_id in enumerate(query_ids):
            lists = {name: rankings[name][position] for name in config.retrievers}
            fused = fuse_normalised_sum(list(lists.values()), config.depth)
            for rank, entry in enumerate(fused[: config.top_k], 1):
                ranks = pooled_by.setdefault((query_id, entry.chunk_id), [])
                ranks.append(TechniqueRank(technique=technique, rank=rank))
            for retriever, ranking in lists.items():
                for rank, entry in enumerate(ranking, 1):
                    finds = found_by.setdefault((query_id, entry.chunk_id), [])
                    finds.append(Found(technique=technique, retriever=retriever, rank=rank))
    order = {query_id: number for number, query_id in enumerate(texts)}
    return [
        Candidate(
            query_id=query_id,
            chunk_id=chunk_id,
            pooled_by=tuple(pooled_by[query_id, chunk_id]),
            found_by=tuple(found_by[query_id, chunk_id]),
        )
        for query_id, chunk_id in sorted(pooled_by, key=lambda pair: (order[pair[0]], pair[1]))
    ]
