"""Questions that may become queries, with their accepted answers, kept on disk while a dump is read.

The database is temporary and nameless: SQLite keeps the first megabytes in memory, puts the rest
into a file that nobody else sees, and that is gone when the process ends, however it ends.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self

from freshstack_dspy.errors import SourceError

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
