"""Questions of a Stack Exchange dump with their accepted answers, as Markdown.

The dump is streamed, from XML or 7z. What may become a query waits in a temporary database, so
that memory grows with the queries and not with the dump.
"""

import json
import lzma
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from xml.parsers import expat

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.html import html_to_markdown
from freshstack_dspy.questions.selection import Selection, instant, licence_at, site_address
from freshstack_dspy.records import Attribution, Query

if TYPE_CHECKING:
    from py7zr import SevenZipFile

Table = Literal["Posts", "Users", "PostLinks"]
Row = dict[str, str]
"""The attributes of a row, by name."""
Take = Callable[[Table, Row], None]

_TABLES: tuple[Table, ...] = ("Posts", "Users", "PostLinks")
_QUESTION, _ANSWER = "1", "2"
"""Values of `PostTypeId`; the others are wikis of tags and the like."""
_DUPLICATE_LINK = "3"
_BLOCK = 1 << 20
_LONGEST_ROW = 8 << 20
"""Bytes. A post holds at most some tens of thousands of characters; this bounds our memory."""
_SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
_METHODS = frozenset(["BCJ", "BZip2", "COPY", "LZMA", "LZMA2"])
"""Those that py7zr unpacks in pieces of bounded size."""
_PLAIN_NAME = re.compile(r"(\w[\w. -]*/)*\w[\w. -]*")
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_TAG = re.compile(r"[^<>|]+")
_STORED = (
    "Id Title Body Tags CreationDate LastEditDate Score OwnerUserId OwnerDisplayName ContentLicense"
).split()
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE question (id INTEGER PRIMARY KEY, accepted INTEGER, post TEXT);
CREATE TABLE answer (id INTEGER PRIMARY KEY, parent INTEGER, post TEXT);
CREATE TABLE duplicate (id INTEGER PRIMARY KEY);
CREATE TABLE user (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
BEGIN;
"""


# Reading questions


def read_stackexchange(
    config: QueriesConfig,
    selection: Selection,
    rejected: Counter[str],
    progress: ReadProgress | None = None,
) -> list[Query]:
    """Read the questions of a dump that pass the filters and have an accepted answer.

    At most `config.limit` in order of id; all others are counted in `rejected`, by reason.
    """
    address = site_address(config.site)
    dump = Dump(config.location, progress)
    if config.duplicates == "drop" and "PostLinks" not in dump.places:
        raise SourceError(
            f"{config.location}: there is no PostLinks.xml, and duplicates are known from it alone; "
            'put it there, or set duplicates = "keep"'
        )
    # An empty name: SQLite keeps the database in a temporary file, where SQLITE_TMPDIR says.
    with closing(sqlite3.connect("", isolation_level=None)) as base:
        base.executescript(_SCHEMA)
        _Gathering(base, selection, rejected).gather(dump, dump_tables(config))
        queries: list[Query] = []
        for question, answer, is_duplicate in base.execute(
            "SELECT question.post, answer.post, duplicate.id IS NOT NULL FROM question "
            "LEFT JOIN answer ON answer.id = accepted AND parent = question.id "
            "LEFT JOIN duplicate ON duplicate.id = question.id ORDER BY question.id"
        ):
            found: Query | str = "closed as a duplicate"
            if not is_duplicate:
                pair = json.loads(question), json.loads(answer or "null")
                found = _query(*pair, address, selection, base)
            if isinstance(found, str):
                rejected[found] += 1
            elif len(queries) == config.limit:
                rejected["beyond limit"] += 1
            else:
                queries.append(found)
        return queries


def dump_tables(config: QueriesConfig) -> tuple[Table, ...]:
    """Name the tables that a configuration reads, in the best order."""
    links: tuple[Table, ...] = ("PostLinks",) if config.duplicates == "drop" else ()
    return (*links, "Posts", "Users")


def tags_of_questions(
    config: QueriesConfig, progress: ReadProgress | None = None
) -> list[tuple[str, ...]]:
    """Give the tags of each question, answered or not, that passes the filters on questions."""
    selection = Selection(config)
    found: list[tuple[str, ...]] = []

    def take(_table: Table, row: Row) -> None:
        if row.get("PostTypeId") != _QUESTION:
            return
        tags = _tags(row)
        facts = row.get("Id", ""), tags, _date(row), _integer(row.get("Score"))
        if selection.reason_against(*facts) is None:
            found.append(tags)

    Dump(config.location, progress).read(("Posts",), take)
    selection.check_tags()
    return found


class _Gathering:
    """Gathers the questions that pass the filters and name an accepted answer, and what they need."""

    def __init__(
        self, base: sqlite3.Connection, selection: Selection, rejected: Counter[str]
    ) -> None:
        self._base = base
        self._selection = selection
        self._rejected = rejected
        self._last_id = 0
        self._are_in_order = True

    def gather(self, dump: "Dump", tables: Sequence[Table]) -> None:
        dump.read(tables, self._take)
        if not self._are_in_order:
            # An answer may have come long before its question: look again, all questions known.
            dump.read(("Posts",), self._take_answer)
            dump.read(("Users",), self._take_user)

    def _take(self, table: Table, row: Row) -> None:
        if table == "Users":
            self._take_user(table, row)
        elif table == "PostLinks":
            question_id = _integer(row.get("PostId"))
            if row.get("LinkTypeId") == _DUPLICATE_LINK and question_id is not None:
                self._run("INSERT OR IGNORE INTO duplicate VALUES (?)", question_id)
        elif row.get("PostTypeId", _QUESTION) == _QUESTION:
            self._take_question(row)
        else:
            self._take_answer(table, row)

    def _take_question(self, row: Row) -> None:
        post_id, asked = self._post_id(row), _date(row)
        is_malformed = "PostTypeId" not in row or not row.get("Title", "").strip()
        if post_id is None or asked is None or is_malformed:
            self._rejected["malformed row"] += 1
            return
        score = _integer(row.get("Score"))
        reason = self._selection.reason_against(str(post_id), _tags(row), asked, score)
        accepted = _integer(row.get("AcceptedAnswerId"))
        if reason is None and accepted is not None:
            self._run(
                "INSERT OR IGNORE INTO question VALUES (?, ?, ?)", post_id, accepted, _stored(row)
            )
            self._await_owner(row)
        else:
            self._rejected[reason or "no accepted answer"] += 1

    def _take_answer(self, _table: Table, row: Row) -> None:
        """Keep an answer that is awaited, or may be: its question comes later."""
        if row.get("PostTypeId") != _ANSWER:
            return
        post_id, question_id = self._post_id(row), _integer(row.get("ParentId"))
        if question_id is None or post_id is None:
            return
        awaited = self._run(
            "SELECT 1 FROM question WHERE id = ? AND accepted = ?", question_id, post_id
        )
        if question_id > post_id or awaited.fetchone():
            self._run(
                "INSERT OR IGNORE INTO answer VALUES (?, ?, ?)", post_id, question_id, _stored(row)
            )
            self._await_owner(row)

    def _post_id(self, row: Row) -> int | None:
        post_id = _integer(row.get("Id"))
        if post_id is not None:
            self._are_in_order = self._are_in_order and post_id > self._last_id
            self._last_id = post_id
        return post_id

    def _await_owner(self, row: Row) -> None:
        if "OwnerUserId" in row and not row.get("OwnerDisplayName"):
            self._run("INSERT OR IGNORE INTO user VALUES (?, NULL)", row["OwnerUserId"])

    def _take_user(self, _table: Table, row: Row) -> None:
        name = row.get("DisplayName", "").strip()
        if "Id" not in row or not name:
            return
        if self._last_id:  # the posts were read: who matters is known
            self._run("UPDATE user SET name = ? WHERE id = ?", name, row["Id"])
        else:
            self._run("INSERT OR IGNORE INTO user VALUES (?, ?)", row["Id"], name)

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._base.execute(statement, values)


def _stored(row: Mapping[str, str]) -> str:
    return json.dumps({key: row[key] for key in _STORED if key in row}, ensure_ascii=False)


def _query(
    question: Row, answer: Row | None, address: str, selection: Selection, base: sqlite3.Connection
) -> Query | str:
    """Convert a question and its answer; or say why they are left out."""
    if answer is None:
        return "accepted answer is not in the dump"
    if _date(answer) is None:
        return "malformed accepted answer"
    text = html_to_markdown(answer.get("Body", ""))
    reason = (
        (None if text else "empty answer")
        or selection.reason_against_answer(_integer(answer.get("Score")))
        or selection.reason_against_licences(_licence(question), _licence(answer))
    )
    if reason:
        return reason

    def source(row: Row, path: str) -> Attribution:
        url = f"{address}/{path}/{row['Id']}"
        return Attribution(author=_author(row, base), url=url, licence=_licence(row))

    return Query(
        query_id=str(int(question["Id"])),
        title=question.get("Title", "").strip(),
        body=html_to_markdown(question.get("Body", "")),
        answer_id=str(int(answer["Id"])),
        answer=text,
        tags=_tags(question),
        asked_at=question["CreationDate"],
        score=_integer(question.get("Score")),
        question_source=source(question, "questions"),
        answer_source=source(answer, "a"),
    )


def _author(row: Row, base: sqlite3.Connection) -> str:
    """Name the author: as the post does, else as the user list does, else by number."""
    shown, user_id = row.get("OwnerDisplayName", "").strip(), row.get("OwnerUserId")
    if shown or user_id is None:
        return shown or "anonymous"
    found = base.execute("SELECT name FROM user WHERE id = ?", (user_id,)).fetchone()
    return found[0] if found and found[0] else f"user {user_id}"


def _licence(row: Row) -> str:
    """Give the licence that a post states, or else the one in force when it was last edited."""
    written = row.get("LastEditDate", row["CreationDate"])
    return row.get("ContentLicense") or licence_at(instant(written))


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def _date(row: Mapping[str, str]) -> datetime | None:
    """Read when a row was created, if all its dates are good."""
    try:
        dates = [instant(row[key]) for key in ("CreationDate", "LastEditDate") if key in row]
    except ValueError:
        return None
    return dates[0] if "CreationDate" in row else None


def _tags(row: Mapping[str, str]) -> tuple[str, ...]:
    """Read `<a><b>` and `|a|b|`."""
    return tuple(_TAG.findall(row.get("Tags", "")))


# The tables of a dump, as XML or in 7z archives


class Dump:
    """The tables of one dump, to be read row by row."""

    def __init__(self, path: Path, progress: ReadProgress | None = None) -> None:
        """Find the tables of `Posts.xml`, of a 7z archive that holds it, or of a folder with either.

        The other tables are looked for in the same archive, then next to it.
        """
        posts = _posts_file(path) if path.is_dir() else path
        packed = _is_seven_zip(posts)
        self.places: dict[Table, tuple[Path, str | None]] = {}
        """The file of each table, and its member where that is an archive."""
        for table in _TABLES:
            place: tuple[Path, str | None] | None = _inside(posts, table) if packed else None
            if table == "Posts" and not packed:
                place = posts, None
            place = place or _beside(posts, table)
            if place is not None:
                self.places[table] = place
        if "Posts" not in self.places:
            raise SourceError(f"{posts}: holds no Posts.xml; name the dump's archive of posts")
        self._progress = progress or (lambda _done, _total: None)
        self._done = self._furthest = self._total = 0

    def files(self, tables: Sequence[Table]) -> list[Path]:
        """Name the files that hold these tables, each once."""
        return list(
            dict.fromkeys(self.places[table][0] for table in tables if table in self.places)
        )

    def read(self, tables: Sequence[Table], take: Take) -> None:
        """Read tables, each file once, and hand over their rows.

        Files come in the order of `tables`, members of an archive in the order of the archive.
        """
        files = self.files(tables)
        self._total += sum(path.stat().st_size for path in files)
        for path in files:
            here: dict[Table, str | None] = {
                table: member
                for table, (place, member) in self.places.items()
                if place == path and table in tables
            }
            _read_file(path, here, take, self._report)
            self._done += path.stat().st_size
            self._report(0)

    def _report(self, position: int) -> None:
        # An archive is not read from front to back.
        self._furthest = max(self._furthest, min(self._done + position, self._total))
        self._progress(self._furthest, self._total)


def _read_file(
    path: Path, members: dict[Table, str | None], take: Take, report: Callable[[int], None]
) -> None:
    parsers = {
        member or "": RowParser(path, table, take, member) for table, member in members.items()
    }
    if "" in parsers:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                parsers[""].feed(block)
                report(file.tell())
        parsers[""].feed(b"", last=True)
    else:
        _unpack(path, parsers, report)


class RowParser:
    """An expat parser that is fed a dump file and hands over its rows.

    A document type declaration is an error before anything in it is read: without one there are
    no entities to expand and nothing external to load.
    """

    def __init__(self, path: Path, table: Table, take: Take, member: str | None = None) -> None:
        """Begin a file; `member` is its name in an archive."""
        self._place = f"{path}: {member}" if member else str(path)
        self._table: Table = table
        self._take = take
        self._root = ""
        self._rows: list[Row] = []
        self._bytes_since_row = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.StartElementHandler = self._start

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Parse the next bytes, and hand over the rows that they complete."""
        try:
            self._parser.Parse(block, last)
        except (expat.ExpatError, LookupError, ValueError) as error:
            hint = " (is it cut short?)" if last else ""
            raise SourceError(
                f"{self._place}: not well-formed XML: {error}{hint}; "
                "unpack or download the dump again"
            ) from None
        rows, self._rows = self._rows, []
        self._bytes_since_row = len(block) if rows else self._bytes_since_row + len(block)
        if self._bytes_since_row > _LONGEST_ROW:
            raise SourceError(
                f"{self._place}: no row ends within {_LONGEST_ROW >> 20} MiB; "
                "this is no Stack Exchange dump"
            )
        for row in rows:
            self._take(self._table, row)

    def _start(self, name: str, attributes: Row) -> None:
        if not self._root:
            self._root = name
            if name != self._table.lower():
                raise SourceError(
                    f"{self._place}: its root is <{name[:40]}>, not <{self._table.lower()}>; "
                    f"give the dump's {self._table}.xml"
                )
        elif name == "row":
            self._rows.append(attributes)

    def _check_doctype(self, *_declaration: object) -> None:
        raise SourceError(
            f"{self._place}: declares a document type, which no Stack Exchange dump does"
        )


def _unpack(path: Path, parsers: dict[str, RowParser], report: Callable[[int], None]) -> None:
    """Unpack members of an archive into parsers, block by block; nothing is written to disk."""
    from py7zr import Py7zIO, WriterFactory

    class Writer(Py7zIO):  # type: ignore[misc]  # untyped for mypy, as all of py7zr
        def __init__(self, parser: RowParser) -> None:
            self._parser = parser

        def write(self, s: bytes | bytearray) -> int:
            for start in range(0, len(s), _BLOCK):
                self._parser.feed(bytes(s[start : start + _BLOCK]))
            report(file.tell())
            return len(s)

        def close(self) -> None:
            self._parser.feed(b"", last=True)

        def read(self, size: int | None = None) -> bytes:
            return b""

        def seek(self, offset: int, whence: int = 0) -> int:
            return 0

        def flush(self) -> None: ...

        def size(self) -> int:
            return 0

    class Writers(WriterFactory):  # type: ignore[misc]
        def create(self, filename: str) -> Writer:
            return Writer(parsers[filename])

    # Given a path instead of the open file, py7zr would unpack with several threads at once.
    with path.open("rb") as file, _opened(path, file) as archive:
        archive.extract(targets=list(parsers), factory=Writers())


@contextmanager
def _opened(path: Path, file: Any) -> Iterator["SevenZipFile"]:
    """Open an archive; say in one line what is wrong with it."""
    from py7zr import SevenZipFile, exceptions

    unread = exceptions.PasswordRequired, exceptions.UnsupportedCompressionMethodError
    try:
        archive = SevenZipFile(file)
        _check_methods(archive, path)
        yield archive
    except unread as error:
        raise _not_read(path, str(error)) from None
    except (exceptions.ArchiveError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SourceError(f"{path}: a damaged 7z archive: {reason}; download it again") from None


def _check_methods(archive: "SevenZipFile", path: Path) -> None:
    unknown = sorted(set(archive.archiveinfo().method_names) - _METHODS)
    if archive.needs_password() or unknown:
        raise _not_read(path, f"packed with {', '.join(unknown)}" if unknown else "encrypted")


def _not_read(path: Path, reason: str) -> SourceError:
    return SourceError(
        f"{path}: such an archive is not read ({reason}); unpack it with: 7z x {path.name}"
    )


def _is_seven_zip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SEVEN_ZIP)) == _SEVEN_ZIP
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _inside(archive: Path, table: Table) -> tuple[Path, str | None] | None:
    """Find a table in an archive."""
    with archive.open("rb") as file, _opened(archive, file) as opened:
        members = [member.filename for member in opened.list() if member.is_file]
    wanted = f"{table}.xml".casefold()
    names = [name for name in members if PurePosixPath(name).name.casefold() == wanted]
    if len(names) > 1:
        raise SourceError(
            f"{archive}: holds {len(names)} files {table}.xml, as {names[0]!r} and {names[1]!r}; "
            "give the archive of one site"
        )
    if names and not _PLAIN_NAME.fullmatch(names[0]):
        raise SourceError(f"{archive}: holds {names[0]!r}; allowed: plain names, as site/Posts.xml")
    return (archive, names[0]) if names else None


