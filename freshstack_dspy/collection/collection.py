"""The judged collection: what users load, search, measure, look at and export."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Chunk, Scale, ScaleName
from freshstack_dspy.stored.contents import Contents, NuggetsName
from freshstack_dspy.stored.corpus import CORPUS_FILE
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import Provenance
from freshstack_dspy.stored.slices import Slices

if TYPE_CHECKING:
    from freshstack_dspy.collection.analysis import Analysis
    from freshstack_dspy.collection.diff import Difference
    from freshstack_dspy.collection.explain import Explanation
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.measure import MeasureSource
    from freshstack_dspy.measures.run import PassageRun, Run
    from freshstack_dspy.measures.values import QueryGroups
    from freshstack_dspy.stored.diagnose import Diagnosis


class Collection(StoredCollection, Shown):
    """A judged collection: its records, its manifest and its chunks, and what is done with them."""

    @classmethod
    def of(
        cls,
        *,
        queries: Any,
        nuggets: Any,
        judgments: Any,
        chunks: Any = None,
        name: str = "collection",
        scale: Scale | ScaleName = "support",
    ) -> Self:
        """Make a collection of records, rows or data frames; `save` writes it to a folder.

        Each is a list of records or of dictionaries, or a data frame (pandas, Polars, Arrow).

        Args:
            queries: With `query_id`, and `title` or `body`; perhaps with `answer`, `tags` and the
                like. Other columns group queries.
            nuggets: With `nugget_id`, `query_id` and `text`.
            judgments: With `nugget_id`, `chunk_id` and `label`; None is the label of one that
                failed.
            chunks: With `chunk_id` (or `id`) and `text`, perhaps with `title` and `url`; or as
                `freshstack_dspy.chunks` gives them. None: those judged, without their texts.
            name: What it is called.
            scale: On which the labels are.

        Raises:
            SourceError: A row is not such a record.
            CollectionError: An id names nothing, or is there twice.
        """
        from freshstack_dspy.formats.imported import read_given

        return cls.holding(*read_given(queries, nuggets, judgments, chunks, name, scale))

    def save(self, path: Path | str) -> "Collection":
        """Write it to a folder that is not there yet, and give it as it is there."""
        if Path(path).exists():
            raise CollectionError(f"{path} exists; name another folder")
        counts = self.manifest.counts
        return write_collection(path, self, self.corpus, self.manifest, rejected=counts.rejected)

    def _repr_html_(self) -> str:
        return html_fragment(self.page(authors=False))

    def groups(self, by: str, *, at: str | None = None) -> "QueryGroups":
        """Group the queries, of all slices; the arguments and errors are those of `query_groups`."""
        from freshstack_dspy.collection.grouping import query_groups

        return query_groups(self, by, at=at)

    @overload
    def retrieve(self, retriever: str = "hybrid", **options: Any) -> "Run": ...
    @overload
    def retrieve(self, retriever: object, **options: Any) -> "Run | PassageRun": ...
    def retrieve(self, retriever: object = "hybrid", **options: Any) -> "Run | PassageRun":
        """Search the corpus for the questions, as `freshstack_dspy.retrieve` does."""
        from freshstack_dspy.collection.retrieve import retrieve

        return retrieve(self, retriever, **options)

    def evaluate(
        self,
        run: Any,
        *measures: "MeasureSource",
        slices: Slices = None,
        nuggets: NuggetsName = "supported",
        **options: Any,
    ) -> "Evaluation":
        """Evaluate a run, as `freshstack_dspy.evaluate` does.

        Args:
            run: A run, the path of a run file, `{query_id: {chunk_id: score}}`, or a retriever as
                `freshstack_dspy.retrieve` takes it.
            *measures: As `alpha_nDCG@10`, an object of ir_measures, or a function; none: those of
                the FreshStack paper.
            slices: As in `query_ids`.
            nuggets: As in `qrels`.
            **options: As `conventions`.

        Raises:
            CollectionError: No query is in these slices, or the run is of another collection.
            ConfigError: A measure is unknown.
        """
        from freshstack_dspy.collection.evaluating import evaluate

        if measures:
            options["measures"] = measures
        return evaluate(self, run, slices=slices, nuggets=nuggets, **options)

    def analyze(self, run: Any, against: Any = None, **options: Any) -> "Analysis":
        """Say on which queries a run does worst, and why, as `freshstack_dspy.analyze` does."""
        from freshstack_dspy.collection.analyze import analyze

        return analyze(self, run, against, **options)

    def diagnose(self, slices: Slices = None) -> "Diagnosis":
        """Say what found what for the pool, and what it may lack, as `freshstack_dspy.diagnose`."""
        from freshstack_dspy.stored.diagnose import diagnose

        return diagnose(self, slices)

    def explain(self, query_id: str, chunk_id: str, **options: Any) -> "Explanation":
        """Say what found a chunk for a query, and who judged it, as `freshstack_dspy.explain`."""
        from freshstack_dspy.collection.explain import explain

        return explain(self, query_id, chunk_id, **options)

    def diff(self, after: "Collection | Path | str") -> "Difference":
        """Say which queries, nuggets, labels and evidence differ in another, or in a later state."""
        from freshstack_dspy.collection.diff import difference

        other = Collection.load(after)
        return difference(self, other, self.corpus, other.corpus)

    def export(
        self,
        format: str,  # noqa: A002
        out: Path | str,
        slices: Slices = None,
        nuggets: NuggetsName = "supported",
    ) -> None:
        """Write the layout of another tool, as `freshstack_dspy.export_collection` does."""
        from freshstack_dspy.formats.format import export_collection

        export_collection(self, format, out, slices=slices, nuggets=nuggets)


def write_collection(
    path: Path | str,
    contents: Contents,
    chunks: Iterable[Chunk],
    provenance: Provenance,
    *,
    rejected: Mapping[str, int] | None = None,
) -> Collection:
    """Write a collection, in place of an older one or where there is nothing.

    Chunks may be in any order. `rejected` says how many questions of the source did not become
    queries, by reason. What was in the folder is left as it is where something is at fault.
    """
    from freshstack_dspy.stored.writing import write_folder

    path = Path(os.path.realpath(path))
    manifest = write_folder(path, contents, chunks, provenance, rejected or {})
    collection = Collection.holding(contents, manifest, ChunkFile(path / CORPUS_FILE))
    vars(collection)["_path"] = path
    return collection
