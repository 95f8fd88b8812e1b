"""The replies store: nothing lost, nothing unpickled, nothing believed unchecked."""

import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.store import ReadOnlyStore, ReplyStore
from tests.lm.recording import ask, every_value, reply, rows


def test_a_reply_comes_back_as_it_was_put(store: ReplyStore) -> None:
    recorded = reply(
        "Grüße\n🥶\0", input_tokens=3, output_tokens=0, cost=0.25, status="unparsed", reasked_as="x"
    )
    store.put(recorded)
    store.close()

    assert ReplyStore(store.path).get(recorded.key) == recorded
    assert store.get("0" * 64) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(text=st.text(st.characters(codec="utf-8")), asked=st.text(st.characters(codec="utf-8")))
def test_every_text_comes_back(store: ReplyStore, text: str, asked: str) -> None:
    recorded = reply(text, to=asked)
    store.put(recorded)

    assert store.get(recorded.key) == recorded


def test_replies_come_by_key(store: ReplyStore) -> None:
    texts = [str(number) for number in range(20)]
    for text in texts:
        store.put(reply(text, to=text))
    keys = [recorded.key for recorded in store.replies()]

    assert keys == sorted(keys)
    assert sorted(recorded.text for recorded in store.replies()) == sorted(texts)


def test_a_replaced_reply_is_kept_under_the_next_number(store: ReplyStore) -> None:
    for text in ("first", "second", "third"):
        store.put(reply(text))
    served, key = store.get(reply().key), reply().key
    kept = {
        name: json.loads(value.partition("\n")[2])["text"]
        for name, value in every_value(store).items()
        if name.startswith("reply:")
    }

    assert served is not None
    assert served.text == "third"
    assert kept == {
        f"reply:{key}": "third",
        f"reply:{key}:1": "first",
        f"reply:{key}:2": "second",
    }
    assert [recorded.text for recorded in store.replies()] == ["third"]


def test_what_a_reply_is_worth_is_noted_without_replacing_it(store: ReplyStore) -> None:
    store.put(reply())
    store.note(reply().key, "unparsed", "next")
    store.note("0" * 64, "refused")

    assert list(store.replies()) == [reply(status="unparsed", reasked_as="next")]
    assert len(every_value(store)) == 2


def test_a_deferred_request_waits_until_there_is_a_reply(store: ReplyStore) -> None:
    for text in ("one", "two", "one"):
        store.defer(ask(text))
    store.put(reply(to="one"))

    assert list(store.deferred()) == [ask("two")]


class Planted:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("mode", [2, 3, 4, 5, 0, -1])
def test_a_row_that_would_be_unpickled_is_refused_unread(
    store: ReplyStore, tmp_path: Path, mode: int
) -> None:
    """CVE-2025-69872: diskcache unpickles whatever row says that it is a pickle."""
    witness = tmp_path / "witness"
    store.put(reply())
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET mode = ?, value = ? WHERE key LIKE 'reply:%'",
            (mode, pickle.dumps(Planted(witness))),
        )
    with pytest.raises(DamagedReplyError, match="a value that is not plain text: refused unread"):
        store.get(reply().key)
    with pytest.raises(DamagedReplyError, match="not plain text"):
        list(store.replies())

    assert not witness.exists()
    pickle.loads(pickle.dumps(Planted(witness)))
    assert witness.exists(), "the pickle would have worked"


def test_a_text_in_a_row_of_another_mode_is_refused_too(store: ReplyStore) -> None:
    store.put(reply())
    with rows(store) as table:
        table.execute("UPDATE Cache SET mode = 4 WHERE key LIKE 'reply:%'")

    with pytest.raises(DamagedReplyError, match="not plain text"):
        store.get(reply().key)


