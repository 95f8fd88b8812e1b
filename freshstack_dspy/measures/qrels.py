"""Judgments as the measures read them: labels by nugget and chunk; and files of qrels."""

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

from pydantic import Field

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.label_columns import (
    LabelColumns,
    judged_chunks,
    labels_of,
    supporting,
)
from freshstack_dspy.measures.run import UNPLACED, PassageRun, text_lines
from freshstack_dspy.measures.spans import Hit, Place, Span
from freshstack_dspy.records import Record
from freshstack_dspy.rows import given_rows, rows_of

NuggetLabels = Mapping[str, Mapping[str, int]]
"""The labels of one query: nugget id -> chunk id -> label. Every nugget is a key."""
NuggetSet = tuple[int, ...]
"""The nuggets that a chunk supports, as ascending places among the query's nuggets."""
GradeRule = Literal["sum", "count", "max"]
"""How a chunk's labels, one for each nugget, become its single grade for the query. For plain qrels,
which have no nuggets, all rules give the grade in the file."""


@dataclass(eq=False, repr=False)
class Judged:
    """The labels of one query's nuggets, and what the measures read from them."""

    labels: NuggetLabels
    """Nugget id -> chunk id -> label, for the nuggets of the query."""
    rel: int = 1
    """The lowest label that counts as support, at least 1."""
    tokens: Mapping[str, int] | None = None
    """Chunk id -> its length in tokens, for measures of a context's length."""
    _: KW_ONLY
    reference: "Judged" = None  # type: ignore[assignment]
    """For a run of passages, the judgments of the collection's own chunks, which determine what can
    be found: R, the answerable nuggets and the ideal ranking; otherwise this object itself."""
    newly_found: Mapping[str, int] | None = None
    """For a run of passages, by passage id, the number of relevant chunks of the collection whose
    evidence this passage is the first to hold."""
    spans: "Callable[[], Spans] | None" = None
    """Gives where documents and evidence are, for measures in bytes, by `query_id`."""
    query_id: str = ""
    plain: bool = False
    """Whether the labels are grades for the query, which has no nuggets."""
    failed: frozenset[str] = frozenset()
    """The chunks with a failed judgment for any nugget."""

    def __post_init__(self) -> None:
        self.reference = self.reference or self
        self._grades: dict[GradeRule, Mapping[str, int]] = {}
        self.ideals: dict[tuple[float, int | None], list[tuple[int, float]]] = {}
        """What the chunks of the ideal ranking add, by alpha and depth, once computed."""
        self.redundancy: dict[str, int] = {}
        """CRUX's label of each chunk that supports a nugget, once computed."""

    def within(self, ranking: Sequence[str], tokens: int) -> Sequence[str]:
        """Give the longest top of a ranking that fits a budget of tokens.

        The first document that does not fit is left out with all that follow, because a context is
        filled in the order of its ranking.
        """
        for place, document in enumerate(ranking):
            tokens -= self.length(document)
            if tokens < 0:
                return ranking[:place]
        return ranking

    @property
    def relevant(self) -> int:
        """R, the number of relevant chunks in the collection."""
        return len(self.reference.supported)

    def finds(self, document: str) -> int:
        """Count the relevant chunks of the collection that a document of the ranking brings.

        A chunk brings itself, 0 or 1; a passage brings the chunks whose evidence no passage above
        it holds.
        """
        if self.newly_found is None:
            return int(document in self.supported)
        return self.newly_found.get(document, 0)

    def place(self, document: str) -> Place:
        """Give the place of a document; raise a CollectionError if there is no collection."""
        if self.spans is None:
            raise CollectionError(
                "measures in bytes need a collection, whose files tell where documents and "
                "evidence are; these are qrels alone"
            )
        return self.spans().place(document)

    @cached_property
    def evidence(self) -> dict[str, list[Span]]:
        """The evidence of all labels of support, by file."""
        evidence: defaultdict[str, list[Span]] = defaultdict(list)
        by_file = {} if self.spans is None else self.spans().labels(self.query_id)
        for (source, path), chunks in by_file.items():
            for chunk in chunks:
                for nugget, spans in chunk.evidence.items():
                    if nugget in self.labels and (chunk.labels[nugget] or 0) >= self.rel:
                        evidence[f"{source}/{path}"] += spans
        return evidence

    def length(self, document: str) -> int:
        """Give the length of a document in tokens, 0 if unplaced; or raise a CollectionError."""
        if document.startswith(UNPLACED):
            return 0
        try:
            return (self.tokens or {})[document]
        except KeyError:
            raise CollectionError(
                f"the length of chunk {document!r} is not known, which Density and token budgets "
                "need: evaluate on a collection that has its text, or only what is judged, as "
                "Density(judged_only=True)"
            ) from None

    @property
    def nuggets(self) -> int:
        """How many nuggets the query has."""
        return len(self.labels)

    @cached_property
    def supported(self) -> Mapping[str, NuggetSet]:
        """The chunks that support any nugget, each with the places of these nuggets."""
        supported: dict[str, NuggetSet] = {}
        for place, chunks in enumerate(supporting(self.labels, self.rel)):
            if not supported:
                supported = dict.fromkeys(chunks, (place,))
                continue
            for chunk in chunks:
                supported[chunk] = (*supported.get(chunk, ()), place)
        return supported

    @cached_property
    def kinds(self) -> Mapping[NuggetSet, tuple[int, ...]]:
        """The supporting chunks, grouped by the nuggets that they support.

        A chunk is given as its place in `supported` sorted by id, the largest id first.
        """
        kinds: defaultdict[NuggetSet, list[int]] = defaultdict(list)
        supported = self.supported
        for place, chunk in enumerate(sorted(supported, reverse=True)):
            kinds[supported[chunk]].append(place)
        return {covered: tuple(places) for covered, places in kinds.items()}

    @cached_property
    def answerable(self) -> frozenset[int]:
        """The places of the nuggets that some judged chunk of the collection supports."""
        return frozenset(chain.from_iterable(self.reference.supported.values()))

    @property
    def answerable_ids(self) -> tuple[str, ...]:
        """The ids of these nuggets."""
        return tuple(id_ for place, id_ in enumerate(self.labels) if place in self.answerable)

    @property
    def chunks(self) -> Set[str]:
        """The judged chunks: those that support a nugget, and those known to support none.

        A chunk without support that has a failed judgment could be either, so it is not judged.
        """
        if len(self.labels) == 1 and not self.failed:
            return next(iter(self.labels.values())).keys()
        return self._chunks

    @cached_property
    def _chunks(self) -> frozenset[str]:
        chunks = judged_chunks(self.labels)
        return chunks - (self.failed - self.supported.keys()) if self.failed else chunks

    @cached_property
    def not_relevant(self) -> Set[str]:
        """The chunks judged not relevant. As in trec_eval, labels below 0 do not count as judged."""
        rated = {
            chunk
            for by_chunk in self.labels.values()
            for chunk, label in by_chunk.items()
            if label >= 0
        }
        return (self.chunks & rated) - self.supported.keys()

    def grades(self, rule: GradeRule = "count") -> Mapping[str, int]:
        """Give the grade of each relevant chunk for the query, 1 or more.

        Only labels from `rel` on count. `count` is the number of nuggets that the chunk supports
        (FreshStack's own gain); `sum` adds up the labels; `max` is the highest (RUBRIC's qrels).
        For plain qrels, all three are the grade itself.
        """
        if rule == "count" and self.plain:
            rule = "sum"
        if rule not in self._grades:
            labels, combined = [*self.labels.values()], max if rule == "max" else sum
            if rule == "count":
                grades = {chunk: len(places) for chunk, places in self.supported.items()}
            elif len(labels) == 1:
                grades = {chunk: labels[0][chunk] for chunk in self.supported}
            else:
                grades = {
                    chunk: combined([labels[place][chunk] for place in places])
                    for chunk, places in self.supported.items()
                }
            self._grades[rule] = grades
        return self._grades[rule]