def _beside(posts: Path, table: Table) -> tuple[Path, str | None] | None:
    """Find a table in the folder of the posts: as XML, else as the archive of the same site."""
    if table == "Posts":
        return None
    loose = posts.with_name(f"{table}.xml")
    if loose.exists():
        return loose, None
    site = re.match(r"(.*-)?posts\.", posts.name, re.IGNORECASE)
    if site is None:
        return None
    found = sorted(posts.parent.glob(f"{site[1] or ''}{table}.7z"))
    if not found and not site[1]:
        found = sorted(posts.parent.glob(f"*-{table}.7z"))
    if len(found) > 1:
        raise SourceError(
            f"{posts}: both {found[0].name} and {found[1].name} are next to it; "
            "keep the dumps of two sites in folders of their own"
        )
    return _inside(found[0], table) if found else None


def _posts_file(folder: Path) -> Path:
    """Find the posts in a folder: as XML, else as an archive of them, else as the only archive."""
    loose = folder / "Posts.xml"
    if loose.exists():
        return loose
    archives = sorted(folder.glob("*.7z"))
    found = [path for path in archives if path.stem.casefold().endswith("posts")] or archives
    if len(found) != 1:
        what = f"{len(found)} archives that may hold it" if found else "no 7z archive"
        raise SourceError(
            f"{folder}: holds no Posts.xml and {what}; name the file with the posts itself"
        )
    return found[0]
