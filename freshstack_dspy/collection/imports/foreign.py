"""Foreign corpora → chunks: BEIR's, FreshStack's, and those of passages with a text and an id."""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Self, cast

from pydantic import ValidationError

from freshstack_dspy.collection.layouts import EXPORT_FILE, IDS_FILE, LICENCES_FILE
from freshstack_dspy.collection.manifest import NO_MODEL, is_collection, texts_of
from freshstack_dspy.collection.writing import check_foreign
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.files import (
    check_regular,
    decoded,
    first_fault,
    json_file,
    json_value,
    standing_folder,
)
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.qrels import QrelsLineError, qrels_lines
from freshstack_dspy.questions.tables import PlacedRow, dataset_files, read_arrow, read_parquet
from freshstack_dspy.records import (
    Chunk,
    Failure,
    Judgment,
    LicenceFile,
    Nugget,
    Query,
    Scale,
    SkippedFile,
    Status,
)


def find_part(folder: Path, what: str, patterns: Sequence[str]) -> Path | None:
    """Find the one file or folder that a pattern names; the first pattern that finds any decides.

    Args:
        folder: Where to look.
        what: What the part is called, for the message.
        patterns: Glob patterns, relative to the folder.

    Returns:
        The part, or None where no pattern finds any.

    Raises:
        SourceError: A pattern finds several, or what leads out of the folder.
    """
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            named = ", ".join(path.name for path in found)
            raise SourceError(
                f"{folder}: has several files of {what}: {named}; move all but one elsewhere"
            )
        if found:
            return inside(folder, found[0])
    return None


def inside(folder: Path, path: Path) -> Path:
    """Give back a path that was found in a folder, unless a link leads out of the folder there.

    Whoever made the folder could have a file of ours read that way, and published.

    Raises:
        SourceError: One does.
    """
    root, place = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if place.is_relative_to(root):
        return path
    raise SourceError(
        f"{path}: a link that leads out of {folder}, to {place}; copy the files themselves there, "
        f"as with cp -rL {folder} COPY if you trust its links. The cache of Hugging Face holds "
        "such links, into ../../blobs: hf download … --local-dir FOLDER gives files"
    )


def the_part(folder: Path, what: str, patterns: Sequence[str]) -> Path:
    """Find a part that must be there.

    Raises:
        SourceError: There is none, or several.
    """
    if not folder.is_dir():
        raise SourceError(f"{folder}: there is no such folder")
    if (found := find_part(folder, what, patterns)) is None:
        raise SourceError(f"{folder}: has no {what}; looked for {', '.join(patterns)}")
    return found


LONGEST_LINE = 64 << 20
"""Bytes; a book has some million characters."""
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_RATIO, _ALWAYS = 200, 64 << 20
"""Text shrinks to a tenth; what shrinks to less than a two hundredth was made to fill our disk."""


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give each line with its number, from 1, without its end; a byte order mark is passed over.

    Args:
        path: A text file, or one that gzip wrote.

    Raises:
        SourceError: The file cannot be read, a line is longer than 64 MiB, or a compressed file
            is damaged or grows to more than 200 times its size.
    """
    try:
        packed = _begins(path, _GZIP)
        most = _ALWAYS + _RATIO * path.stat().st_size if packed else None
        with _opened(path, packed=packed) as file:
            number = done = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                done += len(line)
                if len(line) > LONGEST_LINE:
                    raise SourceError(f"{path}:{number}: longer than {LONGEST_LINE >> 20} MiB")
                if most is not None and done > most:
                    raise SourceError(
                        f"{path}: unpacks to more than {_RATIO} times its size, as no text does; "
                        "unpack it yourself if you trust it"
                    )
                if number == 1:
                    line = line.removeprefix(_BOM)
                yield number, line.rstrip(b"\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceError(f"{path}: damaged gzip: {error}") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _opened(path: Path, *, packed: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if packed else path.open("rb")


def _begins(path: Path, magic: bytes) -> bool:
    check_regular(path)
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def begins_with(path: Path, magic: bytes) -> bool:
    """Tell whether a file begins with these bytes.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        return _begins(path, magic)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


_PARQUET = b"PAR1"
_GZIP_rows = b"\x1f\x8b"
_LONGEST_QUOTE = 80
_LONGEST_SHOWN = 120
DATA_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json")
"""Of files with rows, in the order in which a folder is looked through for them."""


def shown(id_: str) -> str:
    """Quote an id for a message, cut where it is long."""
    return repr(id_ if len(id_) <= _LONGEST_SHOWN else f"{id_[:_LONGEST_SHOWN]}…")


