"""`freshstack optimize`: the baseline on TREC RAG 2024, and GEPA and MIPROv2 over HTTP with faults.

TREC: a row of the data is a full answer with people's assignment of each nugget to it; the answer
is the chunk, and any support counts. Read from ../shared/data; without it, a few labels of its own.
HTTP: a server on the loopback answers from a table: 429, truncated and invalid replies among them.
A run is killed and started again, and replayed without the server; a second one is not disturbed.
Prints one JSON line for each measurement: name, value, goal, holds.

    python benchmarks/optimize.py [--tiny] [--http]
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from freshstack_dspy.calibration.optimization import OPTIMIZERS, WRITERS, optimize
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.files import encode_records
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import HumanLabel

DATA = (
    Path(__file__).resolve().parent.parent.parent
    / "shared/data/trec-rag24-nugget-assignments/assignments.jsonl"
)
GRADES = {"support": 2, "partial_support": 1, "not_support": 0}
THINGS = "dial moon ring bell hinge lamp valve drum gear wick sail rope oar keel mast plank".split()
CONCURRENCY = 4


def measured(name: str, value: object, goal: object = None) -> None:
    holds = None if goal is None else value == goal
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def assignments(path: Path) -> list[HumanLabel]:
    """Read the assignments as labels that carry their texts."""
    labels = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        labels += [
            HumanLabel(
                query_id=row["qid"],
                nugget_id=f"{row['qid']}_{number}",
                chunk_id=f"{row['run_id']}/{row['qid']}",
                label=GRADES[nugget["assignment"]],
                annotator="NIST",
                question=row["query"],
                nugget=nugget["text"],
                chunk=row["answer_text"],
            )
            for number, nugget in enumerate(row["nuggets"])
        ]
    return labels


def made_up(queries: int) -> list[HumanLabel]:
    """Labels of made-up questions, each with chunks that state its fact, half of it, and none."""
    labels = []
    for number, thing in enumerate(THINGS[:queries]):
        fact = f"The {thing} has {number + 2} parts."
        for label, chunk in enumerate(("Nothing of the kind.", f"Of a {thing}.", f"Yes. {fact}")):
            labels.append(
                HumanLabel(
                    query_id=str(number),
                    nugget_id=f"{number}_0",
                    chunk_id=f"{number}/{label}",
                    label=label if label != 1 else number % 2,
                    annotator="made up",
                    question=f"What of the {thing}?",
                    nugget=fact,
                    chunk=chunk,
                )
            )
    return labels


def with_the_baseline(labels: list[HumanLabel]) -> None:
    measured("labels", len(labels))
    few_shot = [one for one in OPTIMIZERS if one not in WRITERS]
    for optimizer, metric, miss_cost in (
        *((one, "kappa", 1) for one in few_shot),
        ("labeled", "expected_cost", 5),
        ("labeled", "expected_cost", 0.2),
    ):
        with tempfile.TemporaryDirectory() as folder:
            store = ReplyStore(Path(folder))
            lm = connect(ModelConfig(), store=store)
            begun = time.monotonic()
            report = optimize(
                labels, lm, optimizer=optimizer, metric=metric, miss_cost=miss_cost
            ).report
            store.close()
        name = f"{optimizer}, {metric}, a miss costs {miss_cost}"
        measured(f"{name}: queries, pairs, failed", [report.queries, report.pairs, report.failed])
        measured(f"{name}: seconds", time.monotonic() - begun)
        measured(f"{name}: candidates, on dev", [report.candidates, report.dev])
        measured(f"{name}: unchanged", report.unchanged)
        for metric_on_test, of in report.test.items():
            ends = [[one.value, one.low, one.high] for _, one in of]
            measured(f"{name}: {metric_on_test} before, after, difference", ends)


class Table(ThreadingHTTPServer):
    """Answers by what is asked alone, but for a 429 at the first sight of some requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.served: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of connections that the killed process left."""

    def taken(self) -> Counter[str]:
        """What was served since this was last asked; all faults come again."""
        served, self.served = self.served, Counter()
        self._seen.clear()
        return served

    def reply(self, body: dict[str, Any]) -> tuple[int, str, str]:
        """Status, text and finish reason."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        number = int(digest, 16)
        with self._lock:
            if number % 9 == 0 and digest not in self._seen:
                self._seen.add(digest)
                self.served["429"] += 1
                return 429, "slow down", ""
            kind = {0: "truncated", 1: "invalid", 2: "invalid"}.get(number % 17, "valid")
            self.served[kind] += 1
        if kind == "truncated":
            return 200, '{"verd', "length"
        text = "no JSON {" if kind == "invalid" else self._answer(body["messages"], digest)
        return 200, text, "stop"

    def _answer(self, messages: list[dict[str, str]], digest: str) -> str:
        system = messages[0]["content"]
        inputs = next(
            (
                json.loads(m["content"])
                for m in messages[::-1]
                if '"nuggets"' in m["content"][:9999]
                and m["content"].startswith("{")
                and '"chunks"' in m["content"]
            ),
            None,
        )
        if inputs is None:
            # Each instruction differs; those of an even number make a judge that takes more care.
            said = f"Judge with care {int(digest, 16) % 10}."
            names = ("observations", "summary", "proposed_instruction", "new_instruction")
            if "JSON object" in system:
                return json.dumps(dict.fromkeys(names, said))
            sections = "".join(f"[[ ## {name} ## ]]\n{said}\n\n" for name in names)
            return f"{sections}[[ ## completed ## ]]"
        careful = any(f"care {even}." in system for even in "02468") + (len(messages) > 3)
        verdicts = []
        for chunk in inputs["chunks"]:
            supported = []
            for nugget in inputs["nuggets"]:
                full = nugget["text"] in chunk["text"]
                partial = not full and nugget["text"].split()[1] in chunk["text"]
                # With little care it misses most of the full, and takes every mention for some.
                luck = int(hashlib.sha256((chunk["text"] + system[:40]).encode()).hexdigest(), 16)
                if (careful or luck % 3 == 0) if full else partial and (luck + careful) % 3 != 1:
                    quote = nugget["text"] if full else chunk["text"]
                    supported.append(
                        {"nugget": nugget["number"], "grade": 1 + full, "quotes": [quote]}
                    )
            verdicts.append(
                {"chunk": chunk["number"], "reason": "By its words.", "supported": supported}
            )
        return json.dumps({"verdicts": verdicts})


