"""A build over a cluster, with faults and a killed driver, is the build of one process."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, build, load_config
from freshstack_dspy.config import EngineConfig
from tests.engines.conftest import KEY
from tests.lm.chat_server import ChatServer, Scripted
from tests.recipes.domain import QUESTIONS, write_domain
from tests.recipes.scripted import SCRIPTS, inputs_of

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("default")]
IN_FLIGHT = 8


class Model(ChatServer):
    """Answers by the scripts; every tenth new request fails the first time."""

    def __init__(self) -> None:
        super().__init__(self.reply)
        self.answered: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.faults = 0

    def reply(self, body: dict[str, Any]) -> Scripted:
        asked = json.dumps(body["messages"], sort_keys=True)
        with self._lock:
            new = asked not in self.seen
            self.seen.add(asked)
            if new and len(self.seen) % 10 == 0:
                self.faults += 1
                return Scripted("overloaded", status=500)
            self.answered[asked] += 1
        task = body["response_format"]["json_schema"]["name"]
        inputs = inputs_of([message["content"] for message in body["messages"]])
        return Scripted(json.dumps(SCRIPTS[task](inputs)), delay=0.2)

    @property
    def paid_twice(self) -> int:
        return self.answered.total() - len(self.answered)


def written(folder: Path, model: Model, engine: EngineConfig | None = None) -> Path:
    """The configuration of a domain of thirty questions."""
    asking = {"name": "openai/scripted", "api_base": model.api_base}
    sections: dict[str, Any] = {"model": {**asking, "concurrency": IN_FLIGHT, "retries": 4}}
    if engine is not None:
        sections["engine"] = engine.model_dump()
    config = write_domain(folder, judge={"batch": 1}, **sections)
    asked = [
        {**question, "query_id": f"{question['query_id']}-{number}", "body": f"On day {number}?"}
        for number in range(10)
        for question in QUESTIONS
    ]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    (folder / "questions.jsonl").write_text(lines)
    return config


def started(config: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "freshstack_dspy", "build", str(config), "--json"]
    with (
        config.with_name("stdout").open("wb") as stdout,
        config.with_name("stderr").open("ab") as stderr,
    ):
        return subprocess.Popen(command, stdout=stdout, stderr=stderr)


def answered(model: Model, more: int, driver: "subprocess.Popen[bytes]") -> None:
    """Wait until a model has answered so many requests more."""
    enough = model.answered.total() + more
    while model.answered.total() < enough:
        assert driver.poll() is None
        time.sleep(0.05)


def test_a_build_with_faults_and_a_killed_driver_is_that_of_one_process(
    engine: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "here")
    with Model().running() as model:
        config = written(tmp_path / "ray", model, engine)
        first = started(config)
        answered(model, 60, first)
        first.kill()
        first.wait()
        before = model.answered.total()
        second = started(config)
        assert second.wait() == 0, config.with_name("stderr").read_text()
        assert model.answered.total() > before
        twice, faults = model.paid_twice, model.faults

        live = build(load_config(written(tmp_path / "local", model)))

    collection = Collection.load(tmp_path / "ray" / "collection")
    assert collection.manifest.content_hash == live.manifest.content_hash
    assert not collection.failures
    assert faults >= 10
    assert twice <= IN_FLIGHT
    shown = json.loads(config.with_name("stdout").read_text())
    assert shown["content_hash"] == live.manifest.content_hash