class OfficialDicts(NamedTuple):
    """What `EvaluateRetrieval.evaluate` of the official `freshstack` package takes."""

    qrels_nuggets: dict[str, dict[str, int]]
    """nugget id -> chunk id -> 1 (supports it) or 0."""
    query_to_nuggets: dict[str, list[str]]
    """query id -> its nugget ids."""
    qrels_query: dict[str, dict[str, int]]
    """query id -> chunk id -> how many of the query's nuggets it supports."""


class ChunkLabels(NamedTuple):
    """The labels of one chunk for the nuggets of one query, and where they are in its file."""

    chunk_id: str
    span: Span
    labels: Mapping[str, int | None]
    """Nugget id -> label; None where the judgment failed."""
    evidence: Mapping[str, Sequence[Span]]
    """Nugget id -> the evidence of a label above 0; the whole chunk if it has none."""
    without_evidence: frozenset[str]
    """The nuggets whose label is above 0 and has no evidence."""


class Spans(Protocol):
    """Where the chunks of a collection, and the evidence of their labels, are in its files."""

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths of chunks and passages in tokens, by id."""
        ...

    def place(self, document: str) -> Place:
        """Give the place of a chunk, or of a passage that `passage_id` named."""
        ...

    def labels(self, query_id: str) -> Mapping[tuple[str, str], Sequence[ChunkLabels]]:
        """Give the labels of a query by (source, path)."""
        ...

    def passage_id(self, place: Place) -> str:
        """Give the id of a passage; if it is exactly a chunk, the id of that chunk."""
        ...

    def find(self, hit: Hit) -> Place | None:
        """Give the place of a result; None if it is not known."""
        ...

    def read(self, path: Path) -> PassageRun:
        """Read a file of passages; raise a CollectionError if that fails."""
        ...


@dataclass(frozen=True)
class PassageLabels:
    """What the judgments of a collection say about the passages of one run."""

    reference: "NuggetQrels"
    """The judgments of the collection's own chunks."""
    fresh_labels: Mapping[str, Mapping[str, Sequence[tuple[str, int]]]]
    """Query id -> passage id -> (chunk id, label) of each label whose evidence the passage holds and
    no passage above it does; the passages are best first."""
    unjudged: Mapping[str, Mapping[str, float]]
    """Query id -> passage id -> the share of its bytes that are in no judged chunk."""


