"""Measure the reading of Stack Exchange dumps: speed and peak memory, as XML and as a 7z archive.

    python benchmarks/questions.py --megabytes 300

Writes a Posts.xml of that size and one of a tenth, packs both as the published archives are (bzip2),
and reads each in a process of its own, with a filter that keeps the same few hundred questions. The
memory must be the same for both sizes. The speed is compared with that of expat and py7zr alone,
whose rows and bytes go nowhere. Prints one JSON line a figure: {"name", "value", "goal", "holds"}.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

WORDS, BODIES, KEPT = 30_000, 5_000, 300
SHARES = {"xml": 0.4, "7z": 0.6}
"""Of the speed of expat and py7zr alone."""
GROWTH = 1.15
KINDS = ("xml", "7z")


def bodies(chance: random.Random) -> list[str]:
    """Make HTML whose words are as unevenly frequent as those of a language."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 10))) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]

    def body() -> str:
        text = " ".join(chance.choices(words, weights, k=chance.randint(40, 300)))
        return f"<p>{text}</p>\n<pre><code>{text[:200]}\n</code></pre>"

    return [quoteattr(body()) for _ in range(BODIES)]


def write_posts(path: Path, size: int, texts: list[str], chance: random.Random) -> None:
    """Write questions, each followed by two answers, until the file has a size in bytes."""
    moment = 'CreationDate="2023-05-16T18:01:06.383" Score="3" OwnerUserId="7"'
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        number = 1
        while file.tell() < size:
            tags = "&lt;python&gt;" + ("&lt;rare&gt;" if number < 3 * KEPT else "")
            file.write(
                f'  <row Id="{number}" PostTypeId="1" AcceptedAnswerId="{number + 1}" {moment} '
                f'Title="Question {number}" Tags="{tags}" Body={chance.choice(texts)} />\n'
            )
            for answer in (number + 1, number + 2):
                file.write(
                    f'  <row Id="{answer}" PostTypeId="2" ParentId="{number}" {moment} '
                    f"Body={chance.choice(texts)} />\n"
                )
            number += 3
        file.write("</posts>\n")


def pack(posts: Path) -> dict[str, float]:
    import py7zr

    archive = posts.with_suffix(".7z")
    with py7zr.SevenZipFile(archive, "w", filters=[{"id": py7zr.FILTER_BZIP2}]) as file:
        file.write(posts, "Posts.xml")
    return {"bytes": archive.stat().st_size}


def read(path: Path) -> dict[str, float]:
    """Read a dump; give the seconds, the queries and the peak memory of this process in MB."""
    from freshstack_dspy.config import StackExchangeQueries
    from freshstack_dspy.questions.reading import read_queries

    start = time.perf_counter()
    reading = read_queries(StackExchangeQueries(path=path, tags=("rare",)))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"seconds": seconds, "queries": len(reading.queries), "peak": peak}


def alone(path: Path) -> dict[str, float]:
    """Give the seconds that expat or py7zr takes."""
    import py7zr
    from py7zr.io import NullIOFactory

    start = time.perf_counter()
    if path.suffix == ".7z":
        with path.open("rb") as file, py7zr.SevenZipFile(file) as archive:
            archive.extract(targets=["Posts.xml"], factory=NullIOFactory())
    else:
        parser = expat.ParserCreate()
        parser.StartElementHandler = lambda _name, _attributes: None
        with path.open("rb") as file:
            parser.ParseFile(file)
    return {"seconds": time.perf_counter() - start}


WORKS = {"pack": pack, "read": read, "alone": alone}


def elsewhere(work: str, path: Path) -> dict[str, float]:
    """Do a work in a process of its own: the memory of this one would count with its own."""
    if "--tiny" in sys.argv:
        return WORKS[work](path)
    command = [sys.executable, __file__, "--work", work, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def report(name: str, value: float, goal: str, *, holds: bool) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def measure(megabytes: int, folder: Path) -> None:
    chance = random.Random(1)
    texts = bodies(chance)
    peaks: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for size in (megabytes // 10, megabytes):
        posts = folder / f"{size}" / "Posts.xml"
        posts.parent.mkdir()
        write_posts(posts, size * 1_000_000, texts, chance)
        elsewhere("pack", posts)
        for kind in KINDS:
            measured = elsewhere("read", posts.with_suffix(f".{kind}"))
            peaks[kind].append(measured["peak"])
            if size == megabytes:
                bare = elsewhere("alone", posts.with_suffix(f".{kind}"))
                share = bare["seconds"] / measured["seconds"]
                speed, goal = size / measured["seconds"], f">= {SHARES[kind]}"
                report(f"questions.{kind}.mb_per_second", round(speed, 1), "a part", holds=True)
                report(
                    f"questions.{kind}.to_library_alone",
                    round(share, 2),
                    goal,
                    holds=share >= SHARES[kind] or megabytes < 100,
                )
    for kind, (small, large) in peaks.items():
        growth = large / small
        report(f"questions.{kind}.peak_mb", round(large), "<= 200", holds=large <= 200)
        report(
            f"questions.{kind}.peak_to_that_of_a_tenth",
            round(growth, 3),
            f"<= {GROWTH}",
            holds=growth <= GROWTH or megabytes < 100,
        )


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--megabytes", type=int, default=300)
    words.add_argument("--tiny", action="store_true", help="only see that it runs")
    words.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    chosen = words.parse_args()
    if chosen.work is not None:
        work, path = chosen.work
        print(json.dumps(WORKS[work](Path(path))))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(10 if chosen.tiny else chosen.megabytes, Path(folder))


if __name__ == "__main__":
    main()
