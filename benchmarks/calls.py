"""Measure calls of a model: typed calls a second, cold and replayed, next to DSPy's own.

Every call is the nuggetizer's question about an answer of about 2 KB; the loopback server runs in
a process of its own. Prints one JSON line for each value: {"name", "value", "goal", "holds"}; where
the value is a ratio, both of its sides are in the line.

    python benchmarks/calls.py [--tiny] [cold | latency | answered | race | replay | memory]…
"""

import asyncio
import contextlib
import json
import logging
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import dspy
from chat_server import QUOTE, serving

from freshstack_dspy.config import Mode, ModelConfig
from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.client import RecordedLM, connect
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import TypedAdapter
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.progress import NoProgress
from freshstack_dspy.recipes.sending import Sender
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
TINY = "--tiny" in sys.argv
CALLS = 32 if TINY else 2_000
IN_FLIGHT = 32
LATENCY = 0.02 if TINY else 0.2
RACE_RUNS, RACE_CALLS, RACE_IN_FLIGHT = (1, 64, 64) if TINY else (4, 512, 256)
_WORDS = "table column index query value option error file version path thread cache".split()


def inputs(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Questions and answers of a realistic size, all different."""
    rng = random.Random(seed)

    def prose(words: int) -> str:
        return " ".join(rng.choice(_WORDS) for _ in range(words))

    return [
        {
            "question": ShownQuestion(title=f"{seed}.{number} {prose(120)}"),
            "answer": f"{QUOTE} {prose(220)}",
            "limit": 10,
        }
        for number in range(count)
    ]


@contextlib.contextmanager
def client(
    folder: Path, api_base: str, *, mode: Mode = "live", provider: str = "openai", in_flight: int
) -> Iterator[RecordedLM]:
    """Open a client that records in a folder."""
    model = ModelConfig(
        name=f"{provider}/scripted",
        api_base=api_base,
        concurrency=in_flight,
        timeout=120,
        retries=2,
    )
    store = ReplyStore(folder)
    lm = connect(model, mode=mode, store=store)
    try:
        yield lm
    finally:
        lm.client.close()
        store.close()


def plain(api_base: str, *, engine: str | None = None, cache: bool = False) -> dspy.LM:
    """DSPy's own model, on its native engine or on LiteLLM."""
    chosen = {"engine": engine} if engine else {}
    return dspy.LM("openai/scripted", api_base=api_base, api_key="none", cache=cache, **chosen)


def run(
    program: Callable[..., Any], lm: Any, questions: list[dict[str, Any]], in_flight: int
) -> float:
    """Ask all; give the seconds. Every answer must hold the five nuggets."""
    adapter = TypedAdapter() if isinstance(lm, RecordedLM) else None
    with dspy.context(lm=lm, adapter=adapter, disable_history=True, trace=None):
        begun = time.perf_counter()
        answers = map_in_order(lambda values: program(**values), questions, workers=in_flight)
        seconds = time.perf_counter() - begun
    assert all(len(answer.nuggets) == 5 for answer in answers)
    return seconds


def report(name: str, value: float, goal: str, holds: bool, **sides: float) -> None:
    rounded = {side: round(number, 3) for side, number in sides.items()}
    line = {"name": name, "value": round(value, 3), "goal": goal, "holds": holds, **rounded}
    print(json.dumps(line), flush=True)


def cold(folder: Path) -> None:
    """Typed programs at 32 in flight, nothing recorded before, each reply recorded."""
    typed, thinking = dspy.Predict(NuggetizeAnswer), dspy.ChainOfThought(NuggetizeAnswer)
    rates: dict[str, float] = {}
    with serving() as api_base, client(folder / "cold", api_base, in_flight=IN_FLIGHT) as ours:
        contenders: list[tuple[str, Any, Any]] = [
            ("client", typed, ours),
            ("dspy_native", thinking, plain(api_base)),
            ("dspy_litellm", thinking, plain(api_base, engine="litellm")),
        ]
        for name, program, lm in contenders:
            run(program, lm, inputs(64, seed=1), IN_FLIGHT)  # connections, imports, compiled code
            rates[name] = CALLS / run(program, lm, inputs(CALLS), IN_FLIGHT)
    for other, least in (("dspy_litellm", 3.0), ("dspy_native", 0.75)):
        ratio = rates["client"] / rates[other]
        report(f"cold_over_{other}", ratio, f">= {least}", ratio >= least, **rates)


def latency(folder: Path) -> None:
    """64 in flight at 200 ms: how near to the time that the latency alone takes."""
    ideal = CALLS * LATENCY / 64
    with serving(LATENCY) as api_base, client(folder / "slow", api_base, in_flight=64) as lm:
        program = dspy.Predict(NuggetizeAnswer)
        run(program, lm, inputs(64, seed=1), 64)
        seconds = run(program, lm, inputs(CALLS), 64)
    ratio = seconds / ideal
    report("wall_over_ideal_64_in_flight", ratio, "<= 1.5", ratio <= 1.5, seconds=seconds)


def answered(folder: Path) -> None:
    """64 in flight at 200 ms: deferred requests answered, next to the live programs and plain HTTP."""
    calls, sides = min(CALLS, 1_000), dict[str, float]()
    ideal = calls * LATENCY / 64
    program, questions = dspy.Predict(NuggetizeAnswer), inputs(calls)

    def entered(name: str, did: Callable[[], Any]) -> None:
        begun, cpu = time.perf_counter(), time.process_time()
        did()
        sides[f"{name}_wall_over_ideal"] = (time.perf_counter() - begun) / ideal
        sides[f"{name}_cpu_ms"] = (time.process_time() - cpu) / calls * 1000

    with serving(LATENCY) as api_base:
        with client(folder / "live", api_base, in_flight=64) as lm:
            run(program, lm, inputs(64, seed=1), 64)
            entered("live", lambda: run(program, lm, questions, 64))
        with client(folder / "later", api_base, mode="defer", in_flight=64) as lm:
            for values in questions:
                with (
                    dspy.context(lm=lm, adapter=TypedAdapter()),
                    contextlib.suppress(DeferredError),
                ):
                    program(**values)
            keys, store = sorted(lm.client.deferred), lm.client.writable()
            bodies = [json.dumps(request.body()).encode() for request in store.deferred()]
        with client(folder / "later", api_base, in_flight=64) as lm:
            sender = Sender(lm.client, NoProgress(), 64)
            entered("answered", lambda: sender.answer(keys))
        assert sender.answered == calls
        entered("plain", lambda: asyncio.run(_posted(f"{api_base}/chat/completions", bodies, 64)))
    ratio = sides["answered_cpu_ms"] / sides["live_cpu_ms"]
    report("answered_cpu_over_live", ratio, "<= 1", ratio <= 1, **sides)


async def _posted(url: str, bodies: list[bytes], in_flight: int) -> None:
    """What a script of twenty lines does: no retry, no key, nothing recorded."""
    left = iter(bodies)

    async def post_all(asking: aiohttp.ClientSession) -> None:
        for body in left:
            async with asking.post(url, data=body) as reply:
                assert (await reply.json())["choices"]

    async with aiohttp.ClientSession() as asking:
        await asyncio.gather(*(post_all(asking) for _ in range(in_flight)))


def race(folder: Path) -> None:
    """256 threads, again and again, through both engines: no hang, no lost call."""
    for provider, engine in (("openai", "native"), ("together_ai", "litellm")):
        slowest = 0.0
        for number in range(RACE_RUNS):
            place = folder / f"race-{engine}-{number}"
            with (
                serving(LATENCY) as api_base,
                client(place, api_base, provider=provider, in_flight=RACE_IN_FLIGHT) as lm,
            ):
                program = dspy.Predict(NuggetizeAnswer)
                seconds = run(program, lm, inputs(RACE_CALLS, seed=number), RACE_IN_FLIGHT)
                asked = lm.ledger.steps()["other"].calls
            assert asked == RACE_CALLS, f"{asked} calls for {RACE_CALLS} questions"
            slowest = max(slowest, seconds)
        report(f"race_{engine}_runs", RACE_RUNS, "all end, none lost", True, slowest=slowest)


def replay(folder: Path) -> None:
    """Recorded replies through the programs, against DSPy's hits in its own cache."""
    questions = inputs(CALLS)
    dspy.configure_cache(disk_cache_dir=str(folder / "dspy"), enable_memory_cache=False)
    predict = typed = dspy.Predict(NuggetizeAnswer)
    with serving() as api_base:
        cached = plain(api_base, cache=True)
        run(predict, cached, questions, IN_FLIGHT)
        with client(folder / "replay", api_base, in_flight=IN_FLIGHT) as lm:
            run(typed, lm, questions, IN_FLIGHT)
    with client(folder / "replay", api_base, mode="replay", in_flight=IN_FLIGHT) as lm:
        for workers in (1, IN_FLIGHT):
            ours = CALLS / min(run(typed, lm, questions, workers) for _ in range(3))
            theirs = CALLS / min(run(predict, cached, questions, workers) for _ in range(3))
            dspy.configure_cache(disk_cache_dir=str(folder / "dspy"), enable_memory_cache=True)
            run(predict, cached, questions, workers)
            memory = CALLS / min(run(predict, cached, questions, workers) for _ in range(3))
            dspy.configure_cache(disk_cache_dir=str(folder / "dspy"), enable_memory_cache=False)
            ratio = ours / theirs
            sides = {"client": ours, "dspy_disk": theirs, "dspy_memory": memory}
            report(f"replay_over_dspy_hits_{workers}", ratio, ">= 0.8", ratio >= 0.8, **sides)


def memory(folder: Path) -> None:
    """How much resident memory grows by eight times as many calls."""
    with serving() as api_base, client(folder / "memory", api_base, in_flight=IN_FLIGHT) as lm:
        program = dspy.Predict(NuggetizeAnswer)
        for number in range(2):
            run(program, lm, inputs(CALLS, seed=number), IN_FLIGHT)
        before = _peak()
        for number in range(2, 10):
            run(program, lm, inputs(CALLS, seed=number), IN_FLIGHT)
        grown = _peak() - before
    report(f"memory_grown_by_{8 * CALLS}_calls_mb", grown, "<= 20", grown <= 20, before=before)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


PARTS = {
    "cold": cold,
    "latency": latency,
    "answered": answered,
    "race": race,
    "replay": replay,
    "memory": memory,
}


def main() -> None:
    logging.disable(logging.WARNING)
    chosen = [name for name in sys.argv[1:] if name != "--tiny"] or list(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
