"""The replies store: diskcache over JSON text, with nothing ever unpickled or thrown away.

diskcache pickles keys and values that are not plain, and unpickles every row that says it is one
(CVE-2025-69872; its JSONDisk does not close it). `JsonTextDisk` writes text only, and reading
refuses every other row. There is no eviction and no expiry: the defaults would throw paid replies
away. Every read checks the row's checksum: with one digit changed, a replay would make another
collection. A store belongs to one user; people exchange bundles (`bundle.py`).
"""

import hashlib
import os
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_RAW

from freshstack_dspy.config import Mode
from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.reply import (
    UNANSWERED,
    Entry,
    Reply,
    entry_from_json,
    entry_json,
    entry_of_others,
)
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.records import Status

SCHEMA = "3"
"""Increase it when the rows change; a store of another schema says how to rebuild it."""
DATABASE = "cache.db"
_FORMAT = "format"
_PATIENCE = 60
"""Seconds to wait for another process that is writing."""
_VALUE = (
    "SELECT value, tag FROM Cache WHERE key = ? AND raw = 1 AND mode = 1 AND typeof(value) = 'text'"
)
_PAGE = (
    "SELECT key, value, tag FROM Cache WHERE key > ? AND key < ? AND raw = 1 AND mode = 1 "
    "AND typeof(value) = 'text' ORDER BY key LIMIT 1000"
)


class Recorded(ABC):
    """Entries that can be looked up by key: a store, a bundle, or several of them."""

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """The JSON of the entry recorded for a key, not validated, or None.

        Raises:
            DamagedReplyError: It is not what was recorded.
        """

    @abstractmethod
    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        """Key and JSON of the entries that are served and whose JSON holds some bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, validated, or None; a damaged one is an error."""
        data = self.read(key)
        return None if data is None else entry_from_json(data, f"entry {key}")

    def entries(self) -> Iterator[Entry]:
        """Every entry that is served."""
        return (entry_from_json(data, f"entry {key}") for key, data in self.lines())

    def get(self, key: str) -> Reply | None:
        """The chat reply recorded for a key, or None; see `entry`."""
        entry = self.entry(key)
        return entry if isinstance(entry, Reply) else None

    def replies(self) -> Iterator[Reply]:
        """Every chat reply that is served."""
        return (entry for entry in self.entries() if isinstance(entry, Reply))


class FirstOf(Recorded):
    """Several places as one; the first entry for a key is served."""

    def __init__(self, *sources: Recorded | None) -> None:
        self._sources = [source for source in sources if source is not None]

    def read(self, key: str) -> bytes | None:
        """The JSON of the entry in the first place that has one, or None."""
        for source in self._sources:
            if (data := source.read(key)) is not None:
                return data
        return None

    def entry(self, key: str) -> Entry | None:
        """The entry in the first place that has one, or None; see `Recorded`."""
        entries = (source.entry(key) for source in self._sources)
        return next((entry for entry in entries if entry is not None), None)

    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        """Key and JSON of the entries that hold some bytes; see `Recorded`."""
        served: set[str] = set()
        for source in self._sources:
            for key, data in source.lines(holding):
                if key not in served:
                    served.add(key)
                    yield key, data

    def close(self) -> None:
        """Close every place."""
        for source in self._sources:
            source.close()


