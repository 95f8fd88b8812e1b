"""`freshstack replies` and `freshstack requests`, up to two rounds through a batch API."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection
from freshstack_dspy.cli import replies as commands
from freshstack_dspy.lm.bundle import Bundle
from tests.lm.batch.batch_server import BatchServer
from tests.lm.batch.batching import PROVIDERS, SECRET, Provider, model_at
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.recording import reply, write_bundle
from tests.recipes.domain import write_domain
from tests.recipes.scripted import SCRIPTS, Inputs, inputs_of

from .conftest import BASELINE, Command


@pytest.fixture
def built_config(freshstack: Command, built_config: Path) -> Path:
    """The configuration of a collection that was built, and its replies in `saved.jsonl`."""
    assert freshstack("replies", "export", built_config, "--out", "saved.jsonl").code == 0
    return built_config


def test_export_writes_what_a_replay_elsewhere_needs(
    freshstack: Command, built_config: Path, tmp_path: Path
) -> None:
    name = "used.jsonl.zst"
    done = freshstack("replies", "export", built_config, "--out", name)
    elsewhere = write_domain(tmp_path / "theirs", model=BASELINE, cache={"bundles": [f"../{name}"]})
    replayed = freshstack("build", elsewhere, "--mode", "replay")
    manifests = [
        json.loads((folder / "collection/manifest.json").read_text())["content_hash"]
        for folder in (tmp_path, tmp_path / "theirs")
    ]

    assert (done.code, done.out) == (0, f"{name}: {len(Bundle(tmp_path / name).keys())} replies\n")
    assert replayed.code == 0
    assert manifests[0] == manifests[1]


def test_import_adds_and_counts(freshstack: Command, built_config: Path, tmp_path: Path) -> None:
    number = len(Bundle(tmp_path / "saved.jsonl").keys())
    shutil.rmtree(tmp_path / "cache")
    first = freshstack("replies", "import", "saved.jsonl", built_config)
    second = freshstack("replies", "import", "saved.jsonl", built_config)

    assert (first.code, first.out) == (0, f"{number} added, 0 there already\n")
    assert (second.code, second.out) == (0, f"0 added, {number} there already\n")
    write_bundle([reply("theirs", to="a question")], tmp_path / "a.jsonl")
    write_bundle([reply("other", to="a question")], tmp_path / "b.jsonl")
    freshstack("replies", "import", "a.jsonl", built_config)
    kept = freshstack("replies", "import", "b.jsonl", built_config)
    taken = freshstack("replies", "import", "b.jsonl", built_config, "--replace")
    assert (kept.code, taken.code) == (1, 0)
    assert ", 1 conflicts (" in kept.out
    assert ", 1 replaced (" in taken.out


def test_verify_takes_a_configuration_a_store_or_a_bundle_and_names_damage(
    freshstack: Command, built_config: Path, tmp_path: Path
) -> None:
    number = len(Bundle(tmp_path / "saved.jsonl").keys())
    config = write_domain(tmp_path, model=BASELINE, cache={"bundles": ["saved.jsonl"]})
    done = freshstack("replies", "verify", config)

    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert f"{tmp_path}/saved.jsonl: {number - 3} chat, 3 search; 0 damaged" in said
    assert said.startswith(f"{tmp_path}/cache: 1 accounts, {number - 3} chat")
    assert freshstack("replies", "verify", "cache").code == 0
    (tmp_path / "saved.jsonl").write_text("{}\n")
    damaged = freshstack("replies", "verify", "saved.jsonl")
    assert (damaged.code, damaged.out) == (1, "saved.jsonl: empty; 1 damaged\n")
    assert damaged.err.startswith("line 1: saved.jsonl:1: not a recorded reply")


def answer(body: dict[str, Any]) -> Scripted:
    """What `ScriptedProvider` says, told from the inputs alone: not every API names the task."""
    contents = [message["content"] for message in body["messages"]]
    inputs = inputs_of([text if isinstance(text, str) else text[0]["text"] for text in contents])
    return Scripted(json.dumps(SCRIPTS[task(inputs)](inputs)))


def task(inputs: Inputs) -> str:
    if "chunks" in inputs:
        return "JudgeSupportLevel"
    if "answer" in inputs:
        return "NuggetizeAnswer"
    return "DecomposeQuestion" if "limit" in inputs else "AnswerClosedBook"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("AZURE_API_VERSION", "2025-01-01")
    monkeypatch.setattr(commands, "FIRST_WAIT", 0.01)
    with BatchServer(answer).running() as running:
        yield running


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
        assert submitted.out.startswith(f"{requests} requests to send, in 1 batch\n")
        assert freshstack("requests", "status", config).code == 3
        waited = freshstack("requests", "status", config, "--wait")
        assert waited.code == 0, waited.out
        assert f"{requests} of {requests} done; {requests} imported\n" in waited.out
        assert f"freshstack build {config} --mode defer" in waited.out
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


def test_what_failed_is_printed_with_its_reason_and_sent_again(
    freshstack: Command, server: BatchServer, deferred: Path
) -> None:
    def check_nuggets(body: dict[str, Any]) -> Scripted:
        found = answer(body)
        nuggets = "nuggets" in (found.content or "")
        return Scripted(f"overloaded\x1b[31m {SECRET}", status=529) if nuggets else found

    server.script = check_nuggets
    freshstack("requests", "submit", deferred)
    done = freshstack("requests", "status", deferred)
    server.script = answer
    again = freshstack("requests", "submit", deferred)

    assert done.code == 1
    assert "6 imported; 3 failed (" in done.out
    assert "\n  3 x overloaded" in done.out
    assert f"freshstack requests submit {deferred}" in done.out
    assert "3 requests to send, in 1 batch; 6 answered already\n" in again.out
    assert freshstack("requests", "status", deferred).code == 0


def test_requests_are_answered_in_rounds_and_build_what_a_live_build_does(
    freshstack: Command, tmp_path: Path
) -> None:
    met = Counter[str]()

    def cutting(body: dict[str, Any]) -> Scripted:
        met[json.dumps(body)] += 1
        cut = len(met) % 3 == 0 and met[json.dumps(body)] == 1
        return Scripted(drop=True) if cut else answer(body)

    with ChatServer(answer).running() as server:
        model = {"name": "openai/scripted", "api_base": server.api_base, "retries": 2}
        assert freshstack("build", write_domain(tmp_path / "live", model=model)).code == 0
        server.script = cutting
        config = write_domain(tmp_path / "rounds", model=model)
        for _ in range(2):
            assert freshstack("build", config, "--mode", "defer").code == 3
            done = freshstack("requests", "answer", config, "--log", "calls.jsonl")
            assert done.code == 0, done.err
            assert done.out.startswith("9 requests answered\n")
            assert done.out.endswith(f" freshstack build {config} --mode defer\n")
        again = freshstack("requests", "answer", config)
        assert freshstack("build", config, "--mode", "defer").code == 0

    one, other = (Collection.load(tmp_path / name / "collection") for name in ("live", "rounds"))
    assert one.manifest.content_hash == other.manifest.content_hash
    assert again.out.startswith("0 requests answered; 9 answered already\n")
    assert len(met) == 18
    events = [json.loads(line) for line in Path("calls.jsonl").read_text().splitlines()]
    assert [event["attempts"] for event in events].count(1) == 12


def test_requests_that_cannot_be_answered_are_a_line_before_any_is_sent(
    freshstack: Command, tmp_path: Path
) -> None:
    def said(config: Path) -> str:
        done = freshstack("requests", "answer", config)
        assert done.code == 1
        assert len(done.err.splitlines()) == 1
        return done.err

    config = write_domain(tmp_path, model={"api_base": "http://127.0.0.1:9/v1"})
    assert "freshstack build CONFIG --mode defer" in said(config)
    freshstack("build", config, "--mode", "defer")
    assert "nobody answers at http://127.0.0.1:9/v1 (Connection refused)" in said(config)
    write_domain(tmp_path, model={"api_base": "http://127.0.0.1:9/v2"})
    assert "9 not to openai/scripted where [model] asks it; write it again" in said(config)
    write_domain(tmp_path, model={"api_base": "http://127.0.0.1:9/v1"}, cache={"path": "cache/b"})
    (tmp_path / "cache/requests").mkdir()
    shutil.copy(tmp_path / "requests/small.jsonl", tmp_path / "cache/requests")
    assert "9 not waiting here" in said(config)


AGENT = {"name": "agent/me", "reasks": 0}


def write_replies(deferred: Path, *, whole: bool = True) -> Path:
    """Write a hand's replies to requests: verdicts on all chunks, or on the first of each alone."""
    lines = []
    for line in map(json.loads, deferred.read_text().splitlines()):
        inputs = inputs_of([message["content"] for message in line["body"]["messages"]])
        says = SCRIPTS[task(inputs)](inputs)
        if not whole and "verdicts" in says:
            says["verdicts"] = says["verdicts"][:1]
        lines.append(json.dumps({"custom_id": line["custom_id"], "content": says}) + "\n")
    path = deferred.with_name("replies.jsonl")
    path.write_text("".join(lines))
    return path


