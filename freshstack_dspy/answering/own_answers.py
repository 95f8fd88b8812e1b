"""Answers of systems of one's own: read from files, rows or a function, and placed in the corpus.

A row is one answer of one system:

    {"query_id", "text", "citations": […], "contexts": […]}          of any system; CSV too
    {"topic_id", "references": […], "answer": [{"text", "citations": [0]}]}     TREC RAG
    {"metadata": {"run_id", "topic_id"}, "responses": [{"text", "citations"}]}  TREC Auto-Judge

Citations and contexts are ids of chunks, or passages (text, or path with text or offsets), which are
placed in the corpus as those of retrievers are.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, get_args

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.retrieve import hits_of
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.measures.run import UNPLACED
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.progress import NoProgress, Progress
from freshstack_dspy.records import (
    Answer,
    AnsweringFailure,
    AnswerStatus,
    CitedPassage,
    CitedSentence,
    Query,
)
from freshstack_dspy.registry import name_of
from freshstack_dspy.rows import Row, given_rows, read_rows, rows_of
from freshstack_dspy.text import sentences

_RUN = ("run_id", "run", "runtag")
_QUERY = ("query_id", "qid", "topic_id", "narrative_id", "request_id")
_QUESTION = ("question", "user_input", "input", "query", "topic")
_TEXT = ("text", "answer", "answer_text", "response", "actual_output", "output")
_SENTENCES = ("answer", "responses")
_CITATIONS = ("citations", "sources", "source_documents")
_CONTEXTS = ("contexts", "retrieved_contexts", "retrieval_context")
_CITED_AT = re.compile(r"(`{3}.*?`{3}|`[^`\n]*`)|\s?\[(\d{1,9}(?:\s*,\s*\d{1,9})*)\]", re.DOTALL)
"""Code, which cites nothing, or a mark as [1] or [2, 3]."""
_FIRST = 60
"""How many characters of a text stand for it in messages."""


class OwnAnswers(NamedTuple):
    """The answers of systems, by system, then in the order in which they came."""

    answers: tuple[Answer, ...]
    failures: tuple[AnsweringFailure, ...]
    """Those that a system says it failed to give."""

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the systems, ascending."""
        return tuple(sorted({answer.run_id for answer in self.answers}))


NO_ANSWERS = OwnAnswers((), ())


class _Sentence(NamedTuple):
    text: str
    citations: Sequence[Hit]


def own_answers(
    collection: Collection, answers: Any, progress: Progress | None = None
) -> OwnAnswers:
    """Read the answers of systems to the queries of a collection.

    Args:
        collection: The collection.
        answers: A file (JSON Lines, JSON, CSV, Parquet), rows (dictionaries or a data frame), or a
            function from a question to an answer: a text, or a dictionary like a row. Or several
            files, or any of these by the name of its system. A row's own `run_id` is preferred.
        progress: Notified of every call of a function.

    Raises:
        SourceError: With file and line: a row is no answer, its query is not one of the collection,
            or its system answers the query twice.
        CollectionError: There is no answer, or a function failed for every query.
    """
    reader, drafts = _Reader(collection), list[Answer]()
    failures: list[AnsweringFailure] = []
    places: dict[tuple[str, str], str] = {}
    for name, source in _named(answers):
        rows = (
            _called(source, name, collection, progress or NoProgress())
            if callable(source)
            else _rows(source, name)
        )
        for row in rows:
            answer = reader.answer(row, name)
            key = answer.run_id, answer.topic_id
            if (first := places.get(key)) is not None:
                raise SourceError(
                    f"{row.place}: {key[0][:80]!r} answers query {key[1][:80]!r} at {first} already; "
                    "keep one answer of a system to a query"
                )
            places[key] = row.place
            drafts.append(answer)
            if answer.status not in ("ok", "not_retrieved"):
                failures.append(
                    AnsweringFailure(
                        query_id=answer.topic_id,
                        step="answer",
                        status=answer.status,
                        message=row.optional("error") or f"{row.place} says so",
                        call_id=answer.call_id,
                        run_id=answer.run_id,
                    )
                )
    if not drafts:
        raise CollectionError("there are no answers to judge")
    return OwnAnswers(tuple(sorted(drafts, key=lambda answer: answer.run_id)), tuple(failures))


# Rows


def _named(answers: Any) -> Iterator[tuple[str, Any]]:
    """Give the sources of answers, each with the name of its system."""
    if isinstance(answers, Mapping):
        yield from answers.items()
    elif isinstance(answers, str | Path):
        yield Path(answers).name.partition(".")[0], answers
    elif callable(answers):
        yield name_of(answers), answers
    elif isinstance(answers, list | tuple) and any(
        isinstance(each, str | Path) or callable(each) for each in answers
    ):
        for each in answers:
            yield from _named(each)
    else:
        yield "answers", answers


