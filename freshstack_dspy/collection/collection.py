"""The judged collection: what users load, search, measure, look at and export."""

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Chunk, Scale, ScaleName
from freshstack_dspy.rows import row_files
from freshstack_dspy.stored.contents import Contents, NuggetsName, Slices
from freshstack_dspy.stored.folder import GRADED, StoredCollection
from freshstack_dspy.stored.manifest import CORPUS_FILE, NO_MODEL, Provenance

if TYPE_CHECKING:
    from freshstack_dspy.collection.analyze import Analysis
    from freshstack_dspy.collection.diff import Difference
    from freshstack_dspy.collection.explain import Explanation
    from freshstack_dspy.formats.format import Format
    from freshstack_dspy.measures.evaluation import Evaluation, QueryGroups
    from freshstack_dspy.measures.measure import MeasureSource
    from freshstack_dspy.measures.run import PassageRun, Run
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
            judgments: With `nugget_id`, `chunk_id` and `label`; a failed judgment has the label
                None.
            chunks: With `chunk_id` (or `id`) and `text`, perhaps with `title` and `url`; or as
                `freshstack_dspy.chunks` gives them. None: those judged, without their texts.
            name: What it is called.
            scale: The scale of the labels.

        Raises:
            SourceError: A row is not such a record.
            CollectionError: An id names nothing, or is there twice.
        """
        from freshstack_dspy.formats.imported import read_given

        return cls.holding(*read_given(queries, nuggets, judgments, chunks, name, scale))

    def save(self, path: Path | str) -> "Collection":
        """Write it to a new folder, and return the collection in that folder."""
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
        """Evaluate a run, as `freshstack_dspy.evaluate` does, whose arguments and errors are its own."""
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
    queries, by reason. If anything is at fault, the folder stays as it was.
    """
    from freshstack_dspy.stored.writing import write_folder

    path = Path(os.path.realpath(path))
    manifest = write_folder(path, contents, chunks, provenance, rejected or {})
    collection = Collection.holding(contents, manifest, ChunkFile(path / CORPUS_FILE))
    vars(collection)["_path"] = path
    return collection


def import_collection(  # noqa: PLR0913 - each is a setting of its own
    format: "Format | str",  # noqa: A002
    path: Path | str,
    out: Path | str,
    *,
    corpus: Path | str | Iterable[Chunk] | None = None,
    threshold: int | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_ids: Literal["error", "drop"] = "error",
    replace: bool = False,
) -> Collection:
    """Make a collection from one in another format; ids, texts and labels stay as they are.

    A failure there (a rating of -1, a negative grade, an assignment `failed`) becomes a judgment
    without a label. Nothing in the files is executed, and sizes are bounded.

    Args:
        format: The layout, or its name; `FORMATS.names()` lists them.
        path: Its folder or file; see docs/formats.md.
        out: The folder of the new collection, which also names it.
        corpus: Where the corpus is, if not in `path`; or its chunks. For `golden`, a folder of
            documents, a collection, or a file of rows.
        threshold: The lowest label that counts as support; by default 1 for BEIR, and that of
            the scale for the others.
        split: For BEIR: which qrels, if there are several.
        columns: For `golden`: which column holds a part (`question`, `answer`, `texts`, `ids`,
            `files`, `grade`, `query_id`), where its name does not say so; empty: none does.
        unknown_ids: Whether judgments of a query or document that does not exist are an error, or
            are dropped and listed in `skipped.jsonl`.
        replace: Whether a collection at `out` is replaced.

    Raises:
        SourceError: The data cannot be read, or something is missing.
        ConfigError: There is no such format, or it is not read.
        CollectionError: `out` exists or cannot be written.
    """
    from freshstack_dspy.formats import FORMATS
    from freshstack_dspy.formats.format import read_layout
    from freshstack_dspy.formats.imported import contents_of, name_of

    path, out = Path(path), Path(out)
    layout: Format = FORMATS.get(format)
    if out.exists() and not replace:
        raise CollectionError(f"{out} exists; name another folder, or replace it")
    imported = read_layout(
        layout, path, corpus=corpus, threshold=threshold, split=split, columns=columns
    )
    chunks, missing = imported.with_existing_chunks(drop=unknown_ids == "drop")
    contents = contents_of(
        imported.queries.values(),
        imported.nuggets.values(),
        imported.judgments,
        imported.scale,
        imported.pool,
        failures=tuple(imported.failures),
        skipped=tuple(missing),
        licences=imported.licences,
        notes=tuple(imported.notes),
    )
    settings: dict[str, Any] = {
        "format": layout.name,
        "files": dict(_hashes(imported.files, path)),
        "unknown_ids": unknown_ids,
        "split": split,
    }
    if imported.export is not None:
        settings["export"] = imported.export.origin()
    origin = imported.export.recipe if imported.export else ""
    provenance = Provenance(
        name=name_of(out),
        recipe=origin if origin in GRADED else f"import:{layout.name}",  # grades stay grades
        model=NO_MODEL,
        scale=imported.scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
        config={"import": settings},
    )
    return write_collection(out, contents, chunks, provenance, rejected=imported.rejected)


def _hashes(read: Iterable[Path], root: Path) -> Iterator[tuple[str, str]]:
    """Hash the files that were read, each by its path below the root or its name alone."""
    from freshstack_dspy.stored.writing import file_sha256

    for file in sorted(file for path in read for file in row_files(path)):
        inside = root.is_dir() and file.is_relative_to(root)
        yield file.relative_to(root).as_posix() if inside else file.name, file_sha256(file)
