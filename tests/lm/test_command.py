"""A model that is a program: what it is given, what becomes of its ends, who may name it."""

import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request

from freshstack_dspy import (
    BuildConfig,
    ModelConfig,
    Nuggetizer,
    SupportJudge,
    build,
    connect,
    load_config,
    plan,
)
from freshstack_dspy.errors import ConfigError, FatalModelError, ReplyError
from tests.recipes.domain import domain, write_domain

BASELINE = {"name": "extractive/baseline"}
ROOT = Path(__file__).parents[2]
ANSWERING = f"""
import json, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.recipes.scripted import SCRIPTS, inputs_of
prompt = sys.stdin.read()
inputs = json.loads(prompt[prompt.rindex("\\n\\n{{") :])
task = "JudgeSupportLevel" if "chunks" in inputs else "DecomposeQuestion"
if "answer" in inputs:
    task = "NuggetizeAnswer"
elif "chunks" not in inputs and '"answer"' in prompt:
    task = "AnswerClosedBook"
open({{log!r}}, "a").write(json.dumps([task, sys.argv[1:]]) + "\\n")
print("Here it is:", json.dumps(SCRIPTS[task](inputs)))
"""


@pytest.fixture(autouse=True)
def _replies_are_below_the_tests_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], str]:
    """Write a program, and give the name of the model that it is."""

    def write(code: str) -> str:
        path = tmp_path / "a model.py"
        path.write_text(code)
        return f"command/{shlex.join([sys.executable, str(path)])}"

    return write


def asked(name: str, **settings: Any) -> str:
    lm = connect(ModelConfig(name=name, **{"retries": 0, **settings}), store="replies")
    request = Request(
        model=name,
        system="Be brief.",
        messages=(Message.user("Hello?"),),
        config=Config(max_tokens=100),
    )
    return str(lm(request).text)


def test_a_command_builds_a_collection_and_a_replay_needs_no_program(
    tmp_path: Path, command: Callable[[str], str]
) -> None:
    log = tmp_path / "asked.jsonl"
    name = command(ANSWERING.replace("{log!r}", repr(str(log)))) + " --of '[judge] model'"
    config = load_config(write_domain(tmp_path / "domain", model={"name": name}))
    planned = plan(config).total.requests

    made = build(config)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (tmp_path / "a model.py").unlink()
    replayed = build(config, mode="replay", replace=True)

    assert len(lines) == planned == sum(one.calls for one in made.manifest.ledger.values())
    assert lines[0] == ["NuggetizeAnswer", ["--of", "[judge] model"]]
    assert made.manifest.counts.supported > 0 == made.manifest.counts.failures.get("support", 0)
    assert made.labels_by == f"labels by {name}"
    assert replayed.manifest.content_hash == made.manifest.content_hash


def test_the_prompt_is_the_system_message_and_the_turns(command: Callable[[str], str]) -> None:
    echo = "import sys; print(sys.stdin.read(), end='')"
    assert asked(command(echo)) == "Be brief.\n\nHello?"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import sys; sys.exit('no\\x1b[31m credits for sk-secret-key by proxy-pass-1')",
            r"exit code 1: no.*\[key\].*\[key\]",
        ),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("pass", "it wrote nothing"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
        ("while True: print('x' * 65536)", "more than 16 MiB"),
        ("import sys; sys.stderr.write('e' * 9_000_000 + 'end'); sys.exit(3)", "exit code 3: e"),
    ],
    ids=["exit code", "signal", "nothing", "encoding", "endless", "errors"],
)
def test_a_command_that_fails_is_a_failure(
    command: Callable[[str], str], code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "sk-secret-key")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:proxy-pass-1@127.0.0.1:9")
    name = command(code)
    for _ in range(2):  # it is recorded, and asked again
        with pytest.raises(ReplyError, match=said) as error:
            asked(name)
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 1000


def test_a_command_that_is_late_is_killed_with_what_it_started(
    tmp_path: Path, command: Callable[[str], str]
) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(ReplyError, match="no whole reply within timeout = 3 s"):
        asked(command(code), timeout=3)

    deadline = time.monotonic() + 5
    while any(map(_runs, pids.read_text().split())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, pids.read_text().split()))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("name", ["command/", "command/no-such-program -x", "command/'"])
def test_a_program_that_is_not_there_stops_before_anything_is_asked(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(FatalModelError, match="name is"):
        build(domain(tmp_path, model=BASELINE, judge={"model": name}))


def test_no_program_is_run_that_a_saved_program_names(
    tmp_path: Path, command: Callable[[str], str]
) -> None:
    """Neither one of DSPy's own LM nor of ours: both may be files of strangers."""
    flag = tmp_path / "ran"
    name = command(f"open({str(flag)!r}, 'w')")
    saved, config = SupportJudge(), domain(tmp_path / "domain", model=BASELINE)

    saved.set_lm(dspy.LM(name))
    saved.save(tmp_path / "plain.json")
    loaded = SupportJudge()
    loaded.load(tmp_path / "plain.json")
    with pytest.raises(ConfigError, match="is a program to run, and not taken from a saved"):
        build(config, programs={"support_judge": loaded})

    ours = Nuggetizer()
    ours.set_lm(connect(name, store=tmp_path / "replies"))
    ours.save(tmp_path / "ours.json")
    with pytest.raises(ConfigError, match="is a program to run"):
        Nuggetizer().load(tmp_path / "ours.json", allow_unsafe_lm_state=True)
    with pytest.raises(ConfigError, match="is a program to run"), dspy.context(lm=dspy.LM(name)):
        build(BuildConfig(**{**dict(config), "model": ModelConfig()}))

    assert not flag.exists()
