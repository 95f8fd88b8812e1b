"""Queries from a Stack Exchange dump: questions with their accepted answers, as Markdown.

What may become a query is kept on disk while the dump is read, so that memory grows with the queries
and not with the dump.
"""

import json
import lzma
import re
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self
from xml.parsers import expat

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.html import html_to_markdown
from freshstack_dspy.questions.selection import (
    Selection,
    author_of,
    instant,
    licence_at,
    site_address,
)
from freshstack_dspy.records import Attribution, Query

if TYPE_CHECKING:
    from py7zr import SevenZipFile

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE question (id INTEGER PRIMARY KEY, accepted INTEGER, post TEXT);
CREATE TABLE answer (id INTEGER PRIMARY KEY, parent INTEGER, post TEXT);
CREATE TABLE duplicate (id INTEGER PRIMARY KEY);
CREATE TABLE owner (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
CREATE TABLE seen (id INTEGER PRIMARY KEY);
"""
_KEPT = (
    "Id Title Body Tags CreationDate LastEditDate Score OwnerUserId OwnerDisplayName ContentLicense"
).split()


class Candidate(NamedTuple):
    """A question that passed the filters and names an accepted answer."""

    question: Mapping[str, str]
    answer: Mapping[str, str] | None
    """None where it is not in the dump."""
    is_duplicate: bool


class Candidates:
    """The candidates of one dump; a context that ends with their database."""

    def __init__(self) -> None:
        with _faults():
            self._base = sqlite3.connect("", isolation_level=None)
            self._base.executescript(_SCHEMA)
            self._base.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def add_question(self, post_id: int, accepted: int, row: Mapping[str, str]) -> None:
        """Keep a question."""
        self._run("INSERT OR IGNORE INTO question VALUES (?, ?, ?)", post_id, accepted, _text(row))
        self._await_owner(row)

    def awaits(self, question_id: int, answer_id: int) -> bool:
        """Say whether a kept question has accepted this answer."""
        return self._has(
            "SELECT 1 FROM question WHERE id = ? AND accepted = ?", question_id, answer_id
        )

    def add_answer(self, answer_id: int, question_id: int, row: Mapping[str, str]) -> None:
        """Keep an answer, once."""
        self._run(
            "INSERT OR IGNORE INTO answer VALUES (?, ?, ?)", answer_id, question_id, _text(row)
        )
        self._await_owner(row)

    def add_duplicate(self, question_id: int) -> None:
        """Keep in mind that a question was closed as a duplicate."""
        self._run("INSERT OR IGNORE INTO duplicate VALUES (?)", question_id)

    def add_name(self, user_id: str, name: str) -> None:
        """Keep the name of a user, if some kept post is theirs."""
        self._run("UPDATE owner SET name = ? WHERE id = ?", name, user_id)

    def name_of(self, user_id: str) -> str | None:
        """Give the name of the owner of a kept post."""
        return self._first("SELECT name FROM owner WHERE id = ?", user_id)

    def is_new(self, post_id: int) -> bool:
        """Say whether this is the first time that the id is asked about."""
        if self._has("SELECT 1 FROM seen WHERE id = ?", post_id):
            return False
        self._run("INSERT INTO seen VALUES (?)", post_id)
        return True

    def __iter__(self) -> Iterator[Candidate]:
        """Give the candidates in order of the questions' ids."""
        with _faults():
            found = self._base.execute(
                "SELECT question.post, answer.post, duplicate.id FROM question "
                "LEFT JOIN answer ON answer.id = accepted AND parent = question.id "
                "LEFT JOIN duplicate ON duplicate.id = question.id ORDER BY question.id"
            )
            for question, answer, duplicate in found:
                yield Candidate(
                    json.loads(question), answer and json.loads(answer), duplicate is not None
                )

    def _await_owner(self, row: Mapping[str, str]) -> None:
        if "OwnerUserId" in row and not row.get("OwnerDisplayName"):
            self._run("INSERT OR IGNORE INTO owner VALUES (?, NULL)", row["OwnerUserId"])

    def _run(self, statement: str, *values: object) -> None:
        with _faults():
            self._base.execute(statement, values)

    def _has(self, statement: str, *values: object) -> bool:
        with _faults():
            return self._base.execute(statement, values).fetchone() is not None

    def _first(self, statement: str, *values: object) -> str | None:
        with _faults():
            row = self._base.execute(statement, values).fetchone()
        return None if row is None else row[0]


def _text(row: Mapping[str, str]) -> str:
    return json.dumps({key: row[key] for key in _KEPT if key in row}, ensure_ascii=False)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise SourceError(
            f"the temporary database of questions cannot be used: {error}; free some space, "
            "or name a larger place as SQLITE_TMPDIR"
        ) from None


MAGIC = b"7z\xbc\xaf\x27\x1c"
_PLAIN = re.compile(r"(\w[\w. -]*/)*\w[\w. -]*")
_BLOCK = 1 << 20
_BLOCKS_AHEAD = 8
_SECONDS_BETWEEN_LOOKS = 0.2
_METHODS = frozenset(["BCJ", "BZip2", "COPY", "LZMA", "LZMA2"])
"""Those that are unpacked in pieces of bounded size; PPMd crashes on damaged data."""
_LARGEST_DICTIONARY = 1 << 30
_LZMA, _LZMA2 = b"\x03\x01\x01", b"\x21"


class Block(NamedTuple):
    """Some bytes of a member; none at all once it ended and its checksum held."""

    member: str
    data: bytes


def is_seven_zip(path: Path) -> bool:
    """Say whether a file begins as 7z archives do.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def member_names(path: Path) -> list[str]:
    """Name the files in an archive, in its order; folders and links are none.

    Raises:
        SourceError: The archive is damaged, encrypted, or packed in a way that is not read.
    """
    with _opened(path) as (archive, _), _faults_of(path):
        return [member.filename for member in archive.list() if member.is_file]


def unpack(
    path: Path, names: Collection[str], report: Callable[[int], None]
) -> Generator[Block, None, None]:
    """Unpack members, in the order of the archive, a block at a time.

    What stands before them in the same solid block is unpacked too, and passed over. Close what
    this gives to end the thread that unpacks.

    Args:
        path: The archive.
        names: Which members.
        report: Is told now and then how many bytes of the archive were read.

    Raises:
        SourceError: The archive is damaged, names a member twice, or gives it a name that is no
            plain path, as one that leads out of a folder.
    """
    astray = sorted(name for name in names if not _PLAIN.fullmatch(name))
    if astray:
        raise SourceError(f"{path}: holds {astray[0]!r}; allowed: plain names, as site/Posts.xml")
    with _opened(path) as (archive, file):
        counts = Counter(member.filename for member in archive.list())
        twice = sorted(name for name in names if counts[name] > 1)
        if twice:
            raise SourceError(f"{path}: holds {twice[0]!r} more than once; pack it again")
        blocks = _Blocks(archive, names)
        try:
            while (block := blocks.next(lambda: report(file.tell()))) is not None:
                yield block
        finally:
            blocks.stop()
        with _faults_of(path):
            blocks.raise_fault()


class _StoppedError(Exception):
    """The reader wants no more."""


class _Blocks:
    """A thread that unpacks, a few blocks ahead of its reader."""

    def __init__(self, archive: "SevenZipFile", names: Collection[str]) -> None:
        self._archive = archive
        self._names = names
        self._queue: Queue[Block | None] = Queue(_BLOCKS_AHEAD)
        self._stopped = Event()
        self._fault: BaseException | None = None
        self._thread = Thread(target=self._unpack, name="7z", daemon=True)
        self._thread.start()

    def next(self, waiting: Callable[[], None]) -> Block | None:
        """Wait for a block; None when there are no more. `waiting` is called meanwhile."""
        while True:
            waiting()
            try:
                return self._queue.get(timeout=_SECONDS_BETWEEN_LOOKS)
            except Empty:
                continue

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopped.set()
        self._thread.join()

    def raise_fault(self) -> None:
        """Raise what ended the thread, if it was a fault."""
        if self._fault is not None and not isinstance(self._fault, _StoppedError):
            raise self._fault

    def put(self, block: Block | None) -> None:
        """Hand a block over, when there is room."""
        while not self._stopped.is_set():
            try:
                return self._queue.put(block, timeout=_SECONDS_BETWEEN_LOOKS)
            except Full:
                continue
        raise _StoppedError

    def _unpack(self) -> None:
        try:
            self._archive.extract(targets=list(self._names), factory=_writers(self.put))
        except BaseException as fault:  # noqa: BLE001 - raised again in the reader's thread
            self._fault = fault
        try:
            self.put(None)
        except _StoppedError:
            return


def _writers(put: Callable[[Block], None]) -> Any:
    """Make what py7zr writes members to."""
    from py7zr import Py7zIO, WriterFactory

    class Writer(Py7zIO):  # type: ignore[misc]  # untyped for mypy, as all of py7zr
        def __init__(self, member: str) -> None:
            self._member = member

        def write(self, s: bytes | bytearray) -> int:
            for start in range(0, len(s), _BLOCK):
                put(Block(self._member, bytes(s[start : start + _BLOCK])))
            return len(s)

        def close(self) -> None:
            put(Block(self._member, b""))

        def read(self, size: int | None = None) -> bytes:
            return b""

        def seek(self, offset: int, whence: int = 0) -> int:
            return 0

        def flush(self) -> None:
            return

        def size(self) -> int:
            return 0

    class Writers(WriterFactory):  # type: ignore[misc]
        def create(self, filename: str) -> Writer:
            return Writer(filename)

    return Writers()


@contextmanager
def _opened(path: Path) -> Iterator[tuple["SevenZipFile", IO[bytes]]]:
    """Open an archive and check that reading it is safe.

    py7zr is given the open file: handed a path, it would unpack with several threads at once.
    """
    from py7zr import SevenZipFile

    try:
        file = path.open("rb")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        with _faults_of(path):
            archive = SevenZipFile(file)
            _check(archive, path)
        yield archive, file


def _check(archive: "SevenZipFile", path: Path) -> None:
    if archive.needs_password():
        raise _encrypted(path)
    unknown = sorted(set(archive.archiveinfo().method_names) - _METHODS)
    if unknown:
        raise SourceError(
            f"{path}: packed with {', '.join(unknown)}; allowed: {', '.join(sorted(_METHODS))}; "
            f"unpack it with: 7z x {path.name}"
        )
    streams = archive.header.main_streams
    for folder in streams.unpackinfo.folders if streams and streams.unpackinfo else ():
        for coder in folder.coders:
            size = _dictionary_size(coder["method"], coder["properties"] or b"")
            if size > _LARGEST_DICTIONARY:
                raise SourceError(
                    f"{path}: unpacking it takes {size / (1 << 30):.1f} GiB of memory, more than "
                    f"{_LARGEST_DICTIONARY >> 30}; unpack it with: 7z x {path.name}"
                )


def _dictionary_size(method: bytes, properties: bytes) -> int:
    """Read how much memory a method takes, in bytes; 0 where it takes little.

    Source: 7zFormat.txt and Methods.txt of the LZMA SDK.
    """
    if method == _LZMA:
        return int(struct.unpack_from("<I", properties, 1)[0])
    if method == _LZMA2:
        return (2 | properties[0] & 1) << (properties[0] // 2 + 11)
    return 0


def _encrypted(path: Path) -> SourceError:
    return SourceError(
        f"{path}: encrypted; archives with a password are not read, "
        f"so unpack it with: 7z x {path.name}"
    )


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    """Say in one line what py7zr met; of hostile headers it raises whatever comes up."""
    from py7zr import exceptions

    try:
        yield
    except SourceError:
        raise
    except exceptions.PasswordRequired:
        raise _encrypted(path) from None
    except exceptions.UnsupportedCompressionMethodError as error:
        raise SourceError(
            f"{path}: packed with a method that is not read ({error.message}); "
            f"unpack it with: 7z x {path.name}"
        ) from None
    except (
        exceptions.ArchiveError,
        exceptions.AbsolutePathError,
        lzma.LZMAError,
        struct.error,
        ArithmeticError,
        AssertionError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        what = str(error) or type(error).__name__
        if isinstance(error, exceptions.CrcError):
            what = "a checksum does not hold"
        raise SourceError(
            f"{path}: a damaged 7z archive: {' '.join(what.split())[:200]}; download it again"
        ) from None


_BLOCK_xml_rows = 1 << 20
_LONGEST_ROW = 8 << 20
"""Bytes. A post holds at most some tens of thousands of characters; this bounds our memory."""

Row = dict[str, str]
"""The attributes of a row, by name."""


def read_rows(
    path: Path, root: str, report: Callable[[int], None] = lambda _: None
) -> Iterator[Row]:
    """Give the attributes of each `<row …/>` of a dump file, in the order of the file.

    Args:
        path: The XML file.
        root: Which element its rows must stand in: `posts`, `users`, …
        report: Is told now and then how many bytes were read.

    Raises:
        SourceError: The file cannot be read, or as `RowParser.feed` says.
    """
    rows = RowParser(path, root)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_xml_rows):
                yield from rows.feed(block)
                report(file.tell())
            yield from rows.end()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


class RowParser:
    """An expat parser that is fed a dump file and gives its rows.

    A document type declaration is refused before anything in it is read: without one there are
    no entities to expand and nothing external to load.
    """

    def __init__(self, path: Path, root: str, name: str | None = None) -> None:
        """Begin a file.

        Args:
            path: What is read, for messages.
            root: Which element the rows must stand in.
            name: Of the member, where `path` is an archive.
        """
        self._place = f"{path}: {name}" if name else str(path)
        self._root = root
        self._depth = 0
        self._found: list[Row] = []
        self._bytes_since_row = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def end(self) -> list[Row]:
        """Say that there is no more; give the last rows.

        Raises:
            SourceError: The file is cut short.
        """
        return self.feed(b"", last=True)

    def feed(self, block: bytes, *, last: bool = False) -> list[Row]:
        """Parse the next bytes; give the rows that they complete.

        Raises:
            SourceError: The file is damaged (with the place), declares a document type or
                another encoding than UTF-8, UTF-16 and those of one byte, or has another root.
        """
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            place = f"line {error.lineno}, column {error.offset + 1}"
            hint = " (is it cut short?)" if last else ""
            raise SourceError(
                f"{self._place}: not well-formed XML at {place}, "
                f"byte {max(self._parser.ErrorByteIndex, 0)}: {expat.ErrorString(error.code)}{hint}; "
                "unpack or download the dump again"
            ) from None
        except (LookupError, ValueError):  # from Python's codecs, which expat asks
            raise SourceError(
                f"{self._place}: declares an encoding that is not read; a dump is in UTF-8"
            ) from None
        rows, self._found = self._found, []
        self._bytes_since_row = len(block) if rows else self._bytes_since_row + len(block)
        if self._bytes_since_row > _LONGEST_ROW:
            raise SourceError(
                f"{self._place}: no row ends within {_LONGEST_ROW >> 20} MiB "
                f"after line {self._parser.CurrentLineNumber}; this is no Stack Exchange dump"
            )
        return rows

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and name != self._root:
            raise SourceError(
                f"{self._place}: its root is <{name[:40]}>, not <{self._root}>; "
                f"give the dump's {self._root.capitalize()}.xml"
            )
        if self._depth == 1 and name == "row":
            self._found.append(attributes)
        self._depth += 1

    def _end(self, _name: str) -> None:
        self._depth -= 1

    def _check_doctype(self, *_declaration: object) -> None:
        raise SourceError(
            f"{self._place}: declares a document type (line {self._parser.CurrentLineNumber}), "
            "which no Stack Exchange dump does; it is refused unread"
        )


Table = Literal["Posts", "Users", "PostLinks"]


class Place(NamedTuple):
    """Where a table is: a file of XML, or a member of an archive."""

    path: Path
    member: str | None = None


class Dump:
    """The tables of one dump, to be read row by row."""

    def __init__(self, places: dict[Table, Place], progress: ReadProgress | None = None) -> None:
        self._places = places
        self._progress = progress or (lambda _done, _total: None)
        self._done = self._furthest = self._total = 0

    @classmethod
    def at(cls, path: Path, progress: ReadProgress | None = None) -> Self:
        """Find the tables of a dump.

        Args:
            path: `Posts.xml`, a 7z archive that holds it, or a folder with either. The other
                tables are looked for in the same archive, then beside it.
            progress: Is told how the reading goes on.

        Raises:
            SourceError: There is no Posts.xml, or there are several.
        """
        posts = _posts_file(path) if path.is_dir() else path
        if is_seven_zip(posts):
            inside = {table: _inside(posts, table) for table in _TABLES}
        else:
            inside = {"Posts": Place(posts)}
        found: dict[Table, Place] = {}
        for table in _TABLES:
            place = inside.get(table) or _beside(posts, table)
            if place is not None:
                found[table] = place
        if "Posts" not in found:
            raise SourceError(f"{posts}: holds no Posts.xml; name the dump's archive of posts")
        return cls(found, progress)

    def __contains__(self, table: Table) -> bool:
        return table in self._places

    def files(self, tables: Sequence[Table]) -> list[Path]:
        """Name the files that hold these tables, each once; tables that are missing have none."""
        places = [self._places[table] for table in tables if table in self._places]
        return list(dict.fromkeys(place.path for place in places))

    def rows(self, tables: Sequence[Table]) -> Iterator[tuple[Table, Row]]:
        """Read tables, each file once.

        Files come in the order of `tables`, members of an archive in the order of the archive.

        Raises:
            SourceError: A file is damaged or hostile.
        """
        files = self.files(tables)
        sizes = [path.stat().st_size for path in files]
        self._total += sum(sizes)
        for path, size in zip(files, sizes, strict=True):
            here: dict[Table, str | None] = {
                table: place.member
                for table, place in self._places.items()
                if table in tables and place.path == path
            }
            yield from _rows_of(path, here, self._report)
            self._done += size
            self._report(0)

    def _report(self, position: int) -> None:
        # An archive is not read from front to back.
        self._furthest = max(self._furthest, min(self._done + position, self._total))
        self._progress(self._furthest, self._total)


_TABLES: tuple[Table, ...] = ("Posts", "Users", "PostLinks")


def _rows_of(
    path: Path, members: dict[Table, str | None], report: Callable[[int], None]
) -> Iterator[tuple[Table, Row]]:
    """Read the tables that are in one file."""
    table_of: dict[str, Table] = {}
    parsers: dict[str, RowParser] = {}
    for table, member in members.items():
        if member is None:
            for row in read_rows(path, table.lower(), report):
                yield table, row
            return
        table_of[member] = table
        parsers[member] = RowParser(path, table.lower(), member)
    with closing(unpack(path, table_of, report)) as blocks:
        for block in blocks:
            parser = parsers[block.member]
            for row in parser.feed(block.data) if block.data else parser.end():
                yield table_of[block.member], row


def _inside(archive: Path, table: Table) -> Place | None:
    """Find a table in an archive."""
    wanted = f"{table}.xml".casefold()
    names = [
        name
        for name in member_names(archive)
        if PurePosixPath(name.replace("\\", "/")).name.casefold() == wanted
    ]
    if len(names) > 1:
        raise SourceError(
            f"{archive}: holds {len(names)} files {table}.xml, as {names[0]!r} and {names[1]!r}; "
            "give the archive of one site"
        )
    return Place(archive, names[0]) if names else None


def _beside(posts: Path, table: Table) -> Place | None:
    """Find a table in the folder of the posts: as XML, else as the archive of the same site."""
    if table == "Posts":
        return None
    loose = posts.with_name(f"{table}.xml")
    if loose.exists():
        return Place(loose)
    site = re.match(r"(.*-)?posts\.", posts.name, re.IGNORECASE)
    if site is None:
        return None
    names = {f"{site[1] or ''}{table}.7z"}
    found = sorted(path for path in posts.parent.glob("*.7z") if path.name in names)
    if not found and not site[1]:
        found = sorted(posts.parent.glob(f"*-{table}.7z"))
    if len(found) > 1:
        raise SourceError(
            f"{posts}: both {found[0].name} and {found[1].name} are beside it; "
            "keep the dumps of two sites in folders of their own"
        )
    return _inside(found[0], table) if found else None


def _posts_file(folder: Path) -> Path:
    """Find the posts in a folder: as XML, else as an archive of them, else as the only archive."""
    loose = folder / "Posts.xml"
    if loose.exists():
        return loose
    archives = sorted(folder.glob("*.7z"))
    named = [path for path in archives if path.stem.casefold().endswith("posts")]
    found = named or archives
    if len(found) != 1:
        what = f"{len(found)} archives that may hold it" if found else "no 7z archive"
        raise SourceError(
            f"{folder}: holds no Posts.xml and {what}; name the file with the posts itself"
        )
    return found[0]


QUESTION, ANSWER = "1", "2"
"""Values of `PostTypeId`; the others are wikis of tags and the like."""
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_TAG = re.compile(r"[^<>|]+")


class Post(NamedTuple):
    """What is kept of a row."""

    post_id: int
    title: str
    text: str
    """Markdown."""
    tags: tuple[str, ...]
    created: str
    score: int | None
    owner_id: str | None
    owner_name: str | None
    licence: str

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Self:
        """Convert a row whose id and dates are known to be good.

        Its licence is its `ContentLicense`, or else the one in force when it was last edited.
        """
        created = row["CreationDate"]
        return cls(
            post_id=int(row["Id"]),
            title=row.get("Title", "").strip(),
            text=html_to_markdown(row.get("Body", "")),
            tags=tags_of(row),
            created=created,
            score=integer(row.get("Score")),
            owner_id=row.get("OwnerUserId"),
            owner_name=row.get("OwnerDisplayName"),
            licence=row.get("ContentLicense")
            or licence_at(instant(row.get("LastEditDate", created))),
        )


def integer(text: str | None) -> int | None:
    """Read a number of the dump; None where there is none."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def date_of(row: Mapping[str, str]) -> datetime | None:
    """Read when a row was created, if all its dates are good."""
    try:
        dates = [instant(row[key]) for key in ("CreationDate", "LastEditDate") if key in row]
    except ValueError:
        return None
    return dates[0] if "CreationDate" in row else None


def tags_of(row: Mapping[str, str]) -> tuple[str, ...]:
    """Read `<a><b>` and `|a|b|`."""
    return tuple(_TAG.findall(row.get("Tags", "")))


_DUPLICATE_LINK = "3"


def dump_tables(config: QueriesConfig) -> tuple[Table, ...]:
    """Name the tables that a configuration reads, in the best order."""
    links: tuple[Table, ...] = ("PostLinks",) if config.duplicates == "drop" else ()
    return (*links, "Posts", "Users")


def gather(
    dump: Dump,
    tables: Sequence[Table],
    candidates: Candidates,
    selection: Selection,
    rejected: Counter[str],
) -> None:
    """Gather the questions that pass the filters and name an accepted answer, and what they need.

    Args:
        dump: Is read.
        tables: Which tables of it, in order.
        candidates: Added to.
        selection: The filters.
        rejected: Reason to count of the other questions; added to.

    Raises:
        SourceError: A file is damaged or hostile, or a post is there twice.
    """
    posts = _Posts(candidates, selection, rejected)
    users_come_early = False
    for table, row in dump.rows(tables):
        if table == "Posts":
            posts.take(row)
        elif table == "PostLinks":
            _mark_duplicate(row, candidates)
        else:
            users_come_early = users_come_early or not posts.begun
            _name_user(row, candidates)
    if not posts.are_in_order:
        for _, row in dump.rows(("Posts",)):
            if not posts.take_again(row):
                raise SourceError(
                    f"{dump.files(('Posts',))[0]}: two posts have the Id {row['Id']}; "
                    "give one dump, not several joined"
                )
    if users_come_early or not posts.are_in_order:
        for _, row in dump.rows(("Users",)):
            _name_user(row, candidates)


class _Posts:
    """Takes the posts of a dump, one after the other."""

    def __init__(
        self, candidates: Candidates, selection: Selection, rejected: Counter[str]
    ) -> None:
        self._candidates = candidates
        self._selection = selection
        self._rejected = rejected
        self._last_id: int | None = None
        self.begun = False
        self.are_in_order = True

    def take(self, row: Row) -> None:
        """Take a post for the first time."""
        self.begun = True
        post_id = integer(row.get("Id"))
        if post_id is not None:
            if self._last_id is not None and post_id <= self._last_id:
                self.are_in_order = False
            self._last_id = post_id
        if row.get("PostTypeId", QUESTION) == QUESTION:
            self._take_question(row, post_id)
        elif row["PostTypeId"] == ANSWER:
            self._take_answer(row, post_id)

    def take_again(self, row: Row) -> bool:
        """Take a post with all questions known; say whether its id is new in this reading."""
        post_id = integer(row.get("Id"))
        if row.get("PostTypeId") == ANSWER:
            self._take_answer(row, post_id)
        return post_id is None or self._candidates.is_new(post_id)

    def _take_question(self, row: Row, post_id: int | None) -> None:
        asked = date_of(row)
        is_malformed = "PostTypeId" not in row or not row.get("Title", "").strip()
        if post_id is None or asked is None or is_malformed:
            self._rejected["malformed row"] += 1
            return
        score = integer(row.get("Score"))
        reason = self._selection.reason_against_id(str(post_id)) or (
            self._selection.reason_against(tags_of(row), asked, score)
        )
        accepted = integer(row.get("AcceptedAnswerId"))
        if reason is None and accepted is not None:
            self._candidates.add_question(post_id, accepted, row)
        else:
            self._rejected[reason or "no accepted answer"] += 1

    def _take_answer(self, row: Row, post_id: int | None) -> None:
        """Keep an answer that is awaited, or may be: its question comes later."""
        question_id = integer(row.get("ParentId"))
        if question_id is None or post_id is None:
            return
        if question_id > post_id or self._candidates.awaits(question_id, post_id):
            self._candidates.add_answer(post_id, question_id, row)


def _mark_duplicate(row: Row, candidates: Candidates) -> None:
    question_id = integer(row.get("PostId"))
    if row.get("LinkTypeId") == _DUPLICATE_LINK and question_id is not None:
        candidates.add_duplicate(question_id)


def _name_user(row: Row, candidates: Candidates) -> None:
    name = row.get("DisplayName", "").strip()
    if "Id" in row and name:
        candidates.add_name(row["Id"], name)


def read_stackexchange(
    config: QueriesConfig,
    selection: Selection,
    rejected: Counter[str],
    progress: ReadProgress | None = None,
) -> list[Query]:
    """Read the questions of a dump that pass the filters and have an accepted answer.

    Authors are named from the table of users, where there is one.

    Args:
        config: `path` is what `Dump.at` takes; `site` makes the links whole.
        selection: The filters.
        rejected: Reason to count of questions; added to.
        progress: Is told how the reading goes on.

    Returns:
        The queries in order of id, `config.limit` at most; the rest is counted as rejected.

    Raises:
        ConfigError: `site` is not a host.
        SourceError: A file is missing, damaged or hostile, or a post is there twice.
    """
    address = site_address(config.site)
    dump = Dump.at(config.location, progress)
    if config.duplicates == "drop" and "PostLinks" not in dump:
        raise SourceError(
            f"{config.location}: there is no PostLinks.xml, and duplicates are known from it alone; "
            'put it there, or set duplicates = "keep"'
        )
    with Candidates() as candidates:
        gather(dump, dump_tables(config), candidates, selection, rejected)
        queries: list[Query] = []
        for candidate in candidates:
            pair = _pair_of(candidate, config, selection, rejected)
            if pair is None:
                continue
            if len(queries) == config.limit:
                rejected["beyond limit"] += 1
            else:
                queries.append(_query_of(pair, address, candidates))
        return queries


class _Pair(NamedTuple):
    question: Post
    answer: Post


def _pair_of(
    candidate: Candidate, config: QueriesConfig, selection: Selection, rejected: Counter[str]
) -> _Pair | None:
    """Convert a candidate that has a good answer, or count it with the first reason against it."""
    if config.duplicates == "drop" and candidate.is_duplicate:
        rejected["closed as a duplicate"] += 1
        return None
    if candidate.answer is None:
        rejected["accepted answer is not in the dump"] += 1
        return None
    if date_of(candidate.answer) is None:
        rejected["malformed accepted answer"] += 1
        return None
    pair = _Pair(Post.of(candidate.question), Post.of(candidate.answer))
    reason = (
        (None if pair.answer.text else "empty answer")
        or selection.reason_against_answer(pair.answer.score)
        or selection.reason_against_licences(pair.question.licence, pair.answer.licence)
    )
    if reason is not None:
        rejected[reason] += 1
        return None
    return pair


def _query_of(pair: _Pair, address: str, candidates: Candidates) -> Query:
    question, answer = pair

    def source(post: Post, path: str) -> Attribution:
        name = post.owner_id and candidates.name_of(post.owner_id)
        author = author_of(post.owner_name, post.owner_id, name)
        url = f"{address}/{path}/{post.post_id}"
        return Attribution(author=author, url=url, licence=post.licence)

    return Query(
        query_id=str(question.post_id),
        title=question.title,
        body=question.text,
        answer_id=str(answer.post_id),
        answer=answer.text,
        tags=question.tags,
        asked_at=question.created,
        score=question.score,
        question_source=source(question, "questions"),
        answer_source=source(answer, "a"),
    )