class People(Record):
    """The labels by people of a collection, and how many would make it calibrated."""

    labels: int = 0
    """How many there are."""
    needed: int | None = None
    """How many labels in all calibrate it four times in five; None if it is calibrated already, or no
    number is enough."""
    kappa: float | None = None
    """The kappa that this forecast assumes: the observed one, or without labels a default."""
    seconds: float | None = None
    """The median time that a label took; None if that is not known."""
    pairs: float = 0.0
    """How many judged pairs a query has."""


class About(Record):
    """Which judgments a result rests on."""

    name: str = "judgments"
    choice: str = ""
    """How queries and nuggets were chosen, shown after their number; empty for the default."""
    measured: int = 0
    """How many queries there are to measure."""
    query_ids: frozenset[str] = frozenset()
    """The ids of all queries, measured or not."""
    left_out: str = ""
    """A line on which part of the collection was left out; empty if nothing was."""
    labels_by: str = ""
    """Who made the labels, in a line."""
    uncalibrated: str = ""
    """Why labels by a model cannot be trusted yet; empty where people agree with them enough, and
    for labels that no model made."""
    by_hand: bool = False
    """Whether an agent made labels, whose requests are deferred."""
    dollars: float | None = None
    """What a question of the collection cost, in US dollars; None if that is unknown."""
    people: People = People()
    identity: dict[str, Any] = Field(default_factory=dict)
    """What the JSON output says about the judgments."""
    path: Path | None = None
    """The folder of the collection."""
    imported: str = ""
    """The format that it was imported from; empty where questions come by a build."""

    def timed(self, seconds: float | None) -> "About":
        """Give a copy that says how long a label of these people takes; None: as it was known."""
        people = self.people.model_copy(update={"seconds": seconds or self.people.seconds})
        return self.model_copy(update={"people": people})

    @property
    def origin(self) -> tuple[str, ...]:
        """Lines for what was left out, what means are over, and who made the labels."""
        left_out = f"measured on {self.left_out}" if self.left_out else ""
        return tuple(line for line in (left_out, self.weighted, self.labels_by) if line)

    @property
    def weighted(self) -> str:
        """A line on what means are over; empty where each query counts once."""
        weighted = "weights" in self.identity
        return "means per question that users asked: each counts as often as asked" * weighted


