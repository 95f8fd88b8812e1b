"""Validating what is in the layout of TREC's tools."""

from freshstack_dspy.collection.layouts import (
    TREC_CORPUS,
    TREC_DIVERSITY_QRELS,
    TREC_NUGGETS,
    TREC_QRELS,
    TREC_TOPICS,
    TREC_TOPICS_JSON,
)
from freshstack_dspy.collection.validation.export_reading import ExportReading


def check_trec(reading: ExportReading) -> None:
    """Check topics, corpus, both qrels, and that each subtopic is a nugget."""
    chunks = reading.take_ids("chunks", reading.rows(TREC_CORPUS), "id", "contents")
    queries = reading.take_ids("queries", reading.rows(TREC_TOPICS_JSON), "id", "text")
    listed = {line.fields[0] for line in reading.table(TREC_TOPICS, 2)}
    for id_ in sorted(queries ^ listed):
        reading.findings.fault(TREC_TOPICS, f"topic {id_!r} is in one of the two files of topics")
    nuggets = list(reading.rows(TREC_NUGGETS))
    reading.take_ids("nuggets", nuggets, "nugget_id", "text")
    subtopics = {f"{row.values.get('id')} {row.values.get('subtopic')}" for row in nuggets}
    judged = _check_qrels(reading, TREC_QRELS, queries, chunks, None)
    _check_qrels(reading, TREC_DIVERSITY_QRELS, queries, chunks, subtopics)
    reading.unjudged(queries, judged)


def _check_qrels(
    reading: ExportReading,
    name: str,
    queries: set[str],
    chunks: set[str],
    subtopics: set[str] | None,
) -> set[str]:
    seen: dict[tuple[str, ...], str] = {}
    for line in reading.words(name, 4):
        query_id, subtopic, chunk_id, _ = line.fields
        reading.once(line.place, (query_id, subtopic, chunk_id), seen)
        reading.lead(line.place, "query", query_id, queries)
        reading.lead(line.place, "chunk", chunk_id, chunks)
        if subtopics is not None:
            reading.lead(line.place, "subtopic", f"{query_id} {subtopic}", subtopics)
        reading.grade(line)
    return {query_id for query_id, *_ in seen}
