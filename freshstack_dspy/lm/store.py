"""The replies store: diskcache over JSON text, with nothing ever unpickled or thrown away.

diskcache pickles keys and values that are not plain, and unpickles whatever a row says it is
(CVE-2025-69872; its JSONDisk does not close it). `JsonTextDisk` writes text only, and reading
refuses every other row. There is no eviction and no expiry: the defaults would throw paid replies
away. The store is its user's own; people exchange bundles (`bundle.py`).
"""

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import diskcache
from diskcache.core import MODE_RAW

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.reply import (
    Entry,
    Numbers,
    Reply,
    SearchResult,
    content_hash,
    entry_from_json,
)
from freshstack_dspy.lm.request import ChatRequest, canonical_json, sha256_of
from freshstack_dspy.records import Status

SCHEMA = "3"
"""Raised when the rows change; a store of another schema says how to rebuild it."""
DATABASE = "cache.db"
_FORMAT = "format"
_SETTINGS = {
    # diskcache's own settings throw the oldest entries away from a gigabyte on.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "sqlite_cache_size": 8192,
}
_PATIENCE = 60
"""Seconds to wait for another process that is writing."""


class Line(NamedTuple):
    """A recorded entry as it is written down, not validated."""

    key: str
    json: bytes


class Recorded(ABC):
    """Entries that can be looked up by key: a store, a bundle, or several bundles."""

    @abstractmethod
    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, validated, or None.

        Raises:
            StoreError: It cannot be read, or is damaged.
        """

    @abstractmethod
    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries whose JSON holds some bytes, one at a time."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Every entry that is served."""

    def replies(self) -> Iterator[Reply]:
        """Every chat reply that is served."""
        return (entry for entry in self.entries() if isinstance(entry, Reply))

    def get(self, key: str) -> Reply | None:
        """The chat reply recorded for a key, or None; see `entry`."""
        entry = self.entry(key)
        return entry if isinstance(entry, Reply) else None

    def numbers(self, key: str) -> Numbers | None:
        """The vector or the scores recorded for a key, or None; see `entry`."""
        entry = self.entry(key)
        return entry if isinstance(entry, Numbers) else None

    def search_result(self, key: str) -> SearchResult | None:
        """What a recorded search returned, or None; see `entry`."""
        entry = self.entry(key)
        return entry if isinstance(entry, SearchResult) else None


def recorded_entry(key: str, sources: Iterable[Recorded | None]) -> Entry | None:
    """The entry of a key in the first of several places that has one.

    Raises:
        StoreError: It cannot be read, or is damaged.
    """
    found = (source.entry(key) for source in sources if source is not None)
    return next((entry for entry in found if entry is not None), None)


def recorded_reply(key: str, *sources: Recorded | None) -> Reply | None:
    """The chat reply of a key in the first of several places that has one; see `recorded_entry`."""
    found = (source.get(key) for source in sources if source is not None)
    return next((reply for reply in found if reply is not None), None)


def recorded_entries(keys: Iterable[str], sources: Iterable[Recorded | None]) -> Iterator[Entry]:
    """The recorded entries of these keys, in the order of the keys; absent ones are left out."""
    sources = tuple(sources)
    found = (recorded_entry(key, sources) for key in sorted(keys))
    return (entry for entry in found if entry is not None)


