"""Validating what is in the layouts of BEIR and MTEB."""

from freshstack_dspy.collection.layouts import (
    BEIR_CORPUS,
    BEIR_QRELS,
    BEIR_QUERIES,
    MTEB_TASK,
    MTEB_TASK_VALUES,
)
from freshstack_dspy.collection.validation.export_reading import ExportReading


def check_beir(reading: ExportReading) -> None:
    """Check corpus, queries and every table of qrels."""
    chunks = reading.take_ids("chunks", reading.rows(BEIR_CORPUS), "_id", "text")
    queries = reading.take_ids("queries", reading.rows(BEIR_QUERIES), "_id", "text")
    folder = reading.folder / BEIR_QRELS.split("/", maxsplit=1)[0]
    tables = sorted(f"{folder.name}/{path.name}" for path in folder.glob("*.tsv")) or [BEIR_QRELS]
    judged: set[str] = set()
    for table in tables:
        seen: dict[tuple[str, ...], str] = {}
        for line in reading.table(table, 3, header=True):
            query_id, chunk_id, _ = line.fields
            reading.once(line.place, (query_id, chunk_id), seen)
            reading.lead(line.place, "query", query_id, queries)
            reading.lead(line.place, "chunk", chunk_id, chunks)
            reading.grade(line)
            judged.add(query_id)
    reading.unjudged(queries, judged)


def check_mteb(reading: ExportReading) -> None:
    """Check BEIR's files, and that the task is there."""
    check_beir(reading)
    for name in (MTEB_TASK, MTEB_TASK_VALUES):
        if not (reading.folder / name).is_file():
            reading.findings.fault(name, "is missing")
