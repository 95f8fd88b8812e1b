"""`freshstack requests`: export, import, and two rounds through a batch API to a collection."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.cli import requests as commands
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import load_config
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.batch.batch_server import BatchServer
from tests.lm.batch.batching import PROVIDERS, SECRET, Provider, model_at
from tests.lm.chat_server import Scripted
from tests.recipes.domain import write_domain
from tests.recipes.scripted import SCRIPTS, Inputs, inputs_of

from .conftest import BASELINE, Command


def answer(body: dict[str, Any]) -> Scripted:
    """What `ScriptedProvider` says, told from the inputs alone: not every API names the task."""
    contents = [message["content"] for message in body["messages"]]
    inputs = inputs_of([text if isinstance(text, str) else text[0]["text"] for text in contents])
    return Scripted(json.dumps(SCRIPTS[task(inputs)](inputs)))


def task(inputs: Inputs) -> str:
    if "chunks" in inputs:
        return "JudgeSupport"
    if "answer" in inputs:
        return "NuggetizeAnswer"
    return "DecomposeQuestion" if "limit" in inputs else "AnswerClosedBook"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01")
    monkeypatch.setattr(commands, "FIRST_WAIT", 0.01)
    with BatchServer(answer).running() as running:
        yield running


def replies_in(config: Path) -> list[Reply]:
    store = ReplyStore(load_config(config).cache.path)
    try:
        return list(store.replies())
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
def test_two_rounds_of_batches_build_what_one_live_build_does(
    freshstack: Command, server: BatchServer, tmp_path: Path, provider: Provider
) -> None:
    server.course.looks = 2
    model = model_at(server, provider)
    live = write_domain(tmp_path / "live", model=model)
    config = write_domain(tmp_path / "batch", model=model)
    assert freshstack("build", live).code == 0
    asked_live = len(server.live)

    for requests in (9, 9):  # the second with three closed-book answers to judge
        assert freshstack("build", config, "--mode", "defer").code == 3
        submitted = freshstack("requests", "submit", config)
        assert submitted.code == 0, submitted.err
        assert f": {requests} requests to send, in 1 batch\n" in submitted.out
        assert freshstack("requests", "status", config).code == 3
        waited = freshstack("requests", "status", config, "--wait")
        assert waited.code == 0, waited.out
        assert f"{requests} of {requests} done; {requests} imported\n" in waited.out
        assert waited.out.endswith(f"go on with: freshstack build {config} --mode defer\n")
    assert freshstack("build", config, "--mode", "replay").code == 0

    one, other = (Collection.load(tmp_path / name / "collection") for name in ("live", "batch"))
    assert one.manifest.content_hash == other.manifest.content_hash
    assert len(server.live) == asked_live == 18
    assert len(server.made) == 2


@pytest.fixture
def deferred(freshstack: Command, server: BatchServer, tmp_path: Path) -> Path:
    """A configuration whose first nine requests wait."""
    config = write_domain(tmp_path, model=model_at(server, "anthropic"))
    assert freshstack("build", config, "--mode", "defer").code == 3
    return config


def test_submit_says_first_what_it_could_cost(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    done = freshstack("requests", "submit", deferred, "--dry-run")

    first, second = done.out.splitlines()
    assert done.code == 0
    assert first.endswith("small.jsonl: 9 requests to send, in 1 batch")
    assert second.startswith("at most ")
    assert " as batches, $" in second
    assert second.endswith(" live")
    assert server.calls.total() == 0


def test_a_second_submit_sends_nothing(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    freshstack("requests", "submit", deferred)
    again = freshstack("requests", "submit", deferred)

    assert again.code == 0
    assert again.out.endswith("0 requests to send, in 0 batches; 9 underway already\n")
    assert len(server.made) == 1


def test_submit_takes_another_requests_file(
    freshstack: Command, server: BatchServer, deferred: Path, tmp_path: Path
) -> None:
    lines = (tmp_path / "requests/small.jsonl").read_text().splitlines()
    (tmp_path / "some.jsonl").write_text("\n".join(lines[:2]))
    done = freshstack("requests", "submit", deferred, "--requests", "some.jsonl")

    assert done.out.startswith("some.jsonl: 2 requests to send, in 1 batch\n")
    assert len(server.made[0].requests) == 2


def test_submit_stops_at_the_budget(
    freshstack: Command, server: BatchServer, tmp_path: Path
) -> None:
    config = write_domain(tmp_path, model=model_at(server, "anthropic"), budget={"dollars": 0.01})
    freshstack("build", config, "--mode", "defer")
    done = freshstack("requests", "submit", config)

    assert done.code == 4
    assert "9 requests to send" in done.out
    assert "[budget] dollars = 0.01 does not allow these 9 requests: " in done.err
    assert server.calls.total() == 0


def test_what_failed_is_said_with_its_reason_and_sent_again(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    def check_nuggets(body: dict[str, Any]) -> Scripted:
        reply = answer(body)
        nuggets = "nuggets" in (reply.content or "")
        return Scripted(f"overloaded\x1b[31m {SECRET}", status=529) if nuggets else reply

    server.script = check_nuggets
    freshstack("requests", "submit", deferred)
    done = freshstack("requests", "status", deferred)
    server.script = answer
    again = freshstack("requests", "submit", deferred)

    assert done.code == 1
    assert "6 imported; 3 failed (" in done.out
    assert "\n  3 x overloaded[31m [key]\n" in done.out
    assert done.out.splitlines()[-1].startswith("what has no reply waits again; send it with: ")
    assert ": 3 requests to send, in 1 batch; 6 answered already\n" in again.out
    assert freshstack("requests", "status", deferred).code == 0


def test_waiting_goes_on_when_the_provider_does_not_answer(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    freshstack("requests", "submit", deferred)
    busy = Scripted("busy", status=503)
    server.before["retrieve"] = lambda: busy if server.calls["retrieve"] < 3 else None
    once = freshstack("requests", "status", deferred)
    done = freshstack("requests", "status", deferred, "--wait")

    assert once.code == 1
    assert once.err.startswith("error: the batch API of anthropic/claude-sonnet-4-5 did not answer")
    assert done.code == 0
    assert "did not answer: busy; asking again in " in done.err


def test_status_without_a_submission_says_how_to_make_one(
    freshstack: Command, config: Path
) -> None:
    done = freshstack("requests", "status", config)

    assert (done.code, done.out) == (
        0,
        f"nothing was submitted yet: freshstack requests submit {config}\n",
    )


def test_a_batch_of_another_model_is_named(
    freshstack: Command, server: BatchServer, deferred: Path, tmp_path: Path
) -> None:
    freshstack("requests", "submit", deferred)
    other = write_domain(tmp_path, model=model_at(server, "openai"))
    done = freshstack("requests", "status", other)

    assert done.code == 3
    assert f": sent to anthropic/claude-sonnet-4-5 at {server.api_base}: put that into" in done.out


def test_a_submission_can_be_given_up(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    server.course.looks = 9
    out = freshstack("requests", "submit", deferred).out
    submission = out.splitlines()[-2].partition(":")[0]
    done = freshstack("requests", "submit", deferred, "--forget", submission)
    status = freshstack("requests", "status", deferred)

    assert done.out.startswith(f"{submission}: given up; its batch batch_1 goes on")
    assert len(server.made) == 2
    assert f"{submission}: batch batch_1 was given up\n" in status.out


def test_a_model_without_a_batch_api_names_the_other_way(freshstack: Command, config: Path) -> None:
    assert freshstack("build", config, "--mode", "defer").code == 3
    done = freshstack("requests", "submit", config)

    assert done.code == 1
    assert "vllm run-batch" in done.err
    assert done.err.count("\n") == 1


def test_export_says_how_many_are_to_another_model(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    freshstack("build", config, "--mode", "defer")
    plain = freshstack("requests", "export", config, "--out", "all.jsonl")
    other = write_domain(tmp_path, model={"name": "openai/scripted"})
    mixed = freshstack("requests", "export", other, "--out", "all.jsonl")

    assert plain.out == "all.jsonl: 9 requests\n"
    assert mixed.out == ("all.jsonl: 9 requests, 9 of them to another model than openai/scripted\n")


def test_a_configuration_of_the_judge_alone_is_enough(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    """Commands over a standing collection take one without questions and documents."""
    freshstack("build", config, "--mode", "defer")
    cache = load_config(config).cache.path
    alone = tmp_path / "judge.toml"
    alone.write_text(f'[model]\nname = "extractive/baseline"\n[cache]\npath = "{cache}"\n')

    done = freshstack("requests", "export", alone, "--out", "all.jsonl")

    assert done.out == "all.jsonl: 9 requests\n"


def test_import_refuses_a_person_s_answer_that_does_not_fit(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    freshstack("build", config, "--mode", "defer", "--requests", "requests.jsonl")
    line = json.loads((tmp_path / "requests.jsonl").read_text().splitlines()[0])
    (tmp_path / "replies.jsonl").write_text(
        json.dumps({"custom_id": line["custom_id"], "content": "Let me think."})
    )
    done = freshstack("requests", "import", "replies.jsonl", config)

    first, reason = done.out.splitlines()
    assert done.code == 1
    assert first == f"0 imported; 1 invalid ({line['custom_id'][:16]}); 9 still waiting"
    assert reason.startswith("  1 x ")
    assert replies_in(config) == []


def test_import_replaces_only_when_told_to(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    freshstack("build", config, "--mode", "defer", "--requests", "requests.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    asked = next(line for line in lines if "AnswerClosedBook" in json.dumps(line))

    def hand_in(text: str, *options: str) -> str:
        content = json.dumps({"answer": text})
        line = json.dumps({"custom_id": asked["custom_id"], "content": content})
        (tmp_path / "replies.jsonl").write_text(line)
        return freshstack("requests", "import", "replies.jsonl", config, *options).out

    assert hand_in("first").startswith("1 imported; ")
    assert hand_in("second").startswith("0 imported; 1 repeated ")
    assert [reply.text for reply in replies_in(config)] == ['{"answer": "first"}']
    assert hand_in("third", "--replace").startswith("0 imported; 1 replaced ")
    assert [reply.text for reply in replies_in(config)] == ['{"answer": "third"}']
    assert BASELINE["name"] == replies_in(config)[0].request.model
