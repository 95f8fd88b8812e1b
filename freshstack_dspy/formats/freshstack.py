"""The data sets of FreshStack: two folders of Parquet, as `freshstack.datasets` reads them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.hugging_face import front_matter, parquet_file
from freshstack_dspy.formats.imported import (
    DATA_ENDINGS,
    JUDGMENTS_FILE,
    Imported,
    query_fields,
    shown,
)
from freshstack_dspy.formats.selection import (
    QUERY_SOURCES,
    Files,
    Ids,
    Selection,
    changed_ids,
    corpus_rows,
    judgment_rows,
    query_metadata,
)
from freshstack_dspy.records import Attribution
from freshstack_dspy.stored.record_files import schema_of

_HOW_TO_LOAD = """\
    loader = freshstack.datasets.DataLoader("path/to/this/queries", "path/to/this/corpus")
    corpus, queries, nuggets = loader.load()
    qrels_nuggets, qrels_query, query_to_nuggets = loader.load_qrels()"""


_QUERIES = {
    **dict.fromkeys(("query_id", "query_title", "query_text"), str),
    "nuggets": [
        {"_id": str, "text": str, "relevant_corpus_ids": [str], "non_relevant_corpus_ids": [str]}
    ],
    **dict.fromkeys(("answer_id", "answer_text"), str),
    "metadata": {"date": str, "tags": [str], "origin": str}
    | dict.fromkeys(QUERY_SOURCES, Attribution),
}
_CORPUS = {
    **dict.fromkeys(("_id", "title", "text"), str),
    "metadata": {"url": str, "start_byte": int, "end_byte": int}
    | dict.fromkeys(("commit_id", "source", "path", "encoding"), str),
}


def _write(selection: Selection) -> Files:
    queries, nuggets = official_ids(
        {query: [nugget.nugget_id for nugget in own] for query, own in selection.nuggets.items()}
    )
    labels = selection.support
    rows = [
        {
            "query_id": queries[query.query_id],
            "query_title": query.title,
            "query_text": query.body,
            "nuggets": [
                {
                    "_id": nuggets[nugget.nugget_id],
                    "text": nugget.text,
                    "relevant_corpus_ids": [c for c, n in labels[nugget.nugget_id].items() if n],
                    "non_relevant_corpus_ids": [
                        c for c, n in labels[nugget.nugget_id].items() if not n
                    ],
                }
                for nugget in selection.nuggets[query.query_id]
            ],
            "answer_id": query.answer_id or "",
            "answer_text": query.answer,
            "metadata": query_metadata(query),
        }
        for query in selection.queries
    ]
    for name, split, fields, values, text in (
        ("queries", "test", _QUERIES, rows, f"\n{selection.readme(_HOW_TO_LOAD)}"),
        ("corpus", "train", _CORPUS, corpus_rows(selection, {}), ""),
    ):
        with TemporaryDirectory() as place:
            file = parquet_file(Path(place), split, schema_of(fields), values)
            yield f"{name}/{file.name}", file
        # The name of a collection is the `topic` of the official loader.
        head = front_matter({selection.collection.name: (split, file.name)})
        yield f"{name}/README.md", f"{head}{text}"
    yield JUDGMENTS_FILE, judgment_rows(selection)
    yield from changed_ids(queries=queries.items(), nuggets=nuggets.items())


def official_ids(nuggets: Mapping[str, Sequence[str]]) -> tuple[Ids, Ids]:
    """Choose ids of queries and nuggets: ours where the official loader reads all of them rightly.

    It takes a nugget's query to be what is before the first `_` of the nugget id, and gives a
    query every nugget whose id begins with the query's. Where that goes wrong for a single id,
    queries are numbered in equal width and nuggets are called `{query}_{position}`.
    """
    # An id that begins with another is sorted right behind it.
    prefix_free = not any(id_.startswith(before) for before, id_ in pairwise(sorted(nuggets)))
    if prefix_free and all(
        "_" not in query and all(nugget.startswith(f"{query}_") for nugget in ids)
        for query, ids in nuggets.items()
    ):
        same = {nugget: nugget for ids in nuggets.values() for nugget in ids}
        return {query: query for query in nuggets}, same
    width = len(str(len(nuggets) - 1))
    queries = {query: f"{number:0{width}}" for number, query in enumerate(sorted(nuggets))}
    return queries, {
        nugget: f"{queries[query]}_{position}"
        for query, ids in nuggets.items()
        for position, nugget in enumerate(ids)
    }


def _read(imported: Imported) -> None:
    whole, queries = imported.take_judgments(), imported.path
    if queries.is_dir():
        patterns = ("queries", *(f"queries*{ending}" for ending in DATA_ENDINGS))
        queries = imported.optional_part("queries", *patterns) or queries
    columns = ("query_id", "query_title", "query_text", "nuggets", "answer_id", "answer_text")
    for row in imported.rows(queries, (*columns, "metadata")):
        query = imported.add_query(
            row,
            row.id("query_id"),
            title=row.text("query_title", default=""),
            body=row.text("query_text", default=""),
            answer_id=row.optional("answer_id"),
            answer=row.text("answer_text", default=""),
            **query_fields(row),
        )
        for each in row.inners("nuggets"):
            id_ = each.id("_id", "nugget_id")
            nugget = imported.add_nugget(each, query.query_id, id_, each.text("text"))
            relevant, others = (each.texts(f"{kind}relevant_corpus_ids") for kind in ("", "non_"))
            for chunk_id, count in Counter((*relevant, *others)).items():
                if count > 1:
                    raise SourceError(
                        f"{row.place}: nugget {shown(nugget.nugget_id)} names chunk "
                        f"{shown(chunk_id)} twice; keep one"
                    )
                if not whole:
                    imported.judge(nugget, chunk_id, int(chunk_id in relevant))
    imported.find_corpus("the corpus", "corpus*")


FRESHSTACK = Format(
    name="freshstack",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=_read,
    cannot_hold=("importance", "pool"),
)