class Handler(BaseHTTPRequestHandler):
    """Speaks the protocol of chat completions."""

    server: Table
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, text, finish = self.server.reply(body)
        message = {"role": "assistant", "content": text}
        found: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "table",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        if status != 200:
            found = {"error": {"message": text}}
        payload = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def killed_and_resumed(optimizer: str, queries: int) -> None:
    with tempfile.TemporaryDirectory() as name, Table() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        folder = Path(name)
        (folder / "labels.jsonl").write_bytes(encode_records(made_up(queries)))

        def start(store: str, out: str, *words: str) -> "subprocess.Popen[str]":
            (folder / f"{store}.toml").write_text(
                f'[model]\nname = "openai/table"\nconcurrency = {CONCURRENCY}\n'
                f'api_base = "http://127.0.0.1:{server.server_address[1]}/v1"\n'
                f'[cache]\npath = "{store}"\n'
            )
            command = ["optimize", f"{store}.toml", "labels.jsonl", "--out", out]
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "freshstack_dspy",
                    *command,
                    "--optimizer",
                    optimizer,
                    *words,
                ],
                cwd=folder,
                env={**os.environ, "OPENAI_API_KEY": "none", "PYTHONHASHSEED": "random"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        def finished(process: "subprocess.Popen[str]") -> Counter[str]:
            out, _ = process.communicate()
            if process.returncode:
                sys.exit(out)
            return server.taken()

        whole = finished(start("whole", "whole.json"))
        measured(f"{optimizer}: replies undisturbed", dict(sorted(whole.items())))
        process = start("killed", "killed.json")
        while server.served["valid"] < whole["valid"] // 2 and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.wait()
        time.sleep(0.2)
        half = server.taken()
        rest = finished(start("killed", "killed.json"))
        measured(f"{optimizer}: replies until killed", dict(sorted(half.items())))
        measured(f"{optimizer}: replies when started again", dict(sorted(rest.items())))
        twice = half["valid"] + rest["valid"] - whole["valid"]
        measured(f"{optimizer}: valid replies asked for again, in flight", twice)
        measured(f"{optimizer}: of them no more than in flight", twice <= CONCURRENCY, True)
        server.shutdown()
        server.server_close()
        replayed = finished(start("killed", "replayed.json", "--mode", "replay"))
        measured(f"{optimizer}: replies in the replay", replayed.total(), 0)
        programs = {
            one: (folder / f"{one}.json").read_text() for one in ("whole", "killed", "replayed")
        }
        measured(f"{optimizer}: different programs", len(set(programs.values())), 1)
        report = json.loads(programs["whole"])["freshstack_dspy"]["report"]
        scores = [report["test"]["kappa"][side]["value"] for side in ("before", "after")]
        measured(f"{optimizer}: kappa on test before, after; on dev", [scores, report["dev"]])
        measured(f"{optimizer}: candidates, unchanged", [report["candidates"], report["unchanged"]])


def main() -> None:
    tiny = "--tiny" in sys.argv
    if "--http" not in sys.argv:
        with_the_baseline(assignments(DATA) if DATA.exists() and not tiny else made_up(6))
    if "--http" in sys.argv or not tiny:
        for optimizer in WRITERS[:2] if tiny else (*WRITERS, "bootstrap_random"):
            killed_and_resumed(optimizer, 8 if tiny else len(THINGS))


if __name__ == "__main__":
    main()
