"""A process that builds an index: `python -m tests.index.builds FOLDER [EVENT]`.

With EVENT, a number, it kills itself as `kill -9` does when it opens, renames, makes or removes its
n-th file or folder below FOLDER. Else it prints the index's key.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from freshstack_dspy import HybridIndex
from tests.index.pieces import many, piece

NAME = "index"
BEFORE = many(60)
AFTER = [*BEFORE[:50], piece("new file.py", "zebra crossing wordb2")]
DIMENSIONS = 8
_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")


def die_at(number: int, root: Path) -> None:
    """Kill this process when it touches its n-th file."""
    import lancedb  # noqa: F401 - so that its own files are not counted
    import scipy.sparse.linalg  # noqa: F401

    left = number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _EVENTS and str(arguments[0]).startswith(str(root)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        die_at(int(sys.argv[2]), folder)
    index = HybridIndex.build(folder, NAME, AFTER, dimensions=DIMENSIONS)
    sys.stdout.write(index.manifest.key)