class JsonTextDisk(diskcache.Disk):
    """Stores keys and values as text inside the database row, and reads nothing else back."""

    def put(self, key: Any) -> Any:
        """Take a text key as it is."""
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Read a key back, refusing one that would have to be unpickled."""
        if not raw or not isinstance(key, str):
            raise DamagedReplyError("a key of the replies store is not plain text")
        return key

    def store(self, value: Any, read: Any, key: Any = None) -> Any:
        """Take a text value, which stays in the row."""
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> str:
        """Read a value back, refusing pickles and files."""
        if mode != MODE_RAW or filename is not None or not isinstance(value, str):
            raise DamagedReplyError("a value of the replies store is not plain text")
        return value


class _Cache(diskcache.Cache):
    """With one connection for all threads, which write one at a time.

    diskcache has one for each thread, and leaves it open when the thread ends.
    """

    _shared: sqlite3.Connection | None = None

    @property
    def _con(self) -> sqlite3.Connection:
        if self._shared is None:
            self._shared = sqlite3.connect(
                Path(self.directory) / DATABASE,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            weakref.finalize(self, self._shared.close)  # of a store that nobody closes
            with suppress(sqlite3.OperationalError):  # there are no settings yet
                settings = self._shared.execute("SELECT key, value FROM Settings").fetchall()
                for name, value in settings:
                    if name.startswith("sqlite_"):
                        self.reset(name, value, update=False)
        return self._shared

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None


@dataclass(eq=False)
class _Put:
    """What one call records."""

    entries: tuple[Entry, ...]
    account: str | None
    spent: Spent | None
    is_written: bool = False


class ReplyStore(Recorded):
    """Recorded entries by key, shared by threads and processes.

    The rows: `entry:KEY`, what is served; `entry:KEY:N`, what it replaced, oldest first;
    `deferred:KEY`, a request without a reply yet; `spent:NAME`, what an account has spent. Their
    column `tag` has the checksum; rows of before 0.3 have none.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        """Open the store in a folder, or make one.

        Args:
            path: The folder.
            read_only: Nothing is written, and a store that is not there is an error.

        Raises:
            StoreError: The folder cannot be used, or holds a store of another schema version.
        """
        self.path = path = Path(path)
        self._write_lock = threading.RLock()
        self._waiting_puts: list[_Put] = []
        self._read_lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._cache: Any = None
        if holds_store(path):
            try:
                self._check_schema()
            except StoreError:
                self.close()
                raise
        elif read_only:
            raise StoreError(f"{path}: there is no replies store")
        if not read_only:
            with self._errors_explained():
                self._cache = _Cache(
                    str(path.absolute()),
                    disk=JsonTextDisk,
                    timeout=_PATIENCE,
                    eviction_policy="none",
                    cull_limit=0,
                    size_limit=2**62,
                    sqlite_cache_size=8192,
                )
                self._cache.add(_FORMAT, SCHEMA)

    def read(self, key: str) -> bytes | None:
        """The JSON recorded for a key, or None."""
        return self._value(f"entry:{key}")

    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        """Key and JSON of the entries that hold some bytes, in the order of their keys."""
        for name, value in self._rows_with_prefix("entry:"):
            key = name.removeprefix("entry:")
            if ":" not in key and holding in value:
                yield key, value

    def deferred(self) -> Iterator[ChatRequest]:
        """The waiting requests, by key."""
        rows = self._rows_with_prefix("deferred:")
        return (ChatRequest.model_validate_json(value) for _, value in rows)

    def waiting(self, key: str) -> ChatRequest | None:
        """The request of a key, if it waits for a reply."""
        value = self._value(f"deferred:{key}")
        return None if value is None else ChatRequest.model_validate_json(value)

    def whole_entry(self, key: str) -> Entry | None:
        """The entry recorded for a key; None if it is missing, or damaged and to be replaced."""
        try:
            return self.entry(key)
        except DamagedReplyError:
            return None

    def spent(self, account: str) -> Spent:
        """What an account has spent so far."""
        value = self._value(f"spent:{account}")
        return Spent() if value is None else Spent.model_validate_json(value)

    def put(self, *entries: Entry, account: str | None = None, spent: Spent | None = None) -> None:
        """Record entries, all or none; what they replace stays under the next number.

        Threads that wait for one another's transaction share the next one.

        Args:
            entries: What came.
            account: Who pays, if anybody.
            spent: What it cost; written together with the entries or not at all.

        Raises:
            StoreError: They cannot be written.
        """
        mine = _Put(entries, account, spent)
        self._waiting_puts.append(mine)
        with self._write_lock:
            if mine.is_written:
                return
            puts = list(self._waiting_puts)
            try:
                self._put(puts)
            except BaseException:
                self._waiting_puts.remove(mine)  # the others try again
                raise
            del self._waiting_puts[: len(puts)]
            for put in puts:
                put.is_written = True

    def add(self, entry: Entry) -> bool:
        """Record an entry unless its key has an undamaged one; return whether it was recorded."""
        with self._writing():
            return self._added(entry)

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent."""
        with self._writing():
            self._charge(account, spent)

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Record the status that a recorded reply turned out to have."""
        with self._writing():
            reply = self.get(key)
            if reply is not None and (reply.status, reply.reasked_as) != (status, reasked_as):
                noted = reply.model_copy(update={"status": status, "reasked_as": reasked_as})
                self._set(f"entry:{key}", entry_json(noted))

    def defer(self, request: ChatRequest) -> None:
        """Write down a request that is to be answered later."""
        text = canonical_json(request.model_dump(mode="json"))
        with self._writing():
            self._set(f"deferred:{request.key}", text)

    def check_rows(self) -> Iterator[tuple[str, str | StoreError]]:
        """Every row's name, with its kind or with what is wrong with it; then SQLite's own faults."""
        for (key,) in self._rows("SELECT key FROM Cache WHERE key <> ? ORDER BY key", (_FORMAT,)):
            name = bytes(key).decode(errors="replace")
            try:
                yield name, self._checked_kind(name)
            except StoreError as error:
                yield name, error
        for (fault,) in self._rows("PRAGMA integrity_check(20)"):
            if fault != b"ok":
                yield "database", StoreError(fault.decode(errors="replace"))

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._read_lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if self._cache is not None:
            with self._write_lock:
                self._cache.close()

    def _check_schema(self) -> None:
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'Cache'"):
            return  # its making was interrupted, and goes on
        if self._value(_FORMAT) not in (None, SCHEMA.encode()):
            raise StoreError(
                f"{self.path}: a replies store of another version of freshstack_dspy: move the "
                "folder away and record its replies again with freshstack replies import BUNDLE "
                "CONFIG"
            )

    def _checked_kind(self, name: str) -> str:
        value = self._value(name)
        if value is None:
            raise DamagedReplyError(f"{self.path}: {name} is not plain text: refused")
        kind, _, key = name.partition(":")
        if kind == "entry":
            entry = entry_of_others(value, f"{self.path}: {name}")
            return "replaced" if ":" in key else entry.kind
        return "accounts" if kind == "spent" else kind

    def _value(self, name: str) -> bytes | None:
        rows = self._rows(_VALUE, (name,))
        return self._whole(name, *rows[0]) if rows else None

    def _whole(self, name: str, value: bytes, tag: bytes | None) -> bytes:
        """A row's text, which must fit its checksum; rows of before 0.3 have none."""
        if tag is not None and tag.decode(errors="replace") != _checksum(name, value):
            raise DamagedReplyError(
                f"{self.path}: {name} is damaged: it is not the text that was written"
            )
        return value

    def _rows_with_prefix(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """The text rows whose names have a prefix, in pages, so that others can write meanwhile."""
        last, end = prefix, prefix + "\x7f"
        while page := self._rows(_PAGE, (last, end)):
            for key, value, tag in page:
                try:
                    last = key.decode()
                except UnicodeDecodeError:
                    raise DamagedReplyError(f"{self.path}: the name {key!r} is damaged") from None
                yield last, self._whole(last, value, tag)

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with self._errors_explained(), self._read_lock:
            if self._connection is None:
                self._connection = _connect(self.path / DATABASE)
                weakref.finalize(self, self._connection.close)
            return self._connection.execute(sql, parameters).fetchall()

    def _put(self, puts: list[_Put]) -> None:
        charges: dict[str, Spent] = {}
        with self._writing():
            for put in puts:
                for entry in put.entries:
                    if not self._added(entry):
                        self._number_replaced(f"entry:{entry.key}")
                        self._record(entry, self._cache.set)
                if put.account is not None and put.spent is not None:
                    charges[put.account] = charges.get(put.account, Spent()) + put.spent
            for account, spent in charges.items():
                self._charge(account, spent)

    def _added(self, entry: Entry) -> bool:
        return self._record(entry, self._cache.add) or (
            self.whole_entry(entry.key) is None and self._record(entry, self._cache.set)
        )

    def _record(self, entry: Entry, write: Callable[..., bool]) -> bool:
        name, text = f"entry:{entry.key}", entry_json(entry)
        is_written = write(name, text, tag=_checksum(name, text))
        if is_written and getattr(entry, "finish_reason", "") != UNANSWERED:
            self._cache.delete(f"deferred:{entry.key}")
        return is_written

    def _set(self, name: str, text: str) -> None:
        self._cache.set(name, text, tag=_checksum(name, text))

    def _charge(self, account: str, spent: Spent) -> None:
        total = self.spent(account) + spent
        self._set(f"spent:{account}", canonical_json(total.model_dump(mode="json")))

    def _number_replaced(self, name: str) -> None:
        if old := self._value(name):
            number = 1
            while not self._cache.add(
                numbered := f"{name}:{number}", old.decode(), tag=_checksum(numbered, old)
            ):
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
            advice = "check the disk's free space and the folder's permissions"
            if type(error) is sqlite3.DatabaseError:  # it is no database, or a malformed one
                advice = (
                    "move the folder away and record its replies again with: freshstack replies "
                    "import BUNDLE CONFIG"
                )
            elif "locked" in str(error):
                advice = "run this again when the other process has ended"
            raise StoreError(
                f"{self.path}: the replies store cannot be read or written: "
                f"{str(error) or 'it is locked or read-only'}; {advice}"
            ) from error


def _checksum(name: str, text: str | bytes) -> str:
    """The checksum of a row's name and text: a row in another's place counts as damaged too."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(b"%b\0%b" % (name.encode(), data)).hexdigest()


def _connect(database: Path) -> sqlite3.Connection:
    # Where the folder can be written SQLite may have to undo what a killed process left half done.
    mode = "rw" if os.access(database.parent, os.W_OK) and os.access(database, os.W_OK) else "ro"
    if mode == "ro" and not database.with_name(f"{database.name}-wal").exists():
        mode += "&immutable=1"  # SQLite cannot make the files that it would share with a writer
    connection = sqlite3.connect(
        f"{database.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_PATIENCE,
    )
    connection.text_factory = bytes
    connection.execute("PRAGMA query_only = ON")
    return connection


def holds_store(path: Path) -> bool:
    """Whether there is a store in a folder."""
    return (path / DATABASE).exists()


def open_store(path: Path, mode: Mode) -> ReplyStore | None:
    """Open the replies store; a replay only reads it, and makes none where there is none."""
    if mode != "replay":
        return ReplyStore(path)
    return ReplyStore(path, read_only=True) if holds_store(path) else None
