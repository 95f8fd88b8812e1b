"""Nuggets of one query that say nearly the same: flagged, and kept."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from freshstack_dspy.text import jaccard
from freshstack_dspy.records import Nugget
from freshstack_dspy.text import terms

NEARLY_THE_SAME = 0.8
"""From which Jaccard index of their terms on two nuggets say nearly the same."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_DENIES = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|cannot)\b|n['\u2019]t\b", re.IGNORECASE
)


class _Said(NamedTuple):
    query_id: str
    nugget_id: str
    terms: frozenset[str]
    numbers: frozenset[str]
    denies: bool


def with_near_duplicates(nuggets: Sequence[Nugget]) -> tuple[Nugget, ...]:
    """Flag each nugget that says nearly the same as an earlier one of its query.

    Two nuggets do if the Jaccard index of their terms (`freshstack_dspy.text`) is 0.8 or more,
    they name the same numbers, and both or neither deny something: in a long sentence one number,
    or one `not`, changes few terms and all of what it says.

    Args:
        nuggets: Of one or several queries, each query's in their order.

    Returns:
        The same nuggets, each with `duplicate_of` as the earliest such nugget, or None.
    """
    earlier: list[_Said] = []
    flagged = []
    for nugget in nuggets:
        said = _said(nugget)
        first = next((one.nugget_id for one in earlier if _nearly_the_same(one, said)), None)
        earlier.append(said)
        flagged.append(nugget.model_copy(update={"duplicate_of": first}))
    return tuple(flagged)


def _said(nugget: Nugget) -> _Said:
    return _Said(
        nugget.query_id,
        nugget.nugget_id,
        frozenset(terms(nugget.text)),
        frozenset(_NUMBER.findall(nugget.text)),
        bool(_DENIES.search(nugget.text)),
    )


def _nearly_the_same(one: _Said, other: _Said) -> bool:
    return (
        one.query_id == other.query_id
        and one.numbers == other.numbers
        and one.denies == other.denies
        and jaccard(one.terms, other.terms) >= NEARLY_THE_SAME
    )
