"""Queries from JSON Lines: one `Query` record per line."""

from collections import Counter
from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.records import Query
from freshstack_dspy.sources.selection import Selection, instant

_BOM = b"\xef\xbb\xbf"


def read_jsonl(path: Path, selection: Selection, rejected: Counter[str]) -> list[Query]:
    """Read the queries of a JSON Lines file, in the order of the file.

    Blank lines and a byte order mark are passed over. Types are taken strictly: a number is no
    string. A question whose only fault is that it has no answer is rejected, not an error.

    Args:
        path: The file, in UTF-8.
        selection: The filters.
        rejected: Reason to count; added to.

    Raises:
        SourceError: `file:line: …` for a line that is not a `Query`, an id that is there twice,
            or an id with white space.
    """
    queries: list[Query] = []
    line_of: dict[str, int] = {}
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                data = line.removeprefix(_BOM) if number == 1 else line
                if not data.strip():
                    continue
                place = f"{path}:{number}"
                query = _parsed(data.strip(), place, rejected)
                if query is None:
                    continue
                _check_id(query.query_id, place)
                first = line_of.setdefault(query.query_id, number)
                if first != number:
                    raise SourceError(
                        f"{place}: query_id {query.query_id!r} is already on line {first}; "
                        "each question needs an id of its own"
                    )
                reason = _reason_against(query, selection, place)
                if reason:
                    rejected[reason] += 1
                else:
                    queries.append(query)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    return queries


def _parsed(data: bytes, place: str, rejected: Counter[str]) -> Query | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{place}: not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start + 1} of the line; "
            "save the file as UTF-8"
        ) from None
    try:
        return Query.model_validate_json(text, strict=True)
    except ValidationError as error:
        reason = _lacks_only_the_answer(error)
        if reason is None:
            raise SourceError(f"{place}: {_said(error)}") from None
        rejected[reason] += 1
        return None


def _check_id(query_id: str, place: str) -> None:
    """Refuse ids that would break the lines of run and qrels files."""
    if any(character.isspace() or not character.isprintable() for character in query_id):
        raise SourceError(
            f"{place}: query_id is {query_id!r}: white space and control characters are not allowed"
        )


def _lacks_only_the_answer(error: ValidationError) -> str | None:
    faults = error.errors(include_url=False)
    if any(fault["loc"] != ("answer",) for fault in faults):
        return None
    fault = faults[0]
    if fault["type"] == "missing" or fault["input"] is None:
        return "no accepted answer"
    return "empty answer" if fault["input"] == "" else None


def _reason_against(query: Query, selection: Selection, place: str) -> str | None:
    try:
        asked = None if query.asked_at is None else instant(query.asked_at)
    except ValueError:
        raise SourceError(
            f"{place}: asked_at is {query.asked_at!r}; allowed: an ISO 8601 date and time, "
            "as 2023-01-31T12:00:00"
        ) from None
    if not query.answer.strip():
        return "empty answer"
    return selection.reason_against(query.tags, asked, query.score)


def _said(error: ValidationError) -> str:
    """Say what is wrong with a line: that it is no JSON object, or every fault by field."""
    fault = error.errors(include_url=False)[0]
    return in_one_line(error, Query) if fault["loc"] else fault["msg"]
