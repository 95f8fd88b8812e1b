"""Measure what a user would pick instead, in one run, and write the tables of docs/peers.md.

    python benchmarks/peers/peers.py --install   # an environment for each peer, in .venv-peers
    python benchmarks/peers/peers.py             # measures, writes peers.json and the page: 10 minutes
    python benchmarks/peers/peers.py --page      # writes the page from peers.json
    python benchmarks/peers/peers.py --tiny      # prints, writes nothing; peers of this environment

Every peer does the same job by its own public way (`peer_jobs.py`), each round in a process of its
own, in turns; the best round counts. Judges ask `chat_server.py` on the loopback.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import peer_jobs

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
from chat_server import counts, serving  # noqa: E402

ENVIRONMENTS = ROOT / ".venv-peers"
RECORDED, PAGE = Path(__file__).with_name("peers.json"), ROOT / "docs/peers.md"
BEGIN, END = "<!-- written by benchmarks/peers/peers.py -->", "<!-- end -->"
OURS = "freshstack_dspy"
PINS = {
    OURS: [str(ROOT), "--constraint", str(ROOT / "constraints.txt")],
    "ragas": ["ragas==0.4.3", "langchain-community<0.4"],  # with 0.4 it cannot be imported
    "deepeval": ["deepeval==4.3.1"],
    "mlflow": ["mlflow==3.17.2"],
    "benchmark-qed": ["benchmark-qed==0.4.0"],
    "data-designer": ["data-designer==0.9.7"],
    "bespokelabs-curator": ["bespokelabs-curator==0.1.31"],
    "inspect-ai": ["inspect-ai==0.3.285", "openai"],
    "dspy": ["dspy==3.4.1"],
    "instructor": ["instructor==1.17.0"],
    "notorious": ["notorious==0.0.1"],
    "retrieval-eval": ["retrieval-eval==0.1.1"],
    "AutoRAG": ["AutoRAG==0.3.27"],
    "freshstack": [
        *("freshstack==0.0.6", "litellm", "nbconvert", "pygments", "semchunk", "tiktoken"),
        *("transformers", "tree-sitter", "tree-sitter-language-pack==0.13.0"),
    ],
    "langchain-text-splitters": ["langchain-text-splitters==1.1.3", "tiktoken"],
    "chonkie": ["chonkie==1.7.0", "tiktoken"],
    "llama-index-core": ["llama-index-core==0.14.25", "tiktoken"],
    "pytrec-eval-terrier": ["pytrec-eval-terrier==0.5.11"],
    "ir-measures": ["ir-measures==0.4.3"],
    "ranx": ["ranx==0.3.21"],
    "bm25s": ["bm25s==0.3.16", "PyStemmer"],
    "tantivy": ["tantivy==0.27.0"],
    "lancedb": ["lancedb==0.40.0"],
}
"""What is installed for each peer."""
INSTALL = "pip install --quiet --compile-bytecode --link-mode copy".split()
"""Copies, for NLTK, which LlamaIndex brings, refuses files with several links."""
MOST_SECONDS, MOST_OFFLINE = 240, 45
"""After so long a round counts as without a result; to read a cache takes a few seconds."""


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int = 2
    calls: int = 300
    in_flight: int = 32
    latency: float = 0.1
    closed: float = 2.0
    """Seconds for which the server refuses."""
    lasting: int = 96
    """Calls of a run that is refused or killed."""
    chunked: int = 4_000_000
    """Bytes."""
    chunks: int = 10_000
    queries: int = 200
    judged: int = 672
    """Queries of the run that is measured."""


TINY = Sizes(1, 16, 8, 0.02, 1.0, 24, 100_000, 100, 5, 20)


def python_of(peer: str) -> Path | None:
    """The Python that has the peer: one of its own, or ours; None where it is not installed."""
    own = ENVIRONMENTS / peer / "bin/python"
    if own.exists():
        return own
    try:
        version(peer)
    except PackageNotFoundError:
        return None
    return Path(sys.executable)


def install() -> None:
    """Make the environments, with compiled bytecode."""
    uv = [sys.executable, "-m", "uv"]
    for peer, wanted in PINS.items():
        place = ENVIRONMENTS / peer
        if not place.exists():
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
        pip = [*uv, *INSTALL, "--python", place]
        ours = ["--reinstall-package", OURS] if peer == OURS else []
        subprocess.run([*pip, *ours, *wanted], check=True)
        print(peer, flush=True)


def megabytes(peer: str) -> float | None:
    """What the peer's environment has, without bytecode; None where it has none of its own."""
    files = (ENVIRONMENTS / peer).rglob("*")
    sizes = [one.stat().st_size for one in files if one.suffix != ".pyc" and one.is_file()]
    return sum(sizes) / 1e6 if sizes else None


