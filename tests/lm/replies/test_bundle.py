"""Bundles of recorded replies."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.bundle import Bundles, read_bundle, write_bundle
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.asking import request
from tests.lm.chat_server import ChatServer
from tests.lm.conftest import Connect
from tests.lm.recording import reply


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(texts=st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=5))
def test_a_bundle_comes_back_as_it_was_written(tmp_path: Path, texts: list[str]) -> None:
    replies = [reply(text + "!", to=text) for text in texts]

    assert write_bundle(replies, tmp_path / "a.jsonl") == len(texts)
    assert read_bundle(tmp_path / "a.jsonl") == {recorded.key: recorded for recorded in replies}


def test_a_bundle_is_the_same_file_whatever_the_order(tmp_path: Path) -> None:
    replies = [reply(to=text) for text in ("one", "two", "drei\u2028")]
    write_bundle(replies, tmp_path / "new" / "a.jsonl")
    write_bundle(reversed(replies), tmp_path / "b.jsonl")
    data = (tmp_path / "b.jsonl").read_bytes()

    assert (tmp_path / "new" / "a.jsonl").read_bytes() == data
    assert data.count(b"\n") == 3
    assert [json.loads(line)["key"] for line in data.split(b"\n")[:-1]] == sorted(
        recorded.key for recorded in replies
    )


def test_live_mode_reads_a_bundle_beside_the_store(
    server: ChatServer, store: ReplyStore, client_for: Connect, tmp_path: Path
) -> None:
    server.says("recorded")
    first = client_for()
    first(request())
    write_bundle(first.client.used(), tmp_path / "a.jsonl")
    lm = connect(
        ModelConfig(name="openai/scripted", api_base=server.api_base),
        store=ReplyStore(tmp_path / "empty"),
        recorded=read_bundle(tmp_path / "a.jsonl"),
    )

    assert (lm(request()).text, len(server.requests)) == ("recorded", 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"hi"', "7", "text: "),
        ('"ok"', '"fine"', "status: "),
        ('"hello"', '"jello"', "is not the key of the request beside it"),
        ('"stop"', '"stop","extra":1', "extra: Extra inputs"),
        ('"temperature"', '"x":NaN,"temperature"', "not a recorded reply"),
        ('"temperature"', '"x":' + "[" * 9999 + ',"temperature"', "not a recorded reply"),
        ('"user"', '"tool"', "ask.messages.0.role"),
        ("}", "", "not a recorded reply"),
    ],
)
def test_a_line_that_is_no_recorded_reply_is_refused_by_number(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply(), reply(to="other")], path)
    first, second = path.read_text().splitlines()
    lines = [line.replace(old, new) if "hello" in line else line for line in (first, second)]
    path.write_text("\n".join(lines))
    number = 1 + ["hello" in line for line in (first, second)].index(True)

    with pytest.raises(StoreError, match=rf"a\.jsonl:{number}: ") as caught:
        read_bundle(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply()], path)
    path.write_text(2 * path.read_text())

    with pytest.raises(StoreError, match=r"a\.jsonl:2: the key \w+ comes twice"):
        read_bundle(path)
    with pytest.raises(StoreError, match=r"two replies have the key"):
        write_bundle([reply(), reply("another")], tmp_path / "b.jsonl")
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"], "and leaves nothing behind"


def test_a_bundle_that_cannot_be_read_or_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    for path in (tmp_path / "bad", tmp_path / "absent", tmp_path):
        with pytest.raises(StoreError, match="the bundle cannot be read"):
            read_bundle(path)
    with pytest.raises(StoreError, match="the bundle cannot be written"):
        write_bundle([], tmp_path)


def test_a_reply_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    replies = [reply(str(number), to=str(number)) for number in range(50)]
    write_bundle(replies, path)
    bundle = read_bundle(path)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(bundle.get, [recorded.key for recorded in replies] * 5))
    assert found == replies * 5
    assert bundle.get("0" * 64) is None
    assert "0" * 64 not in bundle
    assert [line.key for line in bundle.lines(b'"text":"7"')] == [reply(to="7").key]


def test_a_bundle_that_changes_while_it_is_open_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply(), reply(to="other")], path)
    bundle = read_bundle(path)
    text = path.read_text()
    for changed in (text.replace('"hi"', '"ho'), text.replace("hello", "jello"), ""):
        path.write_text(changed)
        with pytest.raises(StoreError, match="the bundle has changed since it was opened"):
            bundle.get(reply().key)
    bundle.close()
    with pytest.raises(StoreError, match="is closed"):
        bundle.get(reply().key)


def test_a_compressed_bundle_is_the_same_but_smaller(tmp_path: Path) -> None:
    replies = [reply(str(number), to=str(number)) for number in range(50)]
    for name in ("a.jsonl", "a.jsonl.zst", "b.jsonl.zst"):
        assert write_bundle(replies, tmp_path / name) == 50
    plain, compressed = read_bundle(tmp_path / "a.jsonl"), read_bundle(tmp_path / "a.jsonl.zst")

    assert dict(plain) == dict(compressed) == {recorded.key: recorded for recorded in replies}
    data = (tmp_path / "a.jsonl.zst").read_bytes()
    assert data == (tmp_path / "b.jsonl.zst").read_bytes()
    assert 5 * len(data) < (tmp_path / "a.jsonl").stat().st_size
    assert len(list(tmp_path.iterdir())) == 3, "nothing is left behind"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-10],
        lambda data: data[:3],
        lambda data: data + b"more",
        lambda _: b"hello",
        lambda data: data[:8] + b"\0" * 20 + data[28:],
    ],
)
def test_a_damaged_compressed_bundle_is_one_line(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.zst"
    write_bundle([reply(str(number), to=str(number)) for number in range(50)], path)
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(StoreError, match=r"a\.zst: the bundle cannot be read: ") as caught:
        read_bundle(path)
    assert "\n" not in str(caught.value)


def test_a_small_file_that_grows_without_bounds_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    with pa.output_stream(str(path), compression="zstd") as bomb:
        for _ in range(100):
            bomb.write(b"\0" * 2**20)

    assert path.stat().st_size < 10_000
    with pytest.raises(StoreError, match=r"bytes become more than 67,108,864; .* zstd -d"):
        read_bundle(path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshstack_dspy.lm.bundle.LONGEST_LINE", 1000)
    write_bundle([reply()], tmp_path / "a.jsonl")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(" " * 1001)

    with pytest.raises(StoreError, match=r"a\.jsonl:2: a line of more than 1,000 bytes"):
        read_bundle(tmp_path / "a.jsonl")


def test_a_pipe_or_a_device_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(StoreError, match="it is no plain file"):
            read_bundle(path)


def test_what_is_there_stays_whole_where_a_bundle_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_bundle([reply()], path)
    before = path.read_bytes()

    def broken() -> Iterator[Reply]:
        yield reply(to="other")
        raise StoreError("the store is gone")

    with pytest.raises(StoreError, match="the store is gone"):
        write_bundle(broken(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_several_bundles_are_one(tmp_path: Path) -> None:
    both = reply("both", to="both")
    write_bundle([reply("one", to="one"), both], tmp_path / "a.jsonl")
    later = both.model_copy(
        update={"received_at": "2027-01-01", "origin": "import", "cost": 1.0, "input_tokens": 5}
    )
    write_bundle([reply("two", to="two"), later], tmp_path / "b.jsonl.zst")
    bundles = Bundles([tmp_path / "a.jsonl", tmp_path / "b.jsonl.zst"])

    assert {recorded.text for recorded in bundles.values()} == {"one", "two", "both"}
    assert len(bundles) == 3
    assert bundles.get(both.key) == both, "the first wins"
    assert bundles.get("0" * 64) is None
    assert both.key in bundles
    assert len(list(bundles.lines(b'"text":"both"'))) == 2
    bundles.close()


@pytest.mark.parametrize(
    "change",
    [{"text": "other"}, {"status": "unparsed"}, {"reasked_as": "x"}, {"finish_reason": "length"}],
)
def test_bundles_that_disagree_are_both_named(tmp_path: Path, change: dict[str, str]) -> None:
    write_bundle([reply()], tmp_path / "a.jsonl")
    write_bundle([reply().model_copy(update=change)], tmp_path / "b.jsonl")

    with pytest.raises(StoreError, match=r"a\.jsonl and .*b\.jsonl have different replies to the"):
        Bundles([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_no_bundle_holds_nothing() -> None:
    assert dict(Bundles()) == {}
