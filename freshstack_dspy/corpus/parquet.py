"""Chunks as Parquet, in the order of their ids: sorted on disk, written as a stream, read in parts.

Ids are ordered by code point, as Python and the bytes of UTF-8 order them.
"""

import hashlib
import os
import shutil
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, Self, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import LARGEST_BATCH, parquet_batches
from freshstack_dspy.lm.workers import packed
from freshstack_dspy.records import Chunk, Record, shown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS = 1024
"""Rows in a row group, and rows read at a time."""
RUN_BYTES = 64 << 20
"""Bytes of rows that are sorted in memory at a time."""
_ROWS_OF_RUN = 256
"""Rows of each sorted run that are in memory while the runs are merged."""
_GROUPS_KEPT = 16
"""Row groups that stay in memory for who asks for one chunk after the other."""


def chunk_schema() -> "pa.Schema":
    """Give the Arrow schema of chunks: the fields of `Chunk`, in their order."""
    import pyarrow as pa

    integers = dict.fromkeys(("start_byte", "end_byte", "tokens"), pa.int64())
    types: dict[str, Any] = {**integers, "headings": pa.list_(pa.string())}
    fields = [
        pa.field(
            name, types.get(name, pa.string()), nullable=name in ("revision", "url", "language")
        )
        for name in Chunk.model_fields
    ]
    return pa.schema(fields)


def batches_of(chunks: Iterable[Chunk]) -> Iterator["pa.RecordBatch"]:
    """Give chunks as batches, in the given order."""
    import pyarrow as pa

    schema, left = chunk_schema(), iter(chunks)
    while batch := [*islice(left, ROWS)]:
        columns = (_array(field.type, map(attrgetter(field.name), batch)) for field in schema)
        yield pa.RecordBatch.from_arrays([*columns], schema=schema)


def chunks_in(batch: "pa.RecordBatch | pa.Table") -> Iterator[Chunk]:
    """Give the rows of a batch as chunks; other columns are left out."""
    names = [name for name in Chunk.model_fields if name in batch.schema.names]
    return map(Chunk.model_validate, batch.select(names).to_pylist())


class ChunkSums(NamedTuple):
    """What is known of all chunks of a file once they are written."""

    chunks: int
    tokens: int
    revisions: dict[str, str | None]
    """By source."""
    sha256: str
    """The hash of the same chunks as JSON Lines: Parquet's bytes depend on who writes them."""
    searched: str
    """The hash of ids, headings, passages and languages."""


def write_chunks(file: Path | BinaryIO, tables: Iterable["pa.Table"]) -> ChunkSums:
    """Write sorted chunks as Parquet, the same chunks always to the same bytes.

    Raises:
        CollectionError: Two chunks have one id.
    """
    import pyarrow.parquet as pq

    schema = chunk_schema()

    def written() -> Iterator["pa.Table"]:
        for table in _regrouped(tables, ROWS):
            yield table
            writer.write_table(table.select(schema.names).cast(schema))

    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        return _sums(written())


def _sums(batches: "Iterable[pa.Table | pa.RecordBatch]") -> ChunkSums:
    """Add chunks up, in their order."""
    lines, searched = hashlib.sha256(), hashlib.sha256()
    chunks = tokens = 0
    revisions: dict[str, str | None] = {}
    before: str | None = None
    for batch in chain.from_iterable(map(_record_batches, batches)):
        try:
            texts = json_of_fields(Chunk, batch)
        except ValidationError:
            list(chunks_in(batch))  # says of which field
            raise
        for part in objects(texts, "}\n"):
            lines.update(part)
        fields = "chunk_id", "headings", "title", "text", "language", "source", "revision", "tokens"
        columns = (batch[name].to_pylist() for name in fields)
        for id_, headings, title, text, language, source, revision, length in zip(
            *columns, strict=True
        ):
            if id_ == before:
                raise CollectionError(f"chunk {before!r} is there twice")
            before = id_
            words = [id_, *headings, shown(title, text), *([language] if language else []), ""]
            searched.update("\0".join(words).encode())
            revisions[source] = revision
            tokens += length
        chunks += len(batch)
    return ChunkSums(chunks, tokens, revisions, lines.hexdigest(), searched.hexdigest())


def _record_batches(rows: "pa.Table | pa.RecordBatch") -> "Sequence[pa.RecordBatch]":
    import pyarrow as pa

    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    return [_with_language(batch) for batch in batches]


