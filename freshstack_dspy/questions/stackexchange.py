"""Questions of a Stack Exchange dump with their accepted answers, as Markdown.

The dump is streamed, from XML or 7z. What may become a query waits in a temporary database, so
that memory grows with the queries and not with the dump.
"""

import json
import lzma
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.parsers import expat

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.html import html_to_markdown
from freshstack_dspy.questions.selection import (
    SelectedQuestions,
    instant,
    licence_at,
    score_reason,
    site_address,
)
from freshstack_dspy.records import Attribution, Query

if TYPE_CHECKING:
    from py7zr import SevenZipFile

DumpTable = Literal["Posts", "Users", "PostLinks"]
Attributes = dict[str, str]
"""The attributes of a row, by name."""
Take = Callable[[DumpTable, Attributes], None]
Place = tuple[Path, str | None]
"""A file, and its member where that is an archive."""

_TABLES: dict[str, DumpTable] = {f"{table}.xml".casefold(): table for table in get_args(DumpTable)}
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
_BEGINS_WITH_TEXT = re.compile(r"<p>\w")
_STORED = (
    "Id Title Body Tags CreationDate LastEditDate Score OwnerUserId OwnerDisplayName ContentLicense"
).split()
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -32768;
-- All questions; a rejected one has neither an accepted answer nor a post.
CREATE TABLE question (id INTEGER PRIMARY KEY, accepted INTEGER, post TEXT);
CREATE TABLE answer (id INTEGER PRIMARY KEY, parent INTEGER, post TEXT);
CREATE TABLE duplicate (id INTEGER PRIMARY KEY);
CREATE TABLE user (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
BEGIN;
"""


def read_stackexchange(
    config: QueriesConfig,
    selection: SelectedQuestions,
    rejected: Counter[str],
    progress: ReadProgress | None = None,
    *,
    answered: bool = True,
) -> list[Query]:
    """Read the questions of a dump that pass the filters and, if `answered`, have an accepted answer.

    At most `config.limit` in order of id; all others are counted in `rejected`, by reason.
    """
    address = site_address(config.site)
    dump = Dump(config.file)
    if config.duplicates == "drop" and "PostLinks" not in dump.places:
        raise SourceError(
            f"{config.path}: there is no PostLinks.xml, and duplicates are known from it alone; "
            'put it there, or set duplicates = "keep"'
        )
    # An empty name: SQLite keeps the database in a temporary file, where SQLITE_TMPDIR says.
    with closing(sqlite3.connect("", isolation_level=None)) as base:
        base.executescript(_SCHEMA)
        gathering = _Gathering(base, selection, rejected, answered=answered)
        dump.read(dump_tables(config), gathering.take, progress)
        queries: list[Query] = []
        for question, answer, is_duplicate in base.execute(
            "SELECT question.post, answer.post, duplicate.id IS NOT NULL FROM question "
            "LEFT JOIN answer ON answer.id = accepted AND parent = question.id "
            "LEFT JOIN duplicate ON duplicate.id = question.id "
            "WHERE question.post IS NOT NULL ORDER BY question.id"
        ):
            found: Query | str = "closed as a duplicate"
            if not is_duplicate:
                pair = json.loads(question), json.loads(answer or "null")
                wanted = len(queries) != config.limit
                found = _query(
                    *pair, config, address, selection, base, answered=answered, wanted=wanted
                )
            if isinstance(found, str):
                rejected[found] += 1
            else:
                queries.append(found)
        return queries


def dump_tables(config: QueriesConfig) -> tuple[DumpTable, ...]:
    """Name the tables that a configuration reads, in the best order."""
    return ("PostLinks", "Posts", "Users") if config.duplicates == "drop" else ("Posts", "Users")


def tags_of_questions(
    config: QueriesConfig, progress: ReadProgress | None = None
) -> list[tuple[str, ...]]:
    """Give the tags of each question, answered or not, that passes the filters on questions."""
    selection = SelectedQuestions(config)
    found: list[tuple[str, ...]] = []

    def take(_table: DumpTable, row: Attributes) -> None:
        if row.get("PostTypeId") != _QUESTION:
            return
        tags = _tags(row)
        facts = row.get("Id", ""), tags, _date(row), _integer(row.get("Score"))
        if selection.reason_against(*facts) is None:
            found.append(tags)

    Dump(config.file).read(("Posts",), take, progress)
    selection.check_tags()
    return found


class _Gathering:
    """Gathers the questions that pass the filters and name an accepted answer, and what they need."""

    def __init__(
        self,
        base: sqlite3.Connection,
        selection: SelectedQuestions,
        rejected: Counter[str],
        *,
        answered: bool,
    ) -> None:
        self._answered = answered
        self._base = base
        self._selection = selection
        self._rejected = rejected
        self._posts_begun = False

    def take(self, table: DumpTable, row: Attributes) -> None:
        if table == "Users":
            self._take_user(row)
        elif table == "PostLinks":
            question_id = _integer(row.get("PostId"))
            if row.get("LinkTypeId") == _DUPLICATE_LINK and question_id is not None:
                self._run("INSERT OR IGNORE INTO duplicate VALUES (?)", question_id)
        elif row.get("PostTypeId", _QUESTION) == _QUESTION:
            self._take_question(row)
        elif row["PostTypeId"] == _ANSWER:
            self._take_answer(row)

    def _take_question(self, row: Attributes) -> None:
        self._posts_begun = True
        post_id, asked = _integer(row.get("Id")), _date(row)
        is_malformed = "PostTypeId" not in row or not row.get("Title", "").strip()
        if post_id is None or asked is None or is_malformed:
            self._rejected["malformed row"] += 1
            return
        score = _integer(row.get("Score"))
        reason = self._selection.reason_against(str(post_id), _tags(row), asked, score)
        accepted = _integer(row.get("AcceptedAnswerId"))
        insert = "INSERT OR IGNORE INTO question VALUES (?, ?, ?)"
        if reason is None and (accepted is not None or not self._answered):
            self._run(insert, post_id, accepted, _stored(row))
            self._await_owner(row)
        else:
            self._run(insert, post_id, None, None)
            self._rejected[reason or "no accepted answer"] += 1

    def _take_answer(self, row: Attributes) -> None:
        """Keep an answer that is accepted, or may be: its question comes later."""
        self._posts_begun = True
        post_id, question_id = _integer(row.get("Id")), _integer(row.get("ParentId"))
        if question_id is None or post_id is None:
            return
        question = self._run("SELECT accepted FROM question WHERE id = ?", question_id).fetchone()
        if question in (None, (post_id,)):
            insert = "INSERT OR IGNORE INTO answer VALUES (?, ?, ?)"
            self._run(insert, post_id, question_id, _stored(row))
            self._await_owner(row)

    def _await_owner(self, row: Attributes) -> None:
        if "OwnerUserId" in row and not row.get("OwnerDisplayName"):
            self._run("INSERT OR IGNORE INTO user VALUES (?, NULL)", row["OwnerUserId"])

    def _take_user(self, row: Attributes) -> None:
        name = row.get("DisplayName", "").strip()
        if "Id" not in row or not name:
            return
        if self._posts_begun:  # and read, so who matters is known
            self._run("UPDATE user SET name = ? WHERE id = ?", name, row["Id"])
        else:
            self._run("INSERT OR IGNORE INTO user VALUES (?, ?)", row["Id"], name)

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._base.execute(statement, values)


def _stored(row: Attributes) -> str:
    return json.dumps({key: row[key] for key in _STORED if key in row}, ensure_ascii=False)


def _query(
    question: Attributes,
    answer: Attributes | None,
    config: QueriesConfig,
    address: str,
    selection: SelectedQuestions,
    base: sqlite3.Connection,
    *,
    answered: bool,
    wanted: bool,
) -> Query | str:
    """Convert a question and its answer; or say why they are left out, all being `wanted` or not."""
    text, least = "", config.min_answer_score
    if answer is None:
        if answered:
            return "accepted answer is not in the dump"
        reason = selection.reason_against_licences(_licence(question))
    elif _date(answer) is None:
        return "malformed accepted answer"
    else:
        text = html = answer.get("Body", "")
        if wanted or not _BEGINS_WITH_TEXT.match(html):
            text = html_to_markdown(html)
        reason = (
            (None if text or not answered else "empty answer")
            or score_reason(
                _integer(answer.get("Score")), least, "answer score", "min_answer_score"
            )
            or selection.reason_against_licences(_licence(question), _licence(answer))
        )
    if reason or not wanted:
        return reason or "beyond limit"

    def source(row: Attributes, path: str) -> Attribution:
        url = f"{address}/{path}/{row['Id']}"
        return Attribution(author=_author(row, base), url=url, licence=_licence(row))

    return Query(
        query_id=str(int(question["Id"])),
        title=question.get("Title", "").strip(),
        body=html_to_markdown(question.get("Body", "")),
        answer_id=str(int(answer["Id"])) if answer else None,
        answer=text,
        tags=_tags(question),
        asked_at=question["CreationDate"],
        score=_integer(question.get("Score")),
        question_source=source(question, "questions"),
        answer_source=source(answer, "a") if answer else None,
    )


def _author(row: Attributes, base: sqlite3.Connection) -> str:
    """Name the author: as the post does, else as the user list does, else by number."""
    shown, user_id = row.get("OwnerDisplayName", "").strip(), row.get("OwnerUserId")
    if shown or user_id is None:
        return shown or "anonymous"
    found = base.execute("SELECT name FROM user WHERE id = ?", (user_id,)).fetchone()
    return found[0] if found and found[0] else f"user {user_id}"


def _licence(row: Attributes) -> str:
    """Give the licence that a post states, or else the one in force when it was last edited."""
    written = row.get("LastEditDate", row["CreationDate"])
    return row.get("ContentLicense") or licence_at(instant(written))


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def _date(row: Attributes) -> datetime | None:
    """Read when a row was created, if all its dates are good."""
    try:
        dates = [instant(row[key]) for key in ("CreationDate", "LastEditDate") if key in row]
    except ValueError:
        return None
    return dates[0] if "CreationDate" in row else None


def _tags(row: Attributes) -> tuple[str, ...]:
    """Read `<a><b>` and `|a|b|`."""
    return tuple(_TAG.findall(row.get("Tags", "")))


# The tables of a dump, as XML or in 7z archives


class Dump:
    """The tables of one dump: `Posts.xml`, a 7z archive that holds it, or a folder with either.

    The other tables are looked for in the same archive, then next to it.
    """

    def __init__(self, path: Path) -> None:
        posts = _posts_file(path) if path.is_dir() else path
        is_archive = _is_seven_zip(posts)
        found: dict[DumpTable, Place] = _inside(posts) if is_archive else {"Posts": (posts, None)}
        if "Posts" not in found:
            raise SourceError(f"{posts}: holds no Posts.xml; name the dump's archive of posts")
        others: tuple[DumpTable, ...] = ("Users", "PostLinks")
        nearby = {table: _nearby(posts, table) for table in others if table not in found}
        self.places = found | {table: place for table, place in nearby.items() if place}

    def files(self, tables: Sequence[DumpTable]) -> list[Path]:
        """Name the files that hold these tables, each once."""
        return list(
            dict.fromkeys(self.places[table][0] for table in tables if table in self.places)
        )

    def read(self, tables: Sequence[DumpTable], take: Take, progress: ReadProgress | None) -> None:
        """Read tables, each file once, and hand over their rows.

        Files come in the order of `tables`, members of an archive in the order of the archive.
        """
        files = self.files(tables)
        total = sum(path.stat().st_size for path in files)
        done = 0

        def report(position: int) -> None:
            if progress is not None:
                progress(done + position, total)

        for path in files:
            members: dict[str, DumpTable] = {}
            for table in tables:
                place, member = self.places.get(table, (None, None))
                if place == path:
                    members[member or ""] = table
            _read_file(path, members, take, report)
            done += path.stat().st_size
            report(0)


def _read_file(
    path: Path, members: dict[str, DumpTable], take: Take, report: Callable[[int], None]
) -> None:
    """Read an XML file, whose one member has no name, or members of an archive, block by block."""
    # Given a path instead of the open file, py7zr would unpack with several threads at once.
    with path.open("rb") as file:
        parsers = {
            member: _RowParser(path, table, take, member, lambda: report(file.tell()))
            for member, table in members.items()
        }
        if "" in parsers:
            shutil.copyfileobj(file, parsers[""], _BLOCK)
            parsers[""].close()
            return
        with _opened(path, file) as archive:
            writers: Any = SimpleNamespace(create=parsers.__getitem__)
            archive.extract(targets=list(parsers), factory=writers)


class _RowParser:
    """An expat parser that a dump file is written to, and that hands over its rows.

    A document type declaration is an error before anything in it is read: without one there are
    no entities to expand and nothing external to load.
    """

    def __init__(
        self, path: Path, table: DumpTable, take: Take, member: str, report: Callable[[], None]
    ) -> None:
        self._place = f"{path}: {member}" if member else str(path)
        self._table: DumpTable = table
        self._take = take
        self._report = report
        self._root = ""
        self._rows: list[Attributes] = []
        self._bytes_since_row = 0
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.StartElementHandler = self._start

    def write(self, data: bytes | bytearray) -> int:
        for start in range(0, len(data), _BLOCK):
            self._feed(bytes(data[start : start + _BLOCK]))
        self._report()
        return len(data)

    def close(self) -> None:
        self._feed(b"", last=True)

    def seek(self, _offset: int) -> int:
        """Do nothing: py7zr rewinds what it has written."""
        return 0

    def _feed(self, block: bytes, *, last: bool = False) -> None:
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

    def _start(self, name: str, attributes: Attributes) -> None:
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


@contextmanager
def _opened(path: Path, file: Any) -> Iterator["SevenZipFile"]:
    """Open an archive; say in one line what is wrong with it."""
    from py7zr import SevenZipFile, exceptions

    unread = exceptions.PasswordRequired, exceptions.UnsupportedCompressionMethodError
    try:
        archive = SevenZipFile(file)
        unknown = sorted(set(archive.archiveinfo().method_names) - _METHODS)
        if unknown or archive.needs_password():
            raise _not_read(path, f"packed with {', '.join(unknown)}" if unknown else "encrypted")
        yield archive
    except unread as error:
        raise _not_read(path, str(error)) from None
    except (exceptions.ArchiveError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SourceError(f"{path}: a damaged 7z archive: {reason}; download it again") from None


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


def _inside(archive: Path) -> dict[DumpTable, Place]:
    """Find the tables in an archive."""
    with archive.open("rb") as file, _opened(archive, file) as opened:
        members = [member.filename for member in opened.list() if member.is_file]
    found: dict[DumpTable, Place] = {}
    for name in members:
        table = _TABLES.get(PurePosixPath(name).name.casefold())
        if table is None:
            continue
        if table in found:
            raise SourceError(
                f"{archive}: holds several files {table}.xml, as {found[table][1]!r} and "
                f"{name!r}; give the archive of one site"
            )
        if not _PLAIN_NAME.fullmatch(name):
            raise SourceError(f"{archive}: holds {name!r}; allowed: plain names, as site/Posts.xml")
        found[table] = archive, name
    return found


def _nearby(posts: Path, table: DumpTable) -> Place | None:
    """Find a table in the folder of the posts: as XML, else as the archive of the same site."""
    loose = posts.with_name(f"{table}.xml")
    if loose.exists():
        return loose, None
    site = re.match(r"(.*-)?posts\.", posts.name, re.IGNORECASE)
    found = sorted(posts.parent.glob(f"{site[1] or '*'}{table}.7z")) if site else []
    if len(found) > 1:
        raise SourceError(
            f"{posts}: both {found[0].name} and {found[1].name} are next to it; "
            "keep the dumps of two sites in folders of their own"
        )
    return _inside(found[0]).get(table) if found else None


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
