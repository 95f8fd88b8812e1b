"""A data set of the Hugging Face hub: one configuration for each kind of record, and a card.

    out/README.md                     front matter with the configurations; the collection's card
    out/{config}/test-{hash}.parquet  queries, nuggets, corpus, qrels, judgments, pool

`datasets` caches what it reads under the names that stand in the README and never looks whether
the file behind them changed, so the file's name holds the hash of its content.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from freshstack_dspy.collection.card import data_card
from freshstack_dspy.collection.collection import corpus_schema
from freshstack_dspy.collection.exports.beir import GRADES
from freshstack_dspy.collection.exports.layout import (
    Selection,
    about,
    record_schema,
    write_about,
    write_split,
    write_text,
)
from freshstack_dspy.collection.layouts import README_FILE
from freshstack_dspy.records import Candidate, Judgment, Nugget, Query, Record

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT = "test"
_HOW_TO_LOAD = f"""
```python
from datasets import load_dataset

queries = load_dataset("path/or/name", "queries", split="{SPLIT}")
judgments = load_dataset("path/or/name", "judgments", split="{SPLIT}")
```

In the configuration `qrels` a row is a judged chunk of a query. {GRADES}
In `queries`, `origin` marks what is synthetic.
"""


def write_hugging_face(folder: Path, selection: Selection) -> None:
    """Write a Parquet file for each configuration, the card, and what they are."""
    files = {
        config: f"{config}/{write_split(folder / config, SPLIT, table.schema, table.rows)}"
        for config, table in _tables(selection).items()
    }
    collection = selection.collection
    card = data_card(collection, list(selection.chunks()), collection.manifest)
    parts = (
        _front_matter(collection.name, files),
        about(selection, _HOW_TO_LOAD),
        "---\n\nThe card of the whole collection, as it was built:\n",
        card,
    )
    write_text(folder / README_FILE, "\n".join(parts))
    write_about(folder, selection, "hf")


class _Table(NamedTuple):
    schema: "pa.Schema"
    rows: Iterator[dict[str, Any]]


def _tables(selection: Selection) -> dict[str, _Table]:
    """Give the table of each configuration, the first being what a hub shows first."""
    queries = [query.query_id for query in selection.queries]

    def of(record: type[Record], records: Iterable[Record]) -> _Table:
        return _Table(record_schema(record), (each.model_dump() for each in records))

    return {
        "queries": of(Query, selection.queries),
        "nuggets": of(Nugget, (one for query in queries for one in selection.nuggets[query])),
        "corpus": _Table(corpus_schema(), (chunk.model_dump() for chunk in selection.chunks())),
        "qrels": _Table(_qrels_schema(), _qrels(selection)),
        "judgments": of(Judgment, (one for query in queries for one in selection.judgments[query])),
        "pool": of(Candidate, (one for query in queries for one in selection.pool[query])),
    }


def _qrels_schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema({"query_id": pa.string(), "chunk_id": pa.string(), "score": pa.int64()})


def _qrels(selection: Selection) -> Iterator[dict[str, Any]]:
    for query in selection.queries:
        for chunk_id, grade in selection.grades(query.query_id).items():
            yield {"query_id": query.query_id, "chunk_id": chunk_id, "score": grade}


def _front_matter(name: str, files: Mapping[str, str]) -> str:
    configs = "".join(
        f"- config_name: {config}\n  data_files:\n  - split: {SPLIT}\n    path: {json.dumps(file)}\n"
        for config, file in files.items()
    )
    return (
        "---\n"
        f"pretty_name: {json.dumps(name)}\n"
        "license: other\n"
        "license_name: see-the-attribution-below\n"
        "task_categories:\n- text-retrieval\n"
        "tags:\n- test-collection\n- nuggets\n- freshstack_dspy\n"
        f"configs:\n{configs}"
        "---\n"
    )