@dataclass(frozen=True, repr=False)
class NuggetQrels:
    """The nuggets of each query, and which chunks were judged to support them.

    Raises:
        CollectionError: A query has no nuggets, a nugget belongs to two queries, a label or
            failure belongs to no nugget, a pair has both, or the threshold is below 1.
    """

    nuggets: Mapping[str, tuple[str, ...]]
    """The nugget ids of each query, in order."""
    labels: Mapping[str, Mapping[str, int]]
    """Nugget id -> chunk id -> label, on the scale of the judge. A nugget that is missing from this
    argument has no labels."""
    failed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Nugget id -> ids of the chunks whose judgment failed. They have no label."""
    threshold: int = 1
    """The lowest label with which a chunk supports the nugget."""
    plain: bool = False
    """Whether labels are grades for the query, as in trec_eval's qrels; then each query has a single
    nugget, which stands for the query."""
    dry_run: bool = field(default=False, compare=False)
    """Whether a word counter made labels, from which nothing is concluded."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Chunk id -> its length in tokens; only Density and token budgets need it."""
    chunk_ids: Set[str] | None = field(default=None, compare=False)
    """All ids of the corpus, which show whether a run is of another corpus; None if not known."""
    questions: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The text of each query, where it is known."""
    weights: Mapping[str, float] = field(default_factory=dict, compare=False)
    """How often users asked each query, its weight in means; 1 where missing."""
    about: About = field(default_factory=About, compare=False)
    spans: Callable[[], Spans] | None = field(default=None, compare=False)
    """Gives, each time the same, where chunks and evidence are in the files of the collection; None
    where there is none."""
    passages: PassageLabels | None = field(default=None, compare=False)
    """What measures also need to know about a run of passages."""
    _checked: tuple[Any, ...] = field(default=(), compare=False)
    """Nuggets, labels and failures that were checked and copied; `replace` hands them on."""

    def __post_init__(self) -> None:
        if self.threshold < 1:
            raise CollectionError(f"the threshold of support is at least 1, not {self.threshold!r}")
        if [*map(id, self._checked)] == [id(self.nuggets), id(self.labels), id(self.failed)]:
            return
        nuggets = {query: tuple(ids) for query, ids in self.nuggets.items()}
        owners = _owners(nuggets)
        for judged in (self.labels, self.failed):
            if unknown := sorted(judged.keys() - owners.keys()):
                raise CollectionError(f"nugget {unknown[0]!r} is judged and belongs to no query")
        labels = labels_of(self.labels, owners)
        if not isinstance(labels, LabelColumns):
            labels = {nugget: dict(by_chunk) for nugget, by_chunk in labels.items()}
        failed = {nugget: frozenset(self.failed.get(nugget, ())) for nugget in owners}
        for nugget in filter(failed.__getitem__, owners):
            if both := failed[nugget] & labels[nugget].keys():
                raise CollectionError(
                    f"nugget {nugget!r} and chunk {min(both)!r} have a label and a failed judgment"
                )
        for name, value in (("nuggets", nuggets), ("labels", labels), ("failed", failed)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_checked", (nuggets, labels, failed))

    def __repr__(self) -> str:
        labels = sum(map(len, self.labels.values()))
        return (
            f"NuggetQrels({len(self.nuggets):,} queries, {len(self.labels):,} nuggets, "
            f"{labels:,} labels)"
        )

    @classmethod
    def from_qrels(cls, qrels: Mapping[str, Mapping[str, int]], *, threshold: int = 1) -> Self:
        """Make judgments from plain qrels, in the form of BEIR and pytrec_eval.

        Args:
            qrels: Query id -> document id -> grade, a whole number. Each query has one nugget,
                whose id is that of the query; one without documents counts as 0.
            threshold: The lowest grade of a relevant document.

        Raises:
            CollectionError: They are not such qrels.
        """
        labels = {query: _grades(f"query {query!r}", grades) for query, grades in qrels.items()}
        return cls({query: (query,) for query in qrels}, labels, threshold=threshold, plain=True)

    @classmethod
    def from_diversity_qrels(
        cls, qrels: Mapping[str, Mapping[str, Mapping[str, int]]], *, threshold: int = 1
    ) -> Self:
        """Make judgments from qrels whose queries have subtopics or nuggets, as in ndeval.

        Args:
            qrels: Query id -> nugget id -> document id -> grade, a whole number. A nugget's id
                becomes "query_id nugget_id".
            threshold: The lowest grade with which a document supports the nugget.

        Raises:
            CollectionError: They are not such qrels, or a query has no nuggets.
        """
        nuggets: dict[str, tuple[str, ...]] = {}
        labels: dict[str, dict[str, int]] = {}
        for query, by_nugget in qrels.items():
            nuggets[query] = tuple(f"{query} {nugget}" for nugget in by_nugget)
            for nugget, grades in zip(nuggets[query], by_nugget.values(), strict=True):
                labels[nugget] = _grades(f"nugget {nugget!r}", grades)
        return cls(nuggets, labels, threshold=threshold)

    @classmethod
    def of(cls, judgments: Any, *, threshold: int = 1) -> Self:
        """Make judgments from records, rows or a data frame (pandas, Polars, Arrow).

        Args:
            judgments: A list of records or of dictionaries, or a data frame, with `query_id`,
                `nugget_id`, `chunk_id` and `label`; the label None means that the judgment failed.
                If no row has a `nugget_id`, labels are grades for the query.
            threshold: The lowest label that counts as support.

        Raises:
            CollectionError: A row is not such a judgment, or a pair has two.
        """
        try:
            rows = list(given_rows(rows_of(judgments), "judgments"))
        except ValueError as error:
            raise CollectionError(f"judgments {error}") from None
        plain = not any("nugget_id" in row.values for row in rows)
        nuggets: dict[str, dict[str, None]] = {}
        labels: defaultdict[str, dict[str, int]] = defaultdict(dict)
        failed: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            query, chunk, label = row.id("query_id"), row.id("chunk_id"), row.values.get("label")
            nugget = query if plain else row.id("nugget_id")
            nuggets.setdefault(query, {})[nugget] = None
            if chunk in labels[nugget] or chunk in failed[nugget]:
                raise CollectionError(
                    f"{row.place}: nugget {nugget!r} and chunk {chunk!r} have a judgment already"
                )
            if label is None or math.isnan(label):
                failed[nugget].add(chunk)
            else:
                labels[nugget] |= _grades(row.place, {chunk: label})
        return cls(
            {query: tuple(ids) for query, ids in nuggets.items()},
            labels,
            {nugget: frozenset(chunks) for nugget, chunks in failed.items()},
            threshold=threshold,
            plain=plain,
        )

    def judged(self, query_id: str, rel: int | None = None) -> Judged:
        """Give the judgments of one query; `rel` is the lowest label of support (None: default)."""
        key = query_id, rel or self.threshold
        judged = self._judged.get(key)
        if judged is None:
            judged = self._judged[key] = self._judge(*key)
        return judged

    @cached_property
    def _judged(self) -> dict[tuple[str, int], Judged]:
        """The judgments asked for so far; the runs of a comparison share what they cache."""
        return {}

    def _judge(self, query_id: str, rel: int) -> Judged:
        labels = labels_of(self.labels, self.nuggets[query_id])
        reference, newly_found = None, None
        if self.passages is not None:
            reference, seen, newly_found = (
                self.passages.reference.judged(query_id, rel),
                set[str](),
                dict[str, int](),
            )
            for passage, chunks in self.passages.fresh_labels.get(query_id, {}).items():
                new = {chunk for chunk, label in chunks if label >= rel} - seen
                seen |= new
                newly_found[passage] = len(new)
        return Judged(
            labels,
            rel,
            self.tokens,
            reference=reference,  # type: ignore[arg-type]
            newly_found=newly_found,
            spans=self.spans,
            query_id=query_id,
            plain=self.plain,
            failed=frozenset().union(*map(self.failed.__getitem__, labels)),
        )

    def without(self, query_ids: Iterable[str]) -> Self:
        """Leave queries out; one that is not there is passed over."""
        left_out = set(query_ids)
        nuggets = {query: ids for query, ids in self.nuggets.items() if query not in left_out}
        nugget_ids = [*chain.from_iterable(nuggets.values())]
        labels = labels_of(self.labels, nugget_ids)
        failed = {nugget: self.failed[nugget] for nugget in nugget_ids}
        return replace(self, nuggets=nuggets, labels=labels, failed=failed)

    def official(self) -> OfficialDicts:
        """Give the three dictionaries that the official evaluator takes, labels made 0 or 1."""
        binary = {
            nugget: {chunk: int(label >= self.threshold) for chunk, label in labels.items()}
            for nugget, labels in self.labels.items()
        }
        counts: dict[str, Counter[str]] = {query: Counter() for query in self.nuggets}
        for query, ids in self.nuggets.items():
            for nugget in ids:
                counts[query].update(binary[nugget])
        nuggets = {query: list(ids) for query, ids in self.nuggets.items()}
        return OfficialDicts(
            binary, nuggets, {query: dict(chunk_counts) for query, chunk_counts in counts.items()}
        )


def _owners(nuggets: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for query, ids in nuggets.items():
        if not ids:
            raise CollectionError(f"query {query!r} has no nuggets; leave it out of the qrels")
        for nugget in ids:
            if nugget in owners:
                raise CollectionError(
                    f"nugget {nugget!r} belongs to query {owners[nugget]!r} and to {query!r}"
                )
            owners[nugget] = query
    return owners


def _grades(where: str, grades: Mapping[str, Any]) -> dict[str, int]:
    """Check that grades are whole numbers; numpy's and 1.0 are accepted."""
    if set(map(type, grades.values())) == {int}:
        return dict(grades)
    whole = {}
    for document, grade in grades.items():
        if type(grade) is not int and (isinstance(grade, Mapping) or int(grade) != grade):
            raise CollectionError(
                f"{where}, document {document!r}: the grade is {grade!r:.80}; qrels are "
                "{query: {document: whole number}} or {query: {nugget: {document: whole number}}}"
            )
        whole[document] = int(grade)
    return whole


