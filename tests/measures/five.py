"""Five chunks and three nuggets, small enough to check by hand, and how to write a run briefly.

chunk  supports
a      n1, n2
b      n1
c      nothing (judged)
d      n2
e      nothing (not judged)

n3 is supported by no chunk.
"""

from collections.abc import Iterable

from freshstack_dspy import NuggetQrels, Run
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.records import ScoredChunk

LABELS = {"n1": {"a": 1, "b": 1, "c": 0}, "n2": {"a": 1, "c": 0, "d": 1}, "n3": {"c": 0}}
QRELS = NuggetQrels({"q": ("n1", "n2", "n3")}, LABELS)


def run(scores: dict[str, dict[str, float]], name: str = "run") -> Run:
    """Make a run of scores by query and chunk."""
    return Run(
        name,
        {
            query: tuple(ScoredChunk(chunk, score) for chunk, score in found.items())
            for query, found in scores.items()
        },
    )


def in_order(*chunks: str) -> dict[str, float]:
    """Give chunks strictly descending scores in the order written."""
    return {chunk: float(len(chunks) - place) for place, chunk in enumerate(chunks)}


def value(name: str, ranking: Iterable[str], judged: Judged) -> float | None:
    """Measure one ranking by the name of the measure."""
    return parse_measure(name)(list(ranking), judged)
