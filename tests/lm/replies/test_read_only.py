"""Reading a store where nothing can be written."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.store import Line, ReadOnlyStore, ReplyStore
from tests.lm.recording import ask, every_value, reply, rows


def test_it_serves_what_the_writing_store_does(store: ReplyStore) -> None:
    texts = [str(number) for number in range(250)]
    for text in texts:
        store.put(reply(text, to=text), account="a", spent=Spent(calls=1))
    store.put(reply("again", to="7"))
    store.defer(ask("later"))
    opened = ReadOnlyStore(store.path)

    assert list(opened.replies()) == list(store.replies())
    assert len(list(opened.replies())) == 250
    assert opened.get(reply(to="7").key) == reply("again", to="7")
    assert opened.replaced(reply(to="7").key, 1) == reply("7", to="7")
    assert opened.replaced(reply(to="7").key, 2) is None
    assert opened.get("0" * 64) is None
    assert list(opened.deferred()) == [ask("later")]
    assert opened.spent("a") == Spent(calls=250)
    assert not list(opened.faults())
    opened.close()


def test_it_sees_what_is_written_while_it_is_open(store: ReplyStore) -> None:
    opened = ReadOnlyStore(store.path)
    store.put(reply())

    assert opened.get(reply().key) == reply()
    opened.close()


def test_it_changes_no_byte(store: ReplyStore) -> None:
    store.put(reply())
    store.close()
    before = (store.path / "cache.db").read_bytes()
    opened = ReadOnlyStore(store.path)
    assert opened.get(reply().key) == reply()
    opened.close()

    assert (store.path / "cache.db").read_bytes() == before


SERVES = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.store import ReadOnlyStore
folder = Path({path!r})
try:
    (folder / "written").touch()
except OSError:
    pass
else:
    sys.exit("the folder can be written")
try:
    print(*[reply.text for reply in ReadOnlyStore(folder).replies()])
except StoreError as error:
    print(error)
"""


def said_in_a_read_only_folder(folder: Path) -> str:
    """What a process that cannot write a folder reads there."""
    drop_from_bounds, override, search = 24, 1, 2
    libc = ctypes.CDLL(None)

    def without_privileges() -> None:
        # Root may write everywhere unless it gives that right up.
        for capability in (override, search):
            libc.prctl(drop_from_bounds, capability, 0, 0, 0)

    code = SERVES.format(root=str(Path(__file__).parents[3]), path=str(folder))
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    try:
        return subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            preexec_fn=without_privileges,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout.strip()
    finally:
        folder.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="gives up a right of root as Linux does")
def test_it_reads_a_read_only_folder(store: ReplyStore, tmp_path: Path) -> None:
    store.put(reply("recorded"))
    with_log = tmp_path / "with_log"
    shutil.copytree(store.path, with_log)
    store.close()

    assert said_in_a_read_only_folder(store.path) == "recorded"
    assert sorted(file.name for file in store.path.iterdir()) == ["cache.db"]
    assert said_in_a_read_only_folder(with_log) == "recorded"


@pytest.mark.skipif(sys.platform != "linux", reason="gives up a right of root as Linux does")
def test_replies_that_cannot_be_read_there_are_not_kept_secret(
    store: ReplyStore, tmp_path: Path
) -> None:
    """Opened as immutable, SQLite would not see the write-ahead log, and miss the last replies."""
    store.put(reply("recorded"))
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    (copy / "cache.db-shm").unlink()

    assert "the last replies are still in cache.db-wal" in said_in_a_read_only_folder(copy)


def test_where_there_is_no_store_it_says_so_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "absent", tmp_path / "empty"):
        with pytest.raises(StoreError, match="there is no replies store"):
            ReadOnlyStore(path)

    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def test_a_store_whose_making_was_cut_short_is_none_yet(tmp_path: Path) -> None:
    (tmp_path / "cache.db").touch()

    with pytest.raises(StoreError, match="never finished"):
        ReadOnlyStore(tmp_path)
    ReplyStore(tmp_path).close()
    assert list(ReadOnlyStore(tmp_path).replies()) == []


def test_lines_are_filtered_and_damage_is_told_apart(store: ReplyStore) -> None:
    for text in ("one", "two", "three"):
        store.put(reply(to=text))
    store.put(reply("again", to="one"))
    with rows(store) as table:
        table.execute("UPDATE Cache SET mode = 4 WHERE key = ?", (f"reply:{ask('two').key}",))
        table.execute(
            "UPDATE Cache SET value = value || ' ' WHERE key = ?", (f"reply:{ask('three').key}",)
        )
    found = {line.key: line.json for line in store.lines()}

    assert found == {
        ask("one").key: every_value(store)[f"reply:{ask('one').key}"].split("\n")[1].encode(),
        ask("two").key: None,
        ask("three").key: None,
    }
    assert list(store.lines(b'"content":"three"')) == sorted(
        [Line(ask("two").key, None), Line(ask("three").key, None)]
    )


def test_a_store_goes_through_a_fork(store: ReplyStore) -> None:
    """A connection that came through a fork must be neither used nor closed."""
    store.put(reply("before"))
    opened = ReadOnlyStore(store.path)
    child = os.fork()
    if child == 0:
        served = opened.get(reply().key)
        os._exit(0 if served is not None and served.text == "before" else 1)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert opened.get(reply().key) == reply("before")
    opened.close()


def test_an_entry_that_is_too_long_is_refused(store: ReplyStore) -> None:
    store.put(reply())
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = zeroblob(70000000) WHERE key LIKE 'reply:%'")

    with pytest.raises(DamagedReplyError, match="longer than 67,108,864 bytes"):
        store.get(reply().key)
    assert list(store.lines()) == [Line(reply().key, None)]
    with pytest.raises(StoreError, match="entries of 67,108,864 bytes at most"):
        store._cache.set("name", "x" * 67_108_865)
