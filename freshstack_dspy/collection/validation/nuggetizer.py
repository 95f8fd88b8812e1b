"""Validating what is in nuggetizer's JSON Lines."""

from typing import get_args

from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.collection.layouts import (
    NUGGETIZER_ASSIGNMENTS,
    NUGGETIZER_INPUT,
    NUGGETIZER_NUGGETS,
)
from freshstack_dspy.collection.validation.export_reading import ExportReading
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Assignment

_ASSIGNMENTS = get_args(Assignment)
_IMPORTANCE = ("vital", "okay", "failed")


def check_nuggetizer(reading: ExportReading) -> None:
    """Check nuggets, assignments and the input."""
    rows = list(reading.rows(NUGGETIZER_NUGGETS))
    queries = reading.take_ids("queries", rows, "qid", "query")
    nuggets = {str(row.values.get("qid")): _texts(reading, row, "importance") for row in rows}
    reading.findings.counts["nuggets"] = sum(map(len, nuggets.values()))
    seen: dict[tuple[str, ...], str] = {}
    for row in reading.rows(NUGGETIZER_ASSIGNMENTS):
        query_id, chunk_id = str(row.values.get("qid")), str(row.values.get("docid"))
        reading.once(row.place, (query_id, chunk_id), seen)
        if not isinstance(row.values.get("candidate_text"), str):
            reading.findings.fault(row.place, "has no candidate_text")
        if reading.lead(row.place, "query", query_id, queries):
            for text in _texts(reading, row, "assignment"):
                reading.lead(row.place, "nugget", text, nuggets[query_id])
    reading.unjudged(queries, {query_id for query_id, _ in seen})
    for row in reading.rows(NUGGETIZER_INPUT):
        try:
            query_id = str(row.inner("query").values.get("qid"))
        except SourceError as error:
            reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
            continue
        reading.lead(row.place, "query", query_id, queries)


def _texts(reading: ExportReading, row: Row, name: str) -> list[str]:
    """Give the texts of a row's nuggets; each must have a word of the right kind."""
    allowed = _IMPORTANCE if name == "importance" else _ASSIGNMENTS
    try:
        each = [(nugget.text("text"), nugget.text(name)) for nugget in row.inners("nuggets")]
    except SourceError as error:
        reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
        return []
    for text, word in each:
        if word not in allowed:
            reading.findings.fault(
                row.place, f"{name} of {shown(text)} is {word!r}; allowed: {', '.join(allowed)}"
            )
    return [text for text, _ in each]
