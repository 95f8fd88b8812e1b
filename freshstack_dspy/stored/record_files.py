"""The files of records of a collection: JSON Lines, or Parquet where there are many records."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import chain, groupby, islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    BinaryIO,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.corpus.parquet import (
    ROWS,
    ParquetFile,
    checked_values,
    damaged,
    integers,
    json_of_fields,
    nested_values,
    numbers,
    objects,
    open_parquet,
    reading_parquet,
)
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import canonical_line, decode_records, encode_records
from freshstack_dspy.records import (
    Candidate,
    Contamination,
    Expansion,
    Failure,
    Judgment,
    LicenceFile,
    Note,
    Nugget,
    Query,
    QuerySlice,
    Record,
    SkippedFile,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from freshstack_dspy.measures.label_columns import Coded

R = TypeVar("R", bound=Record)
NO_LINES = hashlib.sha256().hexdigest()
MANY = 50_000
"""With more records than this, judgments and candidates are written as Parquet."""
_ROWS = 8192
"""Records in a row group, and read at a time."""


class RecordFile(NamedTuple):
    """One file of records of a collection."""

    name: str
    """The file's stem, and the attribute of `Contents` that holds its records."""
    record: type[Record]
    order: tuple[str, ...]
    """The fields that order the lines, compared as text by code point."""
    once: bool = True
    """Whether these fields name at most one record; otherwise the lines themselves break ties."""
    optional: bool = False
    """Whether it is written only where there are records."""
    large: bool = False
    """Whether it is Parquet where there are many records."""

    @property
    def filename(self) -> str:
        """The name of the file as JSON Lines, by which the manifest and messages call both forms."""
        return f"{self.name}.jsonl"

    @property
    def filenames(self) -> tuple[str, ...]:
        """The names that the file may have in a folder."""
        return (self.filename, f"{self.name}.parquet") if self.large else (self.filename,)

    def path(self, folder: Path) -> Path:
        """Give the path of the file in a collection's folder, in the form that it has there."""
        paths = (folder / name for name in reversed(self.filenames))
        return next((path for path in paths if path.exists()), folder / self.filename)

    def open(
        self,
        folder: Path,
        files: Mapping[str, str] | None = None,
        sums: Mapping[str, str] | None = None,
    ) -> "Records[Record]":
        """Open the file of a collection; later reads see its present content.

        JSON Lines are then compared with the manifest's `files`, and Parquet with `sums`, which
        collections from before 0.3 lack.

        Raises:
            CollectionError: It is missing, or cannot be read.
        """
        path = self.path(folder)
        if path.name != self.filename:
            return Records(path, self.record, None, sums.get(path.name, "") if sums else None)
        content = None if files is None else files.get(self.filename, NO_LINES)
        try:
            data = b"" if self.optional and not path.exists() else path.read_bytes()
        except OSError as error:
            raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
        return Records(path, self.record, data, content)

    def write(self, folder: Path, records: Sequence[Record]) -> None:
        """Write the file into a folder, in the form that its number of records asks for."""
        if self.large and len(records) > MANY:
            lines = map(from_json, map(canonical_line, records))
            write_rows(folder / f"{self.name}.parquet", schema_of(self.record), lines, _ROWS)
        else:
            (folder / self.filename).write_bytes(encode_records(records))

    def sort(self, records: Iterable[Record]) -> Sequence[Record]:
        """Put records into the order of the file, which is total."""
        if isinstance(records, Records):
            return records
        first, ids = attrgetter(self.order[0]), attrgetter(*self.order)
        key = ids if self.once else lambda record: (ids(record), canonical_line(record))
        groups = groupby(sorted(records, key=first), first)  # no key for each of millions at once
        return tuple(chain.from_iterable(sorted(group, key=key) for _, group in groups))


RECORD_FILES: tuple[RecordFile, ...] = (
    RecordFile("queries", Query, ("query_id",)),
    RecordFile("nuggets", Nugget, ("query_id", "nugget_id")),
    RecordFile("expansions", Expansion, ("query_id", "kind")),
    RecordFile("pool", Candidate, ("query_id", "chunk_id"), large=True),
    RecordFile("judgments", Judgment, ("query_id", "nugget_id", "chunk_id"), large=True),
    RecordFile("contamination", Contamination, ("query_id",)),
    RecordFile("failures", Failure, ("query_id", "step", "status"), once=False),
    RecordFile("slices", QuerySlice, ("query_id",)),
    RecordFile("skipped", SkippedFile, ("source", "path"), once=False),
    RecordFile("licences", LicenceFile, ("source", "path")),
    RecordFile("notes", Note, ("query_id", "kind"), optional=True),
)


