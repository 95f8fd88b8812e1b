"""A process that works on an index: `python -m tests.index.building FOLDER TASK [EVENT]`.

TASK is `build`, `update` or `read`. With EVENT, a number, it kills itself as `kill -9` does when it
opens, renames, makes or removes its n-th file or folder below FOLDER.
Else it prints, as JSON, whether it had to work, the fingerprint, and some rankings.
`read` opens the index, prints a line, waits for one on its standard input, and only then searches.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.settings import IndexSettings
from tests.index.pieces import files_of, many, piece, rankings

NAME = "index"
CHUNKS = many(300)
CHANGED = [piece("file7.py", "worda1 zebra"), piece("new file.py", "zebra crossing wordb2")]
UPDATED = [chunk for chunk in CHUNKS if chunk.path not in ("file7.py", "file9.py")] + CHANGED
QUERIES = [chunk.text for chunk in many(25, seed=5)] + ["zebra"]
SETTINGS = IndexSettings(dimensions=16)


def build(root: Path, stages: list[str]) -> HybridIndex:
    return HybridIndex.build_or_open(
        root,
        NAME,
        CHUNKS,
        files=files_of(CHUNKS),
        settings=SETTINGS,
        progress=lambda stage, _: stages.append(stage),
    )


def update(root: Path, stages: list[str]) -> HybridIndex:
    index, _ = HybridIndex.update(
        root,
        NAME,
        CHANGED,
        files=files_of(UPDATED),
        revisions={"repo": None},
        progress=lambda stage, _: stages.append(stage),
    )
    return index


def read(root: Path, _stages: list[str]) -> HybridIndex:
    index = HybridIndex.open(root, name=NAME)
    sys.stdout.write("opened\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return index


def die_at(number: int, root: Path) -> None:
    """Kill this process when it touches its n-th file."""
    import lancedb  # noqa: F401 - so that its own files are not counted

    place, left = str(root), number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        touching = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect")
        if event in touching and str(arguments[0]).removeprefix("file://").startswith(place):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def main(folder: str, task: str, event: str = "") -> None:
    stages: list[str] = []
    if event:
        die_at(int(event), Path(folder))
    index = {"build": build, "update": update, "read": read}[task](Path(folder), stages)
    json.dump([bool(stages), index.fingerprint, rankings(index, QUERIES)], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
