"""What is shown of the queries of a collection: a list, and one with its nuggets and chunks."""

import sys
from typing import Any

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.pages.page import (
    Page,
    Span,
    Table,
    Text,
    Value,
    counted,
    cut,
    notes,
)
from freshstack_dspy.questions.logs import RETRIEVAL, LogReading
from freshstack_dspy.questions.masking import RULES
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.records import Query
from freshstack_dspy.stored.contents import Slices, listed, nuggets_by_query, slices_of
from freshstack_dspy.stored.folder import StoredCollection, find_query
from freshstack_dspy.stored.manifest import NOT_MEASURED
from freshstack_dspy.stored.record_files import records_of

_LINE, _SHORT = 56, 32
_MANY = 500
"""With more questions a sample is suggested."""
_QUOTED = 600
"""How many characters of a question and of its answer are shown."""


def queries_page(collection: StoredCollection, slices: Slices = "all") -> Page:
    """List the queries in some slices, with how much of them the corpus supports."""
    titles = {query.query_id: query.title or query.body for query in collection.queries}
    chosen = slices_of(slices)
    columns: dict[str, Any] = {
        "query_id": "query_id",
        "title": lambda part: titles[part.query_id],
        "nuggets": "nuggets",
        "supported": "supported",
        "slice": "slice",
    }
    parts = [part for part in collection.slices if part.slice in chosen]
    rows = Table.of(parts, columns)
    short = columns | {"title": lambda part: cut(titles[part.query_id], 54)}
    trust = NOT_MEASURED if collection.manifest.trust is None else ""
    command = Span(f"freshstack show {collection.path or 'COLLECTION'} QUERY", "code")
    return Page(
        f"{collection.name}: {counted(len(parts), 'query', 'queries')}",
        (
            Table.of(parts, short, keys=2, ids=(0,)),
            *notes(collection.labels_by, trust),
            Text(("one query: ", command), "note"),
        ),
        data=[dict(zip(rows.header, row, strict=True)) for row in rows.rows],
        rows=rows,
    )


def query_page(collection: StoredCollection, query_id: str) -> Page:
    """Give a query with its nuggets, and the chunks that were pooled or judged for it.

    Raises:
        CollectionError: There is no such query.
    """
    query = find_query(collection, query_id)
    supports: dict[str, list[str]] = {}
    for judgment in records_of(collection.judgments, query_id):
        if collection.supports(judgment):
            supports.setdefault(judgment.chunk_id, []).append(judgment.nugget_id)
    ranks = {
        each.chunk_id: min((by.rank for by in each.pooled_by), default=None)
        for each in records_of(collection.pool, query_id)
    }
    chunks: list[dict[str, Any]] = [
        {"chunk_id": id_, "best_rank": ranks.get(id_), "supports": supports.get(id_, [])}
        for id_ in sorted({*supports, *ranks})
    ]
    chunks.sort(key=lambda chunk: (-len(chunk["supports"]), chunk["best_rank"] or sys.maxsize))
    true_at = collection.true_at(query_id)
    nuggets = [
        each.model_dump(include={"nugget_id", "text", "importance", "doubtful"})
        | {"supported_by": sum(each.nugget_id in ids for ids in supports.values())}
        | {"true_at": true_at.get(each.nugget_id)}
        for each in nuggets_by_query(collection.nuggets, doubtful=True).get(query_id, [])
    ]
    slice_ = next(part.slice for part in collection.slices if part.query_id == query_id)
    rows = [
        (chunk["chunk_id"], chunk["best_rank"], "\n".join(chunk["supports"])) for chunk in chunks
    ]
    table = Table(("chunk", "best rank", "supports"), rows, ids=(0, 2))
    folder = collection.path or "COLLECTION"
    command = Span(f"freshstack explain {folder} {query_id} CHUNK", "code")
    return Page(
        title_of(query),
        (
            about_query(query, slice_),
            *(
                Text((Span(f"{name}: ", "strong"), cut(text, _QUOTED)), "item")
                for name, text in (("question", query.body), ("answer", query.answer))
                if text
            ),
            Page(f"nuggets ({len(nuggets)})", tuple(map(_query_nugget, nuggets))),
            Page(f"chunks pooled or judged ({len(chunks):,})", (table,)),
            Text(collection.labels_by, "note"),
            Text(("one chunk: ", command), "note"),
        ),
        data={"query": query, "slice": slice_, "nuggets": nuggets, "chunks": chunks},
    )


