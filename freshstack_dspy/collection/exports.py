"""Exporting a collection in the layouts of other tools.

    freshstack   the official data sets: two folders of Parquet, read by `freshstack.datasets`
    beir         corpus.jsonl, queries.jsonl, qrels/test.tsv
    mteb         BEIR's files and task.py, a retrieval task of MTEB that reads them
    trec         topics, qrels, qrels by subtopic, and a corpus as Anserini reads it
    hf           a data set of the Hugging Face hub: Parquet for each kind of record, and the card
    crux         topics, ratings, three qrels and passages
    nuggetizer   nuggets and assignments as castorini's nuggetizer writes them

Every export has a README with the authors of its texts, `export.json` (of which collection it is,
its scale, slices and counts), the licences of the corpus, and `ids.json` where a format could not
hold an id: exported id -> ours, by kind. The same collection is always exported to the same bytes.
"""

import csv
import hashlib
import json
import os
import re
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from freshstack_dspy.collection.card import attribution
from freshstack_dspy.collection.collection import Collection, corpus_schema, write_rows
from freshstack_dspy.collection.manifest import baseline_warning, exported_from, is_baseline
from freshstack_dspy.collection.markdown import escape, table
from freshstack_dspy.collection.slices import Slices, check_any, left_out, slices_of
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import canonical_json, encode_records, replace_folder
from freshstack_dspy.records import (
    SCALES,
    Assignment,
    Attribution,
    Candidate,
    Chunk,
    Judgment,
    Nugget,
    Query,
    Record,
    Scale,
)

if TYPE_CHECKING:
    import pyarrow as pa

