"""The judgments of one query, made ready once for all measures of it."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Literal

NuggetLabels = Mapping[str, Mapping[str, int]]
"""The labels of one query: nugget id -> chunk id -> label. Every nugget is a key."""
NuggetSet = tuple[int, ...]
"""The places, among the query's nuggets, of those that a chunk supports, ascending."""
GradeRule = Literal["sum", "count", "max"]
"""How a chunk's labels, one for each nugget, become its one grade for the query."""


class Judged:
    """The labels of one query's nuggets, and what the measures ask of them.

    Everything is worked out when it is first asked for, and kept.

    Args:
        labels: Nugget id -> chunk id -> label, for the nuggets of the query.
        rel: The lowest label that counts as support, at least 1.
        tokens: Chunk id -> its length in tokens, for measures of a context's length.

    Raises:
        ValueError: rel is below 1.
    """

    def __init__(
        self, labels: NuggetLabels, rel: int = 1, tokens: Mapping[str, int] | None = None
    ) -> None:
        if rel < 1:
            raise ValueError(f"rel is at least 1, not {rel!r}")
        self.labels = labels
        self.rel = rel
        self.tokens = tokens

    @property
    def nuggets(self) -> int:
        """How many nuggets the query has."""
        return len(self.labels)

    @cached_property
    def supported(self) -> Mapping[str, NuggetSet]:
        """Each chunk that supports any nugget, with the places of the nuggets it supports."""
        rel = self.rel
        supported: defaultdict[str, list[int]] = defaultdict(list)
        for place, labels in enumerate(self.labels.values()):
            for chunk in [chunk for chunk, label in labels.items() if label >= rel]:
                supported[chunk].append(place)
        return {chunk: tuple(places) for chunk, places in supported.items()}

    @cached_property
    def kinds(self) -> Mapping[NuggetSet, tuple[int, ...]]:
        """The supporting chunks, those that support the same nuggets together.

        A chunk is given as its place among all of `supported` by id, the largest id first.
        """
        kinds: defaultdict[NuggetSet, list[int]] = defaultdict(list)
        for place, chunk in enumerate(sorted(self.supported, reverse=True)):
            kinds[self.supported[chunk]].append(place)
        return {covered: tuple(places) for covered, places in kinds.items()}

    @cached_property
    def answerable(self) -> frozenset[int]:
        """The places of the nuggets that some judged chunk supports."""
        return frozenset(chain.from_iterable(self.supported.values()))

    @cached_property
    def chunks(self) -> frozenset[str]:
        """The chunks that have a label for any nugget, whatever it says."""
        return frozenset().union(*self.labels.values())

    def grades(self, rule: GradeRule = "sum") -> Mapping[str, int]:
        """Give each relevant chunk its one grade for the query, 1 or more.

        Only labels from `rel` on count. `sum` adds them up: FreshStack's own, where labels are 0
        and 1, and BEIR's, where a query has one nugget with a graded label; `count` is how many
        nuggets the chunk supports; `max` is its highest label (RUBRIC's qrels).
        """
        if rule not in self._grades:
            self._grades[rule] = _graded(self.labels, self.rel, rule)
        return self._grades[rule]

    @cached_property
    def _grades(self) -> dict[GradeRule, Mapping[str, int]]:
        return {}


def _graded(labels: NuggetLabels, rel: int, rule: GradeRule) -> dict[str, int]:
    grades: dict[str, int] = {}
    for judged in labels.values():
        for chunk, label in judged.items():
            if label < rel:
                continue
            before = grades.get(chunk, 0)
            if rule == "max":
                grades[chunk] = max(before, label)
            else:
                grades[chunk] = before + (label if rule == "sum" else 1)
    return grades
