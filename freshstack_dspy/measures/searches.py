"""Runs of agents, which search several times for a question: JSON Lines, one for each search.

{"query_id": "1001", "step": 1, "search": "install the reader", "results": ["docs/a.md_0_90"]}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.measures.run import Run
from freshstack_dspy.rows import read_rows


class Search(NamedTuple):
    """One search of an agent."""

    text: str
    chunk_ids: tuple[str, ...]
    """What it was shown, in this order; nothing where the search was empty."""


@dataclass(frozen=True)
class SearchRun:
    """The searches of an agent."""

    name: str
    searches: Mapping[str, tuple[Search, ...]]
    """By query id, in the order of their steps."""

    def shown(self, query_id: str, steps: int | None = None) -> tuple[str, ...]:
        """List what the first steps of a query showed, each chunk where it was shown first."""
        searches = self.searches.get(query_id, ())[:steps]
        return tuple(dict.fromkeys(id_ for search in searches for id_ in search.chunk_ids))

    def union(self) -> Run:
        """Give the run of all that was shown, in the order in which it was shown."""
        scores = {
            query_id: {id_: float(-rank) for rank, id_ in enumerate(self.shown(query_id), start=1)}
            for query_id in self.searches
        }
        return Run.from_scores(scores, name=self.name)


def is_searches(path: Path | str) -> bool:
    """Tell whether a file has searches, and no passages or TREC lines."""
    try:
        with Path(path).open("rb") as file:
            first = json.loads(next(filter(bytes.strip, file), b""))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "results" in first


def read_searches(path: Path | str) -> SearchRun:
    """Read the searches of an agent; those without a `step` are in the order of the lines.

    Raises:
        SourceError: With file and line, where a line is no search or a step is there twice.
    """
    path = Path(path)
    found: dict[str, dict[int, Search]] = {}
    for row in read_rows(path):
        steps = found.setdefault(row.id("query_id"), {})
        step = row.number("step", max(steps, default=0) + 1)
        if step in steps:
            raise row.fault("step", "a number that no other search of the query has")
        steps[step] = Search(row.text("search", default=""), row.texts("results"))
    searches = {
        query_id: tuple(search for _, search in sorted(steps.items()))
        for query_id, steps in found.items()
    }
    return SearchRun(path.name.split(".")[0], searches)