class Row(NamedTuple):
    """One row, and where it stands."""

    file: str
    number: int
    """From 1; of JSON Lines the line, of an array or Parquet the row."""
    values: dict[str, Any]

    @property
    def place(self) -> str:
        """File and number, for messages."""
        return f"{self.file}:{self.number}"

    def fault(self, name: str, allowed: str) -> SourceError:
        """Say that a value is not what it should be."""
        found = repr(self.values.get(name))
        if len(found) > _LONGEST_QUOTE:
            found = f"{found[:_LONGEST_QUOTE]}…"
        what = f"{name} is {found}" if name in self.values else f"has no {name!r}"
        return SourceError(f"{self.place}: {what}; allowed: {allowed}")

    def name_of(self, *names: str) -> str:
        """Give the first of these names that the row has; the first of all where it has none."""
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def id(self, *names: str) -> str:
        """Give an id: text, kept as it is to the last space, or a whole number.

        Raises:
            SourceError: There is none, or it is neither.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value:
            raise self.fault(name, "text that is not empty, or a whole number")
        return value

    def text(self, *names: str, default: str | None = None) -> str:
        """Give a text, which may be empty.

        Args:
            names: Under which it may stand; the first that is there is taken.
            default: In its place where it is missing or null; None: it must be there.

        Raises:
            SourceError: It is missing, or no text.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.fault(name, "text")
        return value

    def optional(self, *names: str) -> str | None:
        """Give a text, or None where it is missing, null or empty.

        Raises:
            SourceError: It is there, and no text.
        """
        return self.text(*names, default="") or None

    def list(self, *names: str) -> list[Any]:
        """Give a list.

        Raises:
            SourceError: It is missing, or no list.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self.fault(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts; none where it is missing or null.

        Raises:
            SourceError: It is there, and something else.
        """
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fault(name, "a list of texts")
        return tuple(value)

    def number_of(self, name: str, default: int) -> int:
        """Give a whole number that is not negative, or the default where it is missing or null.

        Raises:
            SourceError: It is there, and no such number.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fault(name, "a whole number from 0")
        return value

    def inner(self, name: str) -> "Row":
        """Give an object within the row; an empty one where it is missing or null.

        Raises:
            SourceError: It is there, and no object.
        """
        value = self.values.get(name)
        if value is None:
            return Row(self.file, self.number, {})
        if not isinstance(value, dict):
            raise self.fault(name, "an object")
        return Row(self.file, self.number, value)

    def inners(self, *names: str) -> Iterator["Row"]:
        """Give the objects of a list within the row.

        Raises:
            SourceError: It is no list, or something in it is no object.
        """
        name = self.name_of(*names)
        for each in self.list(name):
            if not isinstance(each, dict):
                raise self.fault(name, "a list of objects")
            yield Row(self.file, self.number, each)

    def has(self, *names: str) -> bool:
        """Tell whether the row has all of these."""
        return all(name in self.values for name in names)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Give the rows of a file or a folder, a row at a time.

    Args:
        path: JSON Lines (also gzip), JSON (an array or one object) or Parquet; or a folder of
            one of these kinds, or of `datasets.Dataset.save_to_disk`.
        columns: Of Parquet and Arrow, the columns that are read where they are there; None: all.

    Raises:
        SourceError: A file cannot be read, or is of another format.
    """

    def choose(present: list[str], _: str) -> list[str]:
        return [name for name in present if columns is None or name in columns]

    if (path.is_dir() and (path / "state.json").is_file()) or (
        path / "dataset_dict.json"
    ).is_file():
        arrow, described = dataset_files(path, None)
        for file in (*described, *arrow):
            inside(path, file)
        yield from _rows(read_arrow(arrow, choose))
        return
    for file in row_files(path):
        if begins_with(file, _PARQUET):
            yield from _rows(read_parquet([file], choose))
        else:
            yield from _read_json(file)


