"""The judgments of a collection as the measures read them: labels by nugget and chunk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.judged import Judged, NuggetLabels


class OfficialDicts(NamedTuple):
    """What `EvaluateRetrieval.evaluate` of the official `freshstack` package takes."""

    qrels_nuggets: dict[str, dict[str, int]]
    """nugget id -> chunk id -> 1 (supports it) or 0."""
    query_to_nuggets: dict[str, list[str]]
    """query id -> its nugget ids."""
    qrels_query: dict[str, dict[str, int]]
    """query id -> chunk id -> how many of the query's nuggets it supports."""


@dataclass(frozen=True)
class NuggetQrels:
    """The nuggets of each query, and which chunks were judged to support them.

    Attributes:
        nuggets: The nugget ids of each query, in order.
        labels: Nugget id -> chunk id -> label, on the scale of the judge. A nugget without labels
            may be left out when constructing; it is then kept with none.
        failed: Nugget id -> ids of the chunks whose judgment failed. They have no label.
        threshold: The lowest label that says that the chunk supports the nugget.
        tokens: Chunk id -> its length in tokens; only measures of a context's length need it.

    Raises:
        CollectionError: A query has no nuggets, a nugget belongs twice, a label or failure
            belongs to no nugget, a pair has both, or the threshold is below 1.
    """

    nuggets: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, Mapping[str, int]]
    failed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    threshold: int = 1
    tokens: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.threshold < 1:
            raise CollectionError(f"the threshold of support is at least 1, not {self.threshold!r}")
        nuggets = {query: tuple(ids) for query, ids in self.nuggets.items()}
        every = _each_once(nuggets)
        _refuse_strangers("labels", self.labels, every)
        _refuse_strangers("failed", self.failed, every)
        labels = {nugget: dict(self.labels.get(nugget, {})) for nugget in every}
        failed = {nugget: frozenset(self.failed.get(nugget, ())) for nugget in every}
        for nugget in every:
            if both := sorted(failed[nugget] & labels[nugget].keys()):
                raise CollectionError(
                    f"nugget {nugget!r}, chunk {both[0]!r}: a failed judgment has no label"
                )
        object.__setattr__(self, "nuggets", nuggets)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "failed", failed)

    def labels_of(self, query_id: str) -> NuggetLabels:
        """Give the labels of one query, by nugget id and in the order of its nuggets."""
        return {nugget: self.labels[nugget] for nugget in self.nuggets[query_id]}

    def judged(self, query_id: str, rel: int | None = None) -> Judged:
        """Give the judgments of one query as its measures take them.

        Args:
            query_id: A query of these.
            rel: The lowest label that counts as support; None: the threshold.
        """
        return Judged(self.labels_of(query_id), rel or self.threshold, self.tokens)

    def without(self, query_ids: Iterable[str]) -> Self:
        """Leave queries out; one that is not there is passed over."""
        left_out = set(query_ids)
        nuggets = {query: ids for query, ids in self.nuggets.items() if query not in left_out}
        kept = [nugget for ids in nuggets.values() for nugget in ids]
        return replace(
            self,
            nuggets=nuggets,
            labels={nugget: self.labels[nugget] for nugget in kept},
            failed={nugget: self.failed[nugget] for nugget in kept},
        )

    def official(self) -> OfficialDicts:
        """Give the three dictionaries that the official evaluator takes, labels made 0 or 1."""
        binary = {
            nugget: {chunk: int(label >= self.threshold) for chunk, label in labels.items()}
            for nugget, labels in self.labels.items()
        }
        supported: dict[str, dict[str, int]] = {query: {} for query in self.nuggets}
        for query, counts in supported.items():
            for nugget in self.nuggets[query]:
                for chunk, label in binary[nugget].items():
                    counts[chunk] = counts.get(chunk, 0) + label
        return OfficialDicts(
            qrels_nuggets=binary,
            query_to_nuggets={query: list(ids) for query, ids in self.nuggets.items()},
            qrels_query=supported,
        )


def _each_once(nuggets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """List all nugget ids in order, each of which must belong to one query, once."""
    owners: dict[str, str] = {}
    for query, ids in nuggets.items():
        if not ids:
            raise CollectionError(f"query {query!r} has no nuggets; leave it out of the qrels")
        for nugget in ids:
            if nugget in owners:
                raise CollectionError(
                    f"nugget {nugget!r} belongs to query {owners[nugget]!r} and to {query!r}; "
                    "a nugget belongs to one query, once"
                )
            owners[nugget] = query
    return list(owners)


def _refuse_strangers(what: str, given: Iterable[str], every: list[str]) -> None:
    if strangers := sorted(set(given) - set(every)):
        raise CollectionError(
            f"{what}: nugget {strangers[0]!r} belongs to no query "
            f"({len(strangers)} such); add it to the nuggets of its query"
        )