ExportFormat = Literal["freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
EXPORT_FILE, IDS_FILE, LICENCES_FILE = "export.json", "ids.json", "licences.jsonl"
JUDGED_CHUNKS: tuple[ExportFormat, ...] = ("nuggetizer",)
"""Formats that have room for the pooled and judged chunks only."""

Ids = Mapping[str, str]
"""Our id -> the exported one."""


class Export(NamedTuple):
    """What was exported."""

    format: ExportFormat
    counts: dict[str, int]
    left_out: tuple[str, ...]
    """What of the collection it does not hold, in one line each."""


def export_collection(
    collection: Collection | Path | str,
    format: ExportFormat,  # noqa: A002
    out: Path | str,
    *,
    slices: Slices = None,
    replace: bool = False,
) -> Export:
    """Export queries of a collection, with their nuggets, judgments and chunks, for another tool.

    A label supports from the threshold of the collection's scale on. A judgment that failed is no
    label, and a pair that was never judged has none; neither becomes a 0.

    Args:
        collection: A collection, or its folder.
        format: The layout.
        out: A folder that does not exist; it appears whole or not at all.
        slices: Which queries; None: every query with a supported nugget.
        replace: Whether an earlier export at `out` is replaced.

    Raises:
        CollectionError: The format or a slice is unknown, there is no query to export, `out`
            exists, or it cannot be written.
    """
    if format not in EXPORT_FORMATS:
        raise CollectionError(f"no format {format!r}; allowed: {', '.join(EXPORT_FORMATS)}")
    out = Path(out).resolve()
    if out.exists():
        if not replace:
            raise CollectionError(f"{out} exists; add --replace, or name another folder")
        if not (out / EXPORT_FILE).is_file():
            raise CollectionError(f"{out} is not an export; it is not replaced")
    if not isinstance(collection, Collection):
        collection = Collection.load(collection)
    selection = Selection(collection, slices, format)
    with replace_folder(out) as folder:
        _WRITERS[format](folder, selection)
        _write_json(folder / EXPORT_FILE, selection.description())
        if collection.licences:
            (folder / LICENCES_FILE).write_bytes(encode_records(collection.licences))
    return Export(format, selection.counts(), selection.left_out())


def push_collection(
    collection: Collection | Path | str,
    repo_id: str,
    *,
    private: bool = True,
    slices: Slices = None,
    replace: bool = False,
) -> str:
    """Export a collection as a data set of the Hugging Face hub and upload it, as one commit.

    The hub is that of `HF_ENDPOINT`, the token that of `HF_TOKEN`; it is neither stored nor shown.

    Args:
        collection: A collection, or its folder.
        repo_id: `owner/name` of the data set.
        private: Whether a new data set can be seen by its owner alone.
        slices: Which queries, as for `export_collection`.
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
    if not isinstance(collection, Collection):
        collection = Collection.load(collection)
    api = HfApi(endpoint=endpoint, token=token)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "dataset"
        export_collection(collection, "hf", folder, slices=slices)
        try:
            api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=replace)
            api.upload_folder(
                repo_id=repo_id,
                repo_type="dataset",
                folder_path=folder,
                commit_message=f"{collection.name}, content hash {collection.manifest.content_hash}",
                delete_patterns="*.parquet" if replace else None,
            )
        except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
            raise CollectionError(
                f"{repo_id} could not be pushed to {endpoint}: {_hub_fault(error, token)}"
            ) from None
    return f"{endpoint}/datasets/{repo_id}"


def _hub_fault(error: BaseException, token: str) -> str:
    response = getattr(error, "response", None)
    reasons = {
        401: "the hub does not know the token of HF_TOKEN",
        403: "the token of HF_TOKEN may not write there",
        409: "the data set exists; name another, or add --replace",
    }
    reason = reasons.get(getattr(response, "status_code", 0))
    text = reason or f"{type(error).__name__}: {error}"
    return " ".join(text.replace(token, "…").split())


# What is exported


class Selection:
    """The queries of some slices with all that belongs to them.

    A query with a supported nugget is exported with its supported nuggets alone, as it is measured.

    Attributes:
        collection: Where they are from.
        slices: Which slices.
        format: For which format: `hf` has every nugget, and only `JUDGED_CHUNKS` not every chunk.
        queries: Ascending by id.
        nuggets: Of each query, by query id, in order.
        judgments: Of these nuggets, by query id, in the order of nugget and chunk ids.
        pool: Of each query, by query id, in the order of chunk ids.
        support: Nugget id -> chunk id -> 1 where the label is support, else 0.
    """

    def __init__(self, collection: Collection, slices: Slices, format_: ExportFormat) -> None:
        self.collection, self.slices, self.format = collection, slices_of(slices), format_
        check_any(collection, self.slices)
        ids = collection.query_ids(self.slices)
        self.nuggets: dict[str, list[Nugget]] = {id_: [] for id_ in ids}
        self.judgments: dict[str, list[Judgment]] = {id_: [] for id_ in ids}
        self.pool: dict[str, list[Candidate]] = {id_: [] for id_ in ids}
        self.queries = [one for one in collection.queries if one.query_id in self.nuggets]
        supported = collection.supported_nuggets()
        measured = {one.query_id for one in collection.nuggets if one.nugget_id in supported}
        for nugget in collection.nuggets:
            whole = format_ == "hf" or nugget.query_id not in measured
            if nugget.query_id in self.nuggets and (whole or nugget.nugget_id in supported):
                self.nuggets[nugget.query_id].append(nugget)
        self.support: dict[str, dict[str, int]] = {
            nugget.nugget_id: {} for each in self.nuggets.values() for nugget in each
        }
        for judgment in collection.judgments:
            if judgment.nugget_id in self.support:
                self.judgments[judgment.query_id].append(judgment)
                if judgment.label is not None:
                    supports = int(judgment.label >= collection.threshold)
                    self.support[judgment.nugget_id][judgment.chunk_id] = supports
        for candidate in collection.pool:
            if candidate.query_id in self.pool:
                self.pool[candidate.query_id].append(candidate)

    def labels(self, query_id: str) -> dict[str, dict[str, int | None]]:
        """Give the labels of a query: chunk id -> nugget id -> label, or None if it failed."""
        labels: dict[str, dict[str, int | None]] = defaultdict(dict)
        for judgment in self.judgments[query_id]:
            labels[judgment.chunk_id][judgment.nugget_id] = judgment.label
        return {chunk_id: labels[chunk_id] for chunk_id in sorted(labels)}

    def grades(self) -> Iterator[tuple[str, str, int]]:
        """Grade each judged chunk of each query by how many of its nuggets it supports.

        A chunk that supports none is graded 0 only if no judgment of it failed: a failure is no 0.
        """
        for query_id in self.nuggets:
            for chunk_id, labels in self.labels(query_id).items():
                grade = sum(self.support[nugget].get(chunk_id, 0) for nugget in labels)
                if grade or None not in labels.values():
                    yield query_id, chunk_id, grade

    def chunks_held(self) -> int:
        """How many chunks the export has."""
        if self.format not in JUDGED_CHUNKS:
            return len(self.collection.corpus.rows)
        held = {one.chunk_id for each in self.judgments.values() for one in each}
        return len(held.union(one.chunk_id for each in self.pool.values() for one in each))

    def counts(self) -> dict[str, int]:
        """Count what is exported."""
        judgments = [one for each in self.judgments.values() for one in each]
        judged = {one.nugget_id for one in judgments}
        return {
            "queries": len(self.queries),
            "synthetic_queries": sum(query.origin == "synthetic" for query in self.queries),
            "nuggets": len(self.support),
            "nuggets_without_judgment": len(self.support.keys() - judged),
            "chunks": self.chunks_held(),
            "judgments": len(judgments),
            "supported": sum(sum(labels.values()) for labels in self.support.values()),
            "judgments_without_label": sum(one.label is None for one in judgments),
        }

    def left_out(self) -> tuple[str, ...]:
        """Say what of the collection is not exported."""
        chunks = len(self.collection.corpus.rows) - self.chunks_held()
        queries = left_out(self.collection, self.slices)
        if self.format == "hf":  # has every nugget of its queries
            others = len(self.collection.queries) - len(self.queries)
            queries = f"{others:,} queries of other slices are left out" if others else ""
        judged = f"{chunks:,} chunks that were not pooled or judged are left out" if chunks else ""
        return tuple(line for line in (queries, judged) if line)

    def description(self) -> dict[str, Any]:
        """Give what is in `export.json`."""
        manifest = self.collection.manifest
        origin = exported_from(manifest)
        return {
            "format": self.format,
            "collection": manifest.name,
            "content_hash": manifest.content_hash,
            "schema_version": manifest.schema_version,
            "recipe": manifest.recipe,
            "model": manifest.model,
            "scale": manifest.scale.model_dump(),
            "slices": list(self.slices),
            "counts": self.counts(),
            **({"imported_from": origin} if origin else {}),
        }

    def readme(self, how_to_load: str) -> str:
        """Write the README: the collection, how a tool loads the export, the authors."""
        manifest, counts = self.collection.manifest, self.counts()
        rows = [(escape(name.replace("_", " ")), str(number)) for name, number in counts.items()]
        warning = baseline_warning(manifest)
        synthetic = (
            f"\n**{counts['synthetic_queries']} of the queries are synthetic: a language model "
            "wrote them, no person asked them.**\n"
        )
        chunks = "its whole corpus"
        if self.format in JUDGED_CHUNKS:
            chunks = (
                f"of its corpus of {len(self.collection.corpus.rows):,} chunks those that were "
                f"pooled or judged for them ({counts['chunks']:,}), for the format has no room "
                "for others"
            )
        licences = "No licence or notice came with them."
        if self.collection.licences:
            licences = f"The licences and notices that came with them are in `{LICENCES_FILE}`."
        return (
            f"# {escape(manifest.name)}\n\n"
            + (f"{warning}\n\n" if warning else "")
            + f"Exported from the collection whose data have the hash `{manifest.content_hash}`: "
            f"its queries in the slices {', '.join(self.slices)}, and {chunks}.\n"
            f"{self._made()} Labels are on the scale {manifest.scale.name}; "
            f"{manifest.scale.threshold} or more is support.\n"
            + (synthetic if counts["synthetic_queries"] else "")
            + f"\n{table(('what', 'number'), rows)}\n"
            f"## How to load it\n\n{how_to_load.strip()}\n\n"
            f"The texts of the corpus belong to their authors too. {licences}\n\n"
            f"{attribution(self.queries)}"
        )

    def _made(self) -> str:
        manifest = self.collection.manifest
        recipe = escape(manifest.recipe)
        if not manifest.recipe.startswith("import:"):
            asked = "the baseline" if is_baseline(manifest.model) else "the model"
            return f"Made by the recipe {recipe}, asking {asked} {escape(manifest.model)}."
        first = exported_from(manifest)
        if not first:
            return f"That collection was imported ({recipe}); no model was asked."
        return (
            f"That collection was imported ({recipe}) from an export of "
            f"{escape(first.get('collection', 'a collection'))} with the hash "
            f"{escape(first.get('content_hash', 'unknown'))}, by "
            f"{escape(first.get('model', 'unknown'))}."
        )


# Files


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some readers end a line at these, so they are escaped."""


def _write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    _write_lines(path, (canonical_json(row).translate(_LINE_ENDS) for row in rows))


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    _write_text(path, f"{text}\n")


def _write_ids(folder: Path, **kinds: Ids) -> None:
    """Write which ids are called differently, by kind: exported id -> ours."""
    changed = {
        kind: {exported: ours for ours, exported in ids.items() if exported != ours}
        for kind, ids in kinds.items()
    }
    if found := {kind: ids for kind, ids in changed.items() if ids}:
        _write_json(folder / IDS_FILE, found)


def _query_metadata(query: Query) -> dict[str, Any]:
    sources = {"question_source": query.question_source, "answer_source": query.answer_source}
    return {
        "title": query.title,
        "origin": query.origin,
        "date": query.asked_at or "",
        "tags": list(query.tags),
        **{name: source.model_dump() for name, source in sources.items() if source},
    }


def _chunk_metadata(chunk: Chunk) -> dict[str, Any]:
    """FreshStack's four fields, and ours that it has no room for."""
    return {
        "url": chunk.url or "",
        "start_byte": chunk.start_byte,
        "end_byte": chunk.end_byte,
        "commit_id": chunk.revision or "",
        "source": chunk.source,
        "path": chunk.path,
        "encoding": chunk.encoding,
    }


def _query_rows(selection: Selection, ids: Ids, key: str) -> Iterator[dict[str, Any]]:
    for query in selection.queries:
        metadata = _query_metadata(query)
        yield {key: ids[query.query_id], "text": query.text, "metadata": metadata}


def _corpus_rows(selection: Selection, ids: Ids) -> Iterator[dict[str, Any]]:
    for chunk in selection.collection.chunks():
        id_ = ids.get(chunk.chunk_id, chunk.chunk_id)
        metadata = _chunk_metadata(chunk)
        yield {"_id": id_, "title": chunk.title, "text": chunk.text, "metadata": metadata}


def _one_line(text: str) -> str:
    return " ".join(text.split())


# Ids

_LOW, _HIGH = '"', "~"
_PLAIN = re.compile("[#-}]+")
_ESCAPE = re.compile("!([0-9A-F]{2})|~([0-9A-F]{6})")
_IN_A_TABLE = re.compile('[^\\x00-\\x1f"\\x7f-\\x9f\u2028\u2029\ufeff]+')


def word(id_: str) -> str:
    """Give an id as one word of visible ASCII: `a b` is `a!20b`, and `ä` is `~0000E4`.

    No two ids have the same word, words sort as their ids do, and most ids are words already.
    """
    if _PLAIN.fullmatch(id_):
        return id_
    escaped = (
        char if _LOW < char < _HIGH else f"!{ord(char):02X}" if char <= _LOW else f"~{ord(char):06X}"
        for char in id_
    )  # fmt: skip
    return "".join(escaped) or "!"


def id_of(word: str) -> str:
    """Give the id of a word."""
    if word == "!":
        return ""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), word)


