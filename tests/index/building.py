"""A process that builds an index, to be killed or raced: `python building.py FOLDER [STAGE]`.

With a stage it kills itself at that stage's end, as `kill -9` does.
Else it prints, as JSON, whether it built the index, its fingerprint and some rankings.
"""

import json
import os
import signal
import sys
from pathlib import Path

from freshstack_dspy.index import HybridIndex
from tests.index.pieces import many

CHUNKS = many(300)
QUERIES = [chunk.text for chunk in many(25, seed=5)]


def main(folder: str, fatal_stage: str = "") -> None:
    stages = []

    def progress(stage: str, fraction: float) -> None:
        stages.append(stage)
        if stage == fatal_stage and fraction == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    index = HybridIndex.build_or_open(Path(folder), CHUNKS, dimensions=16, progress=progress)
    rankings = [index.search(retriever, QUERIES, 30) for retriever in index.retrievers]
    json.dump([bool(stages), index.fingerprint, rankings], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
