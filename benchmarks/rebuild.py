"""A whole rebuild of an unchanged collection, and a build of one question more.

    python benchmarks/rebuild.py [QUERIES]

By default 1,000 questions over the source files of installed packages, answered by a script in
this process: some five nuggets for each answer, and judgments by a hash. Prints one JSON line for
each figure: name, value, goal, holds. Seconds are of this process's CPU, which other processes
cannot change much, and of the clock.
"""

import hashlib
import json
import random
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, load_config
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.recipes.build import build

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

PACKAGES = ("pydantic", "httpx", "rich", "typer", "tenacity", "diskcache")
NUGGETS = 5
WORDS = re.compile(r"[A-Za-z_]{4,}")


class Scripted:
    """Answers in no time, and counts its requests."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._guard = threading.Lock()

    def complete(self, request: "Request") -> "Response":
        """Answer one request."""
        from dspy.lm15 import Message, Response, Usage

        task = str((request.config.response_format or {}).get("name"))
        inputs = json.loads(request.messages[0].text or "")  # also where a reply was sent back
        with self._guard:
            self.calls[task] += 1
        text = json.dumps(ANSWERS[task](inputs))
        usage = Usage(input_tokens=1000, output_tokens=100)
        message = Message.assistant(text)
        return Response(
            id=None, model=request.model, message=message, finish_reason="stop", usage=usage
        )


def supports(nugget: str, chunk: str) -> bool:
    """One pair in eight, always the same."""
    return hashlib.sha256(f"{nugget}\n{chunk}".encode()).digest()[0] < 32


ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "NuggetizeAnswer": lambda inputs: {
        "nuggets": [
            {"quote": text, "text": text, "importance": "vital", "doubtful": False}
            for text in inputs["answer"].split(". ")
        ]
    },
    "DecomposeQuestion": lambda inputs: {
        "sub_questions": inputs["question"]["title"].split(". ")[:3]
    },
    "AnswerClosedBook": lambda inputs: {"answer": f"Perhaps: {inputs['question']['title']}"},
    "JudgeSupportLevel": lambda inputs: {
        "verdicts": [
            {
                "chunk": chunk["number"],
                "reason": "The chunk defines what the nugget names and shows how it is called.",
                "supported": [
                    {"nugget": nugget["number"], "grade": 2, "quotes": [chunk["text"].split()[0]]}
                    for nugget in inputs["nuggets"]
                    if supports(nugget["text"], chunk["text"])
                ],
            }
            for chunk in inputs["chunks"]
        ]
    },
}


def figure(name: str, value: object, goal: object = None, *, holds: bool | None = None) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def timed(function: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return {
        "cpu": round(time.process_time() - cpu, 3),
        "wall": round(time.perf_counter() - wall, 3),
    }, result


def questions(folder: Path, number: int) -> Iterator[dict[str, str]]:
    """Questions in the corpus's own words, so that they find something."""
    chance = random.Random(0)
    texts = [path.read_text(errors="replace") for path in sorted(folder.rglob("*.py"))]
    words = [found for found in map(WORDS.findall, texts) if len(found) > 100]

    def sentence(source: list[str]) -> str:
        return " ".join(chance.choices(source, k=8))

    for position in range(number):
        asked, answering = chance.sample(words, 2)  # an answer is more than its question again

        yield {
            "query_id": str(position),
            "title": f"How does {sentence(asked)} work?",
            "body": ". ".join(sentence(asked) for _ in range(4)),
            "answer": ". ".join(sentence(answering) for _ in range(NUGGETS)),
        }


def written(folder: Path, asked: list[dict[str, str]]) -> BuildConfig:
    lines = "".join(json.dumps(question) + "\n" for question in asked)
    (folder / "questions.jsonl").write_text(lines)
    (folder / "build.toml").write_text(
        'name = "rebuild"\nout = "collection"\n[queries]\npath = "questions.jsonl"\n'
        '[model]\nname = "openai/scripted"\n[[corpus]]\nname = "packages"\npath = "corpus"\n'
    )
    return load_config(folder / "build.toml")


def folder_with_corpus(scratch: Path, packages: Sequence[str]) -> Path:
    installed = Path(sysconfig.get_paths()["purelib"])
    for name in packages:
        shutil.copytree(installed / name, scratch / "corpus" / name)
    return scratch


def main() -> None:
    tiny = sys.argv[1:] == ["--tiny"]
    number = 3 if tiny else int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as scratch:
        folder = folder_with_corpus(Path(scratch), PACKAGES[-1:] if tiny else PACKAGES)
        asked = list(questions(folder / "corpus", number + 1))
        config = written(folder, asked[:number])
        provider = Scripted()
        seconds, made = timed(lambda: build(config, provider=provider))
        calls = provider.calls.total()
        figure("first build, seconds", seconds)
        figure("counts", made.manifest.counts.model_dump(include={"chunks", "judgments", "pool"}))
        figure("calls", dict(provider.calls))
        again(config, made, calls)
        appended(folder, asked)


def again(config: BuildConfig, made: Collection, calls: int) -> None:
    """Rebuild the same, without and with what stands."""
    (place,) = (path for path in config.index.path.iterdir() if path.name[0] != ".")
    opening, _ = timed(lambda: HybridIndex.open(place))
    figure("index opened alone, seconds", opening)
    reading, _ = timed(lambda: Collection.load(config.out))
    figure("collection read alone, seconds", reading)
    shutil.rmtree(config.out)
    replaying, replayed = timed(lambda: build(config, mode="replay", provider=Scripted()))
    same = replayed.manifest.content_hash == made.manifest.content_hash
    figure("replay from nothing, seconds", replaying)
    figure("replay from nothing, typed calls per second of CPU", round(calls / replaying["cpu"]))
    figure("replay from nothing, same content hash", same, True, holds=same)
    for mode in ("live", "replay"):
        provider = Scripted()
        seconds, _ = timed(lambda: build(config, mode=mode, provider=provider))  # noqa: B023
        goal = round(1 + opening["cpu"], 3)
        holds = seconds["cpu"] < goal and not provider.calls
        figure(f"unchanged, {mode}, seconds", seconds, f"cpu < {goal}", holds=holds)


def appended(folder: Path, asked: list[dict[str, str]]) -> None:
    """Build one question more."""
    config, provider = written(folder, asked), Scripted()
    seconds, collection = timed(lambda: build(config, provider=provider))
    added = asked[-1]["query_id"]
    pooled = sum(candidate.query_id == added for candidate in collection.pool)
    its_own = 4 + -(-pooled // config.judge.batch)
    calls = provider.calls.total()
    figure("one question more, seconds", seconds)
    figure("one question more, calls", calls, its_own, holds=calls == its_own)


if __name__ == "__main__":
    main()
