"""The replies store: diskcache over raw JSON text, with nothing ever unpickled or thrown away.

diskcache pickles keys and values that are not plain, and unpickles whatever row says so
(CVE-2025-69872; its JSONDisk does not close it). Here it only writes, and `JsonTextDisk` writes
text only; reading goes past it (`read_only.py`). There is no eviction and no expiry: the defaults
would throw paid replies away. People exchange bundles (`bundle.py`), never the SQLite file.
"""

import contextlib
import hashlib
import os
import re
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import diskcache
from diskcache.core import MODE_RAW
from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.reply import Figures, Reply, figures_from_json, reply_from_json
from freshstack_dspy.lm.request import MOST_STRUCTURE, Ask, canonical_json, is_dense
from freshstack_dspy.records import Status

_BESIDE = ("", "-wal", "-shm", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Ends a rollback journal that names another file."""


def unsafe_file(database: Path, *, writing: bool) -> tuple[str, str] | None:
    """Find what leads elsewhere among the files of a database, without opening it.

    Args:
        database: Its main file; what is not there is safe.
        writing: Whether it is opened to be written, where a hard link matters too.

    Returns:
        The name of the file and what is wrong with it, as the end of a sentence; or None.

    Raises:
        OSError: A file cannot be looked at.
    """
    for suffix in _BESIDE:
        file = database.with_name(database.name + suffix)
        try:
            found = file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # what cannot be there is said when it is opened
        if not stat.S_ISREG(found.st_mode):
            return file.name, "is a link or no plain file: refused unread"
        if writing and found.st_nlink > 1:
            return file.name, (
                "is a hard link, and what is written to it would change another file too"
            )
    journal = database.with_name(f"{database.name}-journal")
    if _names_another_file(journal):
        return journal.name, "names another file, which could be deleted: refused unread"
    return None


def _names_another_file(journal: Path) -> bool:
    try:
        with journal.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - len(_JOURNAL_MAGIC)))
            return opened.read() == _JOURNAL_MAGIC
    except (FileNotFoundError, NotADirectoryError):
        return False


Entry = Reply | Figures

_REPLY_BEGINS = b'{"ask":'
"""As the canonical JSON of every reply does, and of no figures."""


def entry_name(entry: Entry) -> str:
    """The name of an entry in a store."""
    return f"{'reply' if isinstance(entry, Reply) else 'figures'}:{entry.key}"


def entry_from_json(line: bytes, where: str) -> Entry:
    """Read a recorded reply or recorded figures, validating every field.

    Raises:
        StoreError: Naming `where` and the fault.
        UnicodeDecodeError: It is no UTF-8.
    """
    text = line.decode()
    if not line.startswith(_REPLY_BEGINS) and _is_of_figures(line):
        return figures_from_json(text, where)
    return reply_from_json(text, where)


def _is_of_figures(line: bytes) -> bool:
    try:
        fields = from_json(line)
    except ValueError:
        return False
    return isinstance(fields, dict) and "request" in fields


def says_the_same(one: Entry, other: Entry) -> bool:
    """Whether it makes no difference to a build which of two entries of a request it is served.

    What counts is what a build computes with: of a reply the text, the finish reason, the status
    and the re-ask; of figures the values. When and how they came, and what they cost, may differ.
    """
    if one.key != other.key:
        return False
    if isinstance(one, Figures) or isinstance(other, Figures):
        return (
            isinstance(one, Figures) and isinstance(other, Figures) and one.values == other.values
        )
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("text", "finish_reason", "status", "reasked_as")
    )


class Line(NamedTuple):
    """A recorded reply as it is kept."""

    key: str
    json: bytes | None
    """Not validated: `get` what is to be believed. None: it is damaged."""


class Recorded(Protocol):
    """Replies that can be looked up and searched."""

    def get(self, key: str, /) -> Reply | None:
        """The reply recorded for a key, validated, or None.

        Raises:
            StoreError: It cannot be read or trusted.
        """
        ...

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The replies whose JSON holds some bytes, one at a time; damaged ones too.

        Raises:
            StoreError: They cannot be read.
        """
        ...


class RecordedFigures(Protocol):
    """Vectors and scores that can be looked up."""

    def figures(self, key: str, /) -> Figures | None:
        """The figures recorded for a key, validated, or None.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        ...

    def any_figures(self) -> Figures | None:
        """Some figures that are recorded, or None.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        ...


def recorded_reply(key: str, *sources: Recorded | None) -> Reply | None:
    """The reply of a key in the first of several places that has one.

    Raises:
        StoreError: It cannot be read or trusted.
    """
    for source in sources:
        reply = source.get(key) if source is not None else None
        if reply is not None:
            return reply
    return None


_DIGITS = 64


def sealed(value: Any) -> str:
    """The canonical JSON of a value, with its seal in a line before it."""
    line = canonical_json(value)
    return f"{_seal(line.encode())}\n{line}"


def unsealed(text: bytes) -> bytes:
    """The JSON behind a seal.

    Raises:
        DamagedReplyError: The seal is another's.
    """
    line = text[_DIGITS + 1 :]
    if text[: _DIGITS + 1] != f"{_seal(line)}\n".encode():
        raise DamagedReplyError("damaged or edited by hand")
    return line


def _seal(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


SCHEMA = "2"
"""Raised when the entries change; a store of another schema says so."""
FORMAT_ENTRY = "format"
DATABASE = "cache.db"
RAW = 1
"""diskcache's mode of a value that is what it is; every other is a pickle or a file."""
LONGEST_ENTRY = 64 * 2**20
"""Bytes; a reply of a million tokens has a tenth of them."""
LONGEST_NAME = 200
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

SETTINGS = {
    "statistics": 0,
    "tag_index": 0,
    # No eviction: diskcache's own settings throw the oldest entries away from a gigabyte on.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "sqlite_auto_vacuum": 1,
    "sqlite_cache_size": 8192,
    "sqlite_cell_size_check": 1,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,
    "sqlite_synchronous": 1,
    "sqlite_trusted_schema": 0,
    "disk_min_file_size": 0,
    "disk_pickle_protocol": 0,
}
"""All settings that diskcache has, so that none is taken from a database."""
_COUNTERS = ("count", "size", "hits", "misses")

_CACHE = "CREATE TABLE Cache ( rowid INTEGER PRIMARY KEY, key BLOB, raw INTEGER, store_time REAL, expire_time REAL, access_time REAL, access_count INTEGER DEFAULT 0, tag BLOB, size INTEGER DEFAULT 0, mode INTEGER DEFAULT 0, filename TEXT, value BLOB)"
_COUNTING = "CREATE TRIGGER {} AFTER {} ON Cache FOR EACH ROW BEGIN UPDATE Settings SET value = value {} WHERE key = \"{}\"; END"  # fmt: skip
_OBJECTS = {
    ("table", "Cache"): _CACHE,
    ("table", "Settings"): "CREATE TABLE Settings ( key TEXT NOT NULL UNIQUE, value)",
    ("index", "sqlite_autoindex_Settings_1"): None,
    ("index", "Cache_key_raw"): "CREATE UNIQUE INDEX Cache_key_raw ON Cache(key, raw)",
    ("index", "Cache_expire_time"): "CREATE INDEX Cache_expire_time ON Cache (expire_time)",
} | {
    ("trigger", name): _COUNTING.format(name, event, change, counter)
    for name, event, change, counter in (
        ("Settings_count_insert", "INSERT", "+ 1", "count"),
        ("Settings_count_delete", "DELETE", "- 1", "count"),
        ("Settings_size_insert", "INSERT", "+ NEW.size", "size"),
        ("Settings_size_update", "UPDATE", "+ NEW.size - OLD.size", "size"),
        ("Settings_size_delete", "DELETE", "- OLD.size", "size"),
    )
}
"""Everything that diskcache creates, as SQLite writes it down."""


def account_entry(account: str) -> str:
    """The name of an account's entry.

    Raises:
        StoreError: It cannot be an account's name.
    """
    if not _ACCOUNT.fullmatch(account):
        raise StoreError(
            f"{account!r} cannot name an account: letters, digits, '.', '_' and '-', at most 100"
        )
    return f"spent:{account}"


def check_unsafe_files(folder: Path, *, writing: bool) -> None:
    """Refuse a store whose files lead elsewhere; SQLite follows links, and writes through them.

    Raises:
        StoreError: A file is a link or no plain file, or its journal names another file.
    """
    found = unsafe_file(folder / DATABASE, writing=writing)
    if found is not None:
        name, fault = found
        raise StoreError(f"{folder}: {name} {fault}; put a plain copy in its place, or remove it")


def connected(folder: Path, options: str) -> sqlite3.Connection:
    """Connect to a store's database with everything off that it could do by itself.

    Args:
        folder: The store.
        options: Of SQLite's URI, as `mode=ro`.

    Raises:
        sqlite3.Error: It cannot be opened.
        StoreError: It holds something that a store does not.
    """
    uri = f"{(folder / DATABASE).absolute().as_uri()}?{options}"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=60
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_ENTRY + 2**16)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {pragma}")
        _refuse(folder, _foreign_objects(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def connected_read_only(folder: Path) -> sqlite3.Connection:
    """Connect to a store's database for reading, in a read-only folder too.

    Raises:
        sqlite3.Error: It cannot be opened.
        StoreError: It holds something that a store does not, or its last replies cannot be read.
    """
    try:
        return connected(folder, "mode=ro")
    except sqlite3.OperationalError:
        if os.access(folder, os.W_OK):
            raise
    # SQLite wants to put files beside a database with a write-ahead log, even to read it. Where
    # nobody can write, nobody does; but then the log is not read, so there must be none.
    for name in (f"{DATABASE}-wal", f"{DATABASE}-journal"):
        beside = folder / name
        if beside.exists() and beside.stat().st_size:
            raise StoreError(
                f"{folder}: the last replies are still in {name}, which cannot be read in a "
                "read-only folder; copy the folder to where it can be written"
            )
    return connected(folder, "mode=ro&immutable=1")


def check_other_schema(folder: Path, connection: sqlite3.Connection) -> bool:
    """Say that a store is of another schema version, if it is; tell whether it is of one at all.

    Raises:
        StoreError: It is of another one.
    """
    rows = connection.execute(
        "SELECT mode, typeof(value) = 'text', CAST(substr(value, 1, 20) AS BLOB) FROM Cache "
        "WHERE key = ? AND raw = 1",
        (FORMAT_ENTRY,),
    ).fetchall()
    for mode, text, value in rows:
        shown = value.decode(errors="replace") if (mode, text) == (RAW, 1) else "unreadable"
        if shown != SCHEMA:
            raise StoreError(
                f"{folder}: a replies store of schema {shown!r}; this program reads {SCHEMA!r}: "
                "move the folder away, and bring its replies over as a bundle that the version "
                "which wrote them saves with build --save-replies"
            )
    return bool(rows)


def check_foreign_settings(folder: Path, connection: sqlite3.Connection) -> None:
    """Refuse a store that would tell diskcache to do something else.

    Raises:
        StoreError: A setting is not ours.
    """
    _refuse(folder, _foreign_settings(connection))


def _refuse(folder: Path, faults: Iterator[str]) -> None:
    for fault in faults:
        raise StoreError(f"{folder}: no replies store of ours: {fault}; refused unread")


def _foreign_objects(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute(
        "SELECT type, substr(name, 1, 60), sql IS NULL, substr(sql, 1, 1000) FROM sqlite_master "
        "LIMIT 100"
    ).fetchall()
    for kind, name, nameless, text in rows:
        known = (kind, name) in _OBJECTS
        expected = _OBJECTS.get((kind, name))
        if not known or nameless != (expected is None) or text != expected:
            yield f"its database holds the {kind} {name!r}"
    if len(rows) > len(_OBJECTS):
        yield "its database holds something twice"


def _foreign_settings(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute(
        "SELECT substr(key, 1, 60), substr(value, 1, 60), typeof(value) FROM Settings LIMIT 100"
    ).fetchall()
    for key, value, kind in rows:
        if key in _COUNTERS:
            if kind != "integer":
                yield f"its setting {key!r} is {value!r}"
        elif key not in SETTINGS or value != str(SETTINGS[key]):
            yield f"its setting {key!r} is {value!r}"
    if len(rows) > len(SETTINGS) + len(_COUNTERS):
        yield "it has settings twice"


@contextmanager
def errors_explained(path: Path) -> Iterator[None]:
    """Say in one line why a store cannot be read or written."""
    try:
        yield
    except (sqlite3.Error, OSError, diskcache.Timeout, UnicodeDecodeError) as error:
        # SQLite quotes a damaged name in its message, which then may be no UTF-8.
        raise explained(path, error) from error


def explained(path: Path, error: Exception) -> StoreError:
    """The error of a store that cannot be read or written, in one line."""
    said = " ".join(str(error).split()) or "it is locked or read-only"
    return StoreError(
        f"{path}: the replies store cannot be read or written: {said}; "
        "check the disk's free space and the folder's permissions"
    )


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
            check_unsafe_files(path, writing=False)
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
            if not made or not check_other_schema(self.path, connection):
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
            raise DamagedReplyError("a key that is not plain text")
        return key

    def store(self, value: Any, read: Any, key: Any = None) -> Any:
        """Accept a text value, to be kept in the row."""
        del read, key
        if not isinstance(value, str):
            raise StoreError(f"the replies store takes text only, not {type(value).__name__}")
        check_longer(value)
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> str:
        """Read a value back, refusing pickles and files."""
        del read
        if mode != MODE_RAW or filename is not None or not isinstance(value, str):
            raise DamagedReplyError("a value that is not plain text")
        return value

    def remove(self, file_path: Any) -> None:
        """Remove nothing: a store of ours has no files, and a foreign one may name any."""


def check_longer(text: str) -> None:
    """Refuse what could not be read back.

    Raises:
        StoreError: The text is longer than an entry may be.
    """
    if 4 * len(text) > LONGEST_ENTRY and len(text.encode()) > LONGEST_ENTRY:
        raise StoreError(f"the replies store takes entries of {LONGEST_ENTRY:,} bytes at most")


_PATIENCE = 60
"""Seconds to wait for another process that is writing."""


@dataclass(eq=False)
class _Put:
    """A reply that is to be written."""

    key: str
    text: str
    account: str | None
    spent: Spent | None
    written: bool = False
    error: BaseException | None = None


class ReplyStore(ReadOnlyStore):
    """Replies by key, shared by threads and processes; for the entries see `ReadOnlyStore`."""

    def __init__(self, path: Path) -> None:
        """Open or make the store in a folder.

        Raises:
            StoreError: The folder cannot be written, or holds something else than a store of this
                schema version.
        """
        self._write_lock = threading.Lock()
        self._puts: deque[_Put] = deque()
        with errors_explained(path):
            _check_foreign(path)
            self._cache: Any = diskcache.Cache(
                str(path.absolute()), disk=JsonTextDisk, timeout=_PATIENCE, **SETTINGS
            )
            try:
                self._cache.add(FORMAT_ENTRY, SCHEMA)
                super().__init__(path)
            except BaseException:
                self._cache.close()
                raise

    def put(self, reply: Reply, *, account: str | None = None, spent: Spent | None = None) -> None:
        """Record a reply; one that it replaces is kept under the next number.

        Args:
            reply: What came.
            account: Who pays, if anybody.
            spent: What it cost; written together with the reply or not at all.

        Raises:
            StoreError: It cannot be written; or the account cannot be charged, and then the reply
                is recorded all the same.
        """
        text = _text(reply)
        mine = _Put(reply.key, text, account, spent)
        self._puts.append(mine)
        # Whoever comes first writes for all that have come since, in one transaction: a
        # transaction for each reply takes twice the time with many threads.
        with self._write_lock:
            while not mine.written:
                with contextlib.suppress(StoreError):  # each is told of its own
                    self._write_puts()
        if mine.error is not None:
            raise mine.error

    def put_figures(
        self, figures: Iterable[Figures], *, account: str | None = None, spent: Spent | None = None
    ) -> None:
        """Record the figures of one request; what they replace is kept under the next number.

        Args:
            figures: What came.
            account: Who pays, if anybody.
            spent: What all of them cost; written together with them.

        Raises:
            StoreError: They cannot be written; or the account cannot be charged, and then they
                are recorded all the same.
        """
        texts = {entry_name(one): _text(one) for one in figures}
        uncharged: StoreError | None = None
        with self._writing():
            for name, text in texts.items():
                self._replace(name, text)
            if account is not None and spent is not None:
                try:
                    self._charge(account, spent)
                except StoreError as error:
                    uncharged = error
        if uncharged is not None:
            raise uncharged

    def put_entry(self, entry: Entry) -> None:
        """Record an entry of either kind; see `put`."""
        if isinstance(entry, Reply):
            self.put(entry)
        else:
            self.put_figures([entry])

    def add(self, entry: Entry) -> bool:
        """Record an entry unless its key has one; tell whether it had none."""
        text = _text(entry)
        with self._writing():
            added: bool = self._cache.add(entry_name(entry), text)
            if added:
                self._cache.delete(f"ask:{entry.key}")
        return added

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent.

        Raises:
            StoreError: The account's name or its entry is not one.
        """
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
            self._cache.set(f"reply:{key}", _text(noted))

    def defer(self, ask: Ask) -> None:
        """Write down a request that is to be answered later."""
        with self._writing():
            self._cache.add(f"ask:{ask.key}", canonical_json(ask.model_dump(mode="json")))

    def close(self) -> None:
        """Close this thread's connections; those of threads that have ended are closed already."""
        super().close()
        self._cache.close()

    def _write_puts(self) -> None:
        """Write the replies that wait, but no two to one request; called with the lock held."""
        puts: dict[str, _Put] = {}
        while self._puts and self._puts[0].key not in puts:
            put = self._puts.popleft()
            puts[put.key] = put
        try:
            with errors_explained(self.path), self._cache.transact():
                for key, put in puts.items():
                    self._replace(f"reply:{key}", put.text)
                self._charge_for(list(puts.values()))
        except BaseException as error:
            said = StoreError(f"{self.path}: the reply was not written: {error}")
            for put in puts.values():
                put.error = error if isinstance(error, StoreError) else said
            raise
        finally:
            for put in puts.values():
                put.written = True

    def _replace(self, name: str, text: str) -> None:
        if not self._cache.add(name, text):
            self._keep_replaced(name)
            self._cache.set(name, text)
        if name.startswith("reply:"):
            self._cache.delete(f"ask:{name.removeprefix('reply:')}")

    def _charge_for(self, puts: Sequence[_Put]) -> None:
        accounts: dict[str, Spent] = {}
        for put in puts:
            if put.account is not None and put.spent is not None:
                accounts[put.account] = accounts.get(put.account, Spent()) + put.spent
        for account, spent in accounts.items():
            try:
                self._charge(account, spent)
            except StoreError as error:
                for put in puts:
                    put.error = error if put.account == account else put.error

    def _charge(self, account: str, spent: Spent) -> None:
        # Read by the other connection, which sees what was written before this transaction.
        total = self.spent(account) + spent
        self._cache.set(account_entry(account), sealed(total.model_dump(mode="json")))

    def _keep_replaced(self, name: str) -> None:
        """Keep an entry under the next number; what is damaged is set aside, for people to read."""
        kind, _, key = name.partition(":")
        try:
            text = (self.text(name) or b"").decode()
        except (DamagedReplyError, UnicodeDecodeError):
            return  # not text, so there is nothing that could be read back
        try:
            (self.get if kind == "reply" else self.figures)(key)
        except DamagedReplyError:
            kind = "damaged"
        number = 1
        while not self._cache.add(f"{kind}:{key}:{number}", text):
            number += 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # Not `retry=True`: it would go on for ever where the file cannot be written at all.
        with errors_explained(self.path), self._write_lock, self._cache.transact():
            yield


def _text(entry: Entry) -> str:
    text = sealed(entry.model_dump(mode="json"))
    check_longer(text)
    return text


def _check_foreign(path: Path) -> None:
    """Look at a database before diskcache opens it, which would do what its settings say.

    Raises:
        StoreError: It is not a store of ours, or of another schema version.
    """
    if os.path.expandvars(path) != str(path):
        raise StoreError(f"{path}: diskcache would take the $ in the name for a variable")
    check_unsafe_files(path, writing=True)
    if not (path / DATABASE).exists() or not (path / DATABASE).stat().st_size:
        return
    # For writing, so that what a killed process left in the log is put in order.
    with contextlib.closing(connected(path, "mode=rw")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        if "Cache" in tables:
            check_other_schema(path, connection)
        if "Settings" in tables:
            check_foreign_settings(path, connection)