def write_rows(
    file: Path | BinaryIO, schema: "pa.Schema", rows: Iterable[dict[str, Any]], group: int = ROWS
) -> None:
    """Write rows of plain values as Parquet, the same rows always to the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(left, group)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def lines_sha256(records: Iterable[Record]) -> str:
    """Hash records as the JSON Lines that they are or would be."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(canonical_line(record).encode("utf-8"))
    return digest.hexdigest()


def rows(records: Sequence[Record], *fields: str) -> Iterable[tuple[Any, ...]]:
    """Give some fields of records; from Parquet, nothing else is read."""
    if not isinstance(records, Records):
        return _fields(records, fields)
    return chain.from_iterable(zip(*part, strict=True) for part in records.columns(*fields))


def coded(records: Sequence[Record], *fields: str) -> "Iterator[Coded]":
    """Give some fields of all records as columns."""
    if isinstance(records, Records) and records.data is None and len(records):
        yield from records.coded(*fields)
        return
    for values in zip(*_fields(records, fields), strict=True) if records else [()] * len(fields):
        yield _coded(values)


def _coded(values: Iterable[Any]) -> "Coded":
    import numpy as np

    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return [*places], np.array(codes, np.int32)


def _fields(records: Sequence[Any], fields: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(map(attrgetter(field), records) for field in fields), strict=True)


def tally(records: Sequence[Record], *fields: str) -> Counter[tuple[Any, ...]]:
    """Count the records by the values of some fields; lists are told apart by their length alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(records, Records) or records.data is not None:
        values = _fields(records, fields)
        lists = any(isinstance(getattr(records[0], field), tuple) for field in fields if records)
        return Counter(map(_with_lengths, values) if lists else values)
    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in records.batches(fields):
        flat: Any = (
            pc.call_function("list_value_length", [column])
            if pa.types.is_list(column.type)
            else column
            for column in map(batch.column, fields)
        )
        groups = pa.Table.from_arrays([*flat], [*fields]).group_by([*fields], use_threads=False)
        for group in groups.aggregate([([], "count_all")]).to_batches():
            numbers = group["count_all"].to_pylist()
            for row, number in zip(records.checked(group, fields), numbers, strict=True):
                counts[row] += number
    return counts


def _with_lengths(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(len(value) if isinstance(value, tuple) else value for value in row)


def repeated(records: Sequence[Record], *fields: str) -> Iterator[tuple[Any, ...]]:
    """Give the values of some fields that two records, one behind the other, have in common."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(records, Records) or records.data is not None:
        pairs = pairwise(rows(records, *fields))
        yield from (row for row, following in pairs if row == following)
        return
    last: list[pa.RecordBatch] = []
    for batch in records.batches(fields):
        table = pa.Table.from_batches([*last, batch]).select([*fields]).combine_chunks()
        neighbours = zip(
            table.slice(0, len(table) - 1).columns, table.slice(1).columns, strict=True
        )
        same = [pc.call_function("equal", [*pair]) for pair in neighbours]
        both: Any = reduce(lambda *pair: pc.call_function("and", [*pair]), same)
        for again in table.slice(1).filter(both).to_batches():
            yield from records.checked(again, fields)
        last = [batch.slice(len(batch) - 1)]


def records_of(records: Sequence[R], query_id: str) -> Sequence[R]:
    """Give the records of one query; from Parquet, little else is read."""
    if isinstance(records, Records):
        return records.of_query(query_id)
    return _of_query(records, query_id)


def _of_query(records: Iterable[Any], query_id: str) -> tuple[Any, ...]:
    return tuple(record for record in records if record.query_id == query_id)


