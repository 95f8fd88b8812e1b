"""The replies store: one SQLite table of JSON text, from which nothing is ever thrown away.

The store is its user's own; people exchange bundles (`bundle.py`).
"""

import contextlib
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.reply import Entry, Reply, content_hash, entry_from_json, entry_json
from freshstack_dspy.lm.request import ChatRequest, canonical_json, sha256_of
from freshstack_dspy.records import Status

SCHEMA = 4
"""Raised when the rows change; a store of another schema says how to rebuild it."""
DATABASE = "cache.db"
_PATIENCE = 60
"""Seconds to wait for another process that is writing."""
_PAGE = "SELECT name, value FROM Replies WHERE name > ? AND name < ? ORDER BY name LIMIT 1000"
_ADD = "INSERT OR IGNORE INTO Replies VALUES (?, ?)"


class Line(NamedTuple):
    """A recorded entry as it is written down, not validated."""

    key: str
    json: bytes


class Recorded(ABC):
    """Entries that can be looked up by key: a store, a bundle, or several of them."""

    @abstractmethod
    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, validated, or None.

        Raises:
            StoreError: It cannot be read, or is damaged.
        """

    @abstractmethod
    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries that are served and whose JSON holds some bytes, one at a time."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def entries(self) -> Iterator[Entry]:
        """Every entry that is served."""
        found = (self.entry(line.key) for line in self.lines())
        return (entry for entry in found if entry is not None)

    def get(self, key: str) -> Reply | None:
        """The chat reply recorded for a key, or None; see `entry`."""
        entry = self.entry(key)
        return entry if isinstance(entry, Reply) else None

    def replies(self) -> Iterator[Reply]:
        """Every chat reply that is served."""
        return (entry for entry in self.entries() if isinstance(entry, Reply))


def recorded_entry(key: str, sources: Iterable[Recorded | None]) -> Entry | None:
    """The entry of a key in the first of several places that has one; see `Recorded.entry`."""
    found = (source.entry(key) for source in sources if source is not None)
    return next((entry for entry in found if entry is not None), None)


def recorded_entries(keys: Iterable[str], sources: Iterable[Recorded | None]) -> Iterator[Entry]:
    """The recorded entries of these keys, in the order of the keys; absent ones are left out."""
    sources = tuple(sources)
    found = (recorded_entry(key, sources) for key in sorted(keys))
    return (entry for entry in found if entry is not None)


def fingerprint(keys: Iterable[str], sources: Iterable[Recorded | None]) -> str | None:
    """One hash of what is recorded for these keys, or None where one is missing.

    It is that of the `used_replies` of the run that used these entries.
    """
    keys = set(keys)
    hashes = {entry.key: content_hash(entry) for entry in recorded_entries(keys, sources)}
    return sha256_of(hashes) if len(hashes) == len(keys) else None


class ReplyStore(Recorded):
    """Recorded entries by key, shared by threads and processes.

    The rows: `entry:KEY`, what is served; `entry:KEY:N`, what it replaced, oldest first;
    `deferred:KEY`, a request without a reply yet; `spent:NAME`, what an account has spent.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the store in a folder, or make one.

        Args:
            path: The folder.
            read_only: Nothing is written, and a store that is not there is an error.

        Raises:
            StoreError: The folder cannot be used, or holds a store of another schema version.
        """
        self.path = path
        self._read_only = read_only
        self._lock = threading.RLock()
        if read_only and not holds_store(path):
            raise StoreError(f"{path}: there is no replies store")
        with self._errors_explained():
            if not read_only:
                path.mkdir(parents=True, exist_ok=True)
            self._database = _connect(path / DATABASE, read_only=read_only)
            self._check_schema()
            if not read_only:
                self._make()

    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, validated, or None.

        Raises:
            DamagedReplyError: It is damaged.
        """
        return self._entry(f"entry:{key}")

    def replaced(self, key: str, number: int) -> Entry | None:
        """The entry that was recorded for a key before others; 1 is the oldest."""
        return self._entry(f"entry:{key}:{number}")

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries whose JSON holds some bytes, in the order of their keys."""
        for name, value in self._rows_with_prefix("entry:"):
            key = name.removeprefix("entry:")
            if ":" not in key and holding in value:
                yield Line(key, value)

    def deferred(self) -> Iterator[ChatRequest]:
        """The requests that wait for a reply, by key."""
        for _, value in self._rows_with_prefix("deferred:"):
            yield ChatRequest.model_validate_json(value)

    def spent(self, account: str) -> Spent:
        """What an account has spent so far."""
        value = self._value(f"spent:{account}")
        return Spent() if value is None else Spent.model_validate_json(value)

    def put(self, *entries: Entry, account: str | None = None, spent: Spent | None = None) -> None:
        """Record the entries of one request; what they replace stays under the next number.

        Args:
            entries: What came.
            account: Who pays, if anybody.
            spent: What it cost; written together with the entries or not at all.

        Raises:
            StoreError: They cannot be written.
        """
        with self._writing():
            for entry in entries:
                if not self._added(entry):
                    self._number_replaced(f"entry:{entry.key}")
                    self._added(entry)
            if account is not None and spent is not None:
                self._charge(account, spent)

    def add(self, entry: Entry) -> bool:
        """Record an entry unless its key has one; tell whether it had none."""
        with self._writing():
            return self._added(entry)

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent."""
        with self._writing():
            self._charge(account, spent)

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a recorded reply turned out to be worth."""
        with self._writing():
            reply = self.get(key)
            if reply is not None and (reply.status, reply.reasked_as) != (status, reasked_as):
                noted = reply.model_copy(update={"status": status, "reasked_as": reasked_as})
                self._set(f"entry:{key}", entry_json(noted))

    def defer(self, request: ChatRequest) -> None:
        """Write down a request that is to be answered later."""
        text = canonical_json(request.model_dump(mode="json"))
        with self._writing():
            self._database.execute(_ADD, (f"deferred:{request.key}", text))

    def check_rows(self) -> Iterator[tuple[str, str | StoreError]]:
        """Every row's name, with its kind or with what is wrong with it; then SQLite's own faults."""
        for (row,) in self._rows("SELECT name FROM Replies ORDER BY name"):
            name = row.decode(errors="replace")
            try:
                yield name, self._checked_kind(name)
            except StoreError as error:
                yield name, error
        for (fault,) in self._rows("PRAGMA integrity_check(20)"):
            if fault != b"ok":
                yield "database", StoreError(fault.decode(errors="replace"))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._database.close()

    def _check_schema(self) -> None:
        ((version, tables),) = self._rows(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        )
        if version != SCHEMA and tables:  # without any its making was cut short, and goes on
            raise StoreError(
                f"{self.path}: a replies store of another version of freshstack_dspy: move the "
                "folder away and record its replies again with freshstack replies import BUNDLE "
                "CONFIG"
            )

    def _make(self) -> None:
        self._database.execute("PRAGMA synchronous = normal")
        with contextlib.suppress(sqlite3.OperationalError):  # another that makes it sets it too
            self._database.execute("PRAGMA journal_mode = wal")
        with self._writing():
            self._rows(
                "CREATE TABLE IF NOT EXISTS Replies (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
            )
            self._rows(f"PRAGMA user_version = {SCHEMA}")

    def _entry(self, name: str) -> Entry | None:
        value = self._value(name)
        if value is None:
            return None
        try:
            entry = entry_from_json(value, f"{self.path}: {name}")
        except StoreError as error:
            raise DamagedReplyError(str(error)) from None
        if entry.key != name.split(":")[1]:
            raise DamagedReplyError(f"{self.path}: {name} is the reply to another request")
        return entry

    def _checked_kind(self, name: str) -> str:
        kind, _, key = name.partition(":")
        if entry := self._entry(name) if kind == "entry" else None:
            return "replaced" if ":" in key else entry.kind
        return "accounts" if kind == "spent" else kind

    def _added(self, entry: Entry) -> bool:
        name = f"entry:{entry.key}"
        if not self._database.execute(_ADD, (name, entry_json(entry))).rowcount:
            return False
        self._database.execute("DELETE FROM Replies WHERE name = ?", (f"deferred:{entry.key}",))
        return True

    def _number_replaced(self, name: str) -> None:
        ((known,),) = self._rows(
            "SELECT count(*) FROM Replies WHERE name > ? AND name < ?", (f"{name}:", f"{name};")
        )
        self._rows("UPDATE Replies SET name = ? WHERE name = ?", (f"{name}:{known + 1}", name))

    def _charge(self, account: str, spent: Spent) -> None:
        total = self.spent(account) + spent
        self._set(f"spent:{account}", canonical_json(total.model_dump(mode="json")))

    def _set(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO Replies VALUES (?, ?)", (name, value))

    def _value(self, name: str) -> bytes | None:
        found = self._rows("SELECT value FROM Replies WHERE name = ?", (name,))
        return bytes(found[0][0]) if found else None

    def _rows_with_prefix(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """The rows whose names begin so, in pages, so that others can write meanwhile."""
        last, end = prefix, prefix + "\x7f"
        while page := self._rows(_PAGE, (last, end)):
            for name, value in page:
                yield name.decode(), value
            last = page[-1][0].decode()

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with self._errors_explained(), self._lock:
            return self._database.execute(sql, parameters).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._read_only:
            raise StoreError(f"{self.path}: the replies store is open for reading only")
        with self._errors_explained(), self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path}: the replies store cannot be read or written: {error}; "
                "check the disk's free space and the folder's permissions"
            ) from error


def _connect(database: Path, *, read_only: bool) -> sqlite3.Connection:
    # Where the folder can be written SQLite may have to undo what a killed process left half done.
    writable = os.access(database.parent, os.W_OK) and os.access(database, os.W_OK)
    mode = "rwc" if not read_only else "rw" if writable else "ro"
    connection = sqlite3.connect(
        f"{database.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_PATIENCE,
    )
    connection.text_factory = bytes
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


def holds_store(path: Path) -> bool:
    """Whether there is a store in a folder."""
    return (path / DATABASE).exists()
