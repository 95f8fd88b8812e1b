"""Questions of a Stack Exchange dump with their accepted answers, as Markdown.

The dump is streamed. What may become a query waits in a temporary database, so
that memory grows with the queries and not with the dump.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple
from xml.parsers import expat

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.questions.filters import (
    SelectedQuestions,
    licence_at,
    score_reason,
    site_address,
)
from freshstack_dspy.records import Attribution, Query, instant

DumpTable = Literal["Posts", "Users", "PostLinks"]
Attributes = dict[str, str]
"""The attributes of a row, by name."""
_QUESTION, _ANSWER = "1", "2"
"""Values of `PostTypeId`; the others are wikis of tags and the like."""
_DUPLICATE_LINK = "3"
_BLOCK = 1 << 20
_LONGEST_ROW = 8 << 20
"""Bytes. A post holds at most some tens of thousands of characters; this bounds our memory."""
_SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_TAG = re.compile(r"[^<>|]+")
_MARKUP = re.compile(r"<[^>]*>")
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
    site_address(config.site)
    dump = Dump(config.file)
    if config.duplicates == "drop" and "PostLinks" not in dump.places:
        raise SourceError(
            f"{config.path}: there is no PostLinks.xml, and duplicates are known from it alone; "
            'put it there, or set duplicates = "keep"'
        )
    # An empty name: SQLite keeps the database in a temporary file, where SQLITE_TMPDIR says.
    with closing(sqlite3.connect("", isolation_level=None)) as base:
        base.executescript(_SCHEMA)
        gathering = _Gathering(base, config, selection, rejected, answered=answered)
        for table, row in dump.rows(dump_tables(config), progress):
            gathering.take(table, row)
        return gathering.queries()


def dump_tables(config: QueriesConfig) -> tuple[DumpTable, ...]:
    """Name the tables that a configuration reads, in the best order."""
    return ("PostLinks", "Posts", "Users") if config.duplicates == "drop" else ("Posts", "Users")


class AskedQuestion(NamedTuple):
    """What a topic is chosen by."""

    tags: tuple[str, ...]
    asked: datetime | None
    answered: bool
    """Whether it has an accepted answer."""


def questions_of_dump(
    config: QueriesConfig, progress: ReadProgress | None = None
) -> Iterator[AskedQuestion]:
    """Give each question, answered or not, that passes the filters on questions."""
    selection = SelectedQuestions(config)
    for _, row in Dump(config.file).rows(("Posts",), progress):
        tags, asked = _tags(row), _date(row)
        facts = row.get("Id", ""), tags, asked, _integer(row.get("Score"))
        if row.get("PostTypeId") == _QUESTION and selection.reason_against(*facts) is None:
            yield AskedQuestion(tags, asked, "AcceptedAnswerId" in row)
    selection.check_tags()


class _Gathering:
    """Gathers the questions that pass the filters and name an accepted answer, and what they need."""

    def __init__(
        self,
        base: sqlite3.Connection,
        config: QueriesConfig,
        selection: SelectedQuestions,
        rejected: Counter[str],
        *,
        answered: bool,
    ) -> None:
        self._run = base.execute
        self._config, self._selection, self._rejected = config, selection, rejected
        self._answered = answered

    def take(self, table: DumpTable, row: Attributes) -> None:
        """Take a row of a table; users come after the posts, so that it is known who matters."""
        if table == "Users":
            if name := row.get("DisplayName", "").strip():
                self._run("UPDATE user SET name = ? WHERE id = ?", (name, row.get("Id")))
        elif table == "PostLinks":
            question_id = _integer(row.get("PostId"))
            if row.get("LinkTypeId") == _DUPLICATE_LINK and question_id is not None:
                self._run("INSERT OR IGNORE INTO duplicate VALUES (?)", (question_id,))
        elif row.get("PostTypeId", _QUESTION) == _QUESTION:
            self._take_question(row)
        elif row["PostTypeId"] == _ANSWER:
            self._take_answer(row)

    def _take_question(self, row: Attributes) -> None:
        post_id, asked = _integer(row.get("Id")), _date(row)
        is_malformed = "PostTypeId" not in row or not row.get("Title", "").strip()
        if post_id is None or asked is None or is_malformed:
            self._rejected["malformed row"] += 1
            return
        score, accepted = _integer(row.get("Score")), _integer(row.get("AcceptedAnswerId"))
        reason = self._selection.reason_against(str(post_id), _tags(row), asked, score)
        if reason is None and accepted is None and self._answered:
            reason = "no accepted answer"
        post = None if reason else self._stored(row)
        accepted = None if reason else accepted
        self._run("INSERT OR IGNORE INTO question VALUES (?, ?, ?)", (post_id, accepted, post))
        if reason:
            self._rejected[reason] += 1

    def _take_answer(self, row: Attributes) -> None:
        """Keep an answer that is accepted, or may be: its question comes later."""
        post_id, question_id = _integer(row.get("Id")), _integer(row.get("ParentId"))
        if question_id is None or post_id is None:
            return
        accepted = "SELECT accepted FROM question WHERE id = ?"
        if self._run(accepted, (question_id,)).fetchone() in (None, (post_id,)):
            values = post_id, question_id, self._stored(row)
            self._run("INSERT OR IGNORE INTO answer VALUES (?, ?, ?)", values)

    def _stored(self, row: Attributes) -> str:
        """Give what is kept of a post, and note whose name it needs."""
        if "OwnerUserId" in row and not row.get("OwnerDisplayName"):
            self._run("INSERT OR IGNORE INTO user VALUES (?, NULL)", (row["OwnerUserId"],))
        return json.dumps({key: row[key] for key in _STORED if key in row}, ensure_ascii=False)

    def queries(self) -> list[Query]:
        """Convert what was gathered, in order of id, as far as `limit` goes."""
        queries: list[Query] = []
        for question, answer, is_duplicate in self._run(
            "SELECT question.post, answer.post, duplicate.id IS NOT NULL FROM question "
            "LEFT JOIN answer ON answer.id = accepted AND parent = question.id "
            "LEFT JOIN duplicate ON duplicate.id = question.id "
            "WHERE question.post IS NOT NULL ORDER BY question.id"
        ):
            query: Query | str = "closed as a duplicate"
            if not is_duplicate:
                wanted = len(queries) != self._config.limit
                query = self._query(json.loads(question), json.loads(answer or "null"), wanted)
            if isinstance(query, str):
                self._rejected[query] += 1
            else:
                queries.append(query)
        return queries

    def _query(self, question: Attributes, answer: Attributes | None, wanted: bool) -> Query | str:
        """Convert a question and its answer; or say why they are left out."""
        from freshstack_dspy.html_to_markdown import html_to_markdown

        if answer is None and self._answered:
            return "accepted answer is not in the dump"
        if answer and _date(answer) is None:
            return "malformed accepted answer"
        text, reason = "", None
        if answer:
            html = answer.get("Body", "")
            text = html_to_markdown(html) if wanted else _MARKUP.sub("", html).strip()
            score, least = _integer(answer.get("Score")), self._config.min_answer_score
            reason = "empty answer" if not text and self._answered else None
            reason = reason or score_reason(score, least, "answer score", "min_answer_score")
        licences = (_licence(post) for post in (question, answer) if post)
        reason = reason or self._selection.reason_against_licences(*licences)
        if reason or not wanted:
            return reason or "beyond limit"
        return Query(
            query_id=str(int(question["Id"])),
            title=question.get("Title", "").strip(),
            body=html_to_markdown(question.get("Body", "")),
            answer_id=str(int(answer["Id"])) if answer else None,
            answer=text,
            tags=_tags(question),
            asked_at=question["CreationDate"],
            score=_integer(question.get("Score")),
            question_source=self._source(question, "questions"),
            answer_source=self._source(answer, "a") if answer else None,
        )

    def _source(self, row: Attributes, path: str) -> Attribution:
        """Name the author: as the post does, else as the user list does, else by number."""
        author, user_id = row.get("OwnerDisplayName", "").strip(), row.get("OwnerUserId")
        if not author and user_id is not None:
            named = self._run("SELECT name FROM user WHERE id = ?", (user_id,)).fetchone()
            author = (named and named[0]) or f"user {user_id}"
        url = f"{site_address(self._config.site)}/{path}/{row['Id']}"
        return Attribution(author=author or "anonymous", url=url, licence=_licence(row))


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


# The tables of a dump


class Dump:
    """The tables of one dump: `Posts.xml`, or its folder. The others are looked for next to it."""

    def __init__(self, path: Path) -> None:
        posts = path / "Posts.xml" if path.is_dir() else path
        _check_unpacked(path, posts)
        tables: tuple[DumpTable, ...] = ("Posts", "Users", "PostLinks")
        places = {table: posts.with_name(f"{table}.xml") for table in tables}
        self.places = {table: place for table, place in places.items() if place.exists()}
        self.places["Posts"] = posts

    def files(self, tables: Sequence[DumpTable]) -> list[Path]:
        """Name the files that hold these tables."""
        return [self.places[table] for table in tables if table in self.places]

    def rows(
        self, tables: Sequence[DumpTable], progress: ReadProgress | None = None
    ) -> Iterator[tuple[DumpTable, Attributes]]:
        """Give the rows of tables, in this order; a file is read block by block."""
        total = sum(path.stat().st_size for path in self.files(tables))
        done = 0
        for table in tables:
            place = self.places.get(table)
            for rows, size in _blocks(place, table) if place else ():
                for row in rows:
                    yield table, row
                done += size
                if progress is not None:
                    progress(done, total)


def _blocks(path: Path, table: DumpTable) -> Iterator[tuple[list[Attributes], int]]:
    """Give the rows that each block of a file completes, and its size.

    A document type declaration is an error before anything in it is read: without one there are
    no entities to expand and nothing external to load.
    """
    rows: list[Attributes] = []
    root, without_row = "", 0

    def start(name: str, attributes: Attributes) -> None:
        nonlocal root
        if root and name == "row":
            rows.append(attributes)
        elif not root and name != table.lower():
            raise SourceError(
                f"{path}: its root is <{name[:40]}>, not <{table.lower()}>; "
                f"give the dump's {table}.xml"
            )
        root = root or name

    def refuse(*_declaration: object) -> None:
        raise SourceError(f"{path}: declares a document type, which no Stack Exchange dump does")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    with path.open("rb") as file:
        block = b" "
        while block:
            block = file.read(_BLOCK)
            try:
                parser.Parse(block, not block)
            except (expat.ExpatError, LookupError, ValueError) as error:
                hint = "" if block else " (is it cut short?)"
                raise SourceError(
                    f"{path}: not well-formed XML: {error}{hint}; unpack or download the dump again"
                ) from None
            without_row = len(block) if rows else without_row + len(block)
            if without_row > _LONGEST_ROW:
                raise SourceError(
                    f"{path}: no row ends within {_LONGEST_ROW >> 20} MiB; "
                    "this is no Stack Exchange dump"
                )
            yield rows, len(block)
            rows.clear()


def _check_unpacked(path: Path, posts: Path) -> None:
    """Check that the posts are there and no archive: these are unpacked once, by 7z."""
    try:
        archives = sorted(path.glob("*.7z")) if path.is_dir() and not posts.exists() else []
        if not archives:
            with posts.open("rb") as file:
                archives = [posts] * (file.read(len(_SEVEN_ZIP)) == _SEVEN_ZIP)
    except OSError as error:
        raise SourceError(f"{posts}: cannot be read: {error.strerror}") from None
    if archives:
        folder = archives[0].parent
        raise SourceError(
            f"{archives[0]}: an archive, and what is in it is read; unpack it with: 7z x "
            f"{archives[0]} -o{folder / archives[0].stem}; and name the folder with Posts.xml"
        )
