"""The results of a leaderboard, `leaderboard.json`: every figure, and what it was made from."""

import json
from typing import Any, Literal

from pydantic import Field

from freshstack_dspy.collection.leaderboard.board import EntryInfo
from freshstack_dspy.measures import Interval
from freshstack_dspy.measures.version import MEASURES_VERSION
from freshstack_dspy.records import Record

RESULTS_FILE = "leaderboard.json"
SCHEMA_VERSION: Literal[1] = 1
LEVEL, RESAMPLES, SEED = 0.95, 10_000, 0
CONVENTIONS = {
    "average": "mean of the unrounded means of all topics; none where a topic is missing",
    "empty ranking": "0",
    "interval": (
        "percentile bootstrap over queries, rescaled for the average so that each topic weighs the "
        f"same; level {LEVEL}, {RESAMPLES} resamples, seed {SEED}"
    ),
    "measure without a value for a query": "0",
    "query absent from the run": "0",
    "rounding": "none",
    "ties": "score descending, then chunk id ascending",
    "topic without a run": "missing, not 0",
    "unjudged chunk": "not relevant; unjudged@k is the mean share of such chunks in the top k",
}
"""What else the figures depend on; a change here raises `MEASURES_VERSION`."""


class Figure(Record):
    """A mean with its interval; without ends where there are too few queries for one."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, interval: Interval) -> "Figure":
        """Keep of an interval what differs from figure to figure."""
        assert interval.value is not None
        return cls(value=interval.value, low=interval.low, high=interval.high)


class TopicResult(Record):
    """What one run reaches on the collection of its topic."""

    run: str
    """Its file."""
    sha256: str
    """Of its file."""
    figures: dict[str, Figure]
    """By measure."""
    unjudged: dict[int, float | None]
    """By cut-off: the mean share of the top that has no label; None where nothing was found."""
    absent: int
    empty: int
    """Queries that are not in the run, or without results: 0 in every measure."""
    unknown: int
    """Queries of the run that are not in the collection: passed over."""
    tied: int
    """Queries all of whose chunks have one score, so that the ids decide their order."""


class EntryResult(Record):
    """What one system reaches."""

    info: EntryInfo
    topics: dict[str, TopicResult]
    missing: tuple[str, ...]
    """Topics that it has no run for."""
    average: dict[str, Figure] | None
    """The macro-average over all topics, by measure; None where one is missing."""


class TopicData(Record):
    """The collection that a topic was measured on."""

    collection: str
    content_hash: str
    queries: int
    without_relevant: int
    """Queries none of whose nuggets is supported: every run gets 0 for them in most measures."""


class Results(Record):
    """Everything that `leaderboard` computes. Entries are in the order of their names."""

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str
    measures_version: int = MEASURES_VERSION
    measures: tuple[str, ...]
    conventions: dict[str, str] = Field(default_factory=lambda: dict(CONVENTIONS))
    collections: dict[str, TopicData]
    """By topic."""
    entries: tuple[EntryResult, ...]

    def ranked(self) -> list[EntryResult]:
        """List the entries as the table has them.

        By the average of the first measure, descending; those without an average last; ties by
        name.
        """
        first = self.measures[0]

        def order(entry: EntryResult) -> tuple[float, str]:
            return -entry.average[first].value if entry.average else 1.0, entry.info.name

        return sorted(self.entries, key=order)


def encode_results(results: Results) -> str:
    """Write results as indented JSON with sorted keys: the same results are the same bytes."""
    return encode_values(results.model_dump(mode="json"))


def encode_values(values: dict[str, Any]) -> str:
    """Write what is in a results file as `encode_results` does."""
    return json.dumps(values, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"
