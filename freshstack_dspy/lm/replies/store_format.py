"""The format of a store's database, and whether one that came from anywhere may be opened.

A database can act when it is used: diskcache runs what its Settings table says as pragmas and
attributes, triggers run on every write, views and virtual tables on every read, and a rollback
journal may name a file to delete. So a store is opened only if it holds what a store of ours
holds and nothing else.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import diskcache

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.database_files import unsafe_file

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


def refuse_unsafe_files(folder: Path, *, writing: bool) -> None:
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


def refuse_other_schema(folder: Path, connection: sqlite3.Connection) -> bool:
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


def refuse_foreign_settings(folder: Path, connection: sqlite3.Connection) -> None:
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
