"""Growing a collection can be killed at any moment: the old or the new one stands, and it goes on."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.extend import extend
from freshstack_dspy.recipes.refresh import refresh
from tests.recipes.domain import QUESTIONS, domain
from tests.recipes.grown import ask, put
from tests.recipes.test_extend import written

BASELINE = {"name": "extractive/baseline", "concurrency": 2}

_GROW = """
import sys
from pathlib import Path
from freshstack_dspy.config import load_config
from freshstack_dspy.recipes.extend import extend
from freshstack_dspy.recipes.refresh import refresh
import lancedb, sklearn.feature_extraction.text, freshstack_dspy.lm.baseline

config = load_config(sys.argv[1])
print("ready", flush=True)
if sys.argv[2] == "refresh":
    refresh(config)
else:
    extend(config.out, [Path(sys.argv[2])], config)
"""


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(2))
@pytest.mark.parametrize("what", ["extend", "refresh"])
def test_the_old_or_the_new_collection_stands(tmp_path: Path, what: str, round_: int) -> None:
    """SIGKILL at a random moment, twice, and then to the end."""
    config = domain(tmp_path, model=BASELINE, pool={"depth": 1, "top_k": 1})
    old = build(config).manifest.content_hash
    ids = list(Collection.load(config.out).corpus.rows)
    run = written(tmp_path / "mine.run", {"2": ids, "10": ids, "x": ids})
    if what == "refresh":
        ask(config, *QUESTIONS, {**QUESTIONS[1], "query_id": "11", "title": "Where is pip?"})
        put(config, "docs/dial.md", "# The dial\n\nThe dial shows the phase of Mars.\n")
    # Without the store: to copy a file that SQLite has open would drop this process's locks on it.
    shutil.copytree(
        tmp_path,
        tmp_path.with_name(f"{tmp_path.name}whole"),
        ignore=shutil.ignore_patterns("cache"),
    )
    whole = domain(
        tmp_path.with_name(f"{tmp_path.name}whole"),
        model=BASELINE,
        pool={"depth": 1, "top_k": 1},
    )
    if what == "refresh":  # the domain was written anew
        shutil.copytree(tmp_path / "corpus", whole.out.parent / "corpus", dirs_exist_ok=True)
        shutil.copy(config.queries.location, whole.queries.location)
    chance = random.Random(f"{what}:{round_}")

    begun = time.monotonic()
    new = grown(whole, what, run)
    seconds = time.monotonic() - begun
    for _ in range(2):
        running = subprocess.Popen(
            [sys.executable, "-c", _GROW, str(tmp_path / "build.toml"), _word(what, run)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 2 * seconds))
        running.kill()
        running.communicate()
        stands = Collection.load(config.out).manifest.content_hash
        assert stands in (old, new.manifest.content_hash)
    ended = grown(config, what, run)

    assert ended.manifest.content_hash == new.manifest.content_hash
    assert old != new.manifest.content_hash


def grown(config: BuildConfig, what: str, run: Path) -> Collection:
    if what == "refresh":
        return refresh(config).collection
    return extend(config.out, [run], config).collection


def _word(what: str, run: Path) -> str:
    return what if what == "refresh" else str(run)