def row_files(path: Path) -> list[Path]:
    """Name the files with rows in a folder: all of one kind, by name; or the file itself.

    Raises:
        SourceError: There is none, or a link leads out of the folder.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise SourceError(f"{path}: there is no such file or folder")
    for ending in DATA_ENDINGS:
        found = sorted(each for each in path.rglob(f"*{ending}") if each.is_file())
        if found:
            return [inside(path, each) for each in found]
    raise SourceError(f"{path}: holds none of *{', *'.join(DATA_ENDINGS)}")


def _rows(rows: Iterator[PlacedRow]) -> Iterator[Row]:
    return (Row(row.file, row.number, dict(row.values)) for row in rows)


def _read_json(path: Path) -> Iterator[Row]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((line.strip() for _, line in read_lines(path) if line.strip()), b"")
    if (first.startswith(b"{") and first.endswith(b"}")) or begins_with(path, _GZIP_rows):
        for number, line in read_lines(path):
            if line.strip():
                place = f"{path}:{number}"
                yield Row(
                    str(path), number, _object(json_value(decoded(line, place), place), place)
                )
        return
    if not first:
        return
    value = json_file(path)
    for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
        yield Row(str(path), number, _object(each, f"{path}:{number}"))


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{place}: not a JSON object")
    return value


class Notes(NamedTuple):
    """The notes of an export; empty for what others wrote."""

    queries: dict[str, str]
    """Exported id → ours, of those that had to change."""
    nuggets: dict[str, str]
    chunks: dict[str, str]
    scale: Scale | None
    """That of the collection that was exported."""
    licences: tuple[LicenceFile, ...]
    exported: dict[str, str]
    """Of which collection it is an export: its name, content hash, recipe and model."""


def read_notes(path: Path) -> Notes:
    """Read the notes in a folder, those of them that are there.

    Raises:
        SourceError: One is there and is not what an export writes.
    """
    ids = _object_notes(path / IDS_FILE)
    told = _object_notes(path / EXPORT_FILE)
    scale = told.get("scale")
    try:
        return Notes(
            queries=_ids(ids.get("queries"), path / IDS_FILE),
            nuggets=_ids(ids.get("nuggets"), path / IDS_FILE),
            chunks=_ids(ids.get("chunks"), path / IDS_FILE),
            scale=Scale.model_validate(scale) if scale is not None else None,
            licences=_licences(path / LICENCES_FILE),
            exported=_exported(told),
        )
    except ValidationError as error:
        raise SourceError(f"{path}: not the notes of an export: {first_fault(error)}") from None


def _exported(told: Mapping[str, Any]) -> dict[str, str]:
    """Name the collection; of one that was itself imported, the model that was first asked."""
    found = texts_of(told)
    first = told.get("imported_from")
    if found.get("model") == NO_MODEL:
        del found["model"]
        earlier = texts_of(first) if isinstance(first, dict) else {}
        found |= {"model": earlier["model"]} if "model" in earlier else {}
    return found


def _object_notes(file: Path) -> dict[str, object]:
    value = json_file(inside(file.parent, file)) if file.is_file() else {}
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object")
    return value


def _ids(value: object, file: Path) -> dict[str, str]:
    found = value if value is not None else {}
    if not isinstance(found, dict) or not all(isinstance(id_, str) for id_ in found.values()):
        raise SourceError(f"{file}: allowed: by kind, exported id -> id")
    return dict(found)


def _licences(file: Path) -> tuple[LicenceFile, ...]:
    rows = read_rows(inside(file.parent, file)) if file.is_file() else ()
    return tuple(_licence(row) for row in rows)


def _licence(row: Row) -> LicenceFile:
    return LicenceFile(source=row.text("source"), path=row.text("path"), text=row.text("text"))


class Once:
    """Ids that may stand once each, with the places where they were first met."""

    def __init__(self, kind: str) -> None:
        """Prepare.

        Args:
            kind: What the ids name, as `query`.
        """
        self._kind = kind
        self._files: list[str] = []
        self._rows: dict[str, tuple[int, int] | int] = {}

    def take(self, id_: str, row: Row) -> None:
        """Take the id of a row.

        Raises:
            SourceError: It stands already in another row; names both places.
        """
        if row.file not in self._files[-1:]:
            self._files.append(row.file)
        # A plain number for the rows of the first file: a corpus has millions.
        file = len(self._files) - 1
        at = (file, row.number) if file else row.number
        first = self._rows.setdefault(id_, at)
        if first is not at:
            first_file, number = first if isinstance(first, tuple) else (0, first)
            raise SourceError(
                f"{row.place}: {self._kind} {shown(id_)} stands at {self._files[first_file]}:"
                f"{number} already; every {self._kind} needs an id of its own"
            )


@dataclass
class Gathered:
    """The records of a foreign collection, as its reader fills them in.

    Attributes:
        notes: What an export of ours says beside its format.
        scale: What the labels mean.
        queries: By id.
        nuggets: By id.
        judgments: Of the nuggets; a chunk that they name may lack in the corpus.
        failures: What the foreign collection says went wrong.
        rejected: How many queries were left out, by reason.
        dangling: For a query id that judgments name and that there is not: by how many.
        documents: The corpus; None where the foreign collection has none.
        read: The files and folders that were read.
    """

    notes: Notes
    scale: Scale = field(default_factory=Scale)
    queries: dict[str, Query] = field(default_factory=dict)
    nuggets: dict[str, Nugget] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    dangling: dict[str, int] = field(default_factory=dict)
    documents: Iterable[Chunk] | None = None
    read: list[Path] = field(default_factory=list)
    _query_ids: Once = field(default_factory=lambda: Once("query"))
    _nugget_ids: Once = field(default_factory=lambda: Once("nugget"))

    @classmethod
    def of(cls, path: Path) -> Self:
        """Begin with what an export of ours says in a folder, if it is one."""
        return cls(notes=read_notes(path))

    def add_query(self, row: Row, **fields: Any) -> Query:
        """Take a query.

        Raises:
            SourceError: Its id stands twice, or it is no `Query`.
        """
        try:
            query = Query.model_validate({**fields, **_origin(row, fields)})
        except ValidationError as error:
            raise SourceError(f"{row.place}: not a query: {first_fault(error)}") from None
        self._query_ids.take(query.query_id, row)
        self.queries[query.query_id] = query
        return query

    def add_nugget(self, row: Row, **fields: Any) -> Nugget:
        """Take a nugget.

        Raises:
            SourceError: Its id stands twice, or it is no `Nugget`.
        """
        try:
            nugget = Nugget.model_validate({"call_id": None, **fields})
        except ValidationError as error:
            raise SourceError(f"{row.place}: not a nugget: {first_fault(error)}") from None
        self._nugget_ids.take(nugget.nugget_id, row)
        self.nuggets[nugget.nugget_id] = nugget
        return nugget

    def judge(
        self,
        nugget: Nugget,
        chunk_id: str,
        label: int | None,
        status: Status = "ok",
        reason: str = "",
    ) -> None:
        """Take a judgment; one without a label has a status that says why."""
        self.judgments.append(
            Judgment(
                query_id=nugget.query_id,
                nugget_id=nugget.nugget_id,
                chunk_id=chunk_id,
                label=label,
                status=status,
                reason=reason,
                call_id=None,
            )
        )

    def reads(self, path: Path) -> Path:
        """Note what is read, for its hash; gives it back."""
        self.read.append(path)
        return path

    def dangle(self, query_id: str) -> None:
        """Count a judgment of a query that there is not."""
        self.dangling[query_id] = self.dangling.get(query_id, 0) + 1


def _origin(row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the mark of a synthetic query: as its origin, or as a tag where it has no answer."""
    if row.inner("metadata").values.get("origin") != "synthetic":
        return {"origin": "imported"}
    if fields.get("answer"):
        return {"origin": "synthetic"}
    return {"origin": "imported", "tags": (*fields.get("tags", ()), "synthetic")}


