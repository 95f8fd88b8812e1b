"""Calls of a model: processor time and wall next to DSPy's own, and recorded replies.

    python benchmarks/calls.py [--tiny]

Every call is the nuggetizer's question about an answer of about 2 KB. The server on the loopback
(`chat_server.py`) runs in a process of its own. Ours records each reply before it is used.
"""

import logging
import os
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
from chat_server import QUOTE, serving
from timing import TINY, in_turns, report

from freshstack_dspy import ModelConfig, Nuggetizer, Query, connect
from freshstack_dspy.lm.typed import in_bulk
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from freshstack_dspy.signatures.question import ShownQuestion

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
CALLS, LATENCY = (32, 0.02) if TINY else (1_000, 0.2)
WORDS = "table column index query value option error file version path thread cache".split()


def queries(count: int, seed: int = 0) -> list[Query]:
    """Questions and answers of a realistic size, all different."""
    rng = random.Random(seed)

    def prose(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words))

    return [
        Query(
            query_id=f"{seed}.{number}",
            title=f"{seed}.{number} {prose(120)}",
            body="",
            answer=f"{QUOTE} {prose(220)}",
        )
        for number in range(count)
    ]


Ask = Callable[[Query], int]
"""Asks about a query; gives how many nuggets came."""


def ours(api_base: str, store: Path, *, mode: Any = "live", in_flight: int = 32) -> Ask:
    """The nuggetizer over recorded replies."""
    model = ModelConfig(name="openai/scripted", api_base=api_base, concurrency=in_flight)
    lm, nuggetizer = connect(model, mode=mode, store=store), Nuggetizer()

    def ask(query: Query) -> int:
        with in_bulk(lm):  # as a build asks, and as the others ask below
            return len(nuggetizer(query=query).nuggets)

    return ask


def theirs(api_base: str, *, engine: str = "", cache: bool = False) -> Ask:
    """`ChainOfThought` over DSPy's own model, on its native client or on LiteLLM."""
    chosen = {"engine": engine} if engine else {}
    lm = dspy.LM("openai/scripted", api_base=api_base, api_key="none", cache=cache, **chosen)
    program = dspy.ChainOfThought(NuggetizeAnswer)

    def ask(query: Query) -> int:
        with dspy.context(lm=lm, disable_history=True, trace=None):
            question = ShownQuestion.of(query)
            return len(program(question=question, answer=query.answer, limit=10).nuggets)

    return ask


def every(ask: Ask, asked: list[Query], in_flight: int) -> float:
    """Ask all; give the seconds. Every answer must hold the five nuggets."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as threads:
        assert set(threads.map(ask, asked)) == {5}
    return time.perf_counter() - begun


def cold(folder: Path) -> None:
    """32 in flight, nothing recorded before."""
    with serving() as api_base:
        asks = {
            "ours": ours(api_base, folder / "cold"),
            "dspy_native": theirs(api_base),
            "dspy_litellm": theirs(api_base, engine="litellm"),
        }
        for ask in asks.values():  # connections, imports, compiled code
            every(ask, queries(64, seed=1), 32)
        rounds = iter(range(2, 1_000))
        taken = in_turns(
            *(
                lambda ask=ask: every(ask, queries(CALLS, seed=next(rounds)), 32)
                for ask in asks.values()
            ),
            rounds=3,
        )
    cpu = {name: 1000 * seconds / CALLS for name, seconds in zip(asks, taken, strict=True)}
    report("calls.cpu_ms", cpu["ours"], most=2.5, **cpu)
    report("calls.dspy_litellm_over_ours", cpu["dspy_litellm"] / cpu["ours"], least=2)


def latency(folder: Path) -> None:
    """64 in flight at 200 ms: how near to the time that the latency alone takes."""
    with serving(LATENCY) as api_base:
        ask = ours(api_base, folder / "slow", in_flight=64)
        every(ask, queries(64, seed=1), 64)
        ratio = every(ask, queries(CALLS), 64) / (CALLS * LATENCY / 64)
    report("calls.wall_over_ideal_64_in_flight", ratio, most=1.5)


def replay(folder: Path) -> None:
    """Recorded replies through the program, next to DSPy's hits in its own cache on the disk."""
    asked = queries(CALLS)
    dspy.configure_cache(disk_cache_dir=str(folder / "dspy"), enable_memory_cache=False)
    with serving() as api_base:
        cached = theirs(api_base, cache=True)
        every(cached, asked, 32)
        every(ours(api_base, folder / "replies"), asked, 32)
    recorded = ours(api_base, folder / "replies", mode="replay")
    for workers in (1, 32):
        ms = [
            1000 * seconds / CALLS
            for seconds in in_turns(
                *(lambda ask=ask: every(ask, asked, workers) for ask in (recorded, cached))  # noqa: B023
            )
        ]
        report(f"calls.replay_cpu_ms_{workers}", ms[0], most=1.25 * ms[1], dspy_disk=ms[1])


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        for part in (cold, latency, replay):
            part(Path(folder))


if __name__ == "__main__":
    main()
