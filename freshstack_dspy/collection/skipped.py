"""How many files were skipped, by kind."""

from collections import Counter
from collections.abc import Iterable, Mapping

from freshstack_dspy.records import SkipKind, SkippedFile


def count_kinds(skipped: Iterable[SkippedFile]) -> dict[SkipKind, int]:
    """Count skipped files by kind, in the order of its name."""
    counts: Counter[SkipKind] = Counter(file.kind for file in skipped)
    return {kind: counts[kind] for kind in sorted(counts)}


def listed(counts: Mapping[SkipKind, int]) -> str:
    """Say how many there are of each kind, as `1,198 binary, 3 vendored`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