def _query_nugget(nugget: dict[str, Any]) -> Text:
    rated = f", {nugget['importance']}" if nugget["importance"] else ""
    by = f"supported by {counted(nugget['supported_by'], 'chunk')}"
    by += f" of {nugget['true_at'][:10]}" if nugget["true_at"] else ""
    supported = "doubtful, so not judged" if nugget["doubtful"] else by
    return Text(
        (Span(nugget["nugget_id"], "code"), f"{rated}, {supported}: {nugget['text']}"), "item"
    )


def title_of(query: Query) -> str:
    """Name a query."""
    return f"query {query.query_id}: {cut(query.title or query.body, 400)}"


def about_query(query: Query, slice_: str) -> Text:
    """Say in a line what is known of a query."""
    tags = f", tags {', '.join(query.tags)}" if query.tags else ""
    fields = "".join(f", {name} {value}" for name, value in query.fields.items())
    return Text(f"slice {slice_}, origin {query.origin}{tags}{fields}", "note")


# Before a build


def read_page(place: str, reading: QueryReading, limit: int) -> Page:
    """Give the questions that a build would read, and how many are left out."""
    columns: dict[str, Any] = {
        "query_id": "query_id",
        "question": lambda query: cut(query.text, _LINE),
    }
    left_out = f"left out: {listed(reading.rejected)}" if reading.rejected else ""
    return Page(
        f"{place}: {counted(len(reading.queries), 'question')}",
        (Table.of(reading.queries[:limit], columns, ids=(0,)), *notes(left_out)),
        data={"questions": reading.queries, "rejected": reading.rejected},
        rows=Table.of(reading.queries, columns | {"question": "text"}),
    )


def log_page(config: QueriesConfig, log: LogReading, limit: int) -> Page:
    """Give what a log holds: counts, what was masked and merged, the sample and its first questions."""
    questions, drawn = log.questions, log.sampled
    times = sum(question.times for question in questions)
    counts: list[tuple[str, float]] = [
        ("traces" if log.kind == "traces" else "rows", log.askings),
        *((f"− {reason}", number) for reason, number in log.rejected.items()),
        ("questions to build with", len(drawn)),
    ]
    masked = [
        (rule, each.places, "\n".join(cut(text, _LINE) for text in each.examples))
        for rule, each in log.masked.items()
    ]
    strata = [
        (
            label or "not known",
            len(stratum),
            Value(sum(question.times for question in stratum) / times, form=".1%"),
            sum(question.retrieval == label for question in drawn),
        )
        for label in (*RETRIEVAL, None)
        if (stratum := [question for question in questions if question.retrieval == label])
    ]
    merged = [
        (f"{each.times:g}", cut(each.text, _SHORT), "\n".join(cut(o, _SHORT) for o in each.others))
        for each in drawn
        if each.others
    ]
    shown = [
        (each.query_id, f"{each.times:g}", f"{each.weight:.4g}", cut(each.text, _SHORT))
        for each in drawn[:limit]
    ]
    off = "nothing is masked: [queries] mask = false" if config.mask is False else ""
    clean = "" if masked or off else f"nothing to mask was found, by the rules {', '.join(RULES)}"
    weights = (
        "weight: the askings that a question stands for, times asked ÷ probability of its draw"
    )
    return Page(
        f"{config.place}: {counted(len(questions), 'question')}, asked {times:,.0f} times",
        (
            Table(("in the log", "number"), counts),
            *([Table(("masked", "places", "as in"), masked)] if masked else ()),
            *notes(off, clean),
            Table(("retrieval", "questions", "of what is asked", "to build with"), strata),
            *([Table(("times", "question", "also asked as"), merged[:limit])] if merged else ()),
            Table(("query_id", "times", "weight", "question"), shown, ids=(0,)),
            *notes(weights, _hint(config, log)),
        ),
        data={
            "kind": log.kind,
            "askings": log.askings,
            "rejected": log.rejected,
            "masked": {rule: each._asdict() for rule, each in log.masked.items()},
            "questions": len(questions),
            "times": times,
            "sampled": [each._asdict() for each in drawn],
        },
        rows=Table(
            ("query_id", "times", "probability", "weight", "retrieval", "question"),
            [(q.query_id, q.times, q.probability, q.weight, q.retrieval, q.text) for q in drawn],
        ),
    )


def _hint(config: QueriesConfig, log: LogReading) -> str:
    """Say what to do about a log of very many questions."""
    if config.sample is None and len(log.questions) > _MANY:
        return "each question costs judgments: --sample 200, or [queries] sample = 200, draws some"
    return ""
