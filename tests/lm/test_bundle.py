"""Bundles of recorded entries."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from freshstack_dspy import ReplyStore
from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.bundle import (
    Bundle,
    Bundles,
    MergeReport,
    merge_bundle,
    verify,
)
from freshstack_dspy.lm.reply import Entry, Reply
from tests.lm.recording import ask, every_entry, reply, write_bundle, write_unsigned


def test_a_bundle_is_the_same_file_whatever_the_order(tmp_path: Path) -> None:
    entries = [*every_entry(), reply(to="zwei\u2028"), *(reply(to=str(n)) for n in range(30))]
    for name, given_in in (("new/a.jsonl", entries), ("b.jsonl", entries[::-1])):
        assert write_bundle(given_in, tmp_path / name) == len(entries)
        write_bundle(given_in, tmp_path / f"{name}.zst")
    plain, compressed = Bundle(tmp_path / "b.jsonl"), Bundle(tmp_path / "b.jsonl.zst")
    data, packed = ((tmp_path / f"new/a.jsonl{end}").read_bytes() for end in ("", ".zst"))

    assert plain.path.read_bytes() == data
    assert compressed.path.read_bytes() == packed
    assert 4 * len(packed) < len(data)
    assert list(plain.keys()) == sorted(entry.key for entry in entries)
    assert list(plain.entries()) == list(compressed.entries())
    assert len(list(tmp_path.iterdir())) == 3, "nothing is left behind"
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(compressed.entry, [entry.key for entry in entries] * 3)) == entries * 3
    assert compressed.entry("0" * 64) is None
    assert verify(plain.path).counts == {"chat": 32, "embedding": 1, "rerank": 1, "search": 1}
    with pytest.raises(StoreError, match="the bundle cannot be written"):
        write_bundle([], tmp_path)


@pytest.mark.parametrize(
    ("entry", "old", "new", "fault"),
    [
        (reply(), '"hi"', "7", "text: "),
        (reply(), '"hello"', '"jello"', "is not the key of the request next to it"),
        (reply(), "}", "", "not a recorded reply"),
        (every_entry()[1], '"model":"m"', '"model":"n"', "is not the key of the request"),
        (every_entry()[1], '"values":"', '"values":"AAAA', "values are no base64 of floats"),
    ],
)
def test_a_line_that_is_no_recorded_entry_is_refused_by_number(
    tmp_path: Path, entry: Entry, old: str, new: str, fault: str
) -> None:
    """Among them: an entry whose request was changed, so that it would answer another one."""
    path = tmp_path / "a.jsonl"
    write_unsigned([entry], path)
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(StoreError, match=r"a\.jsonl:1: ") as caught:
        Bundle(path)
    assert fault in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    assert len(verify(path).damaged) == 1


def test_no_flipped_bit_of_a_bundle_changes_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle(every_entry(), path)
    data = path.read_bytes()
    entries = list(Bundle(path).entries())
    found = 0
    for place in range(0, len(data), 5):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            assert list(Bundle(path).entries()) == entries
        except StoreError:
            found += 1
            assert verify(path).damaged

    assert found > len(data) / 5 - 5


def test_a_bundle_without_checksums_is_read_and_verify_says_so(tmp_path: Path) -> None:
    write_unsigned([reply()], tmp_path / "old.jsonl")
    write_bundle([reply()], tmp_path / "new.jsonl")

    assert list(Bundle(tmp_path / "old.jsonl").entries()) == [reply()]
    assert "1 without a checksum" in str(verify(tmp_path / "old.jsonl"))
    assert verify(tmp_path / "new.jsonl").without_checksum == 0


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply()], path)
    path.write_text(2 * path.read_text())

    with pytest.raises(StoreError, match=r"a\.jsonl:2: the key \w+ comes twice"):
        Bundle(path)
    assert list(verify(path).damaged) == ["line 2"]


def test_a_small_file_that_grows_without_bounds_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    with pa.output_stream(str(path), compression="zstd") as bomb:
        for _ in range(100):
            bomb.write(b"\0" * 2**20)

    assert path.stat().st_size < 10_000
    with pytest.raises(StoreError, match=r"bytes become more than 67,108,864; .* zstd -d"):
        Bundle(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshstack_dspy.lm.bundle.LONGEST_LINE", 1000)
    write_bundle([reply()], tmp_path / "a.jsonl")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(" " * 1001)

    with pytest.raises(StoreError, match=r"a\.jsonl:2: a line of more than 1,000 bytes"):
        Bundle(tmp_path / "a.jsonl")


def test_several_bundles_are_one(tmp_path: Path) -> None:
    both = reply("both", to="both")
    write_bundle([reply("one", to="one"), both], tmp_path / "a.jsonl")
    later = both.model_copy(update={"received_at": "2027-01-01", "origin": "import", "cost": 1.0})
    write_bundle([reply("two", to="two"), later], tmp_path / "b.jsonl.zst")
    bundles = Bundles([tmp_path / "a.jsonl", tmp_path / "b.jsonl.zst"])

    assert sorted(recorded.text for recorded in bundles.replies()) == ["both", "one", "two"]
    assert bundles.get(both.key) == both, "the first wins"
    assert bundles.get("0" * 64) is None
    assert len(list(bundles.lines(b'"text":"both"'))) == 1
    assert list(Bundles().entries()) == []
    bundles.close()


OTHER = [{"text": "other"}, {"status": "unparsed"}]


@pytest.mark.parametrize("change", OTHER)
def test_bundles_that_disagree_are_both_named(tmp_path: Path, change: dict[str, str]) -> None:
    write_bundle([reply()], tmp_path / "a.jsonl")
    write_bundle([reply().model_copy(update=change)], tmp_path / "b.jsonl")

    with pytest.raises(StoreError, match=r"a\.jsonl and .*b\.jsonl have different replies to the"):
        Bundles([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def bundle(folder: Path, *replies: Reply) -> Bundle:
    write_bundle(replies, folder / "a.jsonl")
    return Bundle(folder / "a.jsonl")


def test_importing_adds_what_is_missing(store: ReplyStore, tmp_path: Path) -> None:
    there = reply(cost=0.5)
    store.put(there)
    store.defer(ask("new"))
    later = reply(received_at="2027-01-01", origin="import", input_tokens=3)

    assert merge_bundle(bundle(tmp_path, later, reply(to="new")), store) == MergeReport(
        added=1, same=1
    )
    assert store.get(there.key) == there
    assert store.get(ask("new").key) == reply(to="new")
    assert list(store.deferred()) == [], "the request has its reply"


@pytest.mark.parametrize("change", OTHER)
def test_another_reply_is_named_and_taken_only_on_request(
    store: ReplyStore, tmp_path: Path, change: dict[str, str]
) -> None:
    store.put(reply())
    theirs = reply(**{"text": "hi", **change})
    given = bundle(tmp_path, theirs)

    assert merge_bundle(given, store) == MergeReport(conflicts=(theirs.key,))
    assert store.get(theirs.key) == reply()
    assert merge_bundle(given, store, replace=True) == MergeReport(replaced=(theirs.key,))
    assert store.get(theirs.key) == theirs
    assert store.entry(f"{theirs.key}:1") == reply()
