"""The pages of a collection's queries: a list, and one query with its nuggets and chunks."""

import sys
from typing import Any

from freshstack_dspy.collection.explain import find_query
from freshstack_dspy.collection.explanation_page import about_query, title_of
from freshstack_dspy.pages.page import Page, Span, Table, Text, counted, cut
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import NOT_MEASURED
from freshstack_dspy.stored.record_files import records_of
from freshstack_dspy.stored.slices import Slices, slices_of

_QUOTED = 600
"""How many characters of a question and of its answer are shown."""


def queries_page(collection: StoredCollection, slices: Slices = "all") -> Page:
    """List the queries in some slices, with how much of them the corpus supports."""
    titles = {query.query_id: query.title or query.body for query in collection.queries}
    chosen = slices_of(slices)
    header = ("query_id", "title", "nuggets", "supported", "slice")
    rows = [
        (part.query_id, titles[part.query_id], part.nuggets, part.supported, part.slice)
        for part in collection.slices
        if part.slice in chosen
    ]
    typed = collection.path or "COLLECTION"
    shown = [(id_, cut(title, 54), *others) for id_, title, *others in rows]
    notes = [collection.labels_by]
    if collection.manifest.trust is None:
        notes.append(NOT_MEASURED)
    return Page(
        f"{collection.name}: {counted(len(rows), 'query', 'queries')}",
        (
            Table(header, shown, keys=2, ids=(0,)),
            *(Text(note, "note") for note in notes),
            Text(("one query: ", Span(f"freshstack show {typed} QUERY", "code")), "note"),
        ),
        data=[dict(zip(header, row, strict=True)) for row in rows],
        rows=Table(header, rows),
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
    chunks.sort(key=lambda one: (-len(one["supports"]), one["best_rank"] or sys.maxsize))
    true_at = collection.true_at(query_id)
    nuggets = [
        each.model_dump(include={"nugget_id", "text", "importance", "doubtful"})
        | {"supported_by": sum(each.nugget_id in ids for ids in supports.values())}
        | {"true_at": true_at.get(each.nugget_id)}
        for each in nuggets_by_query(collection.nuggets, doubtful=True).get(query_id, [])
    ]
    slice_ = next(part.slice for part in collection.slices if part.query_id == query_id)
    rows = [(one["chunk_id"], one["best_rank"], "\n".join(one["supports"])) for one in chunks]
    table = Table(("chunk", "best rank", "supports"), rows, ids=(0, 2))
    typed = collection.path or "COLLECTION"
    one_chunk = Span(f"freshstack explain {typed} {query_id} CHUNK", "code")
    return Page(
        title_of(query),
        (
            about_query(query, slice_),
            *(
                Text((Span(f"{name}: ", "strong"), cut(text, _QUOTED)), "item")
                for name, text in (("question", query.body), ("answer", query.answer))
                if text
            ),
            Page(f"nuggets ({len(nuggets)})", tuple(map(_nugget, nuggets))),
            Page(f"chunks pooled or judged ({len(chunks):,})", (table,)),
            Text(collection.labels_by, "note"),
            Text(("one chunk: ", one_chunk), "note"),
        ),
        data={"query": query, "slice": slice_, "nuggets": nuggets, "chunks": chunks},
    )


def _nugget(one: dict[str, Any]) -> Text:
    rated = f", {one['importance']}" if one["importance"] else ""
    by = f"supported by {counted(one['supported_by'], 'chunk')}"
    by += f" of {one['true_at'][:10]}" if one["true_at"] else ""
    supported = "doubtful, so not judged" if one["doubtful"] else by
    return Text((Span(one["nugget_id"], "code"), f"{rated}, {supported}: {one['text']}"), "item")