_IDS = ("_id", "id", "docid", "doc_id", "pid", "chunk_id")
_TEXTS = ("text", "contents", "segment", "body")
_COLUMNS = (*_IDS, *_TEXTS, "title", "url", "metadata")


def read_documents(
    path: Path, source: str, ours: Mapping[str, str] | None = None
) -> Iterator[Chunk]:
    """Give the documents of a corpus, one after the other.

    Bytes, revision and address are those of `metadata`, as the official FreshStack corpora have
    them; without, a document is a file of its own, from 0 to its length in UTF-8.

    Args:
        path: A file or folder that `read_rows` reads. Of a row it takes `_id`, `text`, `title`
            and `metadata`, or what other data sets call them.
        source: What the corpus is called.
        ours: Its ids → those that they get; several may get one, if they have one text.

    Raises:
        SourceError: With file and line, where a row is no document or an id stands twice.
    """
    ids, texts = Once("document"), dict[str, str]()
    for row in read_rows(path, _COLUMNS):
        own = row.id(*_IDS)
        ids.take(own, row)
        chunk = _chunk(row, source, own if ours is None else ours.get(own, own))
        if ours:
            if chunk.chunk_id in texts:
                if texts[chunk.chunk_id] == chunk.text:
                    continue
                raise SourceError(f"{row.place}: {shown(own)} has another text than before")
            texts[chunk.chunk_id] = chunk.text
        yield chunk


