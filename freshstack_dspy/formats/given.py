"""A collection of what is in memory: records, rows or data frames."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, TypeVar

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.imported import (
    DOCUMENT_IDS,
    DOCUMENT_TEXTS,
    NO_TEXT,
    chunk_of,
    contents_of,
    missing_file,
    validated,
)
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.records import (
    SCALES,
    Chunk,
    Judgment,
    Nugget,
    Record,
    Scale,
    ScaleName,
)
from freshstack_dspy.rows import Row, given_rows, rows_of
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import NO_MODEL, Manifest, Provenance
from freshstack_dspy.stored.writing import manifest_of

R = TypeVar("R", bound=Record)
_OF_A_CHUNK = [name for name, field in Chunk.model_fields.items() if field.is_required()]


def read_given(
    queries: Any,
    nuggets: Any,
    judgments: Any,
    chunks: Any = None,
    name: str = "collection",
    scale: Scale | ScaleName = "support",
) -> tuple[Contents, Manifest, ChunkFile]:
    """Read what a collection is made of; for the arguments and errors see `Collection.of`."""
    if not isinstance(scale, Scale):
        scale = Scale(name=scale, threshold=SCALES[scale].threshold)
    reading = read_queries(QueriesConfig(rows=_rows(queries, "queries")), answered=False)
    cut = [_nugget(row) for row in _named(nuggets, "nuggets")]
    owners = {nugget.nugget_id: nugget.query_id for nugget in cut}
    judged = [_judgment(row, owners) for row in _named(judgments, "judgments")]
    if chunks is None:
        ids = {judgment.chunk_id for judgment in judged}
        known = ChunkFile.holding(chunk_of(None, id_, name, "") for id_ in ids)
    else:
        known = ChunkFile.holding(_chunk(row, name) for row in _named(chunks, "chunks"))
    contents = contents_of(
        reading.queries,
        cut,
        judged,
        scale,
        skipped=tuple(
            missing_file(chunk.source, chunk.chunk_id, NO_TEXT)
            for chunk in known
            if not chunk.titled.strip()
        ),
    )
    provenance = Provenance(
        name=name,
        recipe="import:judgments" if chunks is None else "import:rows",
        model=NO_MODEL,
        scale=scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
    )
    manifest = manifest_of(contents, known, provenance, reading.rejected)
    return contents, manifest, known


def _rows(given: Any, name: str) -> Any:
    try:
        return rows_of(given)
    except ValueError as error:
        raise SourceError(f"{name} {error}") from None


def _named(given: Any, name: str) -> Iterator[Row]:
    return given_rows(_rows(given, name), name)


def _nugget(row: Row) -> Nugget:
    return _record(Nugget, row, query_id=row.id("query_id"), nugget_id=row.id("nugget_id"))


def _judgment(row: Row, owners: dict[str, str]) -> Judgment:
    nugget_id = row.id("nugget_id")
    own = owners.get(nugget_id) if row.values.get("query_id") is None else row.id("query_id")
    if own is None:
        raise row.fault("nugget_id", "that of one of the nuggets")
    failed = row.values.get("label") is None
    made = {"status": "failed" if failed else "ok", "reason": "", "label": None}
    ids = {"query_id": own, "nugget_id": nugget_id, "chunk_id": row.id("chunk_id")}
    return _record(Judgment, row, made, **ids)


def _chunk(row: Row, source: str) -> Chunk:
    if row.has(*_OF_A_CHUNK):
        return _record(Chunk, row)
    fields = {"title": row.text("title", default=""), "url": row.optional("url")}
    text = row.text(*DOCUMENT_TEXTS)
    return chunk_of(row, row.id(*DOCUMENT_IDS, "path"), source, text, **fields)


def _record(record: type[R], row: Row, made: Any = None, **ids: str) -> R:
    """Make a record of a row, whose empty cells are as the record has them by default."""
    given = {name: value for name, value in row.values.items() if value is not None}
    call = {"call_id": None} if "call_id" in record.model_fields else {}
    return validated(record, row, **{**call, **(made or {}), **given, **ids})
