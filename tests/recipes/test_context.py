"""A build through a server with a small context: nothing fails that fewer chunks in a call avoid."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Config, Message, Request

from freshstack_dspy import BuildConfig, build, load_config, plan
from freshstack_dspy.lm.engine import BaselineProvider
from freshstack_dspy.lm.tokens import count_tokens
from tests.lm.chat_server import ChatServer, Scripted

QUICKSTART = Path(__file__).parents[2] / "examples/quickstart"
CONTEXT = 4096


class SmallServer(ChatServer):
    """Answers as the baseline does, and refuses in vLLM's words what is longer than its context."""

    def __init__(self, listed: int | None) -> None:
        super().__init__(self.reply)
        self.listed = listed
        self.refused: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._baseline = BaselineProvider()

    def reply(self, body: dict[str, Any]) -> Scripted:
        texts = [message["content"] for message in body["messages"]]
        prompt, most = sum(map(count_tokens, texts)), body["max_tokens"]
        wanted = body["response_format"]["json_schema"]
        if prompt + most > CONTEXT:
            self.refused[wanted["name"]] += 1
            message = (
                f"This model's maximum context length is {CONTEXT} tokens. However, you requested "
                f"{prompt + most} tokens ({prompt} in the messages, {most} in the completion). "
                "Please reduce the length of the messages or completion."
            )
            error = {"object": "error", "message": message, "type": "BadRequestError", "code": 400}
            return Scripted(status=400, body=json.dumps(error).encode())
        turns = [(Message.user, Message.assistant)[n % 2](text) for n, text in enumerate(texts[1:])]
        config = Config(response_format={"type": "json_schema", **wanted})
        request = Request(
            model=body["model"], system=texts[0], messages=tuple(turns), config=config
        )
        return Scripted(self._baseline.complete(request).text)

    def answer(self, method: str, target: str, headers: Any, content: bytes) -> Scripted:
        if method != "GET":
            return super().answer(method, target, headers, content)
        model = {"id": "small", "object": "model", "max_model_len": self.listed}
        return Scripted(body=json.dumps({"object": "list", "data": [model]}).encode())


@pytest.fixture(params=[None, CONTEXT], ids=["says nothing", "lists its context"])
def small(request: pytest.FixtureRequest) -> Iterator[SmallServer]:
    with SmallServer(request.param).running() as server:
        yield server


def quickstart(folder: Path, server: SmallServer, **model: Any) -> BuildConfig:
    config = load_config(QUICKSTART / "build.toml")
    settings = {
        "name": "hosted_vllm/small",
        "api_base": server.api_base,
        **model,
    }
    return config.model_copy(
        update={
            "model": config.model.model_validate(settings),
            "out": folder / "collection",
            "queries": config.queries.model_copy(update={"limit": 4}),
            "index": config.index.model_copy(update={"path": folder / "index"}),
            "cache": config.cache.model_copy(update={"path": folder / "cache", "bundles": ()}),
        }
    )


def test_every_pair_is_judged_and_replayed_to_the_same_content(
    small: SmallServer, tmp_path: Path
) -> None:
    config = quickstart(tmp_path, small, concurrency=4)
    planned = plan(config)
    collection = build(config)
    asked, steps = len(small.requests), collection.manifest.ledger

    print(  # noqa: T201 - for who runs it with -s
        f"planned {planned.total.requests} calls, made {asked}, of them refused "
        f"{dict(small.refused)}; {len(collection.judgments)} judgments, "
        f"{len(collection.failures)} failures"
    )
    assert len(collection.queries) == 4
    assert collection.failures == ()
    assert {one.status for one in collection.judgments} == {"ok"}
    assert sum(step.calls for step in steps.values()) == asked
    if small.listed is None:
        assert planned.context is None
        assert 0 < small.refused.total() < 12  # those in flight before a refusal came
    else:
        assert planned.context == CONTEXT
        assert small.refused.total() == 0
        assert planned.total.requests == asked

    replayed = build(config.model_copy(update={"out": tmp_path / "replayed"}), mode="replay")
    assert replayed.manifest.content_hash == collection.manifest.content_hash
    again = build(config.model_copy(update={"out": tmp_path / "again"}))
    assert again.manifest.content_hash == collection.manifest.content_hash
    assert len(small.requests) == asked


def test_a_role_on_a_server_of_its_own_is_asked_what_fits_there(tmp_path: Path) -> None:
    with SmallServer(CONTEXT).running() as small, SmallServer(None).running() as silent:
        config = quickstart(tmp_path, silent, max_tokens=512)
        judge = config.judge.model_validate(
            {**config.judge.model_dump(), "model": {"api_base": small.api_base}}
        )
        config = config.model_copy(update={"judge": judge})
        planned = plan(config)
        collection = build(config)
        asked = len(small.requests) + len(silent.requests)
        replay = config.model_copy(update={"out": tmp_path / "replayed"})
        replayed = build(replay, mode="replay")

    assert small.refused.total() == 0
    assert len(small.requests) > 0
    assert planned.context is None, "that of [model] is not known"
    assert planned.total.requests == asked
    assert collection.failures == ()
    assert replayed.manifest.content_hash == collection.manifest.content_hash