class HasQrels(Protocol):
    """Something with judgments, such as a `Collection`."""

    def qrels(self) -> NuggetQrels:
        """Give the judgments."""
        ...


QrelsSource = NuggetQrels | HasQrels | Path | str | Mapping[str, Mapping[str, Any]]
"""Judgments, a collection, a file of qrels, {query: {document: grade}} or
{query: {nugget: {document: label}}}."""


def to_qrels(source: QrelsSource) -> NuggetQrels:
    """Give judgments in any of these forms; raise a CollectionError if they cannot be read."""
    if isinstance(source, NuggetQrels):
        return source
    if isinstance(source, str | Path):
        return read_qrels(source)
    if isinstance(source, Mapping):
        inner = chain.from_iterable(value.values() for value in source.values())
        if isinstance(next(inner, None), Mapping) and all(
            isinstance(value, Mapping) for value in inner
        ):
            return NuggetQrels.from_diversity_qrels(source)
        return NuggetQrels.from_qrels(source)
    if not hasattr(source, "qrels"):
        raise CollectionError(
            f"{type(source).__name__} holds no judgments; give a collection, qrels, their file or "
            "dictionary, or NuggetQrels.of(rows)"
        )
    return source.qrels()


_FORMS = (
    "a line is: query 0 document grade, or: query subtopic document grade, or with tabs between: "
    "query-id, corpus-id and score; a grade is a whole number"
)
_ITERATION = ("0", "Q0", "q0")


