"""What a configuration would stumble over, how far a collection has come, and what comes next."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from freshstack_dspy import build, load_config, plan
from freshstack_dspy.errors import FreshstackError
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.recipes.doctor import Checkup, doctor
from freshstack_dspy.recipes.requests import fault_in_reply
from freshstack_dspy.recipes.status import status
from tests.lm.chat_server import ChatServer, Scripted
from tests.recipes.conftest import Built
from tests.recipes.domain import domain, write_domain

ROOT = Path(__file__).parents[2]
BASELINE = {"name": "extractive/baseline"}


def states(checkup: Checkup) -> dict[str, str]:
    return {check.part: check.state for check in checkup.checks}


def test_a_domain_by_the_baseline_has_no_fault_and_is_no_judge(tmp_path: Path) -> None:
    checkup = doctor(write_domain(tmp_path, model=BASELINE), ask=True)
    assert (checkup.faults, states(checkup)["[model] extractive/baseline"]) == (0, "warning")
    assert states(checkup)["[model] extractive/baseline, asked"] == "ok"
    assert not (tmp_path / "cache").exists(), "nothing is recorded"


@pytest.mark.parametrize(
    ("sections", "part"),
    [
        ({}, "[model] openai/scripted"),  # no key
        ({"model": {"name": "nobody/model"}}, "[model] nobody/model"),
        ({"judge": {"model": "anthropic/claude-haiku-4-5"}}, "[judge.model] anthropic/claude-haiku-4-5"),
        ({"queries": {"tags": ["of-nobody"]}}, "[queries]"),
        ({"pool": {"retrievers": ["bm25", "nowhere.here:search"]}}, "[pool] retrievers"),
        ({"programs": {"support_judge": "nowhere.here:Judge"}}, "programs"),
        ({"model": {"name": "hosted_vllm/m", "api_base": "http://127.0.0.1:9/v1"}}, "[model] hosted_vllm/m"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_part(
    tmp_path: Path, sections: dict[str, dict[str, object]], part: str
) -> None:
    checkup = doctor(write_domain(tmp_path, **({"model": BASELINE} if sections else {}) | sections))
    assert states(checkup)[part] == "fault"
    assert checkup.faults == 1


def test_a_known_model_is_described_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    (check,) = [
        each
        for each in doctor(write_domain(tmp_path, model={"name": "openai/gpt-5-mini"})).checks
        if "gpt-5-mini" in each.part
    ]
    assert check.state == "ok"
    assert re.search(r"272,000 tokens.*thinks.*strict json_schema.*\$0.25 and \$2", check.said)


def test_each_model_is_asked_once_if_wanted(tmp_path: Path) -> None:
    support = {"nugget": 1, "grade": 2, "quotes": ["returns the names"]}
    reply = {"verdicts": [{"chunk": 1, "reason": "so", "supported": [support]}]}
    with ChatServer(lambda _: Scripted(json.dumps(reply))).running() as server:
        model = {"name": "hosted_vllm/m", "api_base": server.api_base, "reasks": 0}
        config = write_domain(tmp_path, model=model)
        assert not [check for check in doctor(config).checks if check.part.endswith("asked")]
        assert not server.requests
        (asked,) = [each for each in doctor(config, ask=True).checks if each.part.endswith("asked")]
        assert (asked.state, len(server.requests)) == ("ok", 1)
        server.says("no JSON at all")
        assert states(doctor(config, ask=True))["[model] hosted_vllm/m, asked"] == "fault"


def test_what_comes_next(tmp_path: Path, built: Callable[[str], Built]) -> None:
    config = write_domain(tmp_path, model=BASELINE)
    before = status(config)
    few = "3 questions, and 10 are needed"
    assert few in " ".join(before.there)
    assert few in page_text(plan(load_config(config)).page())
    assert few in doctor(config).checks[0].said
    assert before.next[0].command == f"freshstack doctor {config}"
    assert before.next[1].command == f"freshstack build {config}"
    build(config)
    dry = status(config)
    assert "dry run" in dry.trust
    assert dry.next[1].command.startswith("freshstack retrieve")
    for name, query in (("a", "x"), ("b", "x"), ("of_others", "?")):
        (tmp_path / f"{name}.run").write_text(f"{query} Q0 docs/a 1 2.0 {name}\n")
    assert [step.command.split()[1] for step in status(config).next] == [
        "plan",
        "compare",
        "report",
    ]
    assert "of_others" not in status(config).next[1].command
    assert dry.next[0].command == f"freshstack plan {config}"
    uncalibrated = status(built("usual").folder / "collection")
    assert "not yet to decide between retrievers: 2 questions, and 10" in uncalibrated.trust
    assert any(step.command.startswith("freshstack sample") for step in uncalibrated.next)


@pytest.mark.parametrize(("bound", "command"), [(0.89, "refresh"), (0.95, "optimize")])
def test_what_comes_where_no_number_of_labels_calibrates(
    tmp_path: Path, bound: float, command: str
) -> None:
    for folder in ("examples/quickstart", "caches"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    config = tmp_path / "examples/quickstart/build.toml"
    config.write_text(config.read_text().replace("[trust]", f"[trust]\nmin_kappa = {bound}"))
    build(config, mode="replay")
    first = status(config).next[0].command
    assert first.startswith(f"freshstack {command} {config}")
    assert ("examples/quickstart/labels.jsonl" in first) == (command == "optimize")


def test_an_index_of_another_version_is_built_anew(tmp_path: Path) -> None:
    folder = tmp_path / "with spaces"
    config = write_domain(folder, model=BASELINE)
    build(config)
    (manifest,) = (folder / "index/small").glob("*/index.json")
    manifest.write_text("of another version")
    assert doctor(config).faults == 0
    build(config)
    assert "chunks" in {check.part: check.said for check in doctor(config).checks}["[index]"]
    assert shlex.split(status(config).next[0].command) == ["freshstack", "plan", str(config)]


def test_deferred_requests_come_first(tmp_path: Path) -> None:
    with pytest.raises(FreshstackError, match="answer"):
        build(domain(tmp_path), mode="defer")
    with closing(ReplyStore(tmp_path / "cache")) as store:
        waiting = len(list(store.deferred()))
    found = status(tmp_path / "build.toml")
    assert found.there == (f"{waiting} deferred requests waiting",)
    assert found.next[0].command.startswith("freshstack requests")
    requests = tmp_path / "requests/small.jsonl"  # of which the last are another build's
    requests.write_text("".join(requests.read_text().splitlines(keepends=True)[:1]))
    assert status(tmp_path / "build.toml").there == ("1 deferred request waiting",)


def test_neither_a_configuration_nor_a_collection(tmp_path: Path) -> None:
    with pytest.raises(FreshstackError, match="neither"):
        status(tmp_path / "nothing")


def test_an_agent_answers_by_hand(tmp_path: Path) -> None:
    config = write_domain(tmp_path, model={"name": "agent/me"})
    checkup = doctor(config, ask=True)
    assert (checkup.faults, states(checkup)["[model] agent/me"]) == (0, "ok")
    assert status(config).next[-1].command == f"freshstack build {config} --mode defer"
    planned = " ".join(page_text(plan(load_config(config)).page()).split())
    assert "freshstack requests next" in planned
    assert "[prices]" not in planned
    assert "context" not in planned
    with pytest.raises(FreshstackError, match="--mode defer"):
        build(config)
    with pytest.raises(FreshstackError, match="answer"):
        build(config, mode="defer")
    assert status(config).next[0].command == f"freshstack requests next {config}"


def test_what_a_program_would_send_back_is_refused_of_a_hand_too(tmp_path: Path) -> None:
    with pytest.raises(FreshstackError, match="answer"):
        build(write_domain(tmp_path, model={"name": "agent/me"}), mode="defer")
    with closing(ReplyStore(tmp_path / "cache")) as store:
        (request, *_) = (each for each in store.deferred() if each.task == "NuggetizeAnswer")
    nugget = {"text": "It is so.", "importance": "vital", "doubtful": False}
    valid, invented = ({"nuggets": [nugget | {"quote": quote}]} for quote in ("", "invented"))
    assert fault_in_reply(request, json.dumps(valid)) is None
    assert "invented" in (fault_in_reply(request, json.dumps(invented)) or "")
    assert fault_in_reply(request, "no JSON")