def _rows(source: Any, name: str) -> Iterable[Row]:
    if not isinstance(source, str | Path):
        try:
            return given_rows(rows_of(source), name)
        except ValueError as error:
            raise SourceError(f"answers of {name!r}: {error}") from None
    names = {*_RUN, *_QUERY, *_QUESTION, *_TEXT, *_CITATIONS, *_CONTEXTS}
    return read_rows(Path(source), csv_names=names)


def _called(
    system: Callable[[str], Any],
    name: str,
    collection: Collection,
    progress: Progress,
) -> Iterator[Row]:
    """Ask a system each question, one after the other; what it raises is a failed answer."""
    wanted = collection.qrels().nuggets
    queries = [query for query in collection.queries if query.query_id in wanted]
    progress.start(f"answers of {name}", len(queries))
    failed = 0
    for query in queries:
        values: Any
        try:
            values = system(query.text)
        except Exception as error:  # a system may raise anything
            fault = f"{name} raised {type(error).__name__}: {error}".removesuffix(": ")
            failed += 1
            if failed == len(queries):
                raise CollectionError(f"{fault}, as for every query") from error
            values = {"status": "failed", "error": fault}
        if values is None or isinstance(values, str):
            values = {"text": values or ""}
        if not isinstance(values, Mapping):
            raise CollectionError(
                f"{name} returned {type(values).__name__} for query {query.query_id!r}; allowed: a "
                "text, or a dictionary with text and perhaps citations and contexts"
            )
        progress.advance(f"answers of {name}")
        yield Row(f"{name}({query.query_id!r})", {**values, "query_id": query.query_id})
    progress.finish(f"answers of {name}", f"{len(queries):,} queries")


