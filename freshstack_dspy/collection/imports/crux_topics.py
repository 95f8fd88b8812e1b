"""The topics of CRUX: a request, its questions and, where it is there, the report."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.imports.gathered import Gathered
from freshstack_dspy.collection.imports.layout import find_part
from freshstack_dspy.collection.imports.rows import Row, read_rows
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Failure, Nugget
from freshstack_dspy.sources.questions.json_objects import json_file

_TOPICS = ("ranking_*/*topics*.jsonl", "*topics*.jsonl")
_QUESTIONS = ("*subquestions*.jsonl", "*subquestions*.json")
_REQUESTS = ("*request*.jsonl",)
_IDS = ("example_id", "id", "topic_id")
_NO_QUESTION = "NA"
"""What the published data have where no question was in the reply."""

Topics = dict[str, list[Nugget | None]]
"""Topic id → its nuggets in the order of its questions; None where a question is none."""


def read_topics(path: Path, given: Gathered) -> Topics:
    """Read the topics of a folder into queries and nuggets.

    A question that is null, empty or `NA` gives no nugget and a `Failure`.

    Args:
        path: With `*topics*.jsonl`, or `*subquestions*` and, if it is there, `*request*.jsonl`.
        given: Takes them.

    Raises:
        SourceError: There is neither, or a row is no topic.
    """
    if (file := find_part(path, "topics", _TOPICS)) is not None:
        return _take(read_rows(given.reads(file)), {}, given)
    if not path.is_dir() or (file := find_part(path, "sub-questions", _QUESTIONS)) is None:
        looked = ", ".join((*_TOPICS, *_QUESTIONS))
        raise SourceError(f"{path}: has no topics; looked for {looked}")
    found = find_part(path, "requests", _REQUESTS)
    requests = {}
    for row in read_rows(given.reads(found)) if found else ():
        requests[row.id(*_IDS)] = row.text("request", "topic")
    given.reads(file)
    rows = _of_object(file) if file.suffix == ".json" else read_rows(file)
    return _take(rows, requests, given)


def _of_object(file: Path) -> Iterable[Row]:
    """Give the rows of one object: topic id → questions."""
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object of questions by topic")
    return (
        Row(str(file), number, {"id": topic, "questions": questions})
        for number, (topic, questions) in enumerate(value.items(), start=1)
    )


def _take(rows: Iterable[Row], requests: dict[str, str], given: Gathered) -> Topics:
    topics: Topics = {}
    for row in rows:
        own, ids = row.id(*_IDS), row.texts("nugget_ids")
        topic = given.notes.queries.get(own, own)
        request = row.text("topic", "request", default=requests.get(own, ""))
        given.add_query(
            row,
            query_id=topic,
            title=request,
            body="",
            answer=row.text("report", "summary", default=""),
        )
        questions = row.list("questions", "subquestions")
        if ids and len(ids) != len(questions):
            raise row.fault("nugget_ids", "one id for each question")
        topics[topic] = [
            _nugget(given, row, topic, ids[number - 1] if ids else f"{topic}_{number}", question)
            for number, question in enumerate(questions, start=1)
        ]
    return topics


def _nugget(given: Gathered, row: Row, topic: str, nugget_id: str, question: Any) -> Nugget | None:
    if question is not None and not isinstance(question, str):
        raise row.fault(row.name_of("questions", "subquestions"), "a list of texts")
    text = (question or "").strip()
    if text and text != _NO_QUESTION:
        return given.add_nugget(row, nugget_id=nugget_id, query_id=topic, text=text)
    given.failures.append(
        Failure(
            query_id=topic,
            step="nuggets",
            status="unparsed",
            message=f"question {nugget_id!r} is {question!r}",
            call_id=None,
        )
    )
    return None
