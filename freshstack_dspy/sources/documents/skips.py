"""Why a file of a corpus is not indexed, and how many there are of each kind."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from freshstack_dspy.records import SkipKind, SkippedFile


class Skip(NamedTuple):
    """A reason not to index a file."""

    kind: SkipKind
    reason: str


class SkipCount(NamedTuple):
    """How many files were skipped for one kind of reason."""

    kind: SkipKind
    files: int


def summary(skipped: Iterable[SkippedFile]) -> list[SkipCount]:
    """Count skipped files by kind, the most frequent first, then by name."""
    counts: Counter[SkipKind] = Counter(file.kind for file in skipped)
    return [SkipCount(kind, counts[kind]) for kind in sorted(counts, key=lambda k: (-counts[k], k))]
