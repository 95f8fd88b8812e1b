"""The judgments of a collection as the measures read them: labels by nugget and chunk."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, SupportsIndex

from freshstack_dspy.errors import CollectionError


def checked_keys(where: str, given: object, form: str) -> Mapping[str, Any]:
    """Check that something is a dictionary whose keys are ids.

    Args:
        where: What it is, as a message begins.
        given: It.
        form: What is expected as a whole, as a message ends.

    Raises:
        CollectionError: It is none, or an id is not a text.
    """
    if not isinstance(given, Mapping):
        raise CollectionError(
            f"{where}: a {type(given).__name__}, {given!r:.80}, and not a dictionary; "
            f"they are {form}"
        )
    for key in given:
        if not isinstance(key, str):
            raise CollectionError(
                f"{where}: an id is a text, as '1', not {key!r:.80}; type str(id)"
            )
    return given


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
        _check_plain(self.nuggets)
        if self.threshold < 1:
            raise CollectionError(f"the threshold of support is at least 1, not {self.threshold!r}")
        nuggets = {query: tuple(ids) for query, ids in self.nuggets.items()}
        every = _each_once(nuggets)
        _check_strangers("labels", self.labels, every)
        _check_strangers("failed", self.failed, every)
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


def _check_plain(nuggets: object) -> None:
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


def _check_strangers(what: str, given: Iterable[str], every: list[str]) -> None:
    if strangers := sorted(set(given) - set(every)):
        raise CollectionError(
            f"{what}: nugget {strangers[0]!r} belongs to no query "
            f"({len(strangers)} such); add it to the nuggets of its query"
        )


_NUMBER = re.compile(r"[+-]?[0-9]{1,9}(?:\.0+)?")
_TREC = re.compile(
    r"(?P<query>\S+)[ \t]+(?P<second>\S+)[ \t]+(?P<document>\S.*?)[ \t]+(?P<grade>\S+)"
)
_HEADERS = (
    frozenset(("query-id", "queryid", "qid", "query", "topic", "topic-id")),
    frozenset(("corpus-id", "corpusid", "doc-id", "docid", "document-id", "passage-id", "pid")),
    frozenset(("score", "relevance", "rel", "label", "grade")),
)
"""What the three columns are called in a table's first line, in small letters and with hyphens."""
_COLUMNS = 4
"""Of TREC's form."""
_BYTE_ORDER_MARK = "\ufeff"


class QrelsLine(NamedTuple):
    """One line of qrels."""

    number: int
    """Of the line, from 1."""
    query_id: str
    second: str | None
    """TREC's second column: an iteration, or a subtopic; a table has none."""
    document_id: str
    grade: int


class QrelsLineError(ValueError):
    """A line that is none of qrels.

    Attributes:
        number: Of the line, from 1.
    """

    def __init__(self, number: int, said: str) -> None:
        super().__init__(said)
        self.number = number


def qrels_lines(lines: Iterable[tuple[int, bytes]]) -> Iterator[QrelsLine]:
    """Take lines of qrels apart; the first tells of which form all are.

    Three fields with tabs between are a table as BEIR's own loader reads it, with or without a
    line of names; a field with a tab or a quotation mark in it is quoted. All else is TREC's
    form, where a document id may hold spaces. A grade is a whole number, also as `1.0`.

    Args:
        lines: All lines with their numbers, in UTF-8.

    Raises:
        QrelsLineError: A line is none of this form.
    """
    texts = ((number, _decoded(number, line)) for number, line in lines)
    for first in texts:
        if first[1].strip():
            every = chain([first], texts)
            return _table(every, first[0]) if _is_table(first[1]) else _trec(every)
    return iter(())


def _is_table(text: str) -> bool:
    """Count the fields of a line; one that is damaged is counted by its tabs."""
    try:
        return len(next(csv.reader([text], delimiter="\t"), [])) == len(_HEADERS)
    except csv.Error:
        return text.count("\t") + 1 == len(_HEADERS)


def _table(texts: Iterable[tuple[int, str]], begins: int) -> Iterator[QrelsLine]:
    reader = csv.reader((f"{text}\n" for _, text in texts), delimiter="\t", strict=True)
    number, first = begins, True
    try:
        for fields in reader:
            began, number = number, begins + reader.line_num
            if not fields:
                continue
            header, first = first and _is_header(fields), False
            if header:
                continue
            if len(fields) != len(_HEADERS) or not fields[0] or not fields[1]:
                raise QrelsLineError(
                    began,
                    f"{len(fields)} fields; a line is: query-id, corpus-id and score, with tabs "
                    "between",
                )
            yield QrelsLine(began, fields[0], None, fields[1], _grade_qrels_lines(began, fields[2]))
    except csv.Error as error:
        raise QrelsLineError(number, f"not a table with tabs: {error}") from None


