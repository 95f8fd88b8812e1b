"""Run a retriever over a collection's corpus with its questions."""

from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.index import HybridIndex
from freshstack_dspy.measures import Run
from freshstack_dspy.records import SliceName


def retrieve(
    collection: Collection,
    retriever: str,
    *,
    depth: int = 100,
    index_path: Path = Path(".freshstack/index"),
    slices: Sequence[SliceName] | None = None,
) -> Run:
    """Retrieve for the questions of a collection.

    Args:
        collection: The collection.
        retriever: `bm25`, `lsa` or `hybrid`.
        depth: How many chunks for each question.
        index_path: Where indexes are kept; one of the same corpus is opened, not built again.
        slices: As in `Collection.query_ids`.

    Raises:
        IndexingError: The retriever is unknown, or the corpus cannot be indexed.
        CollectionError: No query is in these slices.
    """
    wanted = set(collection.query_ids(slices))
    if not wanted:
        raise CollectionError(
            f"{collection.name}: no query is in the slices "
            f"{', '.join(slices or collection.manifest.evaluated_slices)}; build it with "
            '[filters] unsupported_nuggets = "keep" to take in partly supported ones'
        )
    index = HybridIndex.build_or_open(index_path, list(collection.chunks()))
    queries = [query for query in collection.queries if query.query_id in wanted]
    rankings = index.search(retriever, [query.text for query in queries], depth)
    return Run(
        name=retriever,
        rankings={
            query.query_id: tuple(ranking) for query, ranking in zip(queries, rankings, strict=True)
        },
    )
