"""Validating what is in the layout of CRUX."""

from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.collection.layouts import (
    CRUX_CONTEXT_QRELS,
    CRUX_DIVERSITY_QRELS,
    CRUX_DOCUMENT_QRELS,
    CRUX_JUDGEMENTS,
    CRUX_NO_RATING,
    CRUX_PASSAGES,
    CRUX_RANKING,
    CRUX_TOPICS,
    CRUX_TOPICS_JSON,
)
from freshstack_dspy.collection.validation.export_reading import ExportReading

_HIGHEST = 5


def check_crux(reading: ExportReading) -> None:
    """Check topics, ratings, passages and the three qrels of each threshold."""
    passages = reading.take_ids("passages", reading.rows(CRUX_PASSAGES), "id", "contents")
    pattern = CRUX_RANKING.format(threshold="*")
    rankings = sorted(path.name for path in reading.folder.glob(pattern) if path.is_dir())
    if not rankings:
        reading.findings.fault(pattern, "is missing")
    for ranking in rankings:
        rows = list(reading.rows(f"{ranking}/{CRUX_TOPICS_JSON}"))
        topics = reading.take_ids("queries", rows, "example_id", "topic")
        questions = {
            str(row.values.get("example_id")): _length(reading, row, "questions") for row in rows
        }
        listed = {line.fields[0] for line in reading.table(f"{ranking}/{CRUX_TOPICS}", 2)}
        for id_ in sorted(topics ^ listed):
            reading.findings.fault(f"{ranking}/{CRUX_TOPICS}", f"topic {shown(id_)} is in one file")
        _check_ratings(reading, ranking, questions, passages)
        documents = {passage.partition("#")[0] for passage in passages}
        for name, known in (
            (CRUX_CONTEXT_QRELS, passages),
            (CRUX_DIVERSITY_QRELS, passages),
            (CRUX_DOCUMENT_QRELS, documents),
        ):
            _check_qrels(reading, f"{ranking}/{name}", topics, known)


def _length(reading: ExportReading, row: Row, name: str) -> int:
    value = row.values.get(name)
    if not isinstance(value, list):
        reading.findings.fault(row.place, f"{name} is no list")
        return 0
    return len(value)


def _check_ratings(
    reading: ExportReading, ranking: str, questions: dict[str, int], passages: set[str]
) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for row in reading.rows(f"{ranking}/{CRUX_JUDGEMENTS}"):
        topic, passage = str(row.values.get("example_id")), str(row.values.get("pid"))
        reading.once(row.place, (topic, passage), seen)
        reading.lead(row.place, "passage", passage, passages)
        if not reading.lead(row.place, "topic", topic, questions):
            continue
        if (ratings := _length(reading, row, "rating")) != questions[topic]:
            reading.findings.fault(
                row.place, f"has {ratings} ratings for {questions[topic]} questions"
            )
        given = row.values.get("rating")
        for rating in given if isinstance(given, list) else ():
            if type(rating) is not int or not CRUX_NO_RATING <= rating <= _HIGHEST:
                reading.findings.fault(row.place, f"a rating is {shown(str(rating))}")
        if passage.partition(":")[0] != topic:
            reading.findings.fault(
                row.place, f"passage {shown(passage)} is not of topic {shown(topic)} by its id"
            )


def _check_qrels(reading: ExportReading, name: str, topics: set[str], known: set[str]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for line in reading.words(name, 4):
        topic, question, passage, _ = line.fields
        reading.once(line.place, (topic, question, passage), seen)
        reading.lead(line.place, "topic", topic, topics)
        reading.lead(line.place, "passage", passage, known)
        reading.grade(line)
