"""Validating what is in the layout of a data set of the Hugging Face hub."""

from collections.abc import Mapping

from pydantic import ValidationError

from freshstack_dspy.collection.imports.rows import Row
from freshstack_dspy.collection.jsonl import first_fault
from freshstack_dspy.collection.layouts import README_FILE
from freshstack_dspy.collection.validation.export_reading import ExportReading
from freshstack_dspy.records import Candidate, Chunk, Judgment, Nugget, Query, Record

_RECORDS: Mapping[str, type[Record]] = {
    "queries": Query, "nuggets": Nugget, "corpus": Chunk, "judgments": Judgment, "pool": Candidate,
}  # fmt: skip
_QRELS = "qrels"


def check_hugging_face(reading: ExportReading) -> None:
    """Check that each row is its record, that no id leads nowhere, and that the card is there."""
    if not (reading.folder / README_FILE).is_file():
        reading.findings.fault(README_FILE, "is missing, by which the hub finds the files")
    rows = {config: list(reading.rows(config)) for config in (*_RECORDS, _QRELS)}
    for config, record in _RECORDS.items():
        for row in rows[config]:
            _check_record(reading, row, record)
    queries = reading.take_ids("queries", rows["queries"], "query_id", "title")
    nuggets = reading.take_ids("nuggets", rows["nuggets"], "nugget_id", "text")
    chunks = reading.take_ids("chunks", rows["corpus"], "chunk_id", "text")
    known = (
        ("query_id", "query", queries),
        ("nugget_id", "nugget", nuggets),
        ("chunk_id", "chunk", chunks),
    )
    for config in ("nuggets", "judgments", "pool", _QRELS):
        seen: dict[tuple[str, ...], str] = {}
        for row in rows[config]:
            ids = []
            for name, kind, there in known:
                if name in row.values:
                    ids.append(str(row.values[name]))
                    reading.lead(row.place, kind, ids[-1], there)
            reading.once(row.place, tuple(ids), seen)
    reading.unjudged(queries, {str(row.values.get("query_id")) for row in rows[_QRELS]})
    reading.findings.counts["judgments"] = len(rows["judgments"])


def _check_record(reading: ExportReading, row: Row, record: type[Record]) -> None:
    try:
        record.model_validate(row.values)
    except ValidationError as error:
        reading.findings.fault(row.place, f"not a {record.__name__}: {first_fault(error)}")
