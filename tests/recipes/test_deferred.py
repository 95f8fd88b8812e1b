"""Deferred builds: requests written down, answered by hand, imported; two rounds to the end."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, ReplyStore, build
from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.batch.deferred import (
    ImportReport,
    import_replies,
    keys_in,
    requests_file,
)
from freshstack_dspy.recipes import pooling
from tests.heard import Heard

from .domain import domain
from .scripted import SCRIPTS, Inputs, ScriptedProvider, inputs_of

Line = dict[str, Any]


def defer(config: BuildConfig) -> list[Line]:
    """Let a build write down what it misses, and read that."""
    file = requests_file(config)
    with pytest.raises(DeferredError) as caught:
        build(config, mode="defer")
    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert str(caught.value).startswith(f"{len(lines)} requests were written to {file}; ")
    assert "freshstack requests answer" in str(caught.value)
    steps = {"nuggets", "sub_questions", "closed_book_answer", "support", "contamination"}
    assert {line["step"] for line in lines} <= steps
    assert all(line["question"] for line in lines)

    return lines


def task(request: Line) -> str:
    return str(request["body"]["response_format"]["json_schema"]["name"])


def inputs_of_line(request: Line) -> Inputs:
    return inputs_of([message["content"] for message in request["body"]["messages"]])


def by_hand(request: Line) -> Line:
    """What a person types."""
    answer = SCRIPTS[task(request)](inputs_of_line(request))
    return {"custom_id": request["custom_id"], "content": json.dumps(answer)}


def by_batch(request: Line) -> Line:
    """What a provider's batch API gives back."""
    message = {"role": "assistant", "content": by_hand(request)["content"]}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }
    return {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}}


def hand_in(config: BuildConfig, replies: list[Line], folder: Path) -> ImportReport:
    file = folder / "replies.jsonl"
    file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    store = ReplyStore(config.cache.path)
    try:
        return import_replies(store, file, keys=keys_in(requests_file(config)))
    finally:
        store.close()


def answer_by_hand(config: BuildConfig) -> None:
    requests = requests_file(config)
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    hand_in(config, [by_hand(line) for line in lines], requests.parent)


@pytest.mark.parametrize("answer", [by_hand, by_batch])
def test_two_rounds_build_what_one_live_build_does(tmp_path: Path, answer: Any) -> None:
    live = build(domain(tmp_path / "live"), provider=ScriptedProvider())
    config = domain(tmp_path / "deferred")

    first = defer(config)
    one = hand_in(config, [answer(request) for request in first], tmp_path)
    second = defer(config)
    other = hand_in(config, [answer(request) for request in second], tmp_path)
    collection = build(config, mode="defer")

    assert sorted(map(task, first)) == sorted(
        ["NuggetizeAnswer", "DecomposeQuestion", "AnswerClosedBook"] * 3
    )
    assert set(map(task, second)) == {"JudgeSupportLevel"}
    assert (one.imported, one.waiting) == (9, 0)
    assert (other.imported, other.waiting) == (len(second), 0)
    assert collection.manifest.content_hash == live.manifest.content_hash
    assert sum(account.calls for account in collection.manifest.ledger.values()) == 0


def test_blocks_of_queries_are_one_step_and_one_file_of_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(folder: Path) -> tuple[str, Heard]:
        heard = Heard()
        collection = build(domain(folder), provider=ScriptedProvider(), progress=heard)
        return collection.manifest.content_hash, heard

    whole, heard = built(tmp_path / "whole")
    monkeypatch.setattr(pooling, "BLOCK", 1)
    in_blocks, heard_in_blocks = built(tmp_path / "blocks")
    config = domain(tmp_path / "deferred")
    defer(config)
    answer_by_hand(config)
    second = defer(config)
    answer_by_hand(config)
    deferred = build(config, mode="defer")

    assert in_blocks == deferred.manifest.content_hash == whole
    assert heard_in_blocks.notes == heard.notes
    assert heard_in_blocks.advanced == heard.advanced
    assert len({json.dumps(inputs_of_line(one)["question"]) for one in second}) == 3


def test_an_invalid_reply_takes_a_round_of_its_own(tmp_path: Path) -> None:
    """The re-ask is a request like any other: written down, answered, imported."""
    config = domain(tmp_path)
    first = defer(config)
    replies = [by_batch(request) for request in first]
    place = next(n for n, request in enumerate(first) if task(request) == "NuggetizeAnswer")
    choice = replies[place]["response"]["body"]["choices"][0]
    choice["message"]["content"] = "Let me think."
    hand_in(config, replies, tmp_path)

    (reask,) = defer(config)
    hand_in(config, [by_hand(reask)], tmp_path)
    support = defer(config)

    roles = [message["role"] for message in reask["body"]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert set(map(task, support)) == {"JudgeSupportLevel"}
