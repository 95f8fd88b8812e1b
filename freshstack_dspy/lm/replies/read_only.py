"""Reading a replies store, whoever made it and wherever it is; nothing is written or trusted."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.embedding.figures import Figures, figures_from_json
from freshstack_dspy.lm.json_text import MOST_STRUCTURE, is_dense
from freshstack_dspy.lm.replies.recorded import Line
from freshstack_dspy.lm.replies.sealed import unsealed
from freshstack_dspy.lm.replies.store_format import (
    DATABASE,
    LONGEST_ENTRY,
    LONGEST_NAME,
    RAW,
    account_entry,
    connected_read_only,
    errors_explained,
    explained,
    refuse_other_schema,
    refuse_unsafe_files,
)
from freshstack_dspy.lm.reply import Reply, reply_from_json
from freshstack_dspy.lm.request import Ask
from freshstack_dspy.lm.spending.spent import Spent

_PAGE = 100
_Recorded = TypeVar("_Recorded", Reply, Figures)


class ReadOnlyStore:
    """The replies of a store by key; shared by threads.

    The entries: `reply:KEY`, the reply that is served; `reply:KEY:N`, what it replaced, oldest
    first; `figures:KEY` and `figures:KEY:N`, the same of vectors and scores; `damaged:KEY:N`, what could not be trusted and was replaced; `ask:KEY`, a deferred
    request without a reply yet; `spent:NAME`, what an account has spent.
    """

    def __init__(self, path: Path) -> None:
        """Open the store in a folder, which may be read-only.

        Raises:
            StoreError: There is none, it is of another schema version, or it is not a store of
                ours and only that.
        """
        self.path = path
        self._guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with errors_explained(path):
            refuse_unsafe_files(path, writing=False)
        try:
            self._check_schema()
        except BaseException:
            self.close()
            raise

    def get(self, key: str) -> Reply | None:
        """The reply recorded for a key, validated, or None.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        return self._validated(key, f"reply:{key}", reply_from_json)

    def replaced(self, key: str, number: int) -> Reply | None:
        """The reply that was recorded for a key before others, validated; 1 is the oldest.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        return self._validated(key, f"reply:{key}:{number}", reply_from_json)

    def figures(self, key: str) -> Figures | None:
        """The vector or the scores recorded for a key, validated, or None.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        return self._validated(key, f"figures:{key}", figures_from_json)

    def replaced_figures(self, key: str, number: int) -> Figures | None:
        """The figures that were recorded for a key before others, validated; 1 is the oldest.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        return self._validated(key, f"figures:{key}:{number}", figures_from_json)

    def any_figures(self) -> Figures | None:
        """Some figures that are recorded, or None.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        name = next(self.names("figures:"), None)
        return None if name is None else self.figures(name.split(":")[1])

    def text(self, name: str) -> bytes | None:
        """An entry as it stands in the database, not validated.

        Raises:
            DamagedReplyError: It is no plain text, or too long.
        """
        try:
            rows = self._rows(
                "SELECT mode, filename, expire_time, typeof(value) = 'text', value FROM Cache "
                "WHERE key = ? AND raw = 1",
                (name,),
            )
        except DamagedReplyError:
            raise self._refused(f"{name} is longer than {LONGEST_ENTRY:,} bytes") from None
        if not rows:
            return None
        ((mode, filename, expires, is_text, value),) = rows
        if (mode, filename, expires, is_text) != (RAW, None, None, 1):
            raise self._refused(f"{name} holds a value that is not plain text")
        found: bytes = value
        if is_dense(found):
            raise self._refused(f"{name} has more than {MOST_STRUCTURE:,} bytes that are no text")
        return found

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The replies that are served, by key, if their JSON holds some bytes; see `Recorded`."""
        for name in self.names("reply:"):
            key = name.removeprefix("reply:")
            if ":" in key:
                continue
            try:
                text = self.text(name)
                if text is not None and holding in text:
                    yield Line(key, unsealed(text))
            except DamagedReplyError:
                yield Line(key, None)

    def replies(self) -> Iterator[Reply]:
        """Every reply that is served, by key.

        Raises:
            DamagedReplyError: One cannot be trusted.
        """
        for name in self.names("reply:"):
            key = name.removeprefix("reply:")
            reply = None if ":" in key else self.get(key)
            if reply is not None:
                yield reply

    def deferred(self) -> Iterator[Ask]:
        """The requests that wait for a reply, by key.

        Raises:
            DamagedReplyError: One cannot be trusted.
        """
        for name in self.names("ask:"):
            ask = self.asked(name.removeprefix("ask:"))
            if ask is not None:
                yield ask

    def asked(self, key: str) -> Ask | None:
        """The request that waits for a reply under a key, or None.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        text = self.text(f"ask:{key}")
        if text is None:
            return None
        try:
            ask = Ask.model_validate_json(text)
        except ValidationError:
            ask = None
        if ask is None or ask.key != key or not ask.is_sendable:
            raise DamagedReplyError(f"{self.path}: the deferred request ask:{key} is damaged")
        return ask

    def spent(self, account: str) -> Spent:
        """What an account has spent so far.

        Raises:
            DamagedReplyError: The account cannot be trusted.
            StoreError: It cannot be an account's name.
        """
        name = account_entry(account)
        text = self.text(name)
        if text is None:
            return Spent()
        try:
            return Spent.model_validate_json(unsealed(text))
        except (DamagedReplyError, ValidationError):
            raise DamagedReplyError(
                f"{self.path}: the account {account!r} is damaged or edited by hand, so nobody "
                "knows what is spent"
            ) from None

    def names(self, prefix: str) -> Iterator[str]:
        """The names of entries that begin so, in order."""
        last, end = prefix.encode(), prefix.encode() + b"\xff"
        while page := self._page(last, end):
            for name in page:
                yield name.decode(errors="backslashreplace")
            last = page[-1]

    def faults(self) -> Iterator[str]:
        """What is wrong with the database itself, in words: SQLite's own check, and its keys."""
        for (fault,) in self._rows("PRAGMA integrity_check(20)"):
            if fault != b"ok":
                yield f"the database is damaged: {fault.decode(errors='replace')}"
        ((foreign,),) = self._rows(
            "SELECT count(*) FROM Cache "
            "WHERE typeof(key) <> 'text' OR raw IS NOT 1 OR length(CAST(key AS BLOB)) > ?",
            (LONGEST_NAME,),
        )
        if foreign:
            yield f"{foreign} rows whose key is not plain text, or too long: refused unread"

    def close(self) -> None:
        """Close the connection; the next reading opens another."""
        with self._guard:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()

    def _check_schema(self) -> None:
        if not (self.path / DATABASE).exists():
            raise StoreError(f"{self.path}: there is no replies store")
        with errors_explained(self.path), self._guard:
            connection = self._open()
            made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Cache'").fetchall()
            if not made or not refuse_other_schema(self.path, connection):
                raise StoreError(f"{self.path}: no replies store, or one that was never finished")

    def _page(self, last: bytes, end: bytes) -> list[bytes]:
        rows = self._rows(
            "SELECT key FROM Cache WHERE key > CAST(? AS TEXT) AND key < CAST(? AS TEXT) "
            "AND raw = 1 AND length(CAST(key AS BLOB)) <= ? ORDER BY key LIMIT ?",
            (last, end, LONGEST_NAME, _PAGE),
        )
        return [name for (name,) in rows]

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        # Without a context manager: it would be a fifth of the time.
        try:
            with self._guard:
                return self._open().execute(sql, parameters).fetchall()
        except sqlite3.DataError:
            raise DamagedReplyError(f"{self.path}: an entry is too long") from None
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(self.path, error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():
            # A connection that came through a fork is let go: closing it would harm its owner.
            self._connection = connected_read_only(self.path)
            self._connection.text_factory = bytes
            self._process = os.getpid()
        return self._connection

    def _refused(self, what: str) -> DamagedReplyError:
        return DamagedReplyError(f"{self.path}: entry {what}: refused unread")

    def _validated(
        self, key: str, name: str, from_json: Callable[[str, str], _Recorded]
    ) -> _Recorded | None:
        text = self.text(name)
        if text is None:
            return None
        where = f"{self.path}: entry {name.partition(':')[2]}"
        try:
            entry = from_json(unsealed(text).decode(), where)
        except DamagedReplyError as error:
            raise DamagedReplyError(f"{where}: {error}") from None
        except (StoreError, UnicodeDecodeError) as error:
            raise DamagedReplyError(str(error)) from None
        if entry.key != key:
            raise DamagedReplyError(f"{where}: holds the reply to another request, {entry.key}")
        return entry


def holds_store(path: Path) -> bool:
    """Whether there is a store in a folder."""
    return os.path.lexists(path / DATABASE)
