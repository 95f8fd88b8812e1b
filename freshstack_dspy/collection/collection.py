"""The judged collection: what users load, search, measure, look at and export."""

import difflib
import hashlib
import os
import reprlib
from bisect import bisect
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, overload

from freshstack_dspy.collection.contents import RECORD_FILES, Contents, NuggetsName
from freshstack_dspy.collection.manifest import Manifest, is_dry_run, makers, read_manifest
from freshstack_dspy.collection.slices import Slices, check_any, left_out, slices_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import canonical_line, existing_folder
from freshstack_dspy.records import Chunk, Scale, ScaleName

if TYPE_CHECKING:
    import pyarrow as pa

    from freshstack_dspy.collection.diagnose import Diagnosis
    from freshstack_dspy.collection.explain import Explanation
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.measure import MeasureSource
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.run import PassageRun, Run

CORPUS_FILE = "corpus.parquet"
_ROWS = 4096
"""Rows in a row group, and rows read at a time."""
GRADED = ("import:beir", "import:mteb")
"""Recipes whose labels are grades for the query, which has no nuggets."""
_JUDGED_CHUNKS_ONLY = ("import:nuggetizer", "import:crux", "import:judgments")
"""Recipes whose corpus is not all that runs were made on."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Collection(Contents):
    """A judged collection: its records, its manifest and its chunks.

    Two collections are equal when their records and manifests are.

    Attributes:
        manifest: What it is, how it was made, and the hashes of its files.
        corpus: The chunks; read from disk when first needed.
    """

    manifest: Manifest
    corpus: "Corpus" = field(compare=False)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read the collection in a folder; its chunks are read when first needed.

        Raises:
            CollectionError: In one line, where a file is missing or no such file, or where the
                collection is of another schema version.
        """
        try:
            folder = existing_folder(Path(os.path.realpath(path)))
        except (OSError, ValueError) as error:  # too long, or no name at all
            raise CollectionError(f"{reprlib.repr(str(path))} cannot be read: {error}") from None
        manifest = read_manifest(folder)
        records: dict[str, Any] = {file.name: file.read(folder) for file in RECORD_FILES}
        return cls(
            **records,
            threshold=manifest.scale.threshold,
            manifest=manifest,
            corpus=Corpus(folder / CORPUS_FILE),
        )

    @classmethod
    def unread(cls, folder: Path, manifest: Manifest) -> Self:
        """Give the collection in a folder; each file of records is read when first needed."""
        collection = object.__new__(cls)
        vars(collection).update(
            threshold=manifest.scale.threshold,
            manifest=manifest,
            corpus=Corpus(folder / CORPUS_FILE),
            _unread=folder,
        )
        return collection

    if not TYPE_CHECKING:  # for a type checker, any name at all would now be an attribute

        def __getattr__(self, name: str) -> Any:
            """Read a file of records of an unread collection."""
            file = next((file for file in RECORD_FILES if file.name == name), None)
            if file is None or "_unread" not in vars(self):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if read_manifest(self._unread) != self.manifest:
                raise CollectionError(f"{self._unread}: another collection by now; load that")
            records = vars(self)[name] = file.sort(file.read(self._unread))
            return records

    @staticmethod
    def of(
        *,
        queries: Any,
        nuggets: Any,
        judgments: Any,
        chunks: Any = None,
        name: str = "collection",
        scale: Scale | ScaleName = "support",
    ) -> "Collection":
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
        from freshstack_dspy.formats.given import collection_of

        return collection_of(queries, nuggets, judgments, chunks, name, scale)

    def save(self, path: Path | str) -> "Collection":
        """Write it to a folder that is not there yet, and give it as it is there."""
        from freshstack_dspy.collection.writing import write_collection

        if Path(path).exists():
            raise CollectionError(f"{path} exists; name another folder")
        counts = self.manifest.counts
        return write_collection(path, self, self.chunks(), self.manifest, rejected=counts.rejected)

    def __hash__(self) -> int:
        """Equal collections have one hash, that of their content."""
        return hash(self.manifest.content_hash)

    def __repr__(self) -> str:
        """Say in one line what it is and how large."""
        counts, by = self.manifest.counts, " and ".join(makers(self.manifest))
        return (
            f"<Collection {self.name}: {counts.queries:,} queries, {counts.nuggets:,} nuggets, "
            f"{counts.chunks:,} chunks, {counts.judgments:,} judgments{f' by {by}' if by else ''}>"
        )

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.manifest.name

    @property
    def recipe(self) -> str:
        """The recipe that built it."""
        return self.manifest.recipe

    @property
    def plain(self) -> bool:
        """Whether its labels are grades for the query, of qrels without nuggets."""
        return self.recipe in GRADED

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks of the corpus, by chunk_id."""
        return iter(self.corpus)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk of the corpus.

        Raises:
            CollectionError: There is no such chunk, or the corpus cannot be read.
        """
        return self.corpus.chunk(chunk_id)

    def query_ids(self, slices: Slices = None) -> tuple[str, ...]:
        """List the queries with nuggets in some slices, ascending.

        Args:
            slices: A name (`supported`, `all`, or a slice's) or several slices; None: `supported`,
                the queries with at least one supported nugget.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        return self.queries_in(slices_of(slices))

    def left_out(self, slices: Slices = None, nuggets: NuggetsName = "supported") -> str:
        """Say in one line what measures on these slices leave out; empty where nothing."""
        return left_out(self, slices, nuggets)

    def qrels(self, slices: Slices = None, nuggets: NuggetsName = "supported") -> "NuggetQrels":
        """Give the judgments of these queries as the measures read them.

        The lengths of chunks are read only if a measure asks for one.

        Args:
            slices: As in `query_ids`; `answerable` is the filter of the FreshStack paper.
            nuggets: On which of its nuggets a query is measured: those that the corpus supports, or
                all. A query without a supported one is measured on all.

        Raises:
            CollectionError: A name is not that of a slice, or no query is in these slices.
        """
        check_any(self, slices)
        from freshstack_dspy.collection.passages import CollectionSpans

        qrels = self.qrels_of(slices_of(slices), ChunkLengths(self.corpus), nuggets)
        qrels = replace(
            qrels,
            spans=CollectionSpans(self),
            plain=self.plain,
            dry_run=is_dry_run(self.manifest),
            questions={query.query_id: query.text for query in self.queries},
        )
        if self.manifest.recipe in _JUDGED_CHUNKS_ONLY:
            return qrels
        return replace(qrels, chunk_ids=self.corpus.rows)

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
        from freshstack_dspy.collection.evaluating import runs_of
        from freshstack_dspy.measures.evaluation import evaluate

        if measures:
            options["measures"] = measures
        return evaluate(self.qrels(slices, nuggets), runs_of(self, run), **options)

    def diagnose(self, slices: Slices = None) -> "Diagnosis":
        """Say what found what for the pool, and what it may lack, as `freshstack_dspy.diagnose`."""
        from freshstack_dspy.collection.diagnose import diagnose

        return diagnose(self, slices)

    def explain(self, query_id: str, chunk_id: str, **options: Any) -> "Explanation":
        """Say what found a chunk for a query, and who judged it, as `freshstack_dspy.explain`."""
        from freshstack_dspy.collection.explain import explain

        return explain(self, query_id, chunk_id, **options)

    def export(
        self,
        format: str,  # noqa: A002
        out: Path | str,
        slices: Slices = None,
        nuggets: NuggetsName = "supported",
    ) -> None:
        """Write the layout of another tool, as `freshstack_dspy.export_collection` does."""
        from freshstack_dspy.formats.exports import export_collection

        export_collection(self, format, out, slices=slices, nuggets=nuggets)


def as_collection(given: Collection | Path | str) -> Collection:
    """Give a collection, or load the one in a folder."""
    return given if isinstance(given, Collection) else Collection.load(given)


# The corpus


def corpus_schema() -> "pa.Schema":
    """Give the Arrow schema of the corpus: the fields of `Chunk`, in their order."""
    import pyarrow as pa

    integers = dict.fromkeys(("start_byte", "end_byte", "tokens"), pa.int64())
    types: dict[str, Any] = {**integers, "headings": pa.list_(pa.string())}
    fields = [
        pa.field(name, types.get(name, pa.string()), nullable=name in ("revision", "url"))
        for name in Chunk.model_fields
    ]
    return pa.schema(fields)


def sorted_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Put chunks into the order of the corpus: by chunk_id, by code point."""
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    for one, other in pairwise(ordered):
        if one.chunk_id == other.chunk_id:
            raise CollectionError(f"{CORPUS_FILE}: chunk {one.chunk_id!r} is there twice")
    return ordered