def _chunk(row: Row, source: str, chunk_id: str) -> Chunk:
    text, told = row.text(*_TEXTS), row.inner("metadata")
    start = told.number_of("start_byte", 0)
    return document_chunk(
        row.place,
        chunk_id=chunk_id,
        source=told.optional("source") or source,
        path=told.optional("path") or chunk_id,
        start_byte=start,
        end_byte=told.number_of("end_byte", start + len(text.encode("utf-8"))),
        text=text,
        revision=told.optional("commit_id"),
        encoding=told.optional("encoding") or "utf-8",
        title=row.text("title", default=""),
        url=told.optional("url") or row.optional("url"),
    )


def document_chunk(place: str, **fields: object) -> Chunk:
    """Make a chunk, with its tokens counted.

    Raises:
        SourceError: A field is not what it should be.
    """
    try:
        return Chunk.model_validate({**fields, "tokens": count_tokens(str(fields["text"]))})
    except ValidationError as error:
        raise SourceError(f"{place}: not a document: {first_fault(error)}") from None


def whole(place: str, source: str, chunk_id: str, text: str, title: str = "") -> Chunk:
    """Make a chunk that is a file of its own."""
    return document_chunk(
        place,
        chunk_id=chunk_id,
        source=source,
        path=chunk_id,
        start_byte=0,
        end_byte=len(text.encode("utf-8")),
        text=text,
        title=title,
    )


Missing = Literal["refuse", "drop"]
NO_TEXT = "the imported data have no text of it"
MISSING: tuple[Missing, ...] = ("refuse", "drop")


class Present(NamedTuple):
    """Judgments that lead somewhere, the corpus they lead to, and what lacks there."""

    judgments: list[Judgment]
    chunks: list[Chunk]
    lacking: list[SkippedFile]


def present(given: Gathered, source: str, missing: Missing) -> Present:
    """See that every judgment has its query and its chunk.

    A collection without a corpus gets chunks without texts, each of which is listed.

    Args:
        given: As it was read; its documents are read here.
        source: What the corpus is called.
        missing: Whether a query or document that lacks is refused, or its judgments left out.

    Raises:
        SourceError: Something lacks, and is not to be left out; or the corpus cannot be read.
    """
    named = Counter(judgment.chunk_id for judgment in given.judgments)
    lacking = _lacking("queries", "queries", given.dangling, missing)
    if given.documents is None:
        ids = sorted(named)
        chunks = [whole(source, source, chunk_id, "") for chunk_id in ids]
        return Present(given.judgments, chunks, lacking + [_without_text(each) for each in chunks])
    chunks = list(given.documents)
    known = {chunk.chunk_id for chunk in chunks}
    absent = {chunk_id: count for chunk_id, count in named.items() if chunk_id not in known}
    lacking += _lacking("corpus", "documents", absent, missing)
    judgments = given.judgments
    if absent:
        judgments = [judgment for judgment in judgments if judgment.chunk_id not in absent]
    empty = [_without_text(chunk) for chunk in chunks if not chunk.titled.strip()]
    return Present(judgments, chunks, lacking + empty)


def _lacking(source: str, what: str, absent: dict[str, int], missing: Missing) -> list[SkippedFile]:
    if absent and missing == "refuse":
        first = min(absent)
        raise SourceError(
            f"{len(absent)} {what} that judgments name are not there, as {shown(first)} "
            f"({sum(absent.values())} judgments in all); get the whole data, or leave these "
            "judgments out and have them listed in skipped.jsonl with: --missing drop"
        )
    return [
        SkippedFile(
            source=source,
            path=id_,
            kind="missing",
            reason=f"named by {absent[id_]} judgments, which were left out",
        )
        for id_ in sorted(absent)
    ]


def _without_text(chunk: Chunk) -> SkippedFile:
    return SkippedFile(source=chunk.source, path=chunk.chunk_id, kind="missing", reason=NO_TEXT)


def judged_pairs(judgments: Sequence[Judgment]) -> list[tuple[str, str]]:
    """List the pairs of query and chunk that were judged, ascending."""
    return sorted({(judgment.query_id, judgment.chunk_id) for judgment in judgments})


_COLUMNS_qrels = ("query-id", "corpus-id", "score")
_LARGEST_GRADE = 10**9
_ADHOC = frozenset(("0", "Q0", "q0"))
_PARQUET_qrels = b"PAR1"


class Qrel(NamedTuple):
    """One line of qrels."""

    query_id: str
    doc_id: str
    grade: int
    place: str


