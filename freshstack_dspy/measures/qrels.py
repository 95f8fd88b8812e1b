"""The judgments of a collection as the measures read them: labels by nugget and chunk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import index
from typing import NamedTuple, Self, SupportsIndex

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.dictionaries import checked_keys
from freshstack_dspy.measures.judged import Judged, NuggetLabels

_QRELS = "{query: {document: grade}}; with subtopics, use NuggetQrels.from_diversity_qrels"
_DIVERSITY = "{query: {subtopic: {document: grade}}}; without subtopics, use NuggetQrels.from_qrels"


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
        _refuse_plain(self.nuggets)
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

    @classmethod
    def from_qrels(cls, qrels: Mapping[str, Mapping[str, int]], *, threshold: int = 1) -> Self:
        """Make judgments of plain qrels, as BEIR and pytrec_eval hold them.

        Each query has one nugget, which is called as the query is: what it asks for.

        Args:
            qrels: Query id -> document id -> grade, a whole number. A query without documents
                stays one, and counts as 0.
            threshold: The lowest grade that says that the document is relevant.

        Raises:
            CollectionError: They are not such qrels.
        """
        return cls(
            {query: (query,) for query in checked_keys("qrels", qrels, _QRELS)},
            {query: _grades(f"query {query!r}", grades) for query, grades in qrels.items()},
            threshold=threshold,
        )

    @classmethod
    def from_diversity_qrels(
        cls, qrels: Mapping[str, Mapping[str, Mapping[str, int]]], *, threshold: int = 1
    ) -> Self:
        """Make judgments of diversity qrels, whose queries have subtopics, as those of ndeval.

        A subtopic is a nugget, which is called by its query and its own id, with a space between.

        Args:
            qrels: Query id -> subtopic id -> document id -> grade, a whole number.
            threshold: The lowest grade that says that the document is about the subtopic.

        Raises:
            CollectionError: They are not such qrels, or a query has no subtopics.
        """
        nuggets: dict[str, tuple[str, ...]] = {}
        labels: dict[str, dict[str, int]] = {}
        for query in checked_keys("qrels", qrels, _DIVERSITY):
            subtopics = checked_keys(f"query {query!r}", qrels[query], _DIVERSITY)
            nuggets[query] = tuple(f"{query} {subtopic}" for subtopic in subtopics)
            for subtopic, nugget in zip(subtopics, nuggets[query], strict=True):
                where = f"query {query!r}, subtopic {subtopic!r}"
                labels[nugget] = _grades(where, qrels[query][subtopic], _DIVERSITY)
        return cls(nuggets, labels, threshold=threshold)

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


def _grades(where: str, given: object, form: str = _QRELS) -> dict[str, int]:
    """Check the grades of documents: whole numbers, also of numpy, or as 1.0."""
    grades = checked_keys(where, given, form)
    return {document: _grade(where, document, grade, form) for document, grade in grades.items()}


def _grade(where: str, document: str, grade: object, form: str) -> int:
    # A protocol is asked slowly, and of a million grades nearly all are plain.
    if isinstance(grade, int) or isinstance(grade, SupportsIndex):  # noqa: SIM101
        return index(grade)
    if isinstance(grade, float) and grade.is_integer():
        return int(grade)
    raise CollectionError(
        f"{where}, document {document!r}: the grade is {grade!r:.200}, and not a whole number; "
        f"qrels are {form}"
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


def _refuse_plain(nuggets: object) -> None:
    """Refuse qrels where the nuggets of each query belong."""
    plain = not isinstance(nuggets, Mapping) or any(
        isinstance(ids, Mapping | str) for ids in nuggets.values()
    )
    if plain:
        raise CollectionError(
            "the nuggets of NuggetQrels are {query: (nugget, ...)}; of qrels {query: {document: "
            "grade}} NuggetQrels.from_qrels makes one, of {query: {subtopic: {document: grade}}} "
            "NuggetQrels.from_diversity_qrels"
        )


def _refuse_strangers(what: str, given: Iterable[str], every: list[str]) -> None:
    if strangers := sorted(set(given) - set(every)):
        raise CollectionError(
            f"{what}: nugget {strangers[0]!r} belongs to no query "
            f"({len(strangers)} such); add it to the nuggets of its query"
        )
