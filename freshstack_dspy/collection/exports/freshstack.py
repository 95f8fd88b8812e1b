"""The layout of the official FreshStack data sets.

    out/queries/test-{hash}.parquet     questions with nuggets and the ids of judged chunks
    out/corpus/train-{hash}.parquet     chunks
    out/README.md                       what this is, who wrote the texts
    out/{queries,corpus}/README.md      what Hugging Face `datasets` reads first

`datasets` caches what it reads under the names that stand in the README and never looks whether
the file behind them changed, so the file's name holds the hash of its content.

The `DataLoader` of the official `freshstack` package reads the two folders by their paths:
`load()` and then `load_qrels()`, for `load_qrels()` alone fails there.
It takes a nugget's query to be what stands before the first `_` of the nugget id, and gives a
query every nugget whose id begins with the query's; ids that do not survive this are replaced.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.collection.exports.layout import (
    Names,
    Selection,
    about,
    official_ids,
    record_schema,
    write_about,
    write_readme,
    write_split,
    write_text,
)
from freshstack_dspy.collection.layouts import (
    FRESHSTACK_CORPUS,
    FRESHSTACK_CORPUS_SPLIT,
    FRESHSTACK_QUERIES,
    FRESHSTACK_QUERIES_SPLIT,
    README_FILE,
)
from freshstack_dspy.records import Attribution, Chunk, Query

if TYPE_CHECKING:
    import pyarrow as pa

_HOW_TO_LOAD = """
```python
from freshstack.datasets import DataLoader

loader = DataLoader("path/to/the/export/queries", "path/to/the/export/corpus")
corpus, queries, nuggets = loader.load()
qrels_nuggets, qrels_query, query_to_nuggets = loader.load_qrels()
```
"""


def write_freshstack(folder: Path, selection: Selection) -> None:
    """Write the queries and the corpus as two data sets, and what they are.

    A chunk is in `relevant_corpus_ids` where its label reaches the threshold of support, in
    `non_relevant_corpus_ids` where it does not; without a label it is in neither.
    """
    nuggets = {
        query_id: [nugget.nugget_id for nugget in each]
        for query_id, each in selection.nuggets.items()
    }
    names = official_ids(nuggets)
    name = selection.collection.name
    queries, corpus = folder / FRESHSTACK_QUERIES, folder / FRESHSTACK_CORPUS
    rows = (_query_row(query, selection, names) for query in selection.queries)
    file = write_split(queries, FRESHSTACK_QUERIES_SPLIT, _query_schema(), rows)
    head = _front_matter(name, FRESHSTACK_QUERIES_SPLIT, file)
    write_text(queries / README_FILE, f"{head}\n{about(selection, _HOW_TO_LOAD)}")
    chunks = map(_chunk_row, selection.chunks())
    file = write_split(corpus, FRESHSTACK_CORPUS_SPLIT, _chunk_schema(), chunks)
    write_text(corpus / README_FILE, _front_matter(name, FRESHSTACK_CORPUS_SPLIT, file))
    write_readme(folder, selection, _HOW_TO_LOAD)
    write_about(folder, selection, "freshstack", names.changed())


def chunk_metadata(chunk: Chunk) -> dict[str, Any]:
    """Give where a chunk is from: FreshStack's four fields, and ours that it has no room for."""
    return {
        "url": chunk.url or "",
        "start_byte": chunk.start_byte,
        "end_byte": chunk.end_byte,
        "commit_id": chunk.revision or "",
        "source": chunk.source,
        "path": chunk.path,
        "encoding": chunk.encoding,
    }


def _query_row(query: Query, selection: Selection, names: Names) -> dict[str, Any]:
    nuggets = []
    for nugget in selection.nuggets[query.query_id]:
        labels = selection.support[nugget.nugget_id]
        nuggets.append(
            {
                "_id": names.nuggets[nugget.nugget_id],
                "text": nugget.text,
                "relevant_corpus_ids": [chunk for chunk, label in labels.items() if label],
                "non_relevant_corpus_ids": [chunk for chunk, label in labels.items() if not label],
            }
        )
    return {
        "query_id": names.queries[query.query_id],
        "query_title": query.title,
        "query_text": query.body,
        "nuggets": nuggets,
        "answer_id": query.answer_id or "",
        "answer_text": query.answer,
        "metadata": {
            "date": query.asked_at or "",
            "tags": list(query.tags),
            "origin": query.origin,
            "question_source": _attribution(query.question_source),
            "answer_source": _attribution(query.answer_source),
        },
    }


def _attribution(source: Attribution | None) -> dict[str, str] | None:
    return source.model_dump() if source else None


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "_id": chunk.chunk_id,
        "title": chunk.title,
        "text": chunk.text,
        "metadata": chunk_metadata(chunk),
    }


def _query_schema() -> "pa.Schema":
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    nugget = pa.struct(
        {
            "_id": text,
            "text": text,
            "relevant_corpus_ids": texts,
            "non_relevant_corpus_ids": texts,
        }
    )
    source = pa.struct(list(record_schema(Attribution)))
    metadata = pa.struct(
        {
            "date": text,
            "tags": texts,
            "origin": text,
            "question_source": source,
            "answer_source": source,
        }
    )
    return pa.schema(
        {
            "query_id": text,
            "query_title": text,
            "query_text": text,
            "nuggets": pa.list_(nugget),
            "answer_id": text,
            "answer_text": text,
            "metadata": metadata,
        }
    )


def _chunk_schema() -> "pa.Schema":
    import pyarrow as pa

    text, offset = pa.string(), pa.int64()
    metadata = pa.struct(
        {
            "url": text,
            "start_byte": offset,
            "end_byte": offset,
            "commit_id": text,
            "source": text,
            "path": text,
            "encoding": text,
        }
    )
    return pa.schema({"_id": text, "title": text, "text": text, "metadata": metadata})


def _front_matter(name: str, split: str, file: str) -> str:
    """Say where the split is, under the name of the collection: `DataLoader`'s `topic`."""
    return (
        "---\n"
        "configs:\n"
        f"- config_name: {json.dumps(name)}\n"
        "  data_files:\n"
        f"  - split: {split}\n"
        f"    path: {file}\n"
        "---\n"
    )
