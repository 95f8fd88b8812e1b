"""Qrels of others: BEIR's tables of three columns, TREC's lines of four, and rows of data sets."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.collection.imports.lines import begins_with, read_lines
from freshstack_dspy.collection.imports.rows import Row, read_rows
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.qrels_lines import QrelsLineError, qrels_lines

_COLUMNS = ("query-id", "corpus-id", "score")
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
    return _of_lines(path)


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


def _of_lines(path: Path) -> Iterator[Qrel]:
    try:
        for line in qrels_lines(read_lines(path)):
            place = f"{path}:{line.number}"
            if line.second is not None and line.second not in _ADHOC:
                raise SourceError(
                    f"{place}: {line.second!r} in the second column, where qrels of whole queries "
                    "have 0; those of subtopics cannot be imported, for nobody knows the texts of "
                    "the subtopics"
                )
            yield Qrel(line.query_id, line.document_id, line.grade, place)
    except QrelsLineError as fault:
        raise SourceError(f"{path}:{fault.number}: {fault}") from None
