"""Qrels read from a file: TREC's for whole queries and for subtopics, and BEIR's table."""

from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.qrels_lines import QrelsLine, QrelsLineError, qrels_lines

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
    graded = _graded(path, lines, subtopics=subtopics)
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


def _graded(
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
