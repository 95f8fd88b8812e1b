"""Queries from JSON Lines: one `Query` record per line, or one object whose columns are named."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.config.inputs import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.records import Query
from freshstack_dspy.sources.questions.columns import Columns
from freshstack_dspy.sources.questions.intake import Intake
from freshstack_dspy.sources.questions.json_objects import json_object
from freshstack_dspy.sources.questions.lines import ReadProgress, decoded, read_lines


def read_jsonl(
    path: Path,
    columns: Mapping[QueryColumn, str],
    intake: Intake,
    progress: ReadProgress | None = None,
) -> None:
    """Read the queries of a JSON Lines file, in the order of the file.

    Blank lines and a byte order mark are passed over. A question whose only fault is that it has
    no answer is rejected, not an error. Without `columns` a line is a `Query`, with types taken
    strictly and no other keys; with them it is read as a row of a table is.

    Args:
        path: The file, in UTF-8.
        columns: Under which key each part of a query is there.
        intake: Takes the queries.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: `file:line: …` for a line that is not a `Query`, an id that is there twice,
            or an id with white space.
    """
    named = Columns(columns)
    for number, data in read_lines(path, progress):
        if not data.strip():
            continue
        place = f"{path}:{number}"
        text = decoded(data.strip(), place)
        if columns:
            row = json_object(text, place)
            query = named.query(row, place, intake)
        else:
            query = _parsed(text, place, intake)
        if query is not None:
            intake.take(query, str(path), number)


def _parsed(text: str, place: str, intake: Intake) -> Query | None:
    try:
        return Query.model_validate_json(text, strict=True)
    except ValidationError as error:
        reason = _lacks_only_the_answer(error)
        if reason is None:
            raise SourceError(f"{place}: {_said(error)}") from None
        intake.reject(reason)
        return None


def _lacks_only_the_answer(error: ValidationError) -> str | None:
    fault, *others = error.errors(include_url=False)
    if others:
        return None
    given = fault["input"]
    if fault["loc"] == () and isinstance(given, dict) and not given.get("answer"):
        return "empty answer" if "answer" in given else "no accepted answer"
    return "no accepted answer" if fault["loc"] == ("answer",) and given is None else None


def _said(error: ValidationError) -> str:
    """Say what is wrong with a line: that it is no JSON object, or every fault by field."""
    fault = error.errors(include_url=False)[0]
    return in_one_line(error, Query) if fault["loc"] else fault["msg"]