class Records(Sequence[R], Generic[R]):
    """The records of a file in its order, read when they are asked for.

    JSON Lines are decoded at once and kept; Parquet records are made anew each time.
    Its methods raise a `CollectionError` if the file is damaged or does not match its hash.
    """

    def __init__(
        self, path: Path, record: type[R], data: bytes | None = None, sha256: str | None = None
    ) -> None:
        """Hold the bytes of JSON Lines, or open Parquet; `sha256` is what the hash must be."""
        self._path, self._record, self._sha256 = path, record, sha256
        self.data = data
        """The bytes of JSON Lines; None for Parquet."""
        self._last: tuple[int, pa.Table] | None = None
        needed = {
            name: kind
            for name, kind in kinds(record).items()
            if record.model_fields[name].exclude_if is None
        }
        self._opened = (
            open_parquet(path, schema_of(needed), str(path), coded=True) if data is None else None
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path, self._record, self.data, self._sha256)

    def __repr__(self) -> str:
        return f"<{self._record.__name__} records of {self._path}>"

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows) if self.data is None else len(self._lines)

    def __iter__(self) -> Iterator[R]:
        if self.data is not None:
            return iter(self._lines)
        return chain.from_iterable(map(self._made, self.batches()))

    @overload
    def __getitem__(self, place: int) -> R: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[R, ...]: ...
    def __getitem__(self, place: int | slice) -> R | tuple[R, ...]:
        if self.data is not None:
            return self._lines[place]
        if isinstance(place, slice):
            return tuple(map(self.__getitem__, range(len(self))[place]))
        row = range(len(self))[place]
        for group in range(self._file.metadata.num_row_groups):
            in_group = self._file.metadata.row_group(group).num_rows
            if row < in_group:
                return next(self._made(self._group(group).slice(row, 1).to_batches()[0]))
            row -= in_group
        raise IndexError(place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Records | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(Record.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _lines(self) -> tuple[R, ...]:
        records = decode_records(self.data or b"", self._record, self._path)
        if self._sha256 not in (None, self.sha256()):
            raise damaged(self._path)
        return tuple(records)

    @cached_property
    def _file(self) -> ParquetFile:
        assert self._opened is not None
        self._opened.check(self._sha256)
        return self._opened

    def columns(self, *fields: str) -> Iterator[tuple[Sequence[Any], ...]]:
        """Give some fields as columns, a part of the records at a time."""
        if self.data is not None:
            yield tuple([*map(attrgetter(field), self._lines)] for field in fields)
        else:
            for batch in self.batches(fields):
                yield tuple(self._checked(batch, field) for field in fields)

    def coded(self, *fields: str) -> "Iterator[Coded]":
        """Give some fields of Parquet as columns."""
        import numpy as np
        import pyarrow as pa

        table = pa.Table.from_batches(self.batches(fields)).unify_dictionaries()
        for field in fields:
            column: Any = table[field].combine_chunks()
            with reading_parquet(str(self._path)):
                if pa.types.is_dictionary(column.type):
                    values, codes = column.dictionary.to_pylist(), numbers(column.indices)
                elif column.null_count:
                    values, codes = _coded(column.to_pylist())
                else:  # `dictionary_encode` would import `pyarrow.compute`: a tenth of a second
                    different, codes = np.unique(numbers(column), return_inverse=True)
                    values = different.tolist()
            yield self._allowed(field, [*values]), codes

    def of_query(self, query_id: str) -> tuple[R, ...]:
        """Give the records of one query; only row groups that may have one are read."""
        import pyarrow.compute as pc

        if self.data is not None:
            return _of_query(self._lines, query_id)
        records: list[R] = []
        place = self._file.schema.get_field_index("query_id")
        for group in range(self._file.metadata.num_row_groups):
            stats = self._file.metadata.row_group(group).column(place).statistics
            if stats is None or not stats.has_min_max or stats.min <= query_id <= stats.max:
                table = self._group(group).filter(pc.field("query_id") == query_id)
                records += chain.from_iterable(map(self._made, table.to_batches()))
        return tuple(records)

    def sha256(self) -> str:
        """Hash the records as the JSON Lines that they are or would be."""
        digest = hashlib.sha256(self.data or b"")
        for batch in self.batches() if self.data is None else ():
            for part in self._encoded(batch):
                digest.update(part)
        return digest.hexdigest()

    def _encoded(self, batch: "pa.RecordBatch") -> "Iterator[pa.Buffer]":
        """Give the lines of a batch, checked by columns; a fault is looked for record by record."""
        import pyarrow as pa

        try:
            texts = json_of_fields(self._record, batch)
        except ValidationError as error:
            for _ in self:  # a text may be that of a record in a later batch
                pass
            raise self._fault(error) from None
        if names := self._record.together:
            numbered = batch.append_column("row", integers(range(len(batch))))
            groups = pa.Table.from_batches([numbered]).group_by([*names])
            first = groups.aggregate([("row", "min")])["row_min"]
            list(self._made(batch.take(first.combine_chunks().sort())))
        return objects(texts, "}\n")

    def _made(self, batch: "pa.RecordBatch") -> Iterator[R]:
        names = [name for name in self._record.model_fields if name in batch.schema.names]
        for row in zip(*(self._values(batch, name) for name in names), strict=True):
            values = dict(zip(names, row, strict=True))
            try:
                yield self._record.model_validate(values)
            except ValidationError as error:
                ids = (values[name] for name in names if name.endswith("_id"))
                raise self._fault(error, *ids) from None

    def _values(self, batch: "pa.RecordBatch", field: str) -> list[Any]:
        """Give a column, with what is nested in it as records have it."""
        import pyarrow as pa

        column: Any = batch.column(field)
        if pa.types.is_dictionary(column.type):  # equal texts are one object
            texts: dict[int | None, str | None] = dict(enumerate(column.dictionary.to_pylist()))
            texts[None] = None
            return [*map(texts.__getitem__, column.indices.to_pylist())]
        if not pa.types.is_nested(column.type):
            return list(column.to_pylist())
        try:
            return nested_values(self._record.model_fields[field].annotation, column)
        except ValidationError as error:
            raise self._fault(error, field) from None

    def checked(self, batch: "pa.RecordBatch", fields: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Give some fields of a batch of Parquet, whose values are all as the record allows."""
        return zip(*(self._checked(batch, field) for field in fields), strict=True)

    def _checked(self, batch: "pa.RecordBatch", field: str) -> list[Any]:
        """Give a column whose values are all as the record allows."""
        return self._allowed(field, self._values(batch, field))

    def _allowed(self, field: str, values: list[Any]) -> list[Any]:
        kind: Any = self._record.model_fields[field]
        if not kind.metadata:  # Arrow's type is enough
            return values
        try:
            return checked_values(Annotated[kind.annotation, *kind.metadata], values)
        except ValidationError as error:
            raise self._fault(error, field) from None

    def _fault(self, error: ValidationError, *where: object) -> CollectionError:
        place = ", ".join(map(repr, where))
        return CollectionError(
            f"{self._path}: {place}: not a {self._record.__name__}: {first_fault(error)}"
        )

    def batches(self, fields: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Give all rows of Parquet, or some fields; those of later versions than its are empty."""
        import pyarrow as pa

        names = self._file.schema.names
        late = [field for field in fields or () if field not in names]
        stored = [field for field in fields or () if field in names] or names[:1]
        with reading_parquet(str(self._path)):
            for batch in self._file.batches(_ROWS, stored if fields else None):
                for field in late:
                    kind = _arrow_type(self._record.model_fields[field].annotation)
                    batch = batch.append_column(field, pa.nulls(len(batch), kind))  # noqa: PLW2901
                yield batch

    def _group(self, group: int) -> "pa.Table":
        last = self._last  # another thread may read another group
        if last is None or last[0] != group:
            with reading_parquet(str(self._path)):
                self._last = last = group, self._file.group(group)
        return last[1]


def schema_of(fields: Any) -> "pa.Schema":
    """Make an Arrow schema of a kind of record, or of types by name."""
    import pyarrow as pa

    if not isinstance(fields, dict):
        fields = kinds(fields)
    return pa.schema({name: _arrow_type(kind) for name, kind in fields.items()})


def kinds(record: Any) -> dict[str, Any]:
    """Give the type of each field of a record."""
    return {name: field.annotation for name, field in record.__pydantic_fields__.items()}


def _arrow_type(kind: Any) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow_type(kind[0]))
    if isinstance(kind, dict) or hasattr(kind, "__pydantic_fields__"):
        return pa.struct(list(schema_of(kind)))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if inner and origin is not Literal:  # annotated, or with None
        return _arrow_type(next(argument for argument in inner if argument is not type(None)))
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}.get(kind, pa.string())