# Records by columns


Texts = dict[str, tuple["pa.StringArray", "pa.Array | None"]]
"""By field, texts and which of them each record has; None: each its own, or all the same one."""


def json_of_fields(record: type[Record], batch: "pa.RecordBatch") -> Texts:
    """Give each field of the records in a batch as their lines have it; null where it is left out.

    Raises:
        ValidationError: A value is not what its field allows; what must agree between the fields of
            a record is not looked at.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts: Texts = {}
    for name, field in record.model_fields.items():
        if name not in batch.schema.names:
            continue
        column: Any = batch.column(name)
        kind: Any = field.annotation
        if is_empty(column):
            texts[name] = _texts([f'"{name}":[]']), None
            continue
        codes = None
        if pa.types.is_nested(column.type):
            values = nested_values(kind, column)
        else:  # a text that many rows have is checked and written once
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            values, codes = column.dictionary.to_pylist(), column.indices
            if column.null_count:
                codes = pc.call_function("coalesce", [codes, integers([len(values)])[0]])
                values.append(None)
        values = checked_values(Annotated[kind, None, *field.metadata], values)
        written = _texts(
            None
            if field.exclude_if is not None and field.exclude_if(value)
            else f'"{name}":{"[]" if value == () else to_json(value, inf_nan_mode="null").decode()}'
            for value in values
        )
        texts[name] = written, codes
    return texts


def objects(texts: Texts, end: str) -> "Iterator[pa.Buffer]":
    """Give the JSON objects of records, of the texts of their fields; each has this end."""
    import pyarrow.compute as pc

    def joined(*columns: Any) -> Any:
        options = pc.JoinOptions(null_handling="skip")
        return pc.call_function("binary_join_element_wise", [*columns], options)

    begin, close, comma, nothing = _texts(["{", end, ",", ""])
    lengths = (pc.call_function("binary_length", [values]) for values, _ in texts.values())
    longest = sum(max(filter(None, each.to_pylist()), default=0) for each in lengths)
    rows = max(1, LARGEST_BATCH // longest)  # a text that many records have is there for each
    total = max(len(codes) for _, codes in texts.values() if codes is not None)
    for first in range(0, total, rows):
        columns: list[Any] = [
            values.take(codes.slice(first, rows))
            if codes is not None
            else values[0]
            if len(values) == 1
            else values.slice(first, rows)
            for values, codes in texts.values()
        ]
        yield joined(begin, joined(*columns, comma), close, nothing).buffers()[2]


def _texts(values: Iterable[str | None]) -> "pa.StringArray":
    """Make an Arrow array: `pyarrow.array` and `scalar` would import pandas."""
    from pyarrow.lib import StringBuilder

    builder = StringBuilder()
    for value in values:
        builder.append(value)
    return builder.finish()


def is_empty(column: Any) -> bool:
    """Whether a column has lists, and nothing in any of them."""
    import pyarrow as pa

    is_list = pa.types.is_list(column.type) and not column.null_count
    return is_list and not len(column.flatten())


def nested_values(kind: Any, column: Any) -> list[Any]:
    """Give a column of lists or structs as records have it.

    Raises:
        ValidationError: A value is not of this kind.
    """
    import pyarrow as pa

    if is_empty(column):
        return [()] * len(column)
    if not pa.types.is_list(column.type) or column.null_count:
        return checked_values(kind, column.to_pylist())
    parts = iter(_parts(get_args(kind)[0], column.flatten()))
    return [tuple(islice(parts, number)) for number in column.value_lengths().to_pylist()]


def _parts(kind: Any, column: Any) -> Sequence[Any]:
    """Check parts of records; equal parts become one object."""
    import pyarrow as pa

    if not pa.types.is_struct(column.type) or any(
        pa.types.is_nested(each.type) for each in column.type
    ):
        return checked_values(kind, column.to_pylist())
    keys = list(zip(*(each.to_pylist() for each in column.flatten()), strict=True))
    names, different = [each.name for each in column.type], dict.fromkeys(keys)
    parts = checked_values(kind, [dict(zip(names, key, strict=True)) for key in different])
    return list(map(dict(zip(different, parts, strict=True)).__getitem__, keys))


def checked_values(kind: Any, values: list[Any]) -> list[Any]:
    """Check values of one kind.

    Raises:
        ValidationError: One is not.
    """
    return _adapter(kind).validate_python(values)


@cache
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:
    of_kind: Any = list
    return TypeAdapter(of_kind[kind])


# Sorting


def sorted_batches(
    batches: Iterable["pa.RecordBatch"], folder: Path | None = None, run_bytes: int = RUN_BYTES
) -> Iterator["pa.Table"]:
    """Sort rows of any number by `chunk_id`; in between they are in files below a folder."""
    with TemporaryDirectory(dir=folder) as place:
        packs = packed(batches, attrgetter("nbytes"), most_size=run_bytes)
        runs = [_write_run(pack, Path(place, str(number))) for number, pack in enumerate(packs)]
        yield from merged([_read_run(run) for run in runs])


def merged(runs: Sequence[Iterable["pa.RecordBatch | pa.Table"]]) -> Iterator["pa.Table"]:
    """Merge streams of rows, each in the order of `chunk_id`, into one."""
    import pyarrow as pa

    streams = dict(enumerate(map(iter, runs)))
    heads: dict[int, pa.Table] = {}
    while True:
        for number in streams.keys() - heads.keys():
            head = next((batch for batch in streams[number] if batch.num_rows), None)
            if head is None:
                del streams[number]
            else:
                heads[number] = head if isinstance(head, pa.Table) else pa.table(head)
        if not heads:
            return
        # Up to here, whatever else a stream has comes later.
        bound = min(head["chunk_id"][-1].as_py() for head in heads.values())
        parts: list[pa.Table] = []
        for number, head in sorted(heads.items()):
            end = bisect_right(head["chunk_id"], bound, key=lambda value: value.as_py())
            parts += [head.slice(0, end)] * (end > 0)
            heads[number] = head.slice(end)
        heads = {number: head for number, head in heads.items() if head.num_rows}
        yield parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by("chunk_id")


def _regrouped(tables: Iterable["pa.Table"], rows: int) -> Iterator["pa.Table"]:
    """Give the same rows in tables of this size; the last may be smaller."""
    import pyarrow as pa

    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count >= rows:
            whole, full = pa.concat_tables(held), count - count % rows
            yield from (whole.slice(start, rows) for start in range(0, full, rows))
            held, count = [whole.slice(full)], count - full
    if count:
        yield pa.concat_tables(held)


def _write_run(batches: Sequence["pa.RecordBatch"], path: Path) -> Path:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).sort_by("chunk_id")
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=_ROWS_OF_RUN)
    return path


def _read_run(path: Path) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader


# Reading


class ChunkIds(Set[str]):
    """The ids of chunks in their order, in an Arrow array; the row of one is found by bisection."""

    def __init__(self, array: "pa.ChunkedArray | pa.LargeStringArray") -> None:
        self.array = array

    def row(self, chunk_id: str) -> int | None:
        """Give the row of a chunk, or None."""
        row = bisect_left(self, chunk_id)
        return row if row < len(self) and self[row] == chunk_id else None

    def __getitem__(self, row: int) -> str:
        found: str = self.array[row].as_py()
        return found

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), ROWS):
            yield from self.array.slice(start, ROWS).to_pylist()

    def __contains__(self, chunk_id: object) -> bool:
        return isinstance(chunk_id, str) and self.row(chunk_id) is not None

    def __rsub__(self, others: Set[str]) -> set[str]:
        """Those of a set that are not among these, in one pass: no set of these is made."""
        missing = set(others)
        for start in range(0, len(self), ROWS):
            missing.difference_update(self.array.slice(start, ROWS).to_pylist())
        return missing

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)


def damaged(path: Path | str) -> CollectionError:
    """Make the error for a file of a collection that is not the one that was written."""
    return CollectionError(
        f"{path}: damaged or edited: its SHA-256 is not that of the file that was written; copy the "
        "collection again, or build it again (freshstack build CONFIG --mode replay asks no model); "
        "freshstack validate says what else is wrong"
    )


class ChunkFile:
    """A Parquet file of chunks in the order of their ids: no more of it is read than is asked for.

    Its methods raise a `CollectionError` where the file is missing or is no such Parquet.
    """

    def __init__(
        self,
        place: "Path | pa.Buffer",
        sums: ChunkSums | None = None,
        *,
        sha256: str | None = None,
    ) -> None:
        """Name the file, or give its bytes; what is known of its chunks, and what its hash must be."""
        self.place, self._sha256 = place, sha256
        if sums is not None:
            self.sums = sums
        self._lock = Lock()
        self._group = lru_cache(_GROUPS_KEPT)(self._read_group)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.place,)

    @classmethod
    def holding(cls, chunks: Iterable[Chunk]) -> Self:
        """Hold chunks in memory, in any order."""
        import pyarrow as pa

        written = pa.BufferOutputStream()
        table = pa.Table.from_batches(batches_of(chunks), chunk_schema())
        sums = write_chunks(written, [table.sort_by("chunk_id")])
        return cls(written.getvalue(), sums)

    def __len__(self) -> int:
        with self._reading():
            return int(self._file.metadata.num_rows)

    def __iter__(self) -> Iterator[Chunk]:
        """Give all chunks, by chunk_id."""
        for batch in self.batches():
            yield from chunks_in(batch)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator["pa.RecordBatch"]:
        """Give all rows in their order, or some columns of them."""
        with self._reading():
            for batch in self._file.batches(ROWS, columns):
                yield batch if columns else _with_language(batch)

    @cached_property
    def ids(self) -> ChunkIds:
        """The ids, which are read alone and once."""
        import pyarrow as pa

        with self._reading():
            columns = (batch.column(0) for batch in self._file.batches(ROWS, ["chunk_id"]))
            return ChunkIds(pa.chunked_array(columns, pa.string()))

    @cached_property
    def tokens(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """The length of every chunk in tokens, by row."""
        with self._reading():
            return numbers(self._file.file.read(["tokens"])["tokens"].combine_chunks())

    @cached_property
    def sums(self) -> ChunkSums:
        """What is known of all chunks; read now, where they were not just written."""
        with self._reading():
            return _sums(self.batches())

    @cached_property
    def sources(self) -> Counter[tuple[str, str | None]]:
        """How many chunks each source has of each revision."""
        names = ("source", "revision")
        columns = ([batch[name].to_pylist() for name in names] for batch in self.batches(names))
        return Counter(chain.from_iterable(zip(*each, strict=True) for each in columns))

    def copy(self, path: Path, *, link: bool = False) -> Self:
        """Write the bytes that there were when it was opened to another file.

        With `link` there are two names of one file, where the disk takes it.
        """
        if link and isinstance(self.place, Path):
            with suppress(OSError):
                path.hardlink_to(self.place)
                if os.path.samestat(path.stat(), os.fstat(self._source.fileno())):
                    return type(self)(path, self.sums)
                path.unlink()  # of a file that has taken its place
        len(self)  # compares its hash
        with path.open("wb") as copy:
            self._source.seek(0)
            shutil.copyfileobj(self._source, copy)
        return type(self)(path, self.sums)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk."""
        return self.chunks([chunk_id])[chunk_id]

    def chunks(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Give chunks by their ids, in the given order; only the row groups that have them are read."""
        rows = {chunk_id: self.ids.row(chunk_id) for chunk_id in chunk_ids}
        if missing := [chunk_id for chunk_id, row in rows.items() if row is None]:
            raise CollectionError(f"{self}: there is no chunk {missing[0]!r}")
        chunks: dict[str, Chunk] = {}
        with self._reading():
            in_order = sorted(row for row in rows.values() if row is not None)
            for group, members in groupby(in_order, self._group_of):
                start = self._starts[group]
                taken = self._group(group).take(integers([row - start for row in members]))
                chunks |= {chunk.chunk_id: chunk for chunk in chunks_in(taken)}
        return {chunk_id: chunks[chunk_id] for chunk_id in rows}

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the number of rows."""
        known = self._file.metadata
        sizes = (known.row_group(number).num_rows for number in range(known.num_row_groups))
        return [*accumulate(sizes, initial=0)]

    def _group_of(self, row: int) -> int:
        return bisect_right(self._starts, row) - 1

    def _read_group(self, group: int) -> "pa.Table":
        with self._lock:
            return self._file.group(
                group, [name for name in Chunk.model_fields if name in self._file.names]
            )

    @cached_property
    def _file(self) -> "ParquetFile":
        schema = chunk_schema()
        needed = schema.remove(schema.get_field_index("language"))
        file = open_parquet(self._source, needed, str(self))
        file.check(self._sha256)
        return file

    @cached_property
    def _source(self) -> "pa.NativeFile":
        import pyarrow as pa

        in_memory = isinstance(self.place, pa.Buffer)
        return pa.BufferReader(self.place) if in_memory else pa.OSFile(str(self.place))

    def __str__(self) -> str:
        return str(self.place) if isinstance(self.place, Path) else "chunks"

    def _reading(self) -> AbstractContextManager[None]:
        return reading_parquet(str(self))


class ParquetFile:
    """An open Parquet file, decoded within bounds.

    A value that many rows share is stored once and decoded for each of them, so that a few bytes
    can be gigabytes.
    """

    def __init__(self, source: Any, name: str, *, coded: bool = False) -> None:
        """Open a path or a file of Arrow's; `coded`: columns of texts become Arrow's dictionaries."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._source = pa.OSFile(str(source)) if isinstance(source, Path) else source
        # With a buffer, the bytes of all that is read stay in memory until its end.
        self.file, self._name = pq.ParquetFile(self._source, pre_buffer=False), name
        self.metadata, self.schema = self.file.metadata, self.file.schema_arrow
        self.names: list[str] = self.schema.names
        self._coded = [
            field.name for field in self.schema if coded and pa.types.is_string(field.type)
        ]
        if coded:
            known = {"metadata": self.metadata, "read_dictionary": self._coded}
            self.file = pq.ParquetFile(self._source, pre_buffer=False, **known)

    def check(self, sha256: str | None) -> None:
        """Compare its bytes with their hash, where that is known.

        Raises:
            CollectionError: It is not the file that was written.
        """
        if sha256 is None:
            return
        with reading_parquet(self._name):
            self._source.seek(0)
            found = hashlib.file_digest(self._source, "sha256").hexdigest()
        if found != sha256:
            raise damaged(self._name)

    def batches(
        self, rows: int, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
    ) -> "Iterator[pa.RecordBatch]":
        """Give all rows, or some columns or row groups."""
        size = self._source.size()
        return parquet_batches(self.file, size, rows, columns, groups, coded=self._coded)

    def group(self, number: int, columns: Sequence[str] | None = None) -> "pa.Table":
        """Give one row group."""
        import pyarrow as pa

        batches = [*self.batches(ROWS, columns, [number])]
        return pa.Table.from_batches(batches).combine_chunks()


def open_parquet(
    source: Any, schema: "pa.Schema", name: str, *, coded: bool = False
) -> ParquetFile:
    """Open a Parquet file with at least the columns of a schema; `name` is that in messages.

    Raises:
        CollectionError: It cannot be read, or has not these columns.
    """
    with reading_parquet(name):
        file = ParquetFile(source, name, coded=coded)
    types = {field.name: field.type for field in file.schema}
    for field in schema:
        found = types.get(field.name)
        if found != field.type:
            instead = "is missing" if found is None else f"is of type {found}"
            raise CollectionError(
                f"{name}: its column {field.name} {instead}, and {field.type} is wanted"
            )
    return file


@contextmanager
def reading_parquet(name: str) -> Iterator[None]:
    """Say in one line what is wrong with a Parquet file."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise CollectionError(f"{name}: the file is missing") from None
    except (pa.ArrowException, OSError) as error:
        fault = " ".join(str(error).split())
        raise CollectionError(f"{name}: cannot be read as Parquet: {fault}") from None
    except ValidationError as error:
        raise CollectionError(f"{name}: not a chunk: {first_fault(error)}") from None


def _with_language(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Chunks with the column of languages, which files of before 0.3 lack."""
    import pyarrow as pa

    if "language" in batch.schema.names:
        return batch
    return batch.append_column("language", pa.nulls(len(batch), pa.string()))


def numbers(column: Any) -> "np.ndarray[Any, Any]":
    """Give a column without nulls: its `to_numpy` would import pandas."""
    import numpy as np

    return np.from_dlpack(column)


def _array(kind: "pa.DataType", values: Iterable[Any]) -> "pa.Array":
    """Make an Arrow array of texts, integers or lists of them."""
    import pyarrow as pa

    if not pa.types.is_list(kind):
        return integers([*values]) if pa.types.is_integer(kind) else _texts(values)
    lists = [*values]
    ends = integers([*accumulate(map(len, lists), initial=0)])
    return pa.ListArray.from_arrays(ends, _array(kind.value_type, chain.from_iterable(lists)), kind)


def integers(values: Sequence[int]) -> "pa.Int64Array":
    """Make an Arrow array: `pyarrow.array` would import pandas, which takes half a second."""
    import pyarrow as pa

    data = pa.py_buffer(array("q", values))
    return pa.Array.from_buffers(pa.int64(), len(values), [None, data])