class UsedEntries:
    """The entries that a run was given, each hashed when it was used; shared by threads."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def enter(self, entry: Entry) -> None:
        """Enter an entry that is given out."""
        now = content_hash(entry)
        if self._hashes.setdefault(entry.key, now) != now:
            # Asked again in one run: no single reply represents all that was made from this key.
            self._hashes[entry.key] = "two replies in one run"

    def by_key(self) -> dict[str, str]:
        """The content hash of each entry by key, in the order of the keys."""
        return dict(sorted(self._hashes.copy().items()))


def fingerprint(keys: Iterable[str], sources: Iterable[Recorded | None]) -> str | None:
    """One hash of what is recorded for these keys, or None where one is missing.

    It equals `sha256_of(used.by_key())` of the run that used these entries.

    Raises:
        StoreError: An entry cannot be read, or is damaged.
    """
    sources = tuple(sources)
    hashes: dict[str, str] = {}
    for key in keys:
        entry = recorded_entry(key, sources)
        if entry is None:
            return None
        hashes[key] = content_hash(entry)
    return sha256_of(hashes)


class JsonTextDisk(diskcache.Disk):
    """Keys and values are text inside the database row, and nothing else is read back."""

    def put(self, key: Any) -> Any:
        """Accept a text key as it is."""
        if not isinstance(key, str):
            raise StoreError(f"the replies store takes text keys only, not {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Read a key back, refusing one that would have to be unpickled."""
        if not raw or not isinstance(key, str):
            raise DamagedReplyError("a key of the replies store is not plain text")
        return key

    def store(self, value: Any, read: Any, key: Any = None) -> Any:
        """Accept a text value, which stays in the row."""
        if not isinstance(value, str):
            raise StoreError(f"the replies store takes text only, not {type(value).__name__}")
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> str:
        """Read a value back, refusing pickles and files."""
        if mode != MODE_RAW or filename is not None or not isinstance(value, str):
            raise DamagedReplyError("a value of the replies store is not plain text")
        return value


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
        self.read_only = read_only
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._cache: Any = None
        if read_only and not holds_store(path):
            raise StoreError(f"{path}: there is no replies store")
        if holds_store(path):
            self._check_schema()
        if not read_only:
            with self._errors_explained():
                self._cache = diskcache.Cache(
                    str(path.absolute()), disk=JsonTextDisk, timeout=_PATIENCE, **_SETTINGS
                )
                self._cache.add(_FORMAT, SCHEMA)

    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, validated, or None.

        Raises:
            DamagedReplyError: It is damaged.
        """
        return self._entry(key, f"entry:{key}")

    def replaced(self, key: str, number: int) -> Entry | None:
        """The entry that was recorded for a key before others; 1 is the oldest."""
        return self._entry(key, f"entry:{key}:{number}")

    def entries(self) -> Iterator[Entry]:
        """Every entry that is served, by key."""
        for line in self.lines():
            yield entry_from_json(line.json, f"{self.path}: entry {line.key}")

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries whose JSON holds some bytes, in the order of their keys; see `Recorded`."""
        for name, value in self._rows_with_prefix("entry:", holding):
            key = name.removeprefix("entry:")
            if ":" not in key:
                yield Line(key, value)

    def deferred(self) -> Iterator[ChatRequest]:
        """The requests that wait for a reply, by key."""
        for _, value in self._rows_with_prefix("deferred:"):
            yield ChatRequest.model_validate_json(value)

    def deferred_request(self, key: str) -> ChatRequest | None:
        """The request that waits for a reply under a key, or None."""
        value = self._value(f"deferred:{key}")
        return None if value is None else ChatRequest.model_validate_json(value)

    def spent(self, account: str) -> Spent:
        """What an account has spent so far."""
        value = self._value(f"spent:{account}")
        return Spent() if value is None else Spent.model_validate_json(value)

    def names(self) -> Iterator[str]:
        """The names of all rows, in order."""
        for (name,) in self._rows("SELECT key FROM Cache WHERE key <> ? ORDER BY key", (_FORMAT,)):
            yield name.decode() if isinstance(name, bytes) else str(name)

    def faults(self) -> Iterator[str]:
        """What SQLite's own check finds wrong with the database."""
        for (fault,) in self._rows("PRAGMA integrity_check(20)"):
            if fault != b"ok":
                yield f"the database is damaged: {fault.decode(errors='replace')}"

    def put(self, *entries: Entry, account: str | None = None, spent: Spent | None = None) -> None:
        """Record the entries of one request; what they replace stays under the next number.

        Args:
            entries: What came.
            account: Who pays, if anybody.
            spent: What it cost; written together with the entries or not at all.

        Raises:
            StoreError: They cannot be written.
        """
        texts = {entry.key: _text(entry) for entry in entries}
        with self._writing():
            for key, text in texts.items():
                name = f"entry:{key}"
                if not self._cache.add(name, text):
                    self._number_replaced(name)
                    self._cache.set(name, text)
                self._cache.delete(f"deferred:{key}")
            if account is not None and spent is not None:
                self._charge(account, spent)

    def add(self, entry: Entry) -> bool:
        """Record an entry unless its key has one; tell whether it had none."""
        text = _text(entry)
        with self._writing():
            added: bool = self._cache.add(f"entry:{entry.key}", text)
            if added:
                self._cache.delete(f"deferred:{entry.key}")
        return added

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent."""
        with self._writing():
            self._charge(account, spent)

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a recorded reply turned out to be worth."""
        known = self.get(key)
        if known is None or (known.status, known.reasked_as) == (status, reasked_as):
            return
        with self._writing():
            reply = self.get(key) or known
            noted = reply.model_copy(update={"status": status, "reasked_as": reasked_as})
            self._cache.set(f"entry:{key}", _text(noted))

    def defer(self, request: ChatRequest) -> None:
        """Write down a request that is to be answered later."""
        with self._writing():
            self._cache.add(
                f"deferred:{request.key}", canonical_json(request.model_dump(mode="json"))
            )

    def close(self) -> None:
        """Close this thread's connections; those of threads that have ended are closed already."""
        with self._read_lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if self._cache is not None:
            self._cache.close()

    def _check_schema(self) -> None:
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'Cache'"):
            return  # its making was interrupted, and goes on
        rows = self._rows("SELECT value FROM Cache WHERE key = ? AND raw = 1", (_FORMAT,))
        found = rows[0][0].decode() if rows else SCHEMA
        if found != SCHEMA:
            raise StoreError(
                f"{self.path}: a replies store of schema {found}, and this version reads {SCHEMA}: "
                "move the folder away and record its replies again with "
                "freshstack replies import BUNDLE CONFIG"
            )

    def _entry(self, key: str, name: str) -> Entry | None:
        value = self._value(name)
        if value is None:
            return None
        try:
            entry = entry_from_json(value, f"{self.path}: {name}")
        except StoreError as error:
            raise DamagedReplyError(str(error)) from None
        if entry.key != key:
            raise DamagedReplyError(f"{self.path}: {name} is the reply to another request")
        return entry

    def _value(self, name: str) -> bytes | None:
        rows = self._rows(
            "SELECT mode = 1 AND filename IS NULL AND typeof(value) = 'text', value FROM Cache "
            "WHERE key = ? AND raw = 1",
            (name,),
        )
        if not rows:
            return None
        is_text, value = rows[0]
        if not is_text:
            raise DamagedReplyError(f"{self.path}: {name} is not plain text: refused")
        return bytes(value)

    def _rows_with_prefix(self, prefix: str, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        """The text rows whose names begin so, in pages, so that others can write meanwhile."""
        last = prefix
        while True:
            page = self._rows(
                "SELECT key, value FROM Cache WHERE key > ? AND key < ? AND raw = 1 AND mode = 1 "
                "AND typeof(value) = 'text' ORDER BY key LIMIT 1000",
                (last, prefix + "\x7f"),
            )
            for name, value in page:
                if holding in value:
                    yield name.decode(), value
            if not page:
                return
            last = page[-1][0].decode()

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            with self._read_lock:
                if self._connection is None:
                    self._connection = _connect(self.path / DATABASE)
                return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _charge(self, account: str, spent: Spent) -> None:
        total = self.spent(account) + spent
        self._cache.set(f"spent:{account}", canonical_json(total.model_dump(mode="json")))

    def _number_replaced(self, name: str) -> None:
        with contextlib.suppress(DamagedReplyError):
            old = (self._value(name) or b"").decode()
            number = 1
            while not self._cache.add(f"{name}:{number}", old):
                number += 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._cache is None:
            raise StoreError(f"{self.path}: the replies store is open for reading only")
        # Not `retry=True`: it would go on for ever where the file cannot be written at all.
        with self._errors_explained(), self._write_lock, self._cache.transact():
            yield

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> StoreError:
        reason = " ".join(str(error).split()) or "it is locked or read-only"
        return StoreError(
            f"{self.path}: the replies store cannot be read or written: {reason}; "
            "check the disk's free space and the folder's permissions"
        )


def _connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{database.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_PATIENCE,
    )
    connection.text_factory = bytes
    return connection


def holds_store(path: Path) -> bool:
    """Whether there is a store in a folder."""
    return (path / DATABASE).exists()


def _text(entry: Entry) -> str:
    return canonical_json(entry.model_dump(mode="json", by_alias=True))
