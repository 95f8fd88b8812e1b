"""Bundles of recorded replies."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.bundle import read_bundle, write_bundle
from freshstack_dspy.lm.connect import connect
from freshstack_dspy.lm.store import ReplyStore

from .asking import request
from .chat_server import ChatServer
from .conftest import Connect
from .recording import reply


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
    server: ChatServer, store: ReplyStore, door_to: Connect, tmp_path: Path
) -> None:
    server.says("recorded")
    first = door_to()
    first(request())
    write_bundle(first.door.used(), tmp_path / "a.jsonl")
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
    write_bundle([reply(), reply("another")], path)

    with pytest.raises(StoreError, match=r"a\.jsonl:2: the key \w+ comes twice"):
        read_bundle(path)


def test_a_bundle_that_cannot_be_read_or_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    for path in (tmp_path / "bad", tmp_path / "absent", tmp_path):
        with pytest.raises(StoreError, match="the bundle cannot be read"):
            read_bundle(path)
    with pytest.raises(StoreError, match="the bundle cannot be written"):
        write_bundle([], tmp_path)
