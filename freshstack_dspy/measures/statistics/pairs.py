"""The values of two runs on the same queries."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

SAME = 1e-12
"""Values that are this close, relatively, differ only as rounding does."""


@dataclass(frozen=True)
class Pairs:
    """The values of two runs on the queries that have one in both, by query id.

    Attributes:
        queries: The queries of both, ordered by id.
        values: Of the run, in the order of the queries.
        against: Of the run that it is held against, likewise.
        left_out: How many queries have a value in only one of the two.
    """

    queries: tuple[str, ...]
    values: tuple[float, ...]
    against: tuple[float, ...]
    left_out: int

    @property
    def differences(self) -> tuple[float, ...]:
        """The run's value minus the other's; 0 where they differ only as rounding does."""
        return tuple(map(_difference, self.values, self.against))


def pair(values: Mapping[str, float], against: Mapping[str, float]) -> Pairs:
    """Pair the values of two runs by query.

    Runs are compared on queries that both were measured on by the same rule, so a query with a
    value in only one of the two is left out, and counted.

    Args:
        values: Of one run, by query id.
        against: Of the other.

    Raises:
        ValueError: A value is not a finite number.
    """
    for value in (*values.values(), *against.values()):
        if not math.isfinite(value):
            raise ValueError(f"a value is a finite number, not {value!r}")
    queries = tuple(sorted(values.keys() & against.keys()))
    return Pairs(
        queries,
        tuple(values[query] for query in queries),
        tuple(against[query] for query in queries),
        len(values.keys() ^ against.keys()),
    )


def _difference(value: float, against: float) -> float:
    return 0.0 if math.isclose(value, against, rel_tol=SAME, abs_tol=0) else value - against
