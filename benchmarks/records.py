"""Read and measure a collection of 1,000,000 judgments; with `--tiny`, of 500.

2,000 questions of 10 nuggets and a pool of 50 chunks from a corpus of 100,000, all judged. Each
command is a process of its own. Prints one JSON line a value: {"name", "value", "goal", "holds"}.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.records import (
    TECHNIQUES,
    Candidate,
    Chunk,
    Found,
    Judgment,
    Nugget,
    Query,
    TechniqueRank,
)
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Provenance
from freshstack_dspy.stored.slices import slice_queries

NUGGETS, POOL, DEPTH = 10, 50, 100
SECONDS, MEGABYTES = 5, 1000
WORDS = (
    "the function returns a parsed record for each aligned read and raises an error where its "
    "header names no reference sequence so callers check flags before they convert positions"
).split()


def words(rng: random.Random, number: int) -> str:
    return " ".join(rng.choices(WORDS, k=number))


def chunks(rng: random.Random, number: int) -> list[Chunk]:
    made = []
    for place in range(number):
        path, start, text = f"package/module_{place // 7}.py", place % 7 * 700, words(rng, 100)
        chunk_id = f"biolib/{path}_{start}_{start + len(text)}"
        made.append(
            Chunk(
                chunk_id=chunk_id,
                source="biolib",
                path=path,
                start_byte=start,
                end_byte=start + len(text),
                text=text,
                tokens=120,
            )
        )
    return made


def candidate(rng: random.Random, query_id: str, chunk_id: str) -> Candidate:
    by = rng.sample(TECHNIQUES, 3)
    return Candidate(
        query_id=query_id,
        chunk_id=chunk_id,
        pooled_by=tuple(TechniqueRank(technique=t, rank=rng.randint(1, 20)) for t in by[:2]),
        ranked_below=(TechniqueRank(technique=by[2], rank=rng.randint(21, 100)),),
        found_by=tuple(
            Found(technique=technique, retriever=name, rank=rng.randint(1, 100))
            for technique in by
            for name in ("bm25", "lsa")
        ),
        lost_without=("bm25",) if rng.random() < 0.3 else (),
    )


def judged(rng: random.Random, query_id: str, chunk: Chunk, nuggets: list[str]) -> list[Judgment]:
    call_id, reason = f"{rng.getrandbits(256):064x}", words(rng, 18)
    start = chunk.start_byte
    found = []
    for nugget_id in nuggets:
        label = rng.choices((0, 1, 2), (85, 10, 5))[0]
        found.append(
            Judgment(
                query_id=query_id,
                nugget_id=nugget_id,
                chunk_id=chunk.chunk_id,
                label=label,
                status="ok",
                reason=reason,
                call_id=call_id,
                evidence=((start, start + 40),) if label else (),
            )
        )
    return found


def make(folder: Path, queries: int) -> None:
    """Write the collection, a run of 100 chunks a question, and a query and a chunk of it."""
    rng, corpus = random.Random(0), 50 * queries
    ids = [f"{number:06d}" for number in range(queries)]
    all_chunks = chunks(rng, max(corpus, 2 * DEPTH))
    nuggets: list[Nugget] = []
    pool: list[Candidate] = []
    judgments: list[Judgment] = []
    with (folder / "run.trec").open("w") as run:
        for query_id in ids:
            own = [f"{query_id}_{number}" for number in range(NUGGETS)]
            nuggets += [
                Nugget(nugget_id=n, query_id=query_id, text=words(rng, 12), call_id=None)
                for n in own
            ]
            pooled = rng.sample(all_chunks, POOL)
            for chunk in pooled:
                pool.append(candidate(rng, query_id, chunk.chunk_id))
                judgments += judged(rng, query_id, chunk, own)
            found = {chunk.chunk_id for chunk in pooled[:30] + rng.sample(all_chunks, DEPTH - 30)}
            for rank, chunk_id in enumerate(sorted(found, key=lambda _: rng.random()), 1):
                run.write(f"{query_id} Q0 {chunk_id} {rank} {1 / rank:.6f} made\n")
    (folder / "pair").write_text(f"{pool[len(pool) // 2].query_id} {pool[len(pool) // 2].chunk_id}")
    questions = tuple(
        Query(query_id=query_id, title=words(rng, 9), body=words(rng, 80), answer=words(rng, 60))
        for query_id in ids
    )
    slices = tuple(slice_queries(questions, nuggets, judgments))
    contents = Contents(
        queries=questions,
        nuggets=tuple(nuggets),
        pool=tuple(pool),
        judgments=tuple(judgments),
        slices=slices,
    )
    provenance = Provenance(name="made", recipe="freshstack", model="made/model")
    write_collection(folder / "collection", contents, all_chunks, provenance)


def measured(name: str, arguments: list[str], *, held: bool = True) -> None:
    """Run a process, and say how long it took and how much memory; `held` are those with a goal."""
    start = time.perf_counter()
    devnull = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(
        sys.executable, [sys.executable, *arguments], os.environ, file_actions=devnull
    )
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    say(f"{name}: seconds", round(wall, 2), SECONDS if held else None)
    say(f"{name}: seconds of CPU", round(used.ru_utime + used.ru_stime, 2))
    say(f"{name}: MB", used.ru_maxrss // 1024, MEGABYTES if held else None)
    if status:
        raise SystemExit(f"{name} failed")


def say(name: str, value: float, goal: float | None = None) -> None:
    holds = None if goal is None else value < goal
    line = {"name": f"records.{name}", "value": value, "goal": goal, "holds": holds}
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true", help="500 judgments, to see that it runs")
    parser.add_argument("--folder", type=Path, help="where the collection is kept, or is already")
    parser.add_argument("--make", type=int, help="make one of so many questions, and no more")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = given.folder or Path(name)
        folder.mkdir(exist_ok=True)
        if given.make:
            make(folder, given.make)
            return
        made, run = str(folder / "collection"), str(folder / "run.trec")
        if not Path(
            made
        ).exists():  # in a process of its own: a child's peak is its parent's at least
            queries = "1" if given.tiny else "2000"
            measured("make", [__file__, "--make", queries, "--folder", str(folder)], held=False)
        query_id, chunk_id = (folder / "pair").read_text().split()
        command = ["-m", "freshstack_dspy"]
        load = f"from freshstack_dspy import Collection; print(Collection.load({made!r}))"
        measured("load", ["-c", load])
        measured("show", [*command, "show", made])
        measured("show of a question", [*command, "show", made, query_id])
        measured("explain", [*command, "explain", made, query_id, chunk_id])
        measured("evaluate", [*command, "evaluate", made, run])
        measured("diagnose", [*command, "diagnose", made])
        measured("validate", [*command, "validate", made], held=False)


if __name__ == "__main__":
    main()
