"""Stores from strangers: what a planted database would do is not done."""

import os
import random
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import verify_store
from freshstack_dspy.lm.misses import explain_miss
from freshstack_dspy.lm.store import ReadOnlyStore, ReplyStore
from tests.lm.recording import ask, reply, rows

OPENINGS = [ReadOnlyStore, ReplyStore]
Opening = Callable[[Path], ReadOnlyStore]


@pytest.fixture
def planted(store: ReplyStore) -> Path:
    """The folder of a store that somebody else made, with one reply."""
    store.put(reply())
    store.close()
    return store.path


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize(
    "planting",
    [
        "CREATE TRIGGER t AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
        "CREATE TRIGGER Settings_x BEFORE UPDATE ON Settings BEGIN DELETE FROM Cache; END",
        "CREATE VIEW v AS SELECT * FROM Cache",
        "CREATE TABLE more (x)",
        "CREATE VIRTUAL TABLE words USING fts5(x)",
        "CREATE INDEX i ON Cache(mode) WHERE abs(-1) = 1",
        "ALTER TABLE Cache ADD COLUMN x AS (hex(value))",
        """DROP TRIGGER Settings_count_insert; CREATE TRIGGER Settings_count_insert
        AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END""",
        "DROP TABLE Cache; CREATE VIEW Cache AS SELECT 'format' AS key, 1 AS raw",
        "DROP TABLE Cache; CREATE TABLE Cache (key, raw, mode, filename, expire_time, value)",
    ],
)
def test_a_database_that_acts_is_refused(planted: Path, opening: Opening, planting: str) -> None:
    connection = sqlite3.connect(planted / "cache.db")
    connection.executescript(planting)
    connection.close()
    before = (planted / "cache.db").read_bytes()

    with pytest.raises(StoreError, match="no replies store of ours: its database holds the") as no:
        opening(planted)
    assert "\n" not in str(no.value)
    assert (planted / "cache.db").read_bytes() == before, "and nothing was written to it"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sqlite_writable_schema", 1),
        ("sqlite_synchronous", 0),
        ("sqlite_journal_mode", "off"),
        ("sqlite_mmap_size", 2**40),
        ("eviction_policy", "least-recently-stored"),
        ("cull_limit", 10),
        ("size_limit", 1),
        ("disk_directory", "/"),
        ("disk_min_file_size", 10**9),
        ("_directory", "/nowhere"),
        ("_con", "x"),
        ("transact", 1),
        ("count", "many"),
        ("statistics", None),
    ],
)
def test_settings_that_diskcache_would_carry_out_are_refused(
    planted: Path, key: str, value: object
) -> None:
    """diskcache takes them for pragmas and for attributes of its own."""
    connection = sqlite3.connect(planted / "cache.db")
    with connection:
        connection.execute("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (key, value))
    connection.close()

    with pytest.raises(StoreError, match=f"no replies store of ours: its setting '{key}' is"):
        ReplyStore(planted)
    opened = ReadOnlyStore(planted)
    assert opened.get(reply().key) == reply(), "reading does not look at them"
    opened.close()


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("name", ["cache.db", "cache.db-wal", "cache.db-shm", "cache.db-journal"])
def test_links_out_of_the_folder_are_refused(
    planted: Path, tmp_path: Path, opening: Opening, name: str
) -> None:
    """SQLite would read, and write, what they lead to."""
    (tmp_path / "precious").write_text("mine")
    for target in ("precious", "absent"):
        (planted / name).unlink(missing_ok=True)
        (planted / name).symlink_to(tmp_path / target)
        with pytest.raises(StoreError, match=f"{name} is a link or no plain file"):
            opening(planted)

    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_pipe_in_place_of_the_database_does_not_hang(tmp_path: Path, opening: Opening) -> None:
    os.mkfifo(tmp_path / "cache.db")

    with pytest.raises(StoreError, match=r"cache\.db is a link or no plain file"):
        opening(tmp_path)


def test_a_hard_link_is_not_written_through(planted: Path, tmp_path: Path) -> None:
    os.link(planted / "cache.db", tmp_path / "precious")

    with pytest.raises(StoreError, match=r"cache\.db is a hard link"):
        ReplyStore(planted)


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_journal_that_would_delete_another_file_is_refused(
    planted: Path, tmp_path: Path, opening: Opening
) -> None:
    """SQLite deletes the super-journal that a hot journal names once it is rolled back."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    name = str(precious).encode()
    magic = bytes.fromhex("d9d505f920a163d7")
    end = name + struct.pack(">II", len(name), sum(name)) + magic
    (planted / "cache.db-journal").write_bytes(magic + b"\0" * 504 + end)

    with pytest.raises(StoreError, match=r"cache\.db-journal names another file"):
        opening(planted)
    assert precious.exists()


def test_a_file_that_a_row_names_is_not_deleted_when_the_row_is_replaced(
    planted: Path, tmp_path: Path
) -> None:
    """diskcache removes the file of a row that it overwrites, wherever that is."""
    (tmp_path / "precious").write_text("mine")
    opened = ReplyStore(planted)
    with rows(opened) as table:
        table.execute("UPDATE Cache SET filename = '../precious' WHERE key LIKE 'reply:%'")
    opened.put(reply("new"))
    opened.close()

    assert (tmp_path / "precious").read_text() == "mine"
    assert list(ReadOnlyStore(planted).replies()) == [reply("new")]


def test_a_row_with_an_expiry_is_refused_and_not_taken_for_absent(planted: Path) -> None:
    opened = ReadOnlyStore(planted)
    with rows(ReplyStore(planted)) as table:
        table.execute("UPDATE Cache SET expire_time = 1 WHERE key LIKE 'reply:%'")

    with pytest.raises(StoreError, match="not plain text"):
        opened.get(reply().key)
    opened.close()


def test_names_that_are_no_text_neither_hang_nor_hide_others(planted: Path) -> None:
    opened = ReplyStore(planted)
    with rows(opened) as table:
        for key in ("X'7265706C793AFF'", "X'7265706C793A7A00'", "X'FE'"):
            table.execute(f"INSERT INTO Cache (key, raw) VALUES (CAST({key} AS TEXT), 1)")
        table.execute("INSERT INTO Cache (key, raw) VALUES (?, 1)", ("reply:" + "y" * 10**6,))
        table.execute("INSERT INTO Cache (key, raw) VALUES (7, 1), (NULL, 1), (X'FF', 0)")
    opened.put(reply(to="other"))

    assert {line.key for line in opened.lines() if line.json} == {reply().key, ask("other").key}
    assert [name.startswith("reply:") for name in opened.names("")] == [False, *[True] * 4, False]
    assert list(opened.faults()) == [
        "4 rows whose key is not plain text, or too long: refused unread"
    ]
    opened.close()


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_damaged_database_is_explained_in_one_line(planted: Path, opening: Opening) -> None:
    data = bytearray((planted / "cache.db").read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    (planted / "cache.db").write_bytes(data)

    with pytest.raises(StoreError, match="cannot be read or written: ") as caught:
        opening(planted)
    assert "\n" not in str(caught.value)


def test_a_variable_in_the_name_of_a_folder_is_not_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """diskcache would: the folder that is looked at would be another than the one it opens."""
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "other"))

    with pytest.raises(StoreError, match="would take the \\$ in the name for a variable"):
        ReplyStore(tmp_path / "$ELSEWHERE")
    assert not list(tmp_path.iterdir())


def test_whatever_byte_is_changed_it_is_one_of_our_errors_or_none(
    store: ReplyStore, tmp_path: Path
) -> None:
    for number in range(10):
        store.put(reply("x" * 2000, to=str(number)), account="a", spent=Spent(calls=1))
    store.close()
    whole = (store.path / "cache.db").read_bytes()
    chance, said = random.Random(0), []
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 12)):
            data[chance.choice((chance.randrange(24, 12_000), chance.randrange(len(data))))] = (
                chance.randrange(256)
            )
        (tmp_path / "changed").mkdir(exist_ok=True)
        for file in (tmp_path / "changed").iterdir():
            file.unlink()
        (tmp_path / "changed" / "cache.db").write_bytes(data)
        for use in (
            verify_store,
            lambda path: explain_miss(ask("zz"), [ReadOnlyStore(path)]),
            lambda path: ReplyStore(path).put(reply(to="3"), account="a", spent=Spent(calls=1)),
        ):
            try:
                use(tmp_path / "changed")
            except StoreError as error:
                said.append(str(error))

    assert said
    assert not [message for message in said if "\n" in message]