def table_ids(ids: Iterable[str]) -> dict[str, str]:
    """Name ids in a table with tabs: all as they are, or, where one cannot be, all by words."""
    given = list(ids)
    plain = all(map(_IN_A_TABLE.fullmatch, given))
    return {id_: id_ if plain else word(id_) for id_ in given}


def official_ids(nuggets: Mapping[str, Sequence[str]]) -> tuple[Ids, Ids]:
    """Choose ids of queries and nuggets: ours where the official loader reads all of them rightly.

    It takes a nugget's query to be what is before the first `_` of the nugget id, and gives a
    query every nugget whose id begins with the query's. Where that goes wrong for a single id,
    queries are numbered in equal width and nuggets are called `{query}_{position}`.

    Args:
        nuggets: The nugget ids of each query, in order.
    """
    # Whatever begins with an id is sorted right behind it.
    prefix_free = not any(two.startswith(one) for one, two in pairwise(sorted(nuggets)))
    if prefix_free and all(
        "_" not in query and all(nugget.startswith(f"{query}_") for nugget in ids)
        for query, ids in nuggets.items()
    ):
        return {query: query for query in nuggets}, {
            nugget: nugget for ids in nuggets.values() for nugget in ids
        }
    width = len(str(len(nuggets) - 1))
    queries = {query: f"{number:0{width}}" for number, query in enumerate(sorted(nuggets))}
    return queries, {
        nugget: f"{queries[query]}_{position}"
        for query, ids in nuggets.items()
        for position, nugget in enumerate(ids)
    }


