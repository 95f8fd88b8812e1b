"""Deferred requests out, replies in."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from pydantic import ValidationError

from freshstack_dspy import ReplyStore
from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.batch.deferred import (
    ImportReport,
    fault_in,
    import_replies,
    next_requests,
    waiting_among,
    write_requests,
)
from freshstack_dspy.lm.request import ChatMessage, ChatRequest
from freshstack_dspy.lm.typed import answer_model, answer_schema
from tests.lm.asking import BERN, ListCities, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect
from tests.lm.recording import ask, every_value, reply, reply_to


def batch_line(custom_id: str, content: str | None = "hi", **changes: Any) -> dict[str, Any]:
    """What a batch API, or `vllm run-batch`, gives back for one request."""
    body = json.loads(Scripted(content).encoded())
    ChatCompletion.model_validate(body)
    return {
        "id": "batch_req_1",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": "r", "body": body},
        "error": None,
        **changes,
    }


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def keys_of(store: ReplyStore) -> list[str]:
    """What waits in the store."""
    return [request.key for request in store.deferred()]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """One for live calls, in place of that with a batch API."""
    with ChatServer(lambda _: Scripted("{}")).running() as running:
        yield running


@pytest.fixture
def replies_file(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


def test_every_deferred_request_is_a_line_of_a_batch_file(
    store: ReplyStore, tmp_path: Path
) -> None:
    for text in ("one", "zwölf"):
        store.defer(ask(text))
    path = tmp_path / "new folder" / "requests.jsonl"

    steps = {ask("one").key: "nuggets", ask("zwölf").key: "judge"}
    assert write_requests(store, path, steps) == 2
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {line["custom_id"] for line in lines} == {ask("one").key, ask("zwölf").key}
    assert lines == sorted(lines, key=lambda line: str(line["custom_id"]))
    assert lines[0].keys() == {"custom_id", "method", "url", "body", "step", "question"}
    assert {line["custom_id"]: line["step"] for line in lines} == steps
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert {line["body"]["messages"][0]["content"] for line in lines} == {"one", "zwölf"}
    assert lines[0]["body"] == {
        "model": "gpt-4o",
        "messages": lines[0]["body"]["messages"],
        "temperature": 0.5,
        "max_completion_tokens": 9,
    }


def test_both_formats_are_imported_and_only_what_was_paid_for_is_charged(
    store: ReplyStore, replies_file: Path
) -> None:
    store.defer(ask("by a batch"))
    store.defer(ask("by hand"))
    write_lines(
        replies_file,
        batch_line(ask("by a batch").key, "from a batch"),
        {"custom_id": ask("by hand").key, "content": "from a person"},
    )
    report = import_replies(store, replies_file, account="mine")
    again = import_replies(store, replies_file, account="mine")
    batch, hand = store.get(ask("by a batch").key), store.get(ask("by hand").key)

    assert str(report) == "2 imported; 0 still waiting"
    assert len(again.repeated) == 2
    assert batch is not None
    assert hand is not None
    assert (batch.text, batch.input_tokens, batch.output_tokens) == ("from a batch", 7, 3)
    assert batch.cost == pytest.approx(7 * 1.25e-06 + 3 * 5e-06), "the price of a batch"
    assert (hand.text, hand.input_tokens, hand.cost) == ("from a person", None, None)
    assert (batch.origin, batch.status) == (hand.origin, hand.status) == ("import", "ok")
    spent = store.spent("mine")
    assert (spent.calls, spent.tokens) == (1, 10)
    assert spent.dollars == pytest.approx(batch.cost)


def test_an_imported_reply_is_served(
    server: ChatServer, store: ReplyStore, client_for: Connect, replies_file: Path
) -> None:
    with pytest.raises(DeferredError):
        ask_cities(client_for("defer"))
    (waiting,) = store.deferred()
    import_replies(store, write_lines(replies_file, {"custom_id": waiting.key, "content": BERN}))

    assert ask_cities(client_for("defer")).cities[0].name == "Bern"
    assert server.requests == []


def test_what_was_not_imported_is_counted_and_named(store: ReplyStore, replies_file: Path) -> None:
    for text in ("good", "twice", "failed", "server error", "empty", "waiting"):
        store.defer(ask(text))
    store.put(reply(to="already there"))
    write_lines(
        replies_file,
        batch_line(ask("good").key),
        batch_line(ask("twice").key, "first"),
        batch_line(ask("twice").key, "second"),
        batch_line(ask("already there").key, "another"),
        batch_line(ask("failed").key, response=None, error={"code": "expired"}),
        batch_line(ask("server error").key, response={"status_code": 500, "body": {"e": 1}}),
        {"custom_id": ask("empty").key},
        {"custom_id": "\x1b[31mstranger", "content": "hi"},
    )
    report = import_replies(store, replies_file, keys=keys_of(store))
    twice, there = store.get(ask("twice").key), store.get(ask("already there").key)

    assert report == ImportReport(
        imported=2,
        failed=(ask("failed").key, ask("server error").key, ask("empty").key),
        unknown=("\x1b[31mstranger",),
        repeated=(ask("twice").key, ask("already there").key),
        waiting=4,
        reasons=(
            "line 8: no such request waits, or was answered, here",
            "1 x expired",
            "1 x status 500",
            "1 x the line is empty",
        ),
    )
    assert report.faulty
    assert "3 failed (" in str(report)
    assert "1 unknown (\\x1b[31mstranger); 2 repeated (" in str(report)
    assert str(report).endswith("; 4 still waiting")
    assert twice is not None
    assert there is not None
    assert (twice.text, there.text) == ("first", "hi")


KEY = ask().key
MALFORMED = [
    "not JSON",
    "[]",
    "{}",
    json.dumps({"custom_id": KEY, "content": 7}),
    json.dumps({"custom_id": KEY, "response": {"body": {"choices": []}}}),
    json.dumps({"custom_id": KEY, "response": {"body": {"choices": [{"message": "hi"}]}}}),
    json.dumps(
        {
            "custom_id": KEY,
            "response": {"body": {"choices": [{"message": {}}], "usage": {"prompt_tokens": -1}}},
        }
    ),
    f'{{"custom_id": "{KEY}", "error": ' + "[" * 100_000,
]


@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: str(line)[64:100])
def test_a_line_in_neither_format_is_named_by_number_and_costs_only_itself(
    store: ReplyStore, replies_file: Path, line: str
) -> None:
    store.defer(ask())
    store.defer(ask("good"))
    good = json.dumps({"custom_id": ask("good").key, "content": "hi"})
    replies_file.write_text(f"{line}\n\n{good}\n{line}", encoding="utf-8")
    report = import_replies(store, replies_file, keys=keys_of(store))

    assert (report.imported, len(report.invalid), report.waiting) == (1, 2, 1)
    assert [reason.split(": neither")[0] for reason in report.reasons] == ["line 1", "line 4"]


def test_a_reply_to_what_had_a_dead_end_is_waited_for_no_longer(
    store: ReplyStore, replies_file: Path
) -> None:
    store.put(reply("cut off", status="truncated", finish_reason="length"))
    store.defer(ask())
    lines = write_lines(replies_file, batch_line(KEY), batch_line(KEY))
    report = import_replies(store, lines, keys=keys_of(store))

    assert (report.imported, report.repeated, report.waiting) == (1, (KEY,), 0)
    assert list(store.deferred()) == []


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TYPED = {"response_format": {"type": "json_schema", "name": "Count", "schema": SCHEMA}}


def test_a_person_s_answer_must_fit_its_request_and_a_batch_s_is_paid_for_anyway(
    store: ReplyStore, replies_file: Path
) -> None:
    typed = [ask(text, parameters=TYPED) for text in ("fits", "typo", "batch")]
    for each in typed:
        store.defer(each)
    fits, typo, batch = (each.key for each in typed)
    write_lines(
        replies_file,
        {"custom_id": fits, "content": '{"n": 1}'},
        {"custom_id": typo, "content": "one"},
        batch_line(batch, "one"),
    )
    report = import_replies(store, replies_file, keys=keys_of(store))

    assert (report.imported, report.invalid, report.waiting) == (2, (typo,), 1)
    assert report.faulty
    assert f"1 invalid ({typo[:16]})" in str(report)
    assert len(report.reasons) == 1
    assert [waiting.key for waiting in store.deferred()] == [typo]


def test_a_person_s_answer_replaces_what_was_recorded(
    store: ReplyStore, replies_file: Path
) -> None:
    store.put(reply("old"))
    write_lines(
        replies_file,
        batch_line(KEY, "paid for"),
        {"custom_id": KEY, "content": "new"},
        {"custom_id": KEY, "content": "twice"},
        {"custom_id": "stranger", "content": "x"},
    )
    report = import_replies(store, replies_file)
    now = store.get(KEY)

    assert (report.replaced, report.repeated) == ((KEY,), (KEY, KEY))
    assert (report.unknown, len(report.reasons)) == (("stranger",), 1)
    assert now is not None
    assert now.text == "new"
    assert '"text":"old"' in every_value(store)[f"entry:{KEY}:1"]


CITIES = {"type": "json_schema", "name": "ListCities", "schema": answer_schema(ListCities)}


def asking(response_format: Any) -> ChatRequest:
    return ask(parameters={"response_format": response_format})


CITY = st.fixed_dictionaries(
    {"name": st.text(max_size=3), "people": st.integers(-1, 2) | st.floats() | st.none()},
    optional={"more": st.integers()},
)


@given(st.fixed_dictionaries({"cities": st.lists(CITY, max_size=3) | st.text()}))
def test_what_fits_is_what_the_model_takes(value: Any) -> None:
    """The inputs aside, which a validator may look at, the two never disagree."""
    text = json.dumps(value)
    try:
        answer_model(ListCities).model_validate_json(text, strict=True)
        valid = True
    except ValidationError:
        valid = False

    assert (fault_in(asking(CITIES), text) is None) == valid


def test_the_next_requests_are_one_text_that_names_them_shortly(
    store: ReplyStore, replies_file: Path
) -> None:
    requests = [
        ask(
            messages=(
                ChatMessage(role="system", content="Count."),
                ChatMessage(role="user", content=text),
            ),
            parameters=TYPED,
        )
        for text in ("first", "second", "third " * 500)
    ]
    for each in (*requests, ask("of another build")):
        store.defer(each)
    keys = [each.key for each in requests]
    text, number, waiting = next_requests(waiting_among(store, keys), "b.toml", max_tokens=300)

    assert (number, waiting) == (2, 3)
    assert "2 of 3 waiting" in text
    assert text.count("Count.") == 1, "the instructions are shared"
    ids = re.findall("^### id (.+)$", text, re.MULTILINE)
    assert ids == [key[:16] for key in keys[:2]]
    lines = [{"custom_id": id_, "content": {"n": 1}} for id_ in ids]
    report = import_replies(store, write_lines(replies_file, *lines), keys=keys)
    assert (report.imported, report.waiting, report.faulty) == (2, 1, False)
    rest = next_requests(waiting_among(store, keys), "b.toml", max_tokens=1).text
    assert "1 of 1 waiting" in rest, "one request at least is handed out"
    store.put(reply_to(requests[2]))
    assert not next_requests(waiting_among(store, keys), "b.toml").number
