"""Build a judged collection from a Stack Exchange dump, and do with it all that can be done.

    python benchmarks/collection.py --dump ../shared/data/stackexchange-bioinformatics --wheels DIR
    python benchmarks/collection.py --tiny

The corpus is every wheel in a folder (`pip download --no-deps -d DIR biopython pysam ...`), the
model `extractive/baseline`. The collection is diagnosed, exported in every format that is read back, validated,
and replayed from its saved replies beside. Prints one JSON line for each figure: name, value, goal,
holds.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.exports import export_collection
from freshstack_dspy.formats.validate import validate
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.provenance import export_replies
from freshstack_dspy.stored.diagnose import diagnose

ROOT = Path(__file__).resolve().parent.parent
QUERIES = 150
Result = TypeVar("Result")


def say(name: str, value: object, goal: object = None, holds: bool | None = None) -> None:
    print(json.dumps({"name": name, "value": value, "goal": goal, "holds": holds}), flush=True)


def timed(name: str, work: Callable[[], Result]) -> Result:
    start = time.perf_counter()
    result = work()
    say(f"{name}: seconds", round(time.perf_counter() - start, 1))
    return result


def configured(folder: Path, dump: Path | None, wheels: Path | None, **changes: Any) -> BuildConfig:
    corpora = [
        {"name": wheel.name.split("-")[0].lower(), "path": wheel}
        for wheel in sorted(wheels.glob("*.whl") if wheels else ())
    ]
    if dump is None or wheels is None:
        sample = ROOT / "examples/quickstart"
        tiny = {
            "name": "tiny",
            "queries": {"path": sample / "questions.jsonl", "limit": 3},
            "corpus": [{"name": "xylochron", "path": sample / "corpus/xylochron"}],
        }
        changes = tiny | changes
    values = {
        "name": "bioinformatics",
        "out": folder / "collection",
        "queries": {
            "source": "stackexchange",
            "path": dump and dump / "Posts.xml",
            "site": "bioinformatics.stackexchange.com",
        },
        "corpus": corpora,
        "index": {"path": folder / "index"},
        "cache": {"path": folder / "cache"},
    }
    return BuildConfig.model_validate({**values, **changes})


def export_all(collection: Collection, folder: Path) -> None:
    for format_ in (name for name in FORMATS.ours if FORMATS.get(name).read):
        out = folder / "exports" / format_
        timed(f"export {format_}", lambda: export_collection(collection, format_, out))  # noqa: B023
        findings = validate(out)
        say(f"export {format_}: faults", len(findings.faults), 0, not findings.faults)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--tiny", action="store_true", help="the quickstart, to see that it runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = configured(folder / "first", given.dump, given.wheels)
        bundle = folder / "replies.jsonl"
        collection = timed("build", lambda: build(first))
        export_replies(first, bundle)
        counts = collection.manifest.counts
        say("queries", counts.queries, QUERIES, counts.queries >= QUERIES)
        for field in ("nuggets", "chunks", "pool", "judgments", "supported"):
            say(field, getattr(counts, field))
        say("slices", counts.slices)
        say("replies: MB", round(bundle.stat().st_size / 1e6, 1))
        timed("diagnosis", lambda: diagnose(collection))
        export_all(collection, folder)
        findings = timed("validation", lambda: validate(first.out))
        say("faults", len(findings.faults), 0, not findings.faults)
        second = configured(
            folder / "second",
            given.dump,
            given.wheels,
            cache={"path": folder / "second" / "cache", "bundles": [bundle]},
        )
        replayed = timed("replay", lambda: build(second, mode="replay"))
        same = replayed.manifest.content_hash == collection.manifest.content_hash
        say("the replay has the same hash", same, True, same)
        say("peak memory: MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main()