def _is_header(fields: list[str]) -> bool:
    """Tell whether these are names of columns; a grade that is no number does not make them so."""
    names = [field.strip().lower().replace("_", "-") for field in fields]
    return len(names) == len(_HEADERS) and all(
        name in known for name, known in zip(names, _HEADERS, strict=True)
    )


def _trec(texts: Iterable[tuple[int, str]]) -> Iterator[QrelsLine]:
    for number, text in texts:
        fields = text.split()
        if len(fields) == _COLUMNS:  # Nearly all lines; the pattern takes three times as long.
            query, second, document, grade = fields
            yield QrelsLine(number, query, second, document, _grade_qrels_lines(number, grade))
            continue
        line = text.strip(" \t")
        if not line:
            continue
        found = _TREC.fullmatch(line)
        if found is None:
            raise QrelsLineError(number, "not a line of qrels; a line is: query 0 document grade")
        value = _grade_qrels_lines(number, found["grade"])
        yield QrelsLine(number, found["query"], found["second"], found["document"], value)


def _grade_qrels_lines(number: int, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise QrelsLineError(
            number, f"the grade is {text[:40]!r}; allowed: a whole number, at the end of the line"
        )
    return int(text.split(".", maxsplit=1)[0])


def _decoded(number: int, line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise QrelsLineError(
            number,
            f"not UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line; "
            "save the file as UTF-8",
        ) from None
    return text.rstrip("\r\n").removeprefix(_BYTE_ORDER_MARK if number == 1 else "")


LONGEST_LINE = 1 << 20
"""Bytes; this bounds our memory."""
_GZIP = b"\x1f\x8b"
_WHOLE = frozenset(("0", "Q0", "q0"))
_FORMS = "a line is: query 0 document grade, or: query subtopic document grade"


def read_qrels(
    path: Path | str, *, subtopics: bool | None = None, threshold: int = 1
) -> NuggetQrels:
    """Read qrels as judgments, to evaluate runs without a collection.

    The first line tells the form: TREC's four columns `query 0 document grade`, where a document
    id may hold spaces, or BEIR's three with tabs between, with or without a line of names. The
    second of four is a subtopic where it is not the same in all lines, as in the diversity qrels
    that ndeval reads, and else an iteration, which says nothing. Blank lines are passed over.

    Args:
        path: A UTF-8 text file.
        subtopics: Whether the second column is a subtopic; None: where it varies. `0` and `Q0`
            are the same.
        threshold: The lowest grade that says that a document is relevant.

    Raises:
        CollectionError: With file and line, where a line cannot be understood or a document has
            two grades; or the file is empty or cannot be read, or has no second column.
    """
    path = Path(path)
    try:
        lines = list(qrels_lines(_lines(path)))
    except QrelsLineError as fault:
        raise CollectionError(f"{path}:{fault.number}: {fault}") from None
    except OSError as error:
        raise CollectionError(f"{path}: the qrels cannot be read: {error.strerror}") from None
    if not lines:
        raise CollectionError(f"{path}: the qrels are empty; {_FORMS}")
    if subtopics and lines[0].second is None:
        raise CollectionError(
            f"{path}: a table of three columns has no subtopics; {_FORMS}, or leave subtopics out"
        )
    if subtopics is None:
        subtopics = len({_second(line) for line in lines}) > 1
    graded = _graded_qrels_file(path, lines, subtopics=subtopics)
    if subtopics:
        return NuggetQrels.from_diversity_qrels(graded, threshold=threshold)
    whole = {query: grades for query, of in graded.items() for grades in of.values()}
    return NuggetQrels.from_qrels(whole, threshold=threshold)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if number == 1 and line.startswith(_GZIP):
                raise QrelsLineError(number, "the file is compressed; unpack it with gunzip")
            if len(line) > LONGEST_LINE:
                raise QrelsLineError(number, f"longer than {LONGEST_LINE >> 20} MiB")
            yield number, line


def _graded_qrels_file(
    path: Path, lines: list[QrelsLine], *, subtopics: bool
) -> dict[str, dict[str, dict[str, int]]]:
    """Give grades by query, subtopic (one, where there are none) and document."""
    graded: dict[str, dict[str, dict[str, int]]] = {}
    for line in lines:
        second = (line.second or "") if subtopics else ""
        grades = graded.setdefault(line.query_id, {}).setdefault(second, {})
        before = grades.setdefault(line.document_id, line.grade)
        if before != line.grade:
            of = f", subtopic {second!r}" if subtopics else ""
            raise CollectionError(
                f"{path}:{line.number}: query {line.query_id!r}{of}, document "
                f"{line.document_id[:200]!r}: the grade is {line.grade}, and {before} above; "
                "keep one"
            )
    return graded


def _second(line: QrelsLine) -> str | None:
    return "0" if line.second in _WHOLE else line.second