def corpus_sha256(chunks: Iterable[Chunk]) -> str:
    """Hash chunks as the JSON Lines they would be: Parquet's bytes depend on who writes them."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(canonical_line(chunk).encode("utf-8"))
    return digest.hexdigest()


def write_rows(file: Path | BinaryIO, schema: "pa.Schema", rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of plain values as Parquet, the same rows always to the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


class Corpus:
    """The chunks of a collection on disk: ids are read first and alone, texts when asked for.

    Its methods raise a `CollectionError` where the file is missing or is no such Parquet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: pa.Table | None = None

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Self:
        """Hold chunks in memory."""
        import pyarrow as pa

        corpus = cls(Path(CORPUS_FILE))
        rows = [chunk.model_dump() for chunk in chunks]
        corpus._held = pa.Table.from_pylist(rows, schema=corpus_schema())
        return corpus

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of every chunk id, in the order of the file."""
        ids = self._read(["chunk_id"])["chunk_id"].to_pylist()
        return {chunk_id: row for row, chunk_id in enumerate(ids)}

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The length in tokens of every chunk that has a text; of others it is not known."""
        columns = self._read(["chunk_id", "text", "tokens"])
        return {row["chunk_id"]: row["tokens"] for row in columns.to_pylist() if row["text"]}

    def __iter__(self) -> Iterator[Chunk]:
        """Give all chunks, by chunk_id."""
        for batch in self._table.to_batches(_ROWS):
            yield from map(Chunk.model_validate, batch.to_pylist())

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk."""
        row = self.rows.get(chunk_id)
        if row is None:
            raise CollectionError(f"{self._path}: there is no chunk {chunk_id!r}")
        return Chunk.model_validate(self._table.slice(row, 1).to_pylist()[0])

    @cached_property
    def _table(self) -> "pa.Table":
        return self._read()

    def _read(self, columns: Sequence[str] | None = None) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._held is not None:
            return self._held if columns is None else self._held.select(columns)
        try:
            return pq.ParquetFile(self._path).read(columns=columns)
        except FileNotFoundError:
            raise CollectionError(f"{self._path}: the file is missing") from None
        except (pa.ArrowException, OSError) as error:
            fault = " ".join(str(error).split())
            raise CollectionError(f"{self._path}: cannot be read as Parquet: {fault}") from None


class ChunkLengths(Mapping[str, int]):
    """The lengths of a corpus' chunks in tokens; few measures need them, so they are read late."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        return self._corpus.lengths[chunk_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.lengths)

    def __len__(self) -> int:
        return len(self._corpus.lengths)

    def __repr__(self) -> str:
        """Say what it is and read nothing: the qrels that hold it are printed."""
        return "ChunkLengths(...)"


# Ids that are nearly right

_COMPARED = 100
"""How many ids, before and after the wrong one, are compared: of a corpus, all would take long."""


def named_nearest(wrong: str, ids: Ids[str], elsewhere: str) -> str:
    """Say which ids are the nearest to a wrong one, or where they are listed if none is like it."""
    ordered = sorted(ids)
    place = bisect(ordered, wrong)
    around = ordered[max(0, place - _COMPARED) : place + _COMPARED]
    holding = [each for each in ordered if wrong in each][:3]
    if near := holding or difflib.get_close_matches(wrong, around):
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(map(repr, near))}"
    return f"none is like it; {elsewhere} lists them"