def read_qrels(
    path: Path | str, *, subtopics: bool | None = None, threshold: int = 1
) -> NuggetQrels:
    """Read qrels as judgments, to evaluate runs without a collection.

    The first line shows the form: TREC's four columns `query 0 document grade`, where a document
    id may hold spaces, or BEIR's three columns separated by tabs, with or without a header. In
    TREC's form, the second column is a subtopic if it varies between lines, as in the diversity
    qrels that ndeval reads, and otherwise an iteration, which means nothing.

    Args:
        path: A UTF-8 text file.
        subtopics: Whether the second column is a subtopic; None: if it varies. `0` and `Q0` are the
            same.
        threshold: The lowest grade of a relevant document.

    Raises:
        CollectionError: With file and line: a line cannot be understood, or a document is there
            twice. Also if the file is empty or cannot be read.
    """
    rows = list(_rows(Path(path)))
    if subtopics is None:
        subtopics = len({"0" if row[2] in _ITERATION else row[2] for row in rows}) > 1
    graded: dict[str, dict[str, dict[str, int]]] = {}
    for number, query, subtopic, document, grade in rows:
        grades = graded.setdefault(query, {}).setdefault(subtopic if subtopics else "", {})
        if document in grades:  # as in trec_eval
            raise CollectionError(
                f"{path}:{number}: query {query!r}, document {document[:200]!r} is there twice, "
                f"with the grades {grades[document]} and {grade}; keep one line"
            )
        grades[document] = grade
    if subtopics:
        return NuggetQrels.from_diversity_qrels(graded, threshold=threshold)
    whole = {
        query: grades for query, by_subtopic in graded.items() for grades in by_subtopic.values()
    }
    return NuggetQrels.from_qrels(whole, threshold=threshold)


def _rows(path: Path) -> Iterator[tuple[int, str, str, str, int]]:
    """Give number, query, second column, document and grade of each line."""
    lines = list(text_lines(path, "file of qrels"))
    table = bool(lines) and lines[0][1].count("\t") == 2
    if table and not lines[0][1].strip()[-1].isdigit():  # names of the columns
        lines = lines[1:]
    if not lines:
        raise CollectionError(f"{path}: the qrels are empty; {_FORMS}")
    for number, line in lines:
        try:
            yield number, *_fields(line.rstrip("\r\n"), table=table)
        except ValueError:
            raise CollectionError(
                f"{path}:{number}: {line.strip()[:200]!r} is no line of qrels; {_FORMS}"
            ) from None


def _fields(line: str, *, table: bool) -> tuple[str, str, str, int]:
    """Split a line of qrels; a ValueError if it is not one. A grade may be written `1.0`."""
    if table:
        query, document, grade = next(csv.reader([line], delimiter="\t"))
        second = ""
    else:
        query, second, tail = line.split(None, 2)
        document, grade = tail.rsplit(None, 1)
    if not float(grade).is_integer():
        raise ValueError
    return query, second, document, int(float(grade))