def started(
    job: str, peer: str, settings: dict[str, Any], folder: Path, *, key: str = "none"
) -> tuple["subprocess.Popen[bytes]", Path]:
    """Begin a job in the peer's environment; give its process, and where its result will be."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "PYTHON"))}
    environment |= {"HOME": str(folder), "TIKTOKEN_CACHE_DIR": str(tokens_of_litellm())}
    environment |= {"PYTHONPATH": str(ROOT)} if peer == OURS else {}
    environment |= {"OPENAI_API_KEY": key} if key else {}
    script = Path(peer_jobs.__file__)
    command = [python_of(peer), script, job, peer, result, json.dumps(settings)]
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, result


def done(
    job: str,
    peer: str,
    settings: dict[str, Any],
    folder: Path,
    *,
    key: str = "none",
    most: int = MOST_SECONDS,
) -> dict[str, Any] | None:
    """A job's result; None where it failed or took too long, which is a finding."""
    process, result = started(job, peer, settings, folder, key=key)
    try:
        process.wait(most)
    except subprocess.TimeoutExpired:
        stop(process)
    if not result.exists():
        lines = (folder / "output.txt").read_text(errors="replace").splitlines()
        print(f"{job}, {peer}: no result: {' '.join(lines[-1:])[:200]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def tokens_of_litellm() -> Path:
    """Where LiteLLM has the tokens of cl100k_base, which tiktoken would download."""
    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "litellm_core_utils/tokenizers"


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Kill it and what it began."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder; what a killed process still writes into it is no fault."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def asking(api_base: str, folder: Path, in_flight: int, latency: float) -> dict[str, Any]:
    return {
        "api_base": api_base,
        "in_flight": in_flight,
        "latency": latency,
        "folder": str(folder),
    }


def quickest(peer: str, sizes: Sizes) -> dict[str, Any] | None:
    """Judge `calls` claims, after eight for connections and compiled code."""
    with serving(sizes.latency) as api_base, scratch() as folder:
        settings = asking(api_base, folder, sizes.in_flight, sizes.latency)
        found = done("calls", peer, settings | {"count": sizes.calls, "warm": 8}, folder)
        return found and {**found, "requests": counts(api_base)["taken"] - 8}


def refused(peer: str, sizes: Sizes) -> dict[str, Any]:
    """A server that at first refuses all, and says for how long."""
    with serving(0.05, sizes.closed) as api_base, scratch() as folder:
        settings = asking(api_base, folder, 8, 0.05) | {"count": sizes.lasting}
        found = done("calls", peer, settings, folder)
        lost = sizes.lasting - found["judged"] if found else sizes.lasting
        return {"lost": lost, "refused": counts(api_base)["refused"]}


def killed(peer: str, sizes: Sizes) -> dict[str, Any]:
    """Killed when half is asked, then run again; at last without the server, and without a key."""
    with scratch() as folder:
        with serving(0.2) as api_base:
            settings = asking(api_base, folder, 8, 0.2) | {"count": sizes.lasting}
            process, _ = started("calls", peer, settings, folder)
            last = time.monotonic() + MOST_SECONDS
            while (
                counts(api_base)["taken"] < sizes.lasting // 2
                and process.poll() is None
                and time.monotonic() < last
            ):
                time.sleep(0.01)
            stop(process)
            found = done("calls", peer, settings, folder)
            twice = counts(api_base)["taken"] - sizes.lasting
        again = offline(peer, settings, folder)
    whole = found is not None and found["judged"] == sizes.lasting
    return {"paid_twice": twice if whole else None, "offline": again}


def offline(peer: str, settings: dict[str, Any], folder: Path) -> str:
    """Whether a run without the server gives all again: without a key, or only with any."""
    for key, answer in (("", "yes"), ("none", "with any key")):
        found = done("calls", peer, settings, folder, key=key, most=MOST_OFFLINE)
        if found and found["judged"] == settings["count"]:
            return answer
    return "no"


def judges(sizes: Sizes) -> dict[str, Any]:
    """The table of calls."""
    wanted = [peer for peer in peer_jobs.JUDGES if present(peer)]
    rows: dict[str, Any] = {}
    for _ in range(sizes.rounds):
        for peer in wanted:
            if found := quickest(peer, sizes):
                best = rows.setdefault(peer, found)
                for name in ("seconds", "cpu", "ready_cpu"):
                    best[name] = min(best[name], found[name])
    for peer, row in rows.items():
        row["megabytes"] = megabytes(peer)
        row.update(refused(peer, sizes) | killed(peer, sizes))
        say("calls", peer, row)
    return rows


def present(peer: str) -> bool:
    """Whether it is installed; says so where it is not."""
    if python_of(peer) is None:
        print(f"skipped: {peer} is not installed: make peers", flush=True)
    return python_of(peer) is not None


def say(job: str, peer: str, row: dict[str, Any]) -> None:
    print(json.dumps({"name": f"peers.{job}.{peer}", **row}), flush=True)


def others(sizes: Sizes) -> dict[str, Any]:
    """Chunking, measures and search."""
    import measures
    import retrieval
    from timing import files

    chunks = retrieval.corpus(sizes.chunks)
    searched = {
        "texts": [chunk.text for chunk in chunks],
        "queries": retrieval.queries(chunks, sizes.queries, 8),
    }
    qrels, run = measures.collection(sizes.judged)
    judged = {
        "qrels": {
            query: {
                chunk: max(qrels.labels[nugget].get(chunk, 0) for nugget in nuggets)
                for chunk in qrels.labels[nuggets[0]]
            }
            for query, nuggets in qrels.nuggets.items()
        },
        "run": {
            query: {hit.chunk_id: hit.score for hit in hits} for query, hits in run.rankings.items()
        },
    }
    python = [content.decode() for _, content in files(sizes.chunked, ".py")]
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for job, peers, data in (
            ("chunking", peer_jobs.CHUNKERS, python),
            ("measuring", peer_jobs.EVALUATORS, judged),
            ("searching", peer_jobs.SEARCHERS, searched),
        ):
            written = Path(place, job)
            written.write_text(json.dumps(data), encoding="utf-8")
            tables[job] = in_turns(job, list(peers), str(written), sizes.rounds)
    ratio = round(measures.next_to_the_official_one(), 1)
    tables["official"] = {"times_faster_than_official": ratio}
    say("official", "freshstack", tables["official"])
    return tables


def in_turns(job: str, peers: list[str], data: str, rounds: int) -> dict[str, Any]:
    """Each peer's round with the least processor time."""
    rows: dict[str, Any] = {}
    wanted = [peer for peer in peers if present(peer)]
    for _ in range(rounds):
        for peer in wanted:
            with scratch() as folder:
                found = done(job, peer, {"data": data}, folder)
            if found and found["cpu"] <= rows.get(peer, found)["cpu"]:
                rows[peer] = found
    for peer, row in rows.items():
        say(job, peer, row)
    return rows


def about(found: dict[str, Any]) -> str:
    """When, where, with what, and the one comparison that is a sentence."""
    official = found["official"]
    return (
        f"Measured on {found['date']}: Python {found['python']}, {found['cores']} cores, load "
        f"{found['load'][0]:.1f} at the beginning and {found['load'][1]:.1f} at the end; "
        f"{found['calls']} calls, {found['in_flight']} in flight, {found['latency'] * 1000:.0f} ms "
        f"each. FreshStack's three measures: the official evaluator takes "
        f"{official['times_faster_than_official']} times as long as ours."
    )


def table(head: str, rows: list[list[str]]) -> str:
    names = head.split(" | ")
    lines = [names, ["---"] + ["--:"] * (len(names) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def calls_table(found: dict[str, Any]) -> str:
    """Judge calls, and what is lost."""
    calls, lasting = found["calls"], found["lasting"]
    ideal = calls * found["latency"] / found["in_flight"]
    head = (
        "judge | MB | ready, s | wall / ideal | CPU a call, ms | peak, MB | lost at 429 | refused "
        "| paid twice | offline"
    )
    rows = [
        [
            f"{peer} {row['version']}",
            "–" if row["megabytes"] is None else f"{row['megabytes']:,.0f}",
            f"{row['ready_cpu']:.1f}",
            f"{row['seconds'] / ideal:.2f}",
            f"{row['cpu'] / calls * 1000:.1f}",
            f"{row['peak_mb']:.0f}",
            f"{row['lost']} of {lasting}",
            f"{row['refused']}",
            "not whole" if row["paid_twice"] is None else f"{row['paid_twice']} of {lasting}",
            row["offline"],
        ]
        for peer, row in found["judges"].items()
    ]
    return table(head, rows)


def others_tables(found: dict[str, Any]) -> str:
    """Chunking, measures and search."""
    named = {
        job: [(f"{peer} {row['version']}", row) for peer, row in found[job].items()]
        for job in ("chunking", "measuring", "searching")
    }
    cut = [
        [
            name,
            f"{row['megabytes'] / row['cpu']:.2f}",
            *(f"{row[figure]:,}" for figure in ("chunks", "over", "inexact")),
        ]
        for name, row in named["chunking"]
    ]
    measured = [
        [name, f"{row['first'] * 1000:.0f}", f"{row['cpu'] * 1000:.0f}"]
        for name, row in named["measuring"]
    ]
    searched = [
        [name, f"{row['build']:.1f}", f"{row['cpu']:.2f}"] for name, row in named["searching"]
    ]
    return "\n\n".join(
        [
            table("chunker | MB a second | chunks | over 512 tokens | not verbatim", cut),
            table("nDCG@10, Recall@50, RR | first call, ms | best call, ms", measured),
            table("words, BM25 | build, s | 200 queries, s", searched),
        ]
    )


def page(found: dict[str, Any]) -> str:
    """What stands between the markers of docs/peers.md."""
    return "\n\n".join([about(found), calls_table(found), others_tables(found)])


def write_page() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    found = json.loads(RECORDED.read_text(encoding="utf-8"))
    text = f"{before}{BEGIN}\n\n{page(found)}\n\n{END}{rest.partition(END)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def measured(sizes: Sizes) -> dict[str, Any]:
    """Everything."""
    before = os.getloadavg()[0]
    tables = {"judges": judges(sizes), **others(sizes)}
    return {
        "date": f"{datetime.now(UTC):%d %B %Y}",
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "load": [before, os.getloadavg()[0]],
        **{name: getattr(sizes, name) for name in ("calls", "in_flight", "latency", "lasting")},
        **tables,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("install", "page", "tiny"):
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    if chosen.install:
        install()
    elif chosen.page:
        write_page()
    else:
        found = measured(TINY if chosen.tiny else Sizes())
        print(page(found))
        if not chosen.tiny:
            RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            write_page()


if __name__ == "__main__":
    main()
