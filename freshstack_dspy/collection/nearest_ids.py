"""The ids nearest to a wrong one, as a message names them."""

import difflib
import heapq
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator

_NAMED = 3
"""How many ids a message names."""
_COMPARED = 200
"""How many ids are compared letter by letter: of a corpus, it would take seconds for all."""


def nearest_ids(wrong: str, ids: Iterable[str]) -> list[str]:
    """Give the ids most like a wrong one, the most alike first; none where none is like it.

    Of many ids, those are compared that share the longest beginning or end with it.
    """
    backwards = wrong[::-1]

    def unlike(id_: str) -> tuple[int, str]:
        return -max(_shared(id_, wrong), _shared(id_[::-1], backwards)), id_

    return difflib.get_close_matches(wrong, heapq.nsmallest(_COMPARED, ids, key=unlike), n=_NAMED)


def named_nearest(wrong: str, ids: Ids[str], listed: str) -> str:
    """Say which ids are the nearest to a wrong one, or where all are listed if none is like it."""
    if near := nearest_ids(wrong, ids):
        return f"the nearest are {', '.join(map(repr, near))}"
    return f"none is like it; {listed} lists them all"


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    differing: Iterator[int] = (
        place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b
    )
    return next(differing, min(len(one), len(other)))
