"""Reading official FreshStack collections: queries with nuggets and judged ids, and a corpus.

Source: the data sets `freshstack/queries-oct-2024` and `freshstack/corpus-oct-2024`.
"""

from pathlib import Path

from freshstack_dspy.collection.imports.foreign import (
    Gathered,
    Row,
    find_part,
    read_documents,
    read_rows,
    shown,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Attribution, Nugget, Scale

_QUERIES = ("queries", "queries*.jsonl", "queries*.jsonl.gz", "queries*.parquet", "queries*.json")
_CORPUS = ("corpus", "corpus*.jsonl", "corpus*.jsonl.gz", "corpus*.parquet", "corpus*.json")
_COLUMNS = (
    "query_id", "query_title", "query_text", "nuggets", "answer_id", "answer_text", "metadata",
)  # fmt: skip
_LISTS = (("relevant_corpus_ids", 1), ("non_relevant_corpus_ids", 0))


def read_freshstack(path: Path, *, corpus: Path | None, source: str) -> Gathered:
    """Read an official FreshStack collection, or an export of ours in its layout.

    Args:
        path: A folder with `queries` and `corpus`, or the file or folder of the queries alone;
            Parquet, `save_to_disk`, JSON Lines or JSON, also of a single record.
        corpus: Where the corpus is, if not there.
        source: What the corpus is called.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be.
    """
    given = Gathered.of(path)
    given.scale = Scale(name="binary", threshold=1)
    queries, found = path, corpus
    if path.is_dir():
        queries = find_part(path, "queries", _QUERIES) or path
        found = corpus or find_part(path, "the corpus", _CORPUS)
    for row in read_rows(given.reads(queries), _COLUMNS):
        _take(given, row)
    if found:
        given.documents = read_documents(given.reads(found), source)
    return given


def _take(given: Gathered, row: Row) -> None:
    exported, told = row.id("query_id"), row.inner("metadata")
    query = given.add_query(
        row,
        query_id=given.notes.queries.get(exported, exported),
        title=row.text("query_title", default=""),
        body=row.text("query_text", default=""),
        answer_id=row.optional("answer_id"),
        answer=row.text("answer_text", default=""),
        tags=told.texts("tags"),
        asked_at=told.optional("date"),
        question_source=_attribution(told.inner("question_source")),
        answer_source=_attribution(told.inner("answer_source")),
    )
    for each in row.inners("nuggets"):
        own = each.id("_id", "nugget_id")
        nugget = given.add_nugget(
            each,
            nugget_id=given.notes.nuggets.get(own, own),
            query_id=query.query_id,
            text=each.text("text"),
        )
        _judge(given, nugget, each)


def _judge(given: Gathered, nugget: Nugget, row: Row) -> None:
    judged: set[str] = set()
    for name, label in _LISTS:
        for chunk_id in row.texts(name):
            if chunk_id in judged or not chunk_id:
                raise SourceError(
                    f"{row.place}: nugget {shown(nugget.nugget_id)} names chunk {shown(chunk_id)} "
                    "twice, or it is empty; keep each id once, in one of the two lists"
                )
            judged.add(chunk_id)
            given.judge(nugget, chunk_id, label)


def _attribution(told: Row) -> Attribution | None:
    if not told.has("author", "url", "licence"):
        return None
    return Attribution(
        author=told.text("author"), url=told.text("url"), licence=told.text("licence")
    )