class _Reader:
    """Makes answers of rows."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._queries = {query.query_id: query for query in collection.queries}
        self._placed: dict[Hit, tuple[str, CitedPassage | None, str | None]] = {}

    def answer(self, row: Row, name: str) -> Answer:
        """Make the answer of a row of the system with this name, unless the row names one."""
        if isinstance(row.values.get("metadata"), dict):
            row = Row(row.place, row.values["metadata"] | row.values)
        run = row.id(*_RUN) if any(row.values.get(each) is not None for each in _RUN) else name
        query = self._query(row)
        status: AnswerStatus = row.text("status", default="ok")  # type: ignore[assignment]
        if status not in (allowed := [*get_args(get_args(AnswerStatus)[0]), "not_retrieved"]):
            raise row.fault("status", ", ".join(allowed))
        shown = self._hits(row, row.name(*_CONTEXTS))
        references = self._hits(row, "references")
        said = self._sentences(row, references, shown, query.language)
        if said and status != "ok":
            raise row.fault("status", "ok, where there is an answer")
        cited = [hit for sentence in said for hit in sentence.citations]
        placed = {hit: self._place(hit) for hit in (*shown, *references, *cited)}
        ids = list(dict.fromkeys(reference for reference, _, _ in placed.values()))
        return Answer(
            run_id=run,
            topic_id=query.query_id,
            topic=query.text,
            references=tuple(ids),
            passages=tuple(
                {passage: None for _, passage, _ in placed.values() if passage is not None}
            ),
            outside={reference: why for reference, _, why in placed.values() if why is not None},
            response_length=sum(len(sentence.text.split()) for sentence in said),
            answer=tuple(
                CitedSentence(
                    text=sentence.text,
                    citations=tuple(
                        dict.fromkeys(ids.index(placed[hit][0]) for hit in sentence.citations)
                    ),
                )
                for sentence in said
            ),
            status=status,
            call_id=row.optional("call_id"),
        )

    def _query(self, row: Row) -> Query:
        name = row.name(*_QUERY)
        if row.values.get(name) is None and (asked := row.optional(*_QUESTION)):
            ids = self._asked.get(" ".join(asked.split()), ())
            if len(ids) == 1:
                return self._queries[next(iter(ids))]
            raise row.fault(row.name(*_QUESTION), "the text of one query, or add its query_id")
        if (query := self._queries.get(row.id(*_QUERY))) is None:
            raise row.fault(
                name, f"a query of {self._collection.name}, such as {min(self._queries)!r}"
            )
        return query

    @cached_property
    def _asked(self) -> Mapping[str, set[str]]:
        """The ids of queries by their texts, titles and bodies."""
        by_text: dict[str, set[str]] = {}
        for query in self._queries.values():
            for text in (query.text, query.title, query.body):
                by_text.setdefault(" ".join(text.split()), set()).add(query.query_id)
        return by_text

    def _sentences(
        self, row: Row, references: Sequence[Hit], shown: Sequence[Hit], language: str | None
    ) -> list[_Sentence]:
        """Give the sentences of an answer with what each cites."""
        for name in _SENTENCES:
            if isinstance(row.values.get(name), list):
                said = [
                    _Sentence(each.text("text").strip(), self._hits(each, "citations", references))
                    for each in row.inners(name)
                ]
                return [sentence for sentence in said if sentence.text]
        texts = {row.text(name) for name in _TEXT if row.values.get(name) is not None}
        if len(texts) > 1 or not row.values.keys() & {*_TEXT, "status"}:
            named = " or ".join(name for name in _TEXT if name in row.values) or "text"
            raise SourceError(
                f"{row.place}: {'has several texts: ' if texts else 'has no '}{named}; give the "
                "answer as text alone"
            )
        text = "".join(texts).strip()
        cited = self._hits(row, row.name(*_CITATIONS), references)
        if by_number := [*_cited_by_number(text, cited or shown or references, language)]:
            return by_number
        if not cited:
            return [_Sentence(text, ())] if text else []
        return [_Sentence(sentence, cited) for sentence in sentences(text, language)]

    def _hits(self, row: Row, name: str, references: Sequence[Hit] = ()) -> list[Hit]:
        """Read citations or contexts: a list, the cell of a table, or scores by id."""
        value = row.values.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.lstrip().startswith("[") else value.split(";")
            except ValueError:
                raise row.fault(name, "ids with ; between them, or a list in JSON") from None
            value = [each.strip() if isinstance(each, str) else each for each in value]
        if isinstance(value, Mapping) and all(isinstance(each, Real) for each in value.values()):
            # {id: confidence}, as RAGTIME has them
            value = [id_ for id_, _ in sorted(value.items(), key=lambda pair: (-pair[1], pair[0]))]
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise row.fault(name, "a list of ids of chunks, or of passages")
        hits: list[Hit] = []
        for each in value:
            if isinstance(each, int) and not isinstance(each, bool) and name == "citations":
                if not 0 <= each < len(references):
                    raise SourceError(
                        f"{row.place}: citation {each} is beyond the {len(references)} references; "
                        "allowed: places in references, from 0"
                    )
                hits.append(references[each])
                continue
            try:
                hits += hits_of([each])
            except CollectionError as error:
                raise SourceError(f"{row.place}: {name} has {error}") from None
        return [self._as_text(hit._replace(score=0.0)) for hit in hits]

    def _as_text(self, hit: Hit) -> Hit:
        """Take a bare text, as contexts of ragas are, for what it is, and no id."""
        id_ = hit.chunk_id or ""
        is_bare = hit == Hit(0.0, chunk_id=id_) and len(id_.split()) > 1
        if is_bare and id_ not in self._collection.corpus.ids:
            return Hit(0.0, text=id_)
        return hit

    def _place(self, hit: Hit) -> tuple[str, CitedPassage | None, str | None]:
        """Give the id of a passage; its place, if it is no chunk; and why it is not in the corpus."""
        if hit not in self._placed:
            self._placed[hit] = self._find(hit)
        return self._placed[hit]

    def _find(self, hit: Hit) -> tuple[str, CitedPassage | None, str | None]:
        ids = self._collection.corpus.ids
        if hit.chunk_id is not None and hit.chunk_id in ids:
            return hit.chunk_id, None, None
        if hit.path is None and hit.text is None:
            assert hit.chunk_id is not None  # each hit has one of the three
            return hit.chunk_id, None, f"the collection has no chunk {hit.chunk_id!r:.100}"
        files = self._collection.files
        if (place := files.find(hit)) is not None:
            id_ = files.passage_id(place)
            return id_, None if id_ in ids else CitedPassage(passage_id=id_, **_bytes(place)), None
        number = sum(id_.startswith(UNPLACED) for id_, _, _ in self._placed.values()) + 1
        text = f": {hit.text[:_FIRST]!r}" if hit.text else ""
        return f"{UNPLACED}{number}", None, f"{files.why_unplaced(hit)}{text}"


def _bytes(place: Any) -> dict[str, Any]:
    source, path, start, end = place
    return {"source": source, "path": path, "start_byte": start, "end_byte": end}


def _cited_by_number(
    text: str, citations: Sequence[Hit], language: str | None
) -> Iterator[_Sentence]:
    """Cut a text into sentences by its marks [1], [2, 3]; nothing, if none names a citation."""

    def numbers(sentence: str) -> list[int]:
        marks = ",".join(filter(None, (marks for _, marks in _CITED_AT.findall(sentence))))
        cited = (int(number) for number in marks.split(",") if marks)
        return [number for number in dict.fromkeys(cited) if 1 <= number <= len(citations)]

    if not numbers(text):
        return
    for sentence in sentences(text, language):
        cited = [citations[number - 1] for number in numbers(sentence)]
        bare = _CITED_AT.sub(lambda match: match[1] or "", sentence).strip()
        if bare:
            yield _Sentence(bare, cited)
