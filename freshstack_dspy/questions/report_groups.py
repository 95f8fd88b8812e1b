"""Groups of documents with a report each, or long accepted answers with the other answers (CRUX)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from freshstack_dspy.config import BuildConfig, QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.filters import id_order, site_address
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.questions.stackexchange import Dump
from freshstack_dspy.records import Query, SourceFile
from freshstack_dspy.rows import Row, given_rows, read_rows

SOURCE = "documents"
"""The name of the documents of groups as a source of passages."""
_BETWEEN = "|||||"
"""What Multi-News writes between the documents of a group."""


class Document(NamedTuple):
    """A document of a group."""

    file: SourceFile
    title: str = ""
    url: str | None = None


class Groups(NamedTuple):
    """Reports and their documents."""

    reading: QueryReading
    """Queries whose answer is the report; one without a text still needs its request."""
    documents: Mapping[str, list[Document]]
    """By query id, in the order of the source."""
    questions: Mapping[str, list[str]]
    """By query id, the sub-questions of a row that has them."""


def read_groups(config: BuildConfig) -> Groups:
    """Read groups: rows of JSON Lines, or the questions of a Stack Exchange dump.

    A row has an id (`query_id`, `example_id` or `id`), a report (`answer`, `report` or `summary`),
    `documents`, a list of texts or of objects with `title` and `text` (or `document`, a text with
    `|||||` between the documents, as in Multi-News), and may have the report's request (`request`,
    `topic` or `title`) and its `questions` or `subquestions` (CRUX's topics file). In a
    dump, the accepted answer is the report, and the other answers are the documents.

    Raises:
        SourceError: They cannot be read, or no group is left.
    """
    queries = config.queries
    unlimited = queries.model_copy(update={"limit": None})
    rejected: Counter[str] = Counter()
    documents: dict[str, list[Document]] = {}
    questions: dict[str, list[str]] = {}
    if queries.source == "stackexchange":
        reading = read_queries(unlimited)
        rejected.update(reading.rejected)
        groups, documents = list(reading.queries), _other_answers(queries, reading.queries)
    else:
        groups = []
        for row in _rows(queries):
            query = _query(row)
            if query.query_id in documents:
                raise SourceError(f"{row.place}: the id {query.query_id!r} is there twice")
            groups.append(query)
            documents[query.query_id] = list(_documents(row, query.query_id))
            if own := _questions(row):
                questions[query.query_id] = own
    kept: list[Query] = []
    for query in sorted(groups, key=lambda query: id_order(query.query_id)):
        if len(query.answer.split()) < config.crux.min_words:
            rejected["report below crux.min_words"] += 1
        elif not documents.get(query.query_id):
            rejected["no documents"] += 1
        elif queries.limit is not None and len(kept) == queries.limit:
            rejected["beyond limit"] += 1
        else:
            kept.append(query)
    if not kept:
        why = "; ".join(f"{number} {reason}" for reason, number in sorted(rejected.items()))
        raise SourceError(f"{queries.place}: no group is left ({why or 'it holds none'})")
    reading = QueryReading(tuple(kept), dict(sorted(rejected.items())))
    return Groups(reading, {query.query_id: documents[query.query_id] for query in kept}, questions)


def _rows(queries: QueriesConfig) -> Iterator[Row]:
    if queries.rows is not None:
        return given_rows(queries.rows, queries.place)
    return read_rows(queries.file)


def _query(row: Row) -> Query:
    report = row.text("answer", "report", "summary").strip()
    if not report:
        raise row.fault("answer", "a report under answer, report or summary")
    return Query(
        query_id=row.id("query_id", "example_id", "id"),
        title="",
        body=row.text("request", "topic", "title", default="").strip(),
        answer=report,
    )


def _questions(row: Row) -> list[str]:
    names = [name for name in ("questions", "subquestions") if row.has(name)]
    questions = row.list(*names) if names else []
    if not all(question is None or isinstance(question, str) for question in questions):
        raise row.fault(names[0], "a list of texts")
    # Published ones have null and "NA" where a reply held no question.
    texts = ((question or "").strip() for question in questions)
    return [text for text in texts if text not in ("", "NA")]


def _documents(row: Row, query_id: str) -> Iterator[Document]:
    if row.has("documents"):
        documents = row.list("documents")
    else:
        documents = row.text("document", default="").split(_BETWEEN)
    for number, document in enumerate(documents, 1):
        parts = Row.of({"text": document} if isinstance(document, str) else document, row.place)
        title, text = parts.text("title", default=""), parts.text("text")
        if text.strip():
            file = SourceFile(SOURCE, f"{query_id}/{number}.md", text.encode())
            yield Document(file, title, parts.optional("url"))


def _other_answers(config: QueriesConfig, queries: tuple[Query, ...]) -> dict[str, list[Document]]:
    """The answers of each question but the accepted one, by id."""
    from freshstack_dspy.html_to_markdown import html_to_markdown

    accepted = {query.query_id: query.answer_id for query in queries}
    answers: dict[str, dict[int, Document]] = {query_id: {} for query_id in accepted}
    for _, row in Dump(config.file).rows(("Posts",)):
        question, answer = row.get("ParentId", ""), row.get("Id", "")
        if question in answers and answer.isdecimal() and answer != accepted[question]:
            text = html_to_markdown(row.get("Body", ""))
            file = SourceFile(SOURCE, f"{question}/{answer}.md", text.encode())
            if text.strip():
                url = f"{site_address(config.site)}/a/{answer}"
                answers[question][int(answer)] = Document(file, url=url)
    return {query_id: [of[id_] for id_ in sorted(of)] for query_id, of in answers.items()}
