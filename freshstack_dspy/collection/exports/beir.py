"""The layout of BEIR, which says nothing of nuggets: qrels have a grade for each chunk.

out/corpus.jsonl      {"_id", "title", "text", "metadata"}
out/queries.jsonl     {"_id", "text", "metadata"}
out/qrels/test.tsv    query-id, corpus-id, score: how many of the query's nuggets it supports

An id is kept as it is, unless it would not survive the table of qrels or the evaluation.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.exports.freshstack import chunk_metadata
from freshstack_dspy.collection.exports.layout import (
    Names,
    Selection,
    table_words,
    write_about,
    write_json_lines,
    write_readme,
)
from freshstack_dspy.collection.layouts import (
    BEIR_CORPUS,
    BEIR_QRELS,
    BEIR_QRELS_HEADER,
    BEIR_QUERIES,
)
from freshstack_dspy.records import Query

GRADES = (
    "The score of a chunk is the number of the query's nuggets that it supports; 0 stands where "
    "it was judged and supports none. A chunk that supports none and of which a judgment failed "
    "is left out."
)
_HOW_TO_LOAD = f"""
```python
from beir.datasets.data_loader import GenericDataLoader

corpus, queries, qrels = GenericDataLoader("path/to/this/folder").load(split="test")
```

{GRADES}
"""


def write_beir(folder: Path, selection: Selection) -> None:
    """Write corpus, queries and qrels as BEIR's loader reads them, and what they are."""
    names = write_beir_data(folder, selection)
    write_readme(folder, selection, _HOW_TO_LOAD)
    write_about(folder, selection, "beir", names.changed())


def write_beir_data(folder: Path, selection: Selection) -> Names:
    """Write corpus, queries and qrels, and give what the ids are called in them.

    An id with a quote, a line end or another control character would not survive the table of
    qrels; where there is one, all of its kind are called by their words. BEIR's evaluation passes
    over a chunk that is called as its query is; where one is, all queries are called differently.
    """
    chunks = table_words(selection.collection.corpus.rows)
    queries = table_words(query.query_id for query in selection.queries)
    names = Names(queries=_apart(queries, set(chunks.values())), chunks=chunks)
    write_json_lines(
        folder / BEIR_CORPUS,
        (
            {
                "_id": names.chunks[chunk.chunk_id],
                "title": chunk.title,
                "text": chunk.text,
                "metadata": chunk_metadata(chunk),
            }
            for chunk in selection.chunks()
        ),
    )
    write_json_lines(
        folder / BEIR_QUERIES,
        (
            {
                "_id": names.queries[query.query_id],
                "text": query.text,
                "metadata": query_metadata(query),
            }
            for query in selection.queries
        ),
    )
    (folder / BEIR_QRELS).parent.mkdir(parents=True)
    with (folder / BEIR_QRELS).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(BEIR_QRELS_HEADER)
        table.writerows(_qrels(selection, names))
    return names


def _apart(queries: dict[str, str], chunks: set[str]) -> dict[str, str]:
    while not chunks.isdisjoint(queries.values()):
        queries = {ours: f"query:{name}" for ours, name in queries.items()}
    return queries


def query_metadata(query: Query) -> dict[str, Any]:
    """Give what a format has no field for of its own; what is not recorded is left out."""
    sources = {"question_source": query.question_source, "answer_source": query.answer_source}
    return {
        "title": query.title,
        "origin": query.origin,
        "date": query.asked_at or "",
        "tags": list(query.tags),
        **{name: source.model_dump() for name, source in sources.items() if source},
    }


def _qrels(selection: Selection, names: Names) -> Iterator[tuple[str, str, int]]:
    for query in selection.queries:
        for chunk_id, grade in selection.grades(query.query_id).items():
            yield names.queries[query.query_id], names.chunks[chunk_id], grade
