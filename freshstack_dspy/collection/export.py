"""Exporting a collection in the layout of the official FreshStack data sets.

    out/queries/test-{hash}.parquet     questions with nuggets and the ids of judged chunks
    out/corpus/train-{hash}.parquet     chunks
    out/{queries,corpus}/README.md      what Hugging Face `datasets` reads first
    out/ids.json                        exported id to our id, where ids had to change

`datasets` caches what it reads under the names that stand in the README and never looks whether
the file behind them changed, so the file's name holds the hash of its content.

The `DataLoader` of the official `freshstack` package reads the two folders by their paths:
`load()` and then `load_qrels()`, for `load_qrels()` alone fails there.
It takes a nugget's query to be what stands before the first `_` of the nugget id, and gives a
query every nugget whose id begins with the query's; ids that do not survive this are replaced.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from freshstack_dspy.collection.card import attribution
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.corpus import write_rows
from freshstack_dspy.collection.exported_ids import ExportedIds, exported_ids
from freshstack_dspy.collection.markdown import escape
from freshstack_dspy.collection.staging import names_in, staged_folder
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Chunk, Query

if TYPE_CHECKING:
    import pyarrow as pa

    from freshstack_dspy.measures.qrels import OfficialDicts

ExportFormat = Literal["freshstack"]


def export_collection(collection: Collection, format: ExportFormat, out: Path | str) -> None:  # noqa: A002
    """Export the evaluated queries and the corpus of a collection for another tool.

    A label of 1 or more makes a chunk relevant to the nugget, 0 makes it non-relevant; a pair
    without a label is in neither list.

    Args:
        collection: What is exported.
        format: `freshstack`, the layout of the official data sets.
        out: A folder that is empty or does not exist; it appears whole or not at all.

    Raises:
        CollectionError: The format is unknown, there is no query to export, the folder holds
            something, or it cannot be written.
    """
    if format != "freshstack":
        raise CollectionError(f"{format!r} is no format of export; allowed: freshstack")
    out = Path(out).resolve()
    if out.exists() and names_in(out):
        raise CollectionError(f"{out}: the folder is not empty; name another, or empty it")
    if not collection.query_ids():
        slices = ", ".join(collection.manifest.evaluated_slices)
        raise CollectionError(f"{collection.name}: no query to export in the slices {slices}")
    official = collection.qrels().official()
    ids = exported_ids(official.query_to_nuggets)
    queries = [query for query in collection.queries if query.query_id in ids.queries]
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    with staged_folder(out) as folder:
        (folder / "queries").mkdir()
        (folder / "corpus").mkdir()
        rows = (_query_row(query, ids, nuggets, official) for query in queries)
        file = _write_split(folder / "queries", "test", _query_schema(), rows)
        head = _front_matter(collection.name, "test", file)
        _write(folder / "queries" / "README.md", f"{head}\n{_about(collection, queries)}")
        chunk_rows = map(_chunk_row, collection.chunks())
        file = _write_split(folder / "corpus", "train", _chunk_schema(), chunk_rows)
        _write(folder / "corpus" / "README.md", _front_matter(collection.name, "train", file))
        if ids.changed:
            mapping = {"queries": ids.back_to_queries(), "nuggets": ids.back_to_nuggets()}
            text = json.dumps(mapping, ensure_ascii=False, indent=2, sort_keys=True)
            _write(folder / "ids.json", f"{text}\n")


def _query_row(
    query: Query, ids: ExportedIds, texts: dict[str, str], official: "OfficialDicts"
) -> dict[str, Any]:
    nuggets = []
    for nugget_id in official.query_to_nuggets[query.query_id]:
        labels = official.qrels_nuggets[nugget_id]
        nuggets.append(
            {
                "_id": ids.nuggets[nugget_id],
                "text": texts[nugget_id],
                "relevant_corpus_ids": [chunk for chunk, label in labels.items() if label],
                "non_relevant_corpus_ids": [chunk for chunk, label in labels.items() if not label],
            }
        )
    return {
        "query_id": ids.queries[query.query_id],
        "query_title": query.title,
        "query_text": query.body,
        "nuggets": nuggets,
        "answer_id": query.answer_id or "",
        "answer_text": query.answer,
        "metadata": {"date": query.asked_at or "", "tags": list(query.tags)},
    }


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "_id": chunk.chunk_id,
        "title": "",
        "text": chunk.text,
        "metadata": {
            # A chunk knows its source by name, not by address.
            "url": "",
            "start_byte": chunk.start_byte,
            "end_byte": chunk.end_byte,
            "commit_id": chunk.revision or "",
        },
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
    return pa.schema(
        {
            "query_id": text,
            "query_title": text,
            "query_text": text,
            "nuggets": pa.list_(nugget),
            "answer_id": text,
            "answer_text": text,
            "metadata": pa.struct({"date": text, "tags": texts}),
        }
    )


def _chunk_schema() -> "pa.Schema":
    import pyarrow as pa

    text, offset = pa.string(), pa.int64()
    metadata = pa.struct({"url": text, "start_byte": offset, "end_byte": offset, "commit_id": text})
    return pa.schema({"_id": text, "title": text, "text": text, "metadata": metadata})


def _write_split(
    folder: Path, split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> str:
    """Write a split and give the name of its file."""
    unnamed = folder / f"{split}.parquet"
    write_rows(unnamed, schema, rows)
    with unnamed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return unnamed.rename(folder / f"{split}-{digest[:16]}.parquet").name


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


def _about(collection: Collection, queries: list[Query]) -> str:
    return (
        f"# {escape(collection.name)}\n\n"
        "Exported from the collection whose data have the hash "
        f"`{collection.manifest.content_hash}`.\n\n{attribution(queries)}"
    )


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))
