"""How many chunks of a ranking are looked at."""

from collections.abc import Sequence


def top(ranking: Sequence[str], k: int | None) -> Sequence[str]:
    """Give the first k chunks of a ranking, or all where k is None.

    Raises:
        ValueError: k is below 1.
    """
    if k is None:
        return ranking
    if k < 1:
        raise ValueError(f"the cut-off k is at least 1, not {k!r}")
    return ranking[:k]
