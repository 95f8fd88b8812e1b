"""Taking a bundle into a store."""

from pathlib import Path

import pytest

from freshstack_dspy.lm.bundle import Bundle, MergeReport, merge_bundle, write_bundle
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import ask, reply, rows


def bundle(folder: Path, *replies: Reply) -> Bundle:
    write_bundle(replies, folder / "a.jsonl")
    return Bundle(folder / "a.jsonl")


def test_what_is_missing_is_added_and_what_is_there_stays(
    store: ReplyStore, tmp_path: Path
) -> None:
    there = reply(cost=0.5)
    store.put(there)
    store.defer(ask("new"))
    later = reply(received_at="2027-01-01", origin="import", input_tokens=3)
    given = bundle(tmp_path, later, reply(to="new"))

    assert merge_bundle(given, store) == MergeReport(added=1, same=1)
    assert merge_bundle(given, store) == MergeReport(same=2)
    assert store.get(there.key) == there
    assert store.get(ask("new").key) == reply(to="new")
    assert list(store.deferred()) == [], "the request has its reply"


@pytest.mark.parametrize(
    "change",
    [{"text": "other"}, {"status": "unparsed"}, {"reasked_as": "x"}, {"finish_reason": "length"}],
)
def test_another_reply_is_named_and_never_taken_silently(
    store: ReplyStore, tmp_path: Path, change: dict[str, str]
) -> None:
    store.put(reply())
    theirs = reply(**{"text": "hi", **change})
    report = merge_bundle(bundle(tmp_path, theirs), store)

    assert report == MergeReport(conflicts=(theirs.key,))
    assert f"1 conflicts ({theirs.key[:16]})" in str(report)
    assert store.get(theirs.key) == reply()


def test_it_is_taken_on_request_and_the_old_one_kept(store: ReplyStore, tmp_path: Path) -> None:
    store.put(reply("ours"))
    theirs = reply("theirs")
    report = merge_bundle(bundle(tmp_path, theirs), store, replace=True)

    assert report == MergeReport(replaced=(theirs.key,))
    assert store.get(theirs.key) == theirs
    assert store.replaced(theirs.key, 1) == reply("ours")


def test_a_damaged_entry_is_repaired_and_set_aside(store: ReplyStore, tmp_path: Path) -> None:
    store.put(reply("ours"))
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = 'x' WHERE key LIKE 'reply:%'")
    report = merge_bundle(bundle(tmp_path, reply("theirs")), store)

    assert report == MergeReport(repaired=1)
    assert list(store.replies()) == [reply("theirs")]
    assert store.text(f"damaged:{ask().key}:1") == b"x"
