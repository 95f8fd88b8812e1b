"""Every command prints JSON on request, and nothing else on standard output."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from freshstack_dspy import Collection
from freshstack_dspy.cli.app import app
from tests.recipes.domain import write_domain

from .conftest import Command

BOARD = """
name = "Board"
[collections.small]
path = "../collection"
[[entries]]
name = "bm25"
type = "open_source"
date = 2026-11-01
runs = { small = "bm25.run" }
"""
WORDS = """
init new.toml
plan build.toml
build build.toml
status build.toml
doctor build.toml
stale build.toml
refresh build.toml
index build.toml
search build.toml pip
retrieve collection --retriever bm25 --out bm25.run
retrieve collection --retriever lsa --out lsa.run
fuse bm25.run lsa.run --out fused.run
topics collection
topics collection --out topics.jsonl
rechunk collection --max-tokens 64 --out cut
extend collection fused.run --config build.toml --k 2
rejudge collection --config build.toml --sample 2
evaluate collection bm25.run
compare collection bm25.run lsa.run
gate collection --baseline bm25.run --run bm25.run
analyze collection bm25.run
report collection bm25.run lsa.run
steps collection agent.jsonl
answer collection bm25.run --config build.toml --out answers --k 1
contexts collection bm25.run --config build.toml --samples 3
score agreement answers/agreement.jsonl
retrieve collection --retriever bm25 --out board/bm25.run
leaderboard board
audit collection
skill
show collection
explain collection QUERY CHUNK
diagnose collection
diff collection collection
export collection --format beir --out beir
import beir --format beir --out imported
validate collection
sample collection --out tasks.jsonl --limit 4
import-labels agreeing.jsonl --collection collection --out checked.jsonl
agree collection agreeing.jsonl
optimize build.toml labels.jsonl --out judge.json --optimizer labeled
suggest build.toml
questions build.toml
synthesize corpus/docs --config build.toml --out asked.jsonl
decontextualize corpus/docs --config build.toml --out passages.jsonl
replies export build.toml --out saved.jsonl
replies import saved.jsonl build.toml
replies verify saved.jsonl
requests next waits/deferred.toml
requests next waits/deferred.toml --out next.md
requests answer waits/deferred.toml --from none.jsonl
requests submit waits/deferred.toml --dry-run
requests status waits/deferred.toml
"""
SERVES = {"label"}  # tests/labelling has it


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command


ALL = dict(commands(get_command(app)))


def test_every_command_has_the_option() -> None:
    assert [
        name
        for name, command in ALL.items()
        if "--json" not in {option for each in command.params for option in each.opts}
    ] == []


def test_every_command_prints_one_json_value(
    freshstack: Command, built_config: Path, labels: Path, labels_of_built: Path, tmp_path: Path
) -> None:
    judgment = next(iter(Collection.load(tmp_path / "collection").judgments))
    words_of = WORDS.replace("QUERY CHUNK", f"{judgment.query_id} {judgment.chunk_id}")
    folder = tmp_path / "board"
    folder.mkdir()
    (folder / "leaderboard.toml").write_text(BOARD)
    search = {"query_id": judgment.query_id, "search": "pip", "results": [judgment.chunk_id]}
    (tmp_path / "agent.jsonl").write_text(json.dumps(search))
    (tmp_path / "none.jsonl").write_text("")
    write_domain(tmp_path / "waits", model={"name": "openai/gpt-5-mini"})
    (tmp_path / "waits/build.toml").rename(tmp_path / "waits/deferred.toml")
    assert freshstack("build", tmp_path / "waits/deferred.toml", "--mode", "defer").code == 3
    faults, ran = {}, set()
    for line in words_of.strip().splitlines():
        words = shlex.split(line)
        name = next(each for each in (" ".join(words[:2]), words[0]) if each in ALL)
        done = freshstack(*words, "--json")
        ran.add(name)
        try:
            value = json.loads(done.out)
        except ValueError:
            faults[line] = done
            continue
        for path in value.get("written", ()) if isinstance(value, dict) else ():
            assert (tmp_path / path).exists(), line
    assert faults == {}
    assert ran | SERVES == ALL.keys()
