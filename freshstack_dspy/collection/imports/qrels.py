"""Qrels of others: BEIR's tables of three columns, TREC's lines of four, and rows of data sets."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.collection.imports.lines import begins_with, read_lines
from freshstack_dspy.collection.imports.rows import Row, read_rows
from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.lines import decoded

_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.0+)?")
_TREC = re.compile(
    r"(?P<query>\S+)[ \t]+(?P<iteration>\S+)[ \t]+(?P<doc>\S.*?)[ \t]+(?P<grade>\S+)"
)
_COLUMNS = ("query-id", "corpus-id", "score")
_HEADERS = (
    frozenset(("query-id", "queryid", "qid", "query", "topic", "topic-id")),
    frozenset(("corpus-id", "corpusid", "doc-id", "docid", "document-id", "passage-id", "pid")),
    frozenset(("score", "relevance", "rel", "label", "grade")),
)
"""What the three columns are called in a table's first line, in small letters and with hyphens."""
_LARGEST_GRADE = 10**9
_ADHOC = frozenset(("0", "Q0", "q0"))
_PARQUET = b"PAR1"


class Qrel(NamedTuple):
    """One line of qrels."""

    query_id: str
    doc_id: str
    grade: int
    place: str


def read_qrels(path: Path) -> Iterator[Qrel]:
    """Give the qrels of a file, whose form is told by its first line.

    Args:
        path: A table `query-id  corpus-id  score` with tabs, with or without a line of names;
            TREC's `query 0 document grade`, where a document id may hold spaces; or rows of
            JSON Lines or Parquet with these three names.

    Raises:
        SourceError: With file and line, where a line is none, a pair is graded twice, or the
            qrels are of subtopics.
    """
    seen: dict[tuple[str, str], str] = {}
    for qrel in _read(path):
        pair = (qrel.query_id, qrel.doc_id)
        if (first := seen.get(pair)) is not None:
            raise SourceError(
                f"{qrel.place}: query {qrel.query_id!r} and document {qrel.doc_id!r} are graded "
                f"at {first} already; keep one"
            )
        seen[pair] = qrel.place
        yield qrel


def _read(path: Path) -> Iterator[Qrel]:
    if path.is_dir() or begins_with(path, _PARQUET):
        return map(_of_row, read_rows(path, _COLUMNS))
    first = next((line for _, line in read_lines(path) if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        return map(_of_row, read_rows(path, _COLUMNS))
    return _table(path) if _fields_of(first) == len(_COLUMNS) else _trec(path)


def _fields_of(line: bytes) -> int:
    """Count the fields of a table's line; one that is damaged is counted by its tabs."""
    try:
        return len(next(csv.reader([line.decode("utf-8", "replace")], delimiter="\t"), []))
    except csv.Error:
        return line.count(b"\t") + 1


def _of_row(row: Row) -> Qrel:
    score = row.values.get("score")
    if (
        isinstance(score, bool)
        or not isinstance(score, (int, float))
        or not -_LARGEST_GRADE < score < _LARGEST_GRADE
        or score != int(score)
    ):
        raise row.fault("score", "a whole number of at most 9 digits")
    return Qrel(row.id("query-id"), row.id("corpus-id"), int(score), row.place)


def _table(path: Path) -> Iterator[Qrel]:
    # As BEIR's own loader reads it: a field with a tab or a quotation mark in it is quoted.
    lines = (f"{decoded(line, f'{path}:{number}')}\n" for number, line in read_lines(path))
    reader = csv.reader(lines, delimiter="\t", strict=True)
    began, first = 1, True
    try:
        for fields in reader:
            place = f"{path}:{began}"
            began = reader.line_num + 1
            if not fields:
                continue
            header, first = first and _is_header(fields), False
            if header:
                continue
            if len(fields) != len(_COLUMNS) or not fields[0] or not fields[1]:
                raise SourceError(
                    f"{place}: {len(fields)} fields; a line is: query-id, corpus-id and score, "
                    "with tabs between"
                )
            yield Qrel(fields[0], fields[1], _grade(fields[2], place), place)
    except csv.Error as error:
        raise SourceError(f"{path}:{began}: not a table with tabs: {error}") from None


def _is_header(fields: list[str]) -> bool:
    """Tell whether these are names of columns; a grade that is no number does not make them so."""
    names = [field.strip().lower().replace("_", "-") for field in fields]
    return len(names) == len(_HEADERS) and all(
        name in known for name, known in zip(names, _HEADERS, strict=True)
    )


def _trec(path: Path) -> Iterator[Qrel]:
    for number, line in read_lines(path):
        place = f"{path}:{number}"
        text = decoded(line, place).strip(" \t")
        if not text:
            continue
        found = _TREC.fullmatch(text)
        if found is None:
            raise SourceError(f"{place}: not a line of qrels; a line is: query 0 document grade")
        if found["iteration"] not in _ADHOC:
            raise SourceError(
                f"{place}: {found['iteration']!r} in the second column, where qrels of whole "
                "queries have 0; those of subtopics cannot be imported, for nobody knows the "
                "texts of the subtopics"
            )
        yield Qrel(found["query"], found["doc"], _grade(found["grade"], place), place)


def _grade(text: str, place: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise SourceError(f"{place}: the grade is {text[:40]!r}; allowed: a whole number")
    return int(text.split(".", maxsplit=1)[0])