# BEIR and MTEB

_GRADES = (
    "The score of a chunk is the number of the query's nuggets that it supports; 0 means that "
    "it was judged and supports none. A chunk that supports none and of which a judgment failed "
    "is left out."
)
_LOAD_BEIR = f"""
```python
from beir.datasets.data_loader import GenericDataLoader

corpus, queries, qrels = GenericDataLoader("path/to/this/folder").load(split="test")
```

{_GRADES}
"""
_LOAD_MTEB = f"""
```python
import mteb
from task import CollectionRetrieval  # with this folder on the path

mteb.evaluate(mteb.get_model("model-name"), CollectionRetrieval())
```

{_GRADES} The main score is nDCG@10.
The languages in `task.json` are undetermined (`und`): the collection does not record them.
"""
_MTEB_TASK = '''\
"""A retrieval task of MTEB, on the files next to this one."""

import csv
import json
from pathlib import Path

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

FOLDER = Path(__file__).resolve().parent
VALUES = json.loads((FOLDER / "task.json").read_text(encoding="utf-8"))


def read_lines(name):
    with (FOLDER / name).open(encoding="utf-8", newline="\\n") as file:
        for line in file:
            yield json.loads(line)


def read_qrels(name):
    qrels = {}
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\\t")
        next(rows)
        for query_id, chunk_id, score in rows:
            qrels.setdefault(query_id, {})[chunk_id] = int(score)
    return qrels


class CollectionRetrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name=VALUES["name"],
        description=VALUES["description"],
        dataset={"path": str(FOLDER), "revision": VALUES["revision"]},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=VALUES["languages"],
        main_score="ndcg_at_10",
    )

    def load_data(self, num_proc=None, **kwargs):
        if self.data_loaded:
            return
        queries = [
            {"id": line["_id"], "text": line["text"]} for line in read_lines("queries.jsonl")
        ]
        corpus = [
            {"id": line["_id"], "title": line["title"], "text": line["text"]}
            for line in read_lines("corpus.jsonl")
        ]
        qrels = read_qrels("qrels/test.tsv")
        self.dataset = {
            "default": {
                "test": {
                    "queries": Dataset.from_list([one for one in queries if one["id"] in qrels]),
                    "corpus": Dataset.from_list(corpus),
                    "relevant_docs": qrels,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True
'''
"""The same for every collection: code is not made of other people's texts."""


def _write_beir(folder: Path, selection: Selection) -> None:
    _write_beir_data(folder, selection)
    _write_text(folder / "README.md", selection.readme(_LOAD_BEIR))


