"""Validating what is in the layout of the official FreshStack data sets."""

from collections.abc import Iterator

from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.collection.layouts import FRESHSTACK_CORPUS, FRESHSTACK_QUERIES
from freshstack_dspy.collection.validation.export_reading import ExportReading
from freshstack_dspy.errors import SourceError

_LISTS = ("relevant_corpus_ids", "non_relevant_corpus_ids")


def check_freshstack(reading: ExportReading) -> None:
    """Check both data sets, and that the official loader gives each nugget to its own query."""
    chunks = reading.take_ids("chunks", reading.rows(FRESHSTACK_CORPUS), "_id", "text")
    rows = list(reading.rows(FRESHSTACK_QUERIES))
    queries = reading.take_ids("queries", rows, "query_id", "query_text")
    nuggets = list(_nuggets(reading, rows))
    reading.take_ids("nuggets", (nugget for _, nugget in nuggets), "_id", "text")
    for query_id, nugget in nuggets:
        _check_nugget(reading, query_id, nugget, chunks)
        own = str(nugget.values.get("_id"))
        for other in _misled(query_id, own, queries):
            reading.findings.fault(
                nugget.place,
                f"nugget {shown(own)} of query {shown(query_id)} goes to query {shown(other)} in "
                "the official loader, which takes nugget ids apart",
            )


def _nuggets(reading: ExportReading, rows: list[Row]) -> Iterator[tuple[str, Row]]:
    for row in rows:
        try:
            query_id, nuggets = str(row.values.get("query_id")), list(row.inners("nuggets"))
        except SourceError as error:
            reading.findings.fault(row.place, str(error).removeprefix(f"{row.place}: "))
            continue
        if not nuggets:
            reading.findings.warn(row.place, f"query {shown(query_id)} has no nugget")
        for number, nugget in enumerate(nuggets, start=1):
            yield query_id, nugget._replace(file=f"{row.file}:{row.number} nugget", number=number)


def _check_nugget(reading: ExportReading, query_id: str, nugget: Row, chunks: set[str]) -> None:
    judged: set[str] = set()
    for name in _LISTS:
        try:
            ids = nugget.texts(name)
        except SourceError as error:
            reading.findings.fault(nugget.place, str(error).removeprefix(f"{nugget.place}: "))
            continue
        for chunk_id in ids:
            reading.lead(nugget.place, "chunk", chunk_id, chunks)
            if chunk_id in judged:
                reading.findings.fault(nugget.place, f"names chunk {shown(chunk_id)} twice")
            judged.add(chunk_id)
    if not judged:
        reading.findings.warn(nugget.place, f"a nugget of query {shown(query_id)} has no judgment")


def _misled(query_id: str, nugget_id: str, queries: set[str]) -> Iterator[str]:
    """Give the queries that the loader hands a nugget to, and the nugget is not of."""
    if nugget_id.split("_", maxsplit=1)[0] != query_id:
        yield nugget_id.split("_", maxsplit=1)[0]
    for end in range(1, len(nugget_id) + 1):
        if (start := nugget_id[:end]) in queries and start != query_id:
            yield start
