"""What of a collection is exported: the queries of some slices, and the corpus."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import SLICES
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Candidate, Chunk, Judgment, Nugget, Query, SliceName


class Selection:
    """The queries of some slices with all that belongs to them.

    Attributes:
        collection: Where they are from.
        slices: Which slices.
        whole_corpus: Whether the format holds every chunk, or only those pooled or judged.
        queries: Ascending by id; each has nuggets.
        nuggets: The nuggets of each query, by query id, in order.
        judgments: The judgments of each query, by query id, by nugget id, then chunk id.
    """

    def __init__(
        self,
        collection: Collection,
        slices: Sequence[SliceName] | None,
        *,
        whole_corpus: bool = True,
    ) -> None:
        """Select.

        Args:
            collection: Where from.
            slices: Which slices; None: those that the manifest names as evaluated.
            whole_corpus: Whether the format holds every chunk, or only those pooled or judged.

        Raises:
            CollectionError: A name is not that of a slice, or no query is in these slices.
        """
        chosen = collection.manifest.evaluated_slices if slices is None else slices
        self.collection = collection
        self.whole_corpus = whole_corpus
        self.slices = tuple(dict.fromkeys(chosen))
        ids = set(collection.query_ids(self.slices))
        if not ids:
            raise CollectionError(
                f"{collection.name}: no query to export in the slices {', '.join(self.slices)}; "
                f"{_with_queries(collection)}"
            )
        self.queries: list[Query] = [one for one in collection.queries if one.query_id in ids]
        self.nuggets: dict[str, list[Nugget]] = {query.query_id: [] for query in self.queries}
        for nugget in collection.nuggets:
            if nugget.query_id in ids:
                self.nuggets[nugget.query_id].append(nugget)
        self.judgments: dict[str, list[Judgment]] = {query.query_id: [] for query in self.queries}
        for judgment in collection.judgments:
            if judgment.query_id in ids:
                self.judgments[judgment.query_id].append(judgment)

    @cached_property
    def support(self) -> dict[str, dict[str, int]]:
        """Nugget id -> chunk id -> 1 where the label reaches the threshold of support, else 0."""
        return self.collection.qrels(self.slices).official().qrels_nuggets

    @cached_property
    def chunks_held(self) -> int:
        """How many chunks the export has: all, or those pooled or judged for its queries."""
        if self.whole_corpus:
            return len(self.collection.corpus.rows)
        judged = {one.chunk_id for each in self.judgments.values() for one in each}
        return len(judged.union(one.chunk_id for each in self.pool.values() for one in each))

    def chunks(self) -> Iterator[Chunk]:
        """Give the chunks of the corpus, by chunk id."""
        return self.collection.chunks()

    def labels(self, query_id: str) -> dict[str, dict[str, int | None]]:
        """Give what was judged for a query: chunk id -> nugget id -> label, or None if it failed."""
        labels: dict[str, dict[str, int | None]] = defaultdict(dict)
        for judgment in self.judgments[query_id]:
            labels[judgment.chunk_id][judgment.nugget_id] = judgment.label
        return {chunk_id: labels[chunk_id] for chunk_id in sorted(labels)}

    def grades(self, query_id: str) -> dict[str, int]:
        """Grade the judged chunks of a query: by how many of its nuggets each supports.

        A chunk that supports none is graded 0 only if no judgment of it failed: a failure is no 0.
        """
        threshold = self.collection.threshold
        grades = {}
        for chunk_id, labels in self.labels(query_id).items():
            grade = sum(label is not None and label >= threshold for label in labels.values())
            if grade or None not in labels.values():
                grades[chunk_id] = grade
        return grades

    @cached_property
    def pool(self) -> dict[str, list[Candidate]]:
        """The pool of each query, by query id, by chunk id."""
        pool: dict[str, list[Candidate]] = {query.query_id: [] for query in self.queries}
        for candidate in self.collection.pool:
            if candidate.query_id in pool:
                pool[candidate.query_id].append(candidate)
        return pool


def _with_queries(collection: Collection) -> str:
    """Say which slices have queries that can be exported, and how many."""
    counts = {name: len(collection.query_ids([name])) for name in SLICES}
    found = [f"{name} ({number:,})" for name, number in counts.items() if number]
    return f"slices with queries: {', '.join(found)}" if found else "no slice has any with nuggets"
