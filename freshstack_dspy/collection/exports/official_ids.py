"""Ids that survive the official FreshStack loader, which takes nugget ids apart."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from freshstack_dspy.collection.exports.words import Names


def official_ids(nuggets: Mapping[str, Sequence[str]]) -> Names:
    """Choose ids for an export: ours where the official loader reads all of them rightly.

    Where it would not, for a single one, queries are numbered in equal width (no number begins
    with another) and nuggets are called `{query}_{position}`, as in the official data.

    Args:
        nuggets: The nugget ids of each query, in order.
    """
    if _survive(nuggets):
        return Names(
            queries={query: query for query in nuggets},
            chunks={},
            nuggets={nugget: nugget for ids in nuggets.values() for nugget in ids},
        )
    width = len(str(len(nuggets) - 1))
    queries = {query: f"{number:0{width}}" for number, query in enumerate(sorted(nuggets))}
    return Names(
        queries=queries,
        chunks={},
        nuggets={
            nugget: f"{queries[query]}_{position}"
            for query, ids in nuggets.items()
            for position, nugget in enumerate(ids)
        },
    )


def _survive(nuggets: Mapping[str, Sequence[str]]) -> bool:
    # Whatever begins with an id is sorted right behind it.
    prefix_free = not any(two.startswith(one) for one, two in pairwise(sorted(nuggets)))
    return prefix_free and all(
        "_" not in query and all(nugget.startswith(f"{query}_") for nugget in ids)
        for query, ids in nuggets.items()
    )
