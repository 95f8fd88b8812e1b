"""The pairs of nugget and chunk that have no judgment yet, put together for the judge."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from freshstack_dspy.recipes.judging.judge_calls import ToJudge
from freshstack_dspy.records import Chunk, Nugget, Query


def unjudged(
    queries: Iterable[Query],
    nuggets: Mapping[str, Sequence[Nugget]],
    chunks: Mapping[str, Sequence[Chunk]],
    judged: AbstractSet[tuple[str, str]],
) -> list[ToJudge]:
    """List what is left to judge.

    Chunks of a query that lack the judgments of the same nuggets stand together.

    Args:
        queries: In the order in which they are judged.
        nuggets: By query id.
        chunks: By query id, those that every nugget of the query is to be judged against.
        judged: Nugget and chunk id of each pair that has a label.
    """
    left = []
    for query in queries:
        groups: dict[tuple[str, ...], list[Chunk]] = {}
        own = nuggets.get(query.query_id, ())
        for chunk in chunks.get(query.query_id, ()):
            missing = tuple(
                nugget.nugget_id
                for nugget in own
                if (nugget.nugget_id, chunk.chunk_id) not in judged
            )
            if missing:
                groups.setdefault(missing, []).append(chunk)
        for missing, lacking in groups.items():
            of_these = [nugget for nugget in own if nugget.nugget_id in missing]
            left.append(ToJudge(query, of_these, lacking))
    return left