def _write_beir_data(folder: Path, selection: Selection) -> None:
    chunks = table_ids(selection.collection.corpus.rows)
    queries = table_ids(query.query_id for query in selection.queries)
    # BEIR's evaluation passes over a chunk that is called as its query is.
    while not set(chunks.values()).isdisjoint(queries.values()):
        queries = {ours: f"query:{name}" for ours, name in queries.items()}
    _write_json_lines(folder / "corpus.jsonl", _corpus_rows(selection, chunks))
    _write_json_lines(folder / "queries.jsonl", _query_rows(selection, queries, "_id"))
    (folder / "qrels").mkdir()
    with (folder / "qrels/test.tsv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(("query-id", "corpus-id", "score"))
        for query_id, chunk_id, grade in selection.grades():
            rows.writerow((queries[query_id], chunks[chunk_id], grade))
    _write_ids(folder, queries=queries, chunks=chunks)


def _write_mteb(folder: Path, selection: Selection) -> None:
    _write_beir_data(folder, selection)
    manifest = selection.collection.manifest
    values = {
        "name": manifest.name,
        "description": f"Questions of {manifest.name} and the chunks that support their answers.",
        "revision": manifest.content_hash,
        "languages": ["und"],
    }
    _write_json(folder / "task.json", values)
    _write_text(folder / "task.py", _MTEB_TASK)
    _write_text(folder / "README.md", selection.readme(_LOAD_MTEB))


# TREC

_LOAD_TREC = f"""
```sh
ir_measures diversity_qrels.txt path/to/run.txt 'alpha_nDCG@10'
ir_measures qrels.txt path/to/run.txt 'nDCG@10 R@50'
```

{_GRADES} In `diversity_qrels.txt` the second column is the number of a nugget within its query,
as `nuggets.jsonl` names them; a pair whose judgment failed is left out.
Topics are in one line each in `topics.tsv`, and as they are in `topics.jsonl`, where
`metadata.origin` marks what is synthetic.
An id that is no word of visible ASCII is called by one that is (a space is `!20`); `ids.json`
then maps it back.
"""


def _write_trec(folder: Path, selection: Selection) -> None:
    queries = {query.query_id: word(query.query_id) for query in selection.queries}
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.rows}
    _write_lines(
        folder / "topics.tsv",
        (f"{queries[query.query_id]}\t{_one_line(query.text)}" for query in selection.queries),
    )
    _write_json_lines(folder / "topics.jsonl", _query_rows(selection, queries, "id"))
    _write_json_lines(
        folder / "nuggets.jsonl",
        (
            {
                "id": queries[query_id],
                "subtopic": number,
                "nugget_id": nugget.nugget_id,
                "text": nugget.text,
                "importance": nugget.importance,
            }
            for query_id, nuggets in selection.nuggets.items()
            for number, nugget in enumerate(nuggets, start=1)
        ),
    )
    _write_json_lines(
        folder / "corpus.jsonl",
        (
            {
                "id": chunks[chunk.chunk_id],
                "contents": chunk.titled,
                "metadata": {"title": chunk.title, **_chunk_metadata(chunk)},
            }
            for chunk in selection.collection.chunks()
        ),
    )
    _write_trec_qrels(folder, selection, queries, chunks)
    _write_text(folder / "README.md", selection.readme(_LOAD_TREC))
    _write_ids(folder, queries=queries, chunks=chunks)


def _write_trec_qrels(folder: Path, selection: Selection, queries: Ids, chunks: Ids) -> None:
    _write_lines(
        folder / "qrels.txt",
        (f"{queries[query]} 0 {chunks[chunk]} {grade}" for query, chunk, grade in selection.grades()),
    )  # fmt: skip
    _write_lines(
        folder / "diversity_qrels.txt",
        (
            f"{queries[query_id]} {number} {chunks[chunk_id]} {label}"
            for query_id, nuggets in selection.nuggets.items()
            for number, nugget in enumerate(nuggets, start=1)
            for chunk_id, label in selection.support[nugget.nugget_id].items()
        ),
    )


# FreshStack

_LOAD_FRESHSTACK = """
```python
from freshstack.datasets import DataLoader

loader = DataLoader("path/to/the/export/queries", "path/to/the/export/corpus")
corpus, queries, nuggets = loader.load()
qrels_nuggets, qrels_query, query_to_nuggets = loader.load_qrels()
```
"""


def _write_freshstack(folder: Path, selection: Selection) -> None:
    queries, nuggets = official_ids(
        {query: [one.nugget_id for one in each] for query, each in selection.nuggets.items()}
    )
    rows = (_freshstack_query(query, selection, queries, nuggets) for query in selection.queries)
    file = _write_parquet(folder / "queries", "test", _freshstack_queries_schema(), rows)
    readme = selection.readme(_LOAD_FRESHSTACK)
    name = selection.collection.name
    _write_text(folder / "queries/README.md", f"{_front_matter(name, 'test', file)}\n{readme}")
    chunks = _corpus_rows(selection, {})
    file = _write_parquet(folder / "corpus", "train", _freshstack_corpus_schema(), chunks)
    _write_text(folder / "corpus/README.md", _front_matter(name, "train", file))
    _write_text(folder / "README.md", readme)
    _write_ids(folder, queries=queries, nuggets=nuggets)


