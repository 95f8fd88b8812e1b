"""The Hugging Face hub: a data set of Parquet for each kind of record, with the card."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.corpus.parquet import chunk_schema
from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.formats.format import Format, export_collection
from freshstack_dspy.formats.imported import Imported, R, validated
from freshstack_dspy.formats.selection import GRADES, Files, Selection
from freshstack_dspy.records import Candidate, Chunk, Judgment, Nugget, Query
from freshstack_dspy.rows import Row
from freshstack_dspy.stored.card import data_card
from freshstack_dspy.stored.contents import NuggetsName, Slices
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.record_files import kinds, schema_of, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

_HOW_TO_LOAD = f"""\
    queries = datasets.load_dataset("path/or/name", "queries", split="test")
    judgments = datasets.load_dataset("path/or/name", "judgments", split="test")

In the configuration `qrels` a row is a judged chunk of a query. {GRADES}
In `queries`, `origin` marks what is synthetic."""


def _write(selection: Selection) -> Files:
    collection = selection.collection
    qrels = {"query_id": str, "chunk_id": str, "score": int}
    measured = Selection(collection, selection.slices, selection.measured_on)
    grades = (dict(zip(qrels, grade, strict=True)) for grade in measured.grades())
    own = sorted({name for query in selection.queries for name in query.fields})
    queries = kinds(Query) | {"fields": dict.fromkeys(own, str) or str}
    tables: dict[str, tuple[Any, Iterable[dict[str, Any]]]] = {
        name: (schema_of(record), (item.model_dump() for item in records))
        for name, record, records in (
            ("queries", queries, selection.queries),
            ("nuggets", Nugget, selection.of_queries(collection.nuggets)),
            ("judgments", Judgment, selection.of_queries(collection.judgments)),
            ("pool", Candidate, selection.of_queries(collection.pool)),
        )
    }
    tables["corpus"] = (chunk_schema(), (chunk.model_dump() for chunk in collection.chunks()))
    tables["qrels"] = (schema_of(qrels), grades)
    files = {}
    with tempfile.TemporaryDirectory() as place:
        for config, (schema, rows) in tables.items():
            file = parquet_file(Path(place), "test", schema, rows)
            files[config] = ("test", f"{config}/{file.name}")
            yield files[config][1], file
    languages = sorted({query.language for query in collection.queries if query.language})
    about = (
        f"pretty_name: {json.dumps(collection.name)}\n"
        + f"language: {json.dumps(languages)}\n" * bool(languages)
        + "license: other\n"
        "license_name: see-the-attribution-below\n"
        "task_categories:\n- text-retrieval\n"
        "tags:\n- test-collection\n- nuggets\n- freshstack_dspy\n"
    )
    parts = (
        front_matter(files, about),
        selection.readme(_HOW_TO_LOAD),
        "---\n\nThe card of the whole collection, as it was built:\n",
        data_card(collection, collection.corpus, collection.manifest),
    )
    yield "README.md", "\n".join(parts)


def _read(imported: Imported) -> None:
    """Read every record as it was."""
    for row, query in _records(imported, "queries", Query):
        imported.once(row, "query", query.query_id)
        imported.queries[query.query_id] = query
    for row, nugget in _records(imported, "nuggets", Nugget):
        imported.once(row, "nugget", nugget.nugget_id)
        imported.nuggets[nugget.nugget_id] = nugget
    imported.judgments = [judgment for _, judgment in _records(imported, "judgments", Judgment)]
    imported.pool = [candidate for _, candidate in _records(imported, "pool", Candidate)]
    imported.documents = (chunk for _, chunk in _records(imported, "corpus", Chunk))
    imported.use_scale_of(judgment.label for judgment in imported.judgments)


def _records(imported: Imported, name: str, record: type[R]) -> Iterator[tuple[Row, R]]:
    """Read a configuration; what a record does not have is null there."""
    for row in imported.rows(imported.part(name, name, f"{name}*.parquet")):
        needed = {name for name, field in record.model_fields.items() if field.is_required()}
        values = {key: v for key, v in row.values.items() if v is not None or key in needed}
        if own := values.get("fields"):
            values["fields"] = {key: text for key, text in own.items() if text is not None}
        yield row, validated(record, row, **values)


# Data sets of Parquet, as `datasets` loads them


def parquet_file(
    folder: Path, split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> Path:
    """Write the file of a split of a data set, `{split}-{hash}.parquet`.

    `datasets` caches what it reads under the names in the README and never looks whether the file
    behind them changed, so the name has the hash of the content.
    """
    path = folder / "rows.parquet"
    write_rows(path, schema, rows)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return path.replace(folder / f"{split}-{digest[:16]}.parquet")


def front_matter(files: Mapping[str, tuple[str, str]], about: str = "") -> str:
    """Say for `datasets` where the one split of each configuration is: name -> split, file."""
    configs = "".join(
        f"- config_name: {json.dumps(name)}\n"
        f"  data_files:\n  - split: {split}\n    path: {json.dumps(file)}\n"
        for name, (split, file) in files.items()
    )
    return f"---\n{about}configs:\n{configs}---\n"


def push_collection(
    collection: StoredCollection | Path | str,
    repo_id: str,
    *,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    replace: bool = False,
) -> str:
    """Export a collection as a data set of the Hugging Face hub and upload it, as one commit.

    The hub is that of `HF_ENDPOINT`, the token that of `HF_TOKEN`; it is neither stored nor shown.
    A new data set is private.

    Args:
        collection: A collection, or its folder.
        repo_id: `owner/name` of the data set.
        slices: Which queries, as for `export_collection`.
        nuggets: Which of their nuggets, as for `export_collection`.
        replace: Allow for a data set that exists; its other Parquet files are deleted.

    Returns:
        The address of the data set.

    Raises:
        ConfigError: There is no token, huggingface_hub is not installed, or the endpoint would get
            the token unencrypted.
        CollectionError: There is nothing to export, or the hub does not take it.
    """
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if not re.match(r"https://|http://(127\.0\.0\.1|\[::1\]|localhost)[:/]", f"{endpoint}/"):
        raise ConfigError("HF_ENDPOINT does not begin with https://, and would get the token")
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise ConfigError("pushing needs a token that may write; set HF_TOKEN")
    try:
        import httpx
        from huggingface_hub import HfApi
    except ImportError:
        raise ConfigError(
            "pushing needs huggingface_hub; type: pip install 'freshstack_dspy[hub]'"
        ) from None
    collection = StoredCollection.load(collection)
    api = HfApi(endpoint=endpoint, token=token)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "dataset"
        export_collection(collection, "hf", folder, slices=slices, nuggets=nuggets)
        try:
            api.create_repo(repo_id, repo_type="dataset", private=True, exist_ok=replace)
            api.upload_folder(
                repo_id=repo_id,
                repo_type="dataset",
                folder_path=folder,
                commit_message=f"{collection.name}, content hash {collection.manifest.content_hash}",
                delete_patterns="*.parquet" if replace else None,
            )
        except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
            status = getattr(getattr(error, "response", None), "status_code", 0)
            fault = f"{type(error).__name__}: {error}"
            if status == 409:
                fault = (
                    f"the data set exists; name another, or replace it with {argument('replace')}"
                )
            fault = " ".join(fault.replace(token, "…").split())
            raise CollectionError(f"{repo_id} could not be pushed to {endpoint}: {fault}") from None
    return f"{endpoint}/datasets/{repo_id}"


HUGGING_FACE = Format(
    name="hf", how_to_load=_HOW_TO_LOAD, write=_write, read=_read, every_nugget=True
)