def read_qrels(path: Path) -> Iterator[Qrel]:
    """Give the qrels of a file, whose form is told by its first line.

    Args:
        path: A table `query-id  corpus-id  score` with tabs, with or without a line of names;
            TREC's `query 0 document grade`, where a document id may hold spaces; or rows of
            JSON Lines or Parquet with these three names.

    Raises:
        SourceError: With file and line, where a line is none, a pair is graded twice, or the
            qrels are of subtopics.
    """
    seen: dict[tuple[str, str], str] = {}
    for qrel in _read(path):
        pair = (qrel.query_id, qrel.doc_id)
        if (first := seen.get(pair)) is not None:
            raise SourceError(
                f"{qrel.place}: query {qrel.query_id!r} and document {qrel.doc_id!r} are graded "
                f"at {first} already; keep one"
            )
        seen[pair] = qrel.place
        yield qrel


def _read(path: Path) -> Iterator[Qrel]:
    if path.is_dir() or begins_with(path, _PARQUET_qrels):
        return map(_of_row, read_rows(path, _COLUMNS_qrels))
    first = next((line for _, line in read_lines(path) if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        return map(_of_row, read_rows(path, _COLUMNS_qrels))
    return _of_lines(path)


def _of_row(row: Row) -> Qrel:
    score = row.values.get("score")
    if (
        isinstance(score, bool)
        or not isinstance(score, (int, float))
        or not -_LARGEST_GRADE < score < _LARGEST_GRADE
        or score != int(score)
    ):
        raise row.fault("score", "a whole number of at most 9 digits")
    return Qrel(row.id("query-id"), row.id("corpus-id"), int(score), row.place)


def _of_lines(path: Path) -> Iterator[Qrel]:
    try:
        for line in qrels_lines(read_lines(path)):
            place = f"{path}:{line.number}"
            if line.second is not None and line.second not in _ADHOC:
                raise SourceError(
                    f"{place}: {line.second!r} in the second column, where qrels of whole queries "
                    "have 0; those of subtopics cannot be imported, for nobody knows the texts of "
                    "the subtopics"
                )
            yield Qrel(line.query_id, line.document_id, line.grade, place)
    except QrelsLineError as fault:
        raise SourceError(f"{path}:{fault.number}: {fault}") from None


_READ_AS = {
    "freshstack": "freshstack",
    "beir": "beir",
    "mteb": "beir",
    "crux": "crux",
    "nuggetizer": "nuggetizer",
}
_NOT_READ = ("hf", "trec")
"""Formats of export that none of import reads."""
_ELSE = "export the collection as freshstack, and import that"


def check_format(format_: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is no format of import; for one of export, say what to do.

    Raises:
        CollectionError: It is none.
    """
    if format_ in allowed:
        return
    hint = ""
    if format_ in _READ_AS:
        hint = f"; an export in the format {format_} is read as {_READ_AS[format_]}"
    elif format_ in _NOT_READ:
        hint = f"; an export in the format {format_} cannot be read: {_ELSE}"
    raise CollectionError(
        f"{format_!r} is no format of import; allowed: {', '.join(allowed)}{hint}"
    )


def check_standing(out: Path) -> None:
    """Refuse a folder that holds a collection, or anything else that writing would replace.

    Raises:
        CollectionError: Its records would be lost.
    """
    place = out.resolve()
    # A writing that was cut short may have left the collection under its hidden name.
    if is_collection(standing_folder(place)):
        raise CollectionError(
            f"{out}: a collection stands already; name another folder, or move it"
        )
    check_foreign(place)


def check_other(format_: str, path: Path) -> None:
    """Refuse a collection of ours, and an export of ours that is in another format.

    Raises:
        SourceError: It is one, or its `export.json` cannot be read.
    """
    if not path.is_dir():
        return
    if is_collection(path):
        raise SourceError(
            f"{path}: is a collection already, and needs no import; evaluate, extend or export it "
            "as it is"
        )
    file = path / EXPORT_FILE
    told = json_file(file) if file.is_file() else None
    found = told.get("format") if isinstance(told, dict) and "content_hash" in told else None
    if found in _NOT_READ:
        raise SourceError(
            f"{path}: is an export in the format {found}, as its {EXPORT_FILE} says, which cannot "
            f"be read; {_ELSE}"
        )
    if isinstance(found, str) and _READ_AS.get(found, format_) != format_:
        raise SourceError(
            f"{path}: is an export in the format {found}, as its {EXPORT_FILE} says, and not in "
            f"{format_}; read it with: freshstack import {_READ_AS[found]}"
        )