def _freshstack_query(
    query: Query, selection: Selection, queries: Ids, nuggets: Ids
) -> dict[str, Any]:
    def source(given: Attribution | None) -> dict[str, str] | None:
        return given.model_dump() if given else None

    rows = []
    for nugget in selection.nuggets[query.query_id]:
        labels = selection.support[nugget.nugget_id]
        rows.append(
            {
                "_id": nuggets[nugget.nugget_id],
                "text": nugget.text,
                "relevant_corpus_ids": [chunk for chunk, label in labels.items() if label],
                "non_relevant_corpus_ids": [chunk for chunk, label in labels.items() if not label],
            }
        )
    return {
        "query_id": queries[query.query_id],
        "query_title": query.title,
        "query_text": query.body,
        "nuggets": rows,
        "answer_id": query.answer_id or "",
        "answer_text": query.answer,
        "metadata": {
            "date": query.asked_at or "",
            "tags": list(query.tags),
            "origin": query.origin,
            "question_source": source(query.question_source),
            "answer_source": source(query.answer_source),
        },
    }


def _freshstack_queries_schema() -> "pa.Schema":
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    lists = {"relevant_corpus_ids": texts, "non_relevant_corpus_ids": texts}
    source = pa.struct(list(record_schema(Attribution)))
    metadata = {"date": text, "tags": texts, "origin": text}
    metadata |= {"question_source": source, "answer_source": source}
    return pa.schema(
        {
            "query_id": text,
            "query_title": text,
            "query_text": text,
            "nuggets": pa.list_(pa.struct({"_id": text, "text": text, **lists})),
            "answer_id": text,
            "answer_text": text,
            "metadata": pa.struct(metadata),
        }
    )


def _freshstack_corpus_schema() -> "pa.Schema":
    import pyarrow as pa

    text, offset = pa.string(), pa.int64()
    metadata = {"url": text, "start_byte": offset, "end_byte": offset, "commit_id": text}
    metadata |= {"source": text, "path": text, "encoding": text}
    return pa.schema({"_id": text, "title": text, "text": text, "metadata": pa.struct(metadata)})


def _front_matter(name: str, split: str, file: str) -> str:
    """Say where a split is, under the name of the collection: the `topic` of `DataLoader`."""
    return (
        "---\n"
        "configs:\n"
        f"- config_name: {json.dumps(name)}\n"
        "  data_files:\n"
        f"  - split: {split}\n"
        f"    path: {file}\n"
        "---\n"
    )


# Hugging Face

_LOAD_HF = f"""
```python
from datasets import load_dataset

queries = load_dataset("path/or/name", "queries", split="test")
judgments = load_dataset("path/or/name", "judgments", split="test")
```

In the configuration `qrels` a row is a judged chunk of a query. {_GRADES}
In `queries`, `origin` marks what is synthetic.
"""


def _write_hf(folder: Path, selection: Selection) -> None:
    import pyarrow as pa

    from freshstack_dspy.collection.card import data_card

    collection = selection.collection
    chunks = list(collection.chunks())
    qrels = pa.schema({"query_id": pa.string(), "chunk_id": pa.string(), "score": pa.int64()})

    def rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
        return (record.model_dump() for record in records)

    def of(records: Mapping[str, Sequence[Record]]) -> Iterator[dict[str, Any]]:
        return (record.model_dump() for each in records.values() for record in each)

    tables = {
        "queries": (record_schema(Query), rows(selection.queries)),
        "nuggets": (record_schema(Nugget), of(selection.nuggets)),
        "corpus": (corpus_schema(), rows(chunks)),
        "qrels": (qrels, (dict(zip(qrels.names, row, strict=True)) for row in selection.grades())),
        "judgments": (record_schema(Judgment), of(selection.judgments)),
        "pool": (record_schema(Candidate), of(selection.pool)),
    }
    configs = ""
    for config, (schema, values) in tables.items():
        file = f"{config}/{_write_parquet(folder / config, 'test', schema, values)}"
        configs += f"- config_name: {config}\n  data_files:\n  - split: test\n    path: {json.dumps(file)}\n"
    head = (
        "---\n"
        f"pretty_name: {json.dumps(collection.name)}\n"
        "license: other\n"
        "license_name: see-the-attribution-below\n"
        "task_categories:\n- text-retrieval\n"
        "tags:\n- test-collection\n- nuggets\n- freshstack_dspy\n"
        f"configs:\n{configs}"
        "---\n"
    )
    card = data_card(collection, chunks, collection.manifest)
    about = "---\n\nThe card of the whole collection, as it was built:\n"
    _write_text(folder / "README.md", "\n".join((head, selection.readme(_LOAD_HF), about, card)))