def test_an_agent_is_asked_again_for_what_failed(freshstack: Command, tmp_path: Path) -> None:
    config, deferred = write_domain(tmp_path, model=AGENT), tmp_path / "requests/small.jsonl"
    for _ in range(2):
        assert freshstack("build", config, "--mode", "defer").code == 3
        replies = write_replies(deferred, whole=False)
        done = freshstack("requests", "answer", config, "--from", replies)
        assert done.code == 0, done.out
    failed = freshstack("build", config, "--mode", "defer")
    assert failed.code == 1, failed.err
    again = json.loads(freshstack("status", config, "--json").out)["next"][0]["command"].split()[1:]
    assert freshstack(*again).code == 3
    answered = freshstack("requests", "answer", config, "--from", write_replies(deferred))
    assert answered.out.endswith(f" freshstack {' '.join(again)}\n")
    assert freshstack(*again).code == 0
    assert not Collection.load(tmp_path / "collection").failures


def test_a_build_counts_its_own_requests_and_names_its_command_from_everywhere(
    freshstack: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two configurations share a store, and the second is typed by a relative path."""
    config = write_domain(tmp_path, model=AGENT)
    assert freshstack("build", config, "--mode", "defer").code == 3
    config = write_domain(tmp_path, model=AGENT, queries={"limit": 1})
    config.write_text(config.read_text().replace('"small"', '"other"'))
    assert freshstack("build", "build.toml", "--mode", "defer").code == 3
    (tmp_path / "none.jsonl").touch()
    answer = ("requests", "answer", config, "--from", tmp_path / "none.jsonl")
    for words in (("requests", "status", config), answer):
        assert json.loads(freshstack(*words, "--json").out)["waiting"] == 3
    assert freshstack("status", config).out.count("3 deferred requests waiting") == 1

    replies = write_replies(tmp_path / "requests/other.jsonl")
    here = freshstack("requests", "answer", config, "--from", replies)
    assert here.out.endswith(" freshstack build build.toml --mode defer\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    there = freshstack("requests", "next", config)
    command = f"cd {tmp_path} && freshstack build build.toml --mode defer\n"
    assert there.out.endswith(f" {command}")