def test_a_pickle_in_a_file_beside_the_database_is_refused_unread(
    store: ReplyStore, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    store.put(reply())
    (store.path / "planted.val").write_bytes(pickle.dumps(Planted(witness)))
    with rows(store) as table:
        table.execute("UPDATE Cache SET mode = 4, value = NULL, filename = 'planted.val'")
    with pytest.raises(DamagedReplyError):
        store.get(reply().key)
    with pytest.raises(StoreError):
        ReplyStore(store.path)

    assert not witness.exists()


def test_a_key_that_would_be_unpickled_is_refused_unread(store: ReplyStore, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    store.put(reply())
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET raw = 0, key = ? WHERE key LIKE 'reply:%'",
            (sqlite3.Binary(pickle.dumps(Planted(witness))),),
        )

    assert list(store.replies()) == []
    assert list(store.names("")) == ["format"]
    assert [fault for fault in store.faults() if "key is not plain text" in fault]
    assert not witness.exists()


def test_a_refused_row_can_be_replaced_by_a_new_reply(store: ReplyStore) -> None:
    store.put(reply("old"))
    with rows(store) as table:
        table.execute("UPDATE Cache SET mode = 4 WHERE key LIKE 'reply:%'")
    store.put(reply("new"))

    assert list(store.replies()) == [reply("new")]


@pytest.mark.parametrize(
    ("old", "new"), [('"hi"', '"ho"'), ('"ok"', '"refused"'), ("hello", "jello"), ("}", "} ")]
)
def test_an_edited_reply_is_noticed(store: ReplyStore, old: str, new: str) -> None:
    store.put(reply())
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET value = replace(value, ?, ?) WHERE key LIKE 'reply:%'", (old, new)
        )

    with pytest.raises(DamagedReplyError, match="damaged or edited by hand"):
        store.get(reply().key)


def test_a_reply_under_another_requests_key_is_noticed(store: ReplyStore) -> None:
    store.put(reply())
    with rows(store) as table:
        table.execute(
            "UPDATE Cache SET key = ? WHERE key LIKE 'reply:%'", (f"reply:{ask('other').key}",)
        )

    with pytest.raises(DamagedReplyError, match="the reply to another request"):
        store.get(ask("other").key)


def test_a_damaged_deferred_request_is_noticed(store: ReplyStore) -> None:
    store.defer(ask())
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = '{}' WHERE key LIKE 'ask:%'")

    with pytest.raises(StoreError, match=r"the deferred request .* is damaged"):
        list(store.deferred())


def test_a_store_of_another_schema_says_so(store: ReplyStore) -> None:
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = '3' WHERE key = 'format'")

    for opened in (ReplyStore, ReadOnlyStore):
        with pytest.raises(StoreError, match="store of schema '3'; this program reads '2'"):
            opened(store.path)


def test_a_file_that_is_no_database_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"not a database, for sure " * 99)

    with pytest.raises(StoreError, match=r"cannot be read or written: .*not a database") as caught:
        ReplyStore(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        StoreError, match="check the disk's free space and the folder's permi"
    ) as caught:
        ReplyStore(tmp_path / "file" / "cache")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("writing", ["put", "note", "defer"])
def test_a_store_that_cannot_be_written_says_so_and_does_not_hang(
    store: ReplyStore, writing: str
) -> None:
    store.put(reply())
    store._cache._sql("PRAGMA query_only = 1")

    with pytest.raises(StoreError, match="cannot be read or written: it is locked or read-only"):
        {
            "put": lambda: store.put(reply("other", to="other")),
            "note": lambda: store.note(reply().key, "refused"),
            "defer": lambda: store.defer(ask("other")),
        }[writing]()


def test_nothing_is_evicted_and_nothing_expires(store: ReplyStore) -> None:
    """diskcache's own settings throw the oldest entries away from one gigabyte on."""
    cache = store._cache

    assert (cache.eviction_policy, cache.cull_limit) == ("none", 0)
    assert cache.size_limit > 2**60
    store.put(reply())
    cache.cull()
    cache.expire()
    with rows(store) as table:
        assert table.execute("SELECT DISTINCT expire_time FROM Cache").fetchall() == [(None,)]
    assert list(store.replies()) == [reply()]


def test_only_text_is_taken(store: ReplyStore) -> None:
    for key, value in ((b"key", "text"), ("key", b"bytes"), ("key", 1), (1, "text")):
        with pytest.raises(StoreError, match="takes text"):
            store._cache.set(key, value)