def _write_parquet(
    folder: Path, split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> str:
    """Write a split of a data set and give the name of its file, `{split}-{hash}.parquet`.

    `datasets` caches what it reads under the names in the README and never looks whether the file
    behind them changed, so the name has the hash of the content.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unnamed = folder / f"{split}.parquet"
    write_rows(unnamed, schema, rows)
    digest = hashlib.sha256(unnamed.read_bytes()).hexdigest()
    return unnamed.rename(folder / f"{split}-{digest[:16]}.parquet").name


def record_schema(record: type[Record]) -> "pa.Schema":
    """Give the Arrow schema of a record: its fields, in their order."""
    import pyarrow as pa

    return pa.schema(
        {name: _arrow_type(field.annotation) for name, field in record.model_fields.items()}
    )


def _arrow_type(annotation: Any) -> "pa.DataType":
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return pa.string()
    if origin is Annotated:
        return _arrow_type(inner[0])
    if origin in (Union, types.UnionType):  # with None
        return next(_arrow_type(each) for each in inner if each is not type(None))
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    return pa.struct(list(record_schema(annotation)))


# CRUX

_LOAD_CRUX = """
The names are those that `evaluation/llm_prejudge` of CRUX reads below its `--dataset_dir`, with
`--threshold` as in the name of the folder `ranking_…`.
A rating of -1 means that a judgment failed or was never asked for.
In `test_qrels_oracle_context_pr.txt`, 3 is a required passage, 2 a partly redundant and 1 a
redundant one; a topic none of whose questions is answered has no line there, nor has a passage
that is redundant or not as a missing rating would say.
A chunk is there once for each topic that it was judged for, and once under `!corpus` if for none, so
that there are more passages than chunks where topics share chunks; `ids.json` names their chunks.
"""
_REST = "!corpus"
"""No topic is called so: in a word, two digits follow every `!`."""


class _Passage(NamedTuple):
    """A chunk for one topic, `{topic}:{document}#{passage}`.

    CRUX's tools take the topic of a passage to be what is before the first `:` of its id.
    """

    pid: str
    chunk_id: str
    ratings: Sequence[int | None] = ()
    """One for each nugget of the query."""


class _Topic(NamedTuple):
    name: str
    query: Query
    nuggets: Sequence[Nugget]
    passages: Sequence[_Passage]


def _write_crux(folder: Path, selection: Selection) -> None:
    threshold = selection.collection.threshold
    ranking = folder / f"ranking_{threshold}"
    chunks = {chunk.chunk_id: chunk for chunk in selection.collection.chunks()}
    topics = [_crux_topic(query, selection, chunks) for query in selection.queries]
    passages = [passage for topic in topics for passage in topic.passages]
    judged = {passage.chunk_id for passage in passages}
    rest = [chunk for chunk in chunks.values() if chunk.chunk_id not in judged]
    passages += map(_Passage, _passage_ids(_REST, rest), (chunk.chunk_id for chunk in rest))
    _write_lines(
        ranking / "test_topics.tsv",
        (f"{topic.name}\t{_one_line(topic.query.text)}" for topic in topics),
    )
    _write_json_lines(
        ranking / "test_topics.jsonl",
        (
            {
                "example_id": topic.name,
                "topic": topic.query.text,
                "questions": [nugget.text for nugget in topic.nuggets],
                "report": topic.query.answer,
                "nugget_ids": [nugget.nugget_id for nugget in topic.nuggets],
                "metadata": _query_metadata(topic.query),
            }
            for topic in topics
        ),
    )
    _write_ratings(ranking, topics, threshold)
    _write_oracle_qrels(ranking, topics, threshold)
    _write_json_lines(
        folder / "passages/test_psgs.jsonl",
        ({"id": one.pid, "contents": chunks[one.chunk_id].titled} for one in passages),
    )
    how_many = f"There are {len(passages):,} passages of {len(chunks):,} chunks."
    _write_text(folder / "README.md", selection.readme(f"{how_many}\n{_LOAD_CRUX}"))
    names = {topic.name: topic.query.query_id for topic in topics}
    changed = {name: ours for name, ours in names.items() if name != ours}
    kinds = {"chunks": {one.pid: one.chunk_id for one in passages}}
    _write_json(folder / IDS_FILE, {"queries": changed, **kinds} if changed else kinds)


def _crux_topic(query: Query, selection: Selection, chunks: Mapping[str, Chunk]) -> _Topic:
    name = word(query.query_id).replace(":", "!3A")
    nuggets = selection.nuggets[query.query_id]
    labels = selection.labels(query.query_id)
    pids = _passage_ids(name, [chunks[chunk_id] for chunk_id in labels])
    passages = [
        _Passage(pid, chunk_id, [found.get(nugget.nugget_id) for nugget in nuggets])
        for pid, (chunk_id, found) in zip(pids, labels.items(), strict=True)
    ]
    return _Topic(name, query, nuggets, passages)


def _passage_ids(topic: str, chunks: Iterable[Chunk]) -> list[str]:
    """Number chunks through, and their files as their documents."""
    files: dict[tuple[str, str], int] = {}
    return [
        f"{topic}:{files.setdefault((chunk.source, chunk.path), len(files))}#{number}"
        for number, chunk in enumerate(chunks)
    ]


def _write_ratings(ranking: Path, topics: Sequence[_Topic], threshold: int) -> None:
    _write_json_lines(
        ranking / "test_judgements.jsonl",
        (
            {
                "example_id": topic.name,
                "pid": passage.pid,
                "rating": [-1 if rating is None else rating for rating in passage.ratings],
            }
            for topic in topics
            for passage in topic.passages
        ),
    )
    _write_lines(
        ranking / "test_div_qrels_pr.txt",
        (
            f"{topic.name} {number} {passage.pid} {int(rating >= threshold)}"
            for topic in topics
            for passage in topic.passages
            for number, rating in enumerate(passage.ratings, start=1)
            if rating is not None
        ),
    )


def _write_oracle_qrels(ranking: Path, topics: Sequence[_Topic], threshold: int) -> None:
    from freshstack_dspy.measures.contexts import required_subset

    contexts: list[str] = []
    documents: list[str] = []
    for topic in topics:
        subset = required_subset([passage.ratings for passage in topic.passages], threshold)
        if not subset.required:
            continue
        for place, label in subset.labels.items():
            contexts.append(f"{topic.name} 0 {topic.passages[place].pid} {label}")
        required = (topic.passages[place].pid.partition("#")[0] for place in subset.required)
        documents += [f"{topic.name} 0 {document} 1" for document in dict.fromkeys(required)]
    _write_lines(ranking / "test_qrels_oracle_context_pr.txt", contexts)
    _write_lines(ranking / "test_qrels_oracle_adhoc_dr.txt", documents)


# nuggetizer

_LOAD_NUGGETIZER = """
```sh
nuggetizer metrics --input-file assignments.jsonl --output-file metrics.jsonl
```

A label of support is `support`, 0 is `not_support`, one between them `partial_support`; on the
scale `support`, 1 is `partial_support` whatever the threshold. A judgment that failed is `failed`,
which nuggetizer counts as no support; a nugget that was not judged for a chunk is left out.
Nuggets that were not rated are written as `vital`, as nuggetizer would read them, with
`"rated": false`.
"""


def _write_nuggetizer(folder: Path, selection: Selection) -> None:
    texts = {chunk.chunk_id: chunk.titled for chunk in selection.collection.chunks()}
    scale = selection.collection.manifest.scale
    _write_json_lines(
        folder / "input.jsonl",
        (
            {
                "query": {"qid": query.query_id, "text": query.text},
                "candidates": [
                    {"docid": id_, "score": 1 / place, "doc": {"segment": texts[id_]}}
                    for place, id_ in enumerate(_ranked(selection.pool[query.query_id]), start=1)
                ],
            }
            for query in selection.queries
        ),
    )
    _write_json_lines(
        folder / "nuggets.jsonl",
        (
            {
                "query": query.text,
                "qid": query.query_id,
                "nuggets": [_nuggetizer_nugget(one) for one in selection.nuggets[query.query_id]],
                "metadata": _query_metadata(query),
            }
            for query in selection.queries
        ),
    )
    _write_json_lines(
        folder / "assignments.jsonl",
        (
            {
                "text": query.text,
                "qid": query.query_id,
                "candidate_text": texts[chunk_id],
                "docid": chunk_id,
                "nuggets": [
                    {**_nuggetizer_nugget(one), "assignment": assignment(labels[id_], scale)}
                    for one in selection.nuggets[query.query_id]
                    if (id_ := one.nugget_id) in labels
                ],
            }
            for query in selection.queries
            for chunk_id, labels in selection.labels(query.query_id).items()
        ),
    )
    _write_text(folder / "README.md", selection.readme(_LOAD_NUGGETIZER))


def assignment(label: int | None, scale: Scale) -> Assignment:
    """Give nuggetizer's word for a label; None is a judgment that failed."""
    if label is None:
        return "failed"
    if label >= (SCALES["support"].highest if scale.name == "support" else scale.threshold):
        return "support"
    return "partial_support" if label else "not_support"


def _nuggetizer_nugget(nugget: Nugget) -> dict[str, Any]:
    return {
        "text": nugget.text,
        "importance": nugget.importance or "vital",
        "rated": nugget.importance is not None,
        "nugget_id": nugget.nugget_id,
    }


def _ranked(pool: Iterable[Candidate]) -> list[str]:
    """Order by the best rank of a fused list or run, those without one last, then by id."""

    def key(candidate: Candidate) -> tuple[float, str]:
        ranks = [found.rank for found in candidate.pooled_by]
        ranks += [run.rank for run in candidate.runs]
        return min(ranks, default=float("inf")), candidate.chunk_id

    return [candidate.chunk_id for candidate in sorted(pool, key=key)]


_WRITERS = {
    "freshstack": _write_freshstack,
    "beir": _write_beir,
    "mteb": _write_mteb,
    "trec": _write_trec,
    "hf": _write_hf,
    "crux": _write_crux,
    "nuggetizer": _write_nuggetizer,
}
