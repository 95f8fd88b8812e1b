"""The lines of qrels: TREC's `query iteration document grade`, and BEIR's tables of three columns."""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

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
            yield QrelsLine(began, fields[0], None, fields[1], _grade(began, fields[2]))
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
            yield QrelsLine(number, query, second, document, _grade(number, grade))
            continue
        line = text.strip(" \t")
        if not line:
            continue
        found = _TREC.fullmatch(line)
        if found is None:
            raise QrelsLineError(number, "not a line of qrels; a line is: query 0 document grade")
        value = _grade(number, found["grade"])
        yield QrelsLine(number, found["query"], found["second"], found["document"], value)


def _grade(number: int, text: str) -> int:
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
