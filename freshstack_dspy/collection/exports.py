"""Exporting a collection in the layouts of other tools.

    freshstack   the official data sets: two folders of Parquet, read by `freshstack.datasets`
    beir         corpus.jsonl, queries.jsonl, qrels/test.tsv
    mteb         BEIR's files and task.py, a retrieval task of MTEB that reads them
    trec         topics, qrels, qrels by subtopic, and a corpus as Anserini reads it
    hf           a data set of the Hugging Face hub: Parquet for each kind of record, and the card
    crux         topics, ratings, three qrels and passages
    nuggetizer   nuggets and assignments as castorini's nuggetizer writes them
    autojudge    topics, nugget banks, qrels and documents as TREC Auto-Judge reads them

Every export has a README with the authors of its texts, `export.json`, the licences of the corpus,
and `ids.json` where a format could not hold an id: exported id -> ours, by kind.
"""

import hashlib
import io
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel

from freshstack_dspy.collection.card import attribution, baseline_warning, escape
from freshstack_dspy.collection.collection import Collection, corpus_schema, write_rows
from freshstack_dspy.collection.contents import NuggetsName
from freshstack_dspy.collection.manifest import (
    NO_MODEL,
    NOT_MEASURED,
    exported_from,
    makers,
    trust_line,
)
from freshstack_dspy.collection.nugget_banks import (
    BankNugget,
    bank,
    by_text,
    claim,
    nugget_docs,
    ragtime_bank,
)
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
    Spans,
)

if TYPE_CHECKING:
    import pyarrow as pa

ExportFormat = Literal[
    "freshstack", "beir", "mteb", "trec", "hf", "crux", "nuggetizer", "autojudge"
]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
EXPORT_FILE, IDS_FILE, LICENCES_FILE = "export.json", "ids.json", "licences.jsonl"
R = TypeVar("R", Query, Nugget, Judgment, Candidate)
Ids = Mapping[str, str]
"""Our id -> the exported one."""


class Description(BaseModel):
    """`export.json`: of which collection it is, and what it holds."""

    format: ExportFormat
    collection: str
    content_hash: str
    schema_version: int
    recipe: str
    model: str
    scale: Scale
    slices: tuple[str, ...]
    nuggets: NuggetsName = "supported"
    """On which nuggets of these queries the grades are; `hf` has every nugget besides."""
    counts: dict[str, int]
    calibrated: bool = False
    """Whether the labels agree with people as well as the collection's maker asked for."""
    agreement: str = NOT_MEASURED
    """What was measured of it."""
    imported_from: dict[str, str] = {}
    """The `origin` of an earlier export, of which the collection was imported."""

    def origin(self) -> dict[str, str]:
        """Name the collection, with the model that was first asked, for those who import it."""
        named = self.model_dump(include={"collection", "content_hash", "recipe", "model"})
        if self.model == NO_MODEL:
            named["model"] = self.imported_from.get("model")
        return {name: text for name, text in named.items() if text}


class Export(NamedTuple):
    """What was exported."""

    format: ExportFormat
    counts: dict[str, int]
    left_out: tuple[str, ...]
    """What of the collection it does not hold, in one line each."""
    agreement: str
    """How far its labels agree with people, in one line."""


def export_collection(
    collection: Collection | Path | str,
    format: ExportFormat,  # noqa: A002
    out: Path | str,
    *,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    replace: bool = False,
) -> Export:
    """Export queries of a collection, with their nuggets, judgments and chunks, for another tool.

    A label supports from the threshold of the collection's scale on. A judgment that failed is no
    label, and a pair that was never judged has none; neither becomes a 0.
    The same collection is always exported to the same bytes.

    Args:
        collection: A collection, or its folder.
        format: The layout.
        out: A folder that does not exist; it appears whole or not at all.
        slices: Which queries; None: every query with a supported nugget.
        nuggets: Which of their nuggets: those that the corpus supports, or all. `hf` has every
            nugget, and grades of these.
        replace: Whether an earlier export at `out` is replaced.

    Raises:
        CollectionError: The format or a slice is unknown, there is no query to export, `out`
            exists, or it cannot be written.
    """
    if format not in EXPORT_FORMATS:
        raise CollectionError(f"no format {format!r}; allowed: {', '.join(EXPORT_FORMATS)}")
    out = Path(out).resolve()
    if out.exists() and not replace:
        raise CollectionError(f"{out} exists; replace it with replace=True, or name another folder")
    if out.exists() and not (out / EXPORT_FILE).is_file():
        raise CollectionError(f"{out} is not an export; it is not replaced")
    selection = Selection(Collection.of(collection), slices, format, nuggets)
    with replace_folder(out) as folder:
        for name, content in chain(_LAYOUTS[format](selection), _about(selection)):
            _write(folder / name, content)
    return Export(
        format, selection.counts, selection.left_out(), trust_line(selection.collection.manifest)
    )


def push_collection(
    collection: Collection | Path | str,
    repo_id: str,
    *,
    slices: Slices = None,
    replace: bool = False,
) -> str:
    """Export a collection as a data set of the Hugging Face hub and upload it, as one commit.

    The hub is that of `HF_ENDPOINT`, the token that of `HF_TOKEN`; it is neither stored nor shown.
    A new data set is private.

    Args:
        collection: A collection, or its folder.
        repo_id: `owner/name` of the data set.
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
    collection = Collection.of(collection)
    api = HfApi(endpoint=endpoint, token=token)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "dataset"
        export_collection(collection, "hf", folder, slices=slices)
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
                fault = "the data set exists; name another, or replace it with replace=True"
            fault = " ".join(fault.replace(token, "…").split())
            raise CollectionError(f"{repo_id} could not be pushed to {endpoint}: {fault}") from None
    return f"{endpoint}/datasets/{repo_id}"


# What is exported


class Selection:
    """The queries of some slices with all that belongs to them.

    A query is exported with the nuggets that it is measured on; only `hf` has every nugget.

    Attributes:
        queries: Ascending by id.
        nuggets: Of each query, by query id.
        labels: Nugget id -> chunk id -> label, None where the judgment failed.
        support: Nugget id -> chunk id -> 1 where the label is support, else 0. A chunk that supports
            nothing, and of which a judgment failed, is left out, as the measures take it.
    """

    def __init__(
        self,
        collection: Collection,
        slices: Slices,
        format_: ExportFormat,
        nuggets: NuggetsName,
    ) -> None:
        self.collection, self.slices = collection, slices_of(slices)
        self.format: ExportFormat = format_
        self.measured_on: NuggetsName = nuggets
        self.threshold = collection.threshold
        check_any(collection, self.slices)
        measured, self.labels = collection.measured(
            self.slices, "all" if format_ == "hf" else nuggets, doubtful=format_ == "hf"
        )
        self.support: dict[str, dict[str, int]] = {}
        for ids in measured.values():
            rated = [self.labels[nugget_id] for nugget_id in ids]
            supporting = {c for of in rated for c, n in of.items() if (n or 0) >= self.threshold}
            failed = {c for of in rated for c, n in of.items() if n is None} - supporting
            for nugget_id, of in zip(ids, rated, strict=True):
                self.support[nugget_id] = {
                    chunk_id: int(label >= self.threshold)
                    for chunk_id, label in of.items()
                    if label is not None and chunk_id not in failed
                }
        by_id = {nugget.nugget_id: nugget for nugget in collection.nuggets}
        self.nuggets = {query: [by_id[id_] for id_ in ids] for query, ids in measured.items()}
        self.queries = self.of_queries(collection.queries)

    def of_queries(self, records: Iterable[R]) -> list[R]:
        """Choose the records that belong to the exported queries."""
        return [one for one in records if one.query_id in self.nuggets]

    def by_chunk(self, query_id: str) -> dict[str, dict[str, int | None]]:
        """Give the labels of a query: chunk id -> nugget id -> label, or None if it failed."""
        found: dict[str, dict[str, int | None]] = defaultdict(dict)
        for nugget in self.nuggets[query_id]:
            for chunk_id, label in self.labels[nugget.nugget_id].items():
                found[chunk_id][nugget.nugget_id] = label
        return {chunk_id: found[chunk_id] for chunk_id in sorted(found)}

    def grades(self) -> Iterator[tuple[str, str, int]]:
        """Grade each judged chunk of each query as `Judged.grades` does, 0 where it supports nothing."""
        for query_id, nuggets in self.nuggets.items():
            grades: Counter[str] = Counter()
            for nugget in nuggets:
                for chunk_id, supports in self.support[nugget.nugget_id].items():
                    label = self.labels[nugget.nugget_id][chunk_id] or 0
                    grades[chunk_id] += supports * (label if self.collection.plain else 1)
            for chunk_id in sorted(grades):
                yield query_id, chunk_id, grades[chunk_id]

    @cached_property
    def counts(self) -> dict[str, int]:
        """How much is exported."""
        labels = [label for of in self.labels.values() for label in of.values()]
        chunks: Any = self.collection.corpus.rows
        if self.format == "nuggetizer":  # which has room for pooled and judged chunks only
            pooled = {one.chunk_id for one in self.of_queries(self.collection.pool)}
            chunks = pooled.union(*self.labels.values())
        return {
            "queries": len(self.queries),
            "synthetic_queries": sum(query.origin == "synthetic" for query in self.queries),
            "nuggets": len(self.labels),
            "nuggets_without_judgment": sum(not of for of in self.labels.values()),
            "chunks": len(chunks),
            "judgments": len(labels),
            "supported": sum(sum(of.values()) for of in self.support.values()),
            "judgments_without_label": labels.count(None),
        }

    def left_out(self) -> tuple[str, ...]:
        """Say what of the collection is not exported."""
        queries = left_out(self.collection, self.slices, self.measured_on)
        if self.format == "hf":  # has every nugget of its queries
            others = len(self.collection.queries) - len(self.queries)
            queries = f"{others:,} queries of other slices are left out" if others else ""
        chunks = len(self.collection.corpus.rows) - self.counts["chunks"]
        unjudged = f"{chunks:,} chunks that were not pooled or judged are left out"
        return tuple(line for line in (queries, unjudged if chunks else "") if line)

    def readme(self) -> str:
        """Write the README: what the export is, how a tool loads it, the authors and licences."""
        manifest, scale = self.collection.manifest, self.collection.manifest.scale
        numbers = (f"{number:,} {name.replace('_', ' ')}" for name, number in self.counts.items())
        parts = [f"# {escape(manifest.name)}", baseline_warning(manifest)]
        parts.append(
            f"An export of the collection with the content hash `{manifest.content_hash}`, by the "
            f"recipe {escape(manifest.recipe)}: its queries in the slices {', '.join(self.slices)}.\n"
            f"It has {', '.join(numbers)}.\n"
            f"Labels by {', '.join(map(escape, makers(manifest))) or 'others'}, on the scale "
            f"{scale.name}; {scale.threshold} or more is support."
        )
        if synthetic := self.counts["synthetic_queries"]:
            parts.append(
                f"**{synthetic} of the queries are synthetic: a language model wrote them, no "
                "person asked them.**"
            )
        how_to = _HOW_TO_LOAD[self.format]
        if self.collection.plain:
            how_to = how_to.replace(_NUMBER, "the grade that it was imported with")
        parts.append(f"## How to load it\n\n{how_to}")
        licences = f"in `{LICENCES_FILE}`" if self.collection.licences else "not recorded"
        parts.append(f"The licences and notices of the corpus are {licences}.")
        return "\n\n".join([*filter(None, parts), attribution(self.queries)])


_NUMBER = "the number of the query's nuggets that it supports"
_GRADES = (
    f"The score of a chunk is {_NUMBER}. It is 0 where the chunk was judged and supports none; where "
    "a judgment of it failed, it has no line."
)
_HOW_TO_LOAD: dict[ExportFormat, str] = {
    "freshstack": """\
    loader = freshstack.datasets.DataLoader("path/to/this/queries", "path/to/this/corpus")
    corpus, queries, nuggets = loader.load()
    qrels_nuggets, qrels_query, query_to_nuggets = loader.load_qrels()""",
    "beir": f"""\
    from beir.datasets.data_loader import GenericDataLoader
    corpus, queries, qrels = GenericDataLoader("path/to/this/folder").load(split="test")

{_GRADES}""",
    "mteb": f"""\
    from task import CollectionRetrieval  # with this folder on the path
    mteb.evaluate(mteb.get_model("model-name"), CollectionRetrieval())

{_GRADES} The languages in `task.json` are undetermined: the collection does not record them.""",
    "trec": f"""\
    ir_measures diversity_qrels.txt path/to/run.txt 'alpha_nDCG@10'
    ir_measures qrels.txt path/to/run.txt 'nDCG@10 R@50'

{_GRADES} The second column of `diversity_qrels.txt` is the number of a nugget in `nuggets.jsonl`.
Ids are words of visible ASCII (a space is `!20`); `ids.json` maps those back that had to change.""",
    "hf": f"""\
    queries = datasets.load_dataset("path/or/name", "queries", split="test")
    judgments = datasets.load_dataset("path/or/name", "judgments", split="test")

In the configuration `qrels` a row is a judged chunk of a query. {_GRADES}
In `queries`, `origin` marks what is synthetic.""",
    "crux": """\
Give this folder to `evaluation/llm_prejudge` of CRUX as `--dataset_dir`, and the number in the name
of the folder `ranking_…` as `--threshold`. A rating of -1 means that a judgment failed or was never
asked for. In `test_qrels_oracle_context_pr.txt`, 3 is a required passage, 2 a partly redundant and
1 a redundant one. `ids.json` names the chunks of the passages.""",
    "nuggetizer": """\
    nuggetizer metrics --input-file assignments.jsonl --output-file metrics.jsonl

A judgment that failed is `failed`, which nuggetizer counts as no support. Chunks that were not
pooled or judged are left out. Nuggets that were not rated are `vital`, with `"rated": false`.""",
    "autojudge": f"""\
    auto-judge run --workflow workflow.yml --rag-topics topics.jsonl --nugget-banks nuggets.jsonl
    auto-judge-evaluate qrel-evaluate --truth-qrels qrels.txt --predict-qrels theirs.qrels.txt

`nuggets.jsonl` has banks of format v3: a reference is a chunk that supports the claim, its offsets
are bytes of the chunk's text, and `metadata.labels` has the label of each judged chunk, null where
judging failed. `ragtime26.jsonl` and `nugget_docs` have the same nuggets.

{_GRADES}""",
}


# Files

Files = Iterator[tuple[str, Any]]
"""The files of a layout: each path, and what is written there, as `_write` takes it."""


def _about(selection: Selection) -> Files:
    """Give `export.json`, the licences, and the README of a layout that has none of its own."""
    manifest = selection.collection.manifest
    origin = exported_from(manifest)
    description = Description(
        format=selection.format,
        collection=manifest.name,
        slices=selection.slices,
        nuggets=selection.measured_on,
        counts=selection.counts,
        imported_from=origin,
        calibrated=manifest.trust is not None and manifest.trust.calibrated,
        agreement=trust_line(manifest),
        **manifest.model_dump(
            include={"content_hash", "schema_version", "recipe", "model", "scale"}
        ),
    )
    yield EXPORT_FILE, description.model_dump(exclude=None if origin else {"imported_from"})
    if selection.collection.licences:
        yield LICENCES_FILE, encode_records(selection.collection.licences)
    if selection.format != "hf":
        yield "README.md", selection.readme()


def _write(path: Path, content: Any) -> None:
    """Write bytes, a text, an object (`.json`), objects (`.jsonl`) or lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes | str):
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return
    if path.suffix == ".json":
        content = [json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True)]
    elif path.suffix == ".jsonl":
        content = (canonical_json(row).translate(_LINE_ENDS) for row in content)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in content)


_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some readers end a line at these, so they are escaped."""


def _parquet(split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]) -> tuple[str, bytes]:
    """Give the file of a split of a data set, `{split}-{hash}.parquet`.

    `datasets` caches what it reads under the names in the README and never looks whether the file
    behind them changed, so the name has the hash of the content.
    """
    file = io.BytesIO()
    write_rows(file, schema, rows)
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return f"{split}-{digest[:16]}.parquet", file.getvalue()


def _schema(fields: Any) -> "pa.Schema":
    """Make an Arrow schema of a kind of record, or of types by name."""
    import pyarrow as pa

    if not isinstance(fields, dict):
        fields = _kinds(fields)
    return pa.schema({name: _arrow_type(kind) for name, kind in fields.items()})


def _kinds(record: type[Record]) -> dict[str, Any]:
    return {name: field.annotation for name, field in record.model_fields.items()}


def _arrow_type(kind: Any) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow_type(kind[0]))
    if isinstance(kind, dict) or hasattr(kind, "model_fields"):
        return pa.struct(list(_schema(kind)))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if inner and origin is not Literal:  # annotated, or with None
        return _arrow_type(next(one for one in inner if one is not type(None)))
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}.get(kind, pa.string())


def _front_matter(files: Mapping[str, tuple[str, str]], about: str = "") -> str:
    """Say for `datasets` where the one split of each configuration is: name -> split, file."""
    configs = "".join(
        f"- config_name: {json.dumps(name)}\n"
        f"  data_files:\n  - split: {split}\n    path: {json.dumps(file)}\n"
        for name, (split, file) in files.items()
    )
    return f"---\n{about}configs:\n{configs}---\n"


_SOURCES = ("question_source", "answer_source")


def _query_metadata(query: Query) -> dict[str, Any]:
    sources = zip(_SOURCES, (query.question_source, query.answer_source), strict=True)
    return {
        "title": query.title,
        "origin": query.origin,
        "date": query.asked_at or "",
        "tags": list(query.tags),
        **{name: source.model_dump() for name, source in sources if source},
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


def _topics(selection: Selection, ids: Ids) -> Iterator[str]:
    """Give each query in a line, under its exported id."""
    for query in selection.queries:
        yield f"{ids[query.query_id]}\t{' '.join(query.text.split())}"


# Ids

_LOW, _HIGH = '"', "~"
_PLAIN = re.compile("[#-}]+")
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
    """
    # An id that begins with another is sorted right behind it.
    prefix_free = not any(two.startswith(one) for one, two in pairwise(sorted(nuggets)))
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


def _changed_ids(**kinds: Iterable[tuple[str, str]]) -> Files:
    """Give `ids.json`, if an id is called differently, of pairs of ours and the exported one."""
    changed = {
        kind: {exported: ours for ours, exported in ids if exported != ours}
        for kind, ids in kinds.items()
    }
    if found := {kind: ids for kind, ids in changed.items() if ids}:
        yield IDS_FILE, found


# BEIR and MTEB


def _beir(selection: Selection) -> Files:
    chunks = table_ids(selection.collection.corpus.rows)
    queries = table_ids(query.query_id for query in selection.queries)
    # BEIR's evaluation passes over a chunk that is called as its query is.
    while not set(chunks.values()).isdisjoint(queries.values()):
        queries = {ours: f"query:{name}" for ours, name in queries.items()}
    grades = (f"{queries[one]}\t{chunks[id_]}\t{grade}" for one, id_, grade in selection.grades())
    yield "corpus.jsonl", _corpus_rows(selection, chunks)
    yield "queries.jsonl", _query_rows(selection, queries, "_id")
    yield "qrels/test.tsv", chain(["query-id\tcorpus-id\tscore"], grades)
    yield from _changed_ids(queries=queries.items(), chunks=chunks.items())


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


def read(name, *fields):
    with (FOLDER / name).open(encoding="utf-8", newline="\\n") as file:
        rows = [json.loads(line) for line in file]
    return [{"id": row["_id"]} | {field: row[field] for field in fields} for row in rows]


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
        qrels = {}
        with (FOLDER / "qrels/test.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\\t"):
                qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
        queries = [query for query in read("queries.jsonl", "text") if query["id"] in qrels]
        split = {
            "queries": Dataset.from_list(queries),
            "corpus": Dataset.from_list(read("corpus.jsonl", "title", "text")),
            "relevant_docs": qrels,
            "top_ranked": None,
        }
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True
'''
"""The same for every collection: code is not made of other people's texts."""


def _mteb(selection: Selection) -> Files:
    yield from _beir(selection)
    manifest = selection.collection.manifest
    values = {
        "name": manifest.name,
        "description": f"Questions of {manifest.name} and the chunks that support their answers.",
        "revision": manifest.content_hash,
        "languages": ["und"],
    }
    yield "task.json", values
    yield "task.py", _MTEB_TASK


# TREC


def _trec(selection: Selection) -> Files:
    queries = {query.query_id: word(query.query_id) for query in selection.queries}
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.rows}
    nuggets: list[dict[str, Any]] = []
    subtopics: list[str] = []
    for query_id, of_query in selection.nuggets.items():
        for number, nugget in enumerate(of_query, start=1):
            row = nugget.model_dump(include={"nugget_id", "text", "importance"})
            nuggets.append({"id": queries[query_id], "subtopic": number, **row})
            labels = selection.support[nugget.nugget_id].items()
            subtopics += [f"{queries[query_id]} {number} {chunks[id_]} {n}" for id_, n in labels]
    corpus = (
        {
            "id": chunks[chunk.chunk_id],
            "contents": chunk.titled,
            "metadata": {"title": chunk.title, **_chunk_metadata(chunk)},
        }
        for chunk in selection.collection.chunks()
    )
    grades = (f"{queries[one]} 0 {chunks[id_]} {grade}" for one, id_, grade in selection.grades())
    yield "topics.tsv", _topics(selection, queries)
    yield "topics.jsonl", _query_rows(selection, queries, "id")
    yield "nuggets.jsonl", nuggets
    yield "corpus.jsonl", corpus
    yield "qrels.txt", grades
    yield "diversity_qrels.txt", subtopics
    yield from _changed_ids(queries=queries.items(), chunks=chunks.items())


# FreshStack

_FRESHSTACK_QUERIES = {
    **dict.fromkeys(("query_id", "query_title", "query_text"), str),
    "nuggets": [
        {"_id": str, "text": str, "relevant_corpus_ids": [str], "non_relevant_corpus_ids": [str]}
    ],
    **dict.fromkeys(("answer_id", "answer_text"), str),
    "metadata": {"date": str, "tags": [str], "origin": str} | dict.fromkeys(_SOURCES, Attribution),
}
_FRESHSTACK_CORPUS = {
    **dict.fromkeys(("_id", "title", "text"), str),
    "metadata": {"url": str, "start_byte": int, "end_byte": int}
    | dict.fromkeys(("commit_id", "source", "path", "encoding"), str),
}


def _freshstack(selection: Selection) -> Files:
    queries, nuggets = official_ids(
        {query: [one.nugget_id for one in each] for query, each in selection.nuggets.items()}
    )
    labels = selection.support
    rows = [
        {
            "query_id": queries[query.query_id],
            "query_title": query.title,
            "query_text": query.body,
            "nuggets": [
                {
                    "_id": nuggets[one.nugget_id],
                    "text": one.text,
                    "relevant_corpus_ids": [id_ for id_, n in labels[one.nugget_id].items() if n],
                    "non_relevant_corpus_ids": [
                        id_ for id_, n in labels[one.nugget_id].items() if not n
                    ],
                }
                for one in selection.nuggets[query.query_id]
            ],
            "answer_id": query.answer_id or "",
            "answer_text": query.answer,
            "metadata": _query_metadata(query),
        }
        for query in selection.queries
    ]
    for name, split, fields, found, text in (
        ("queries", "test", _FRESHSTACK_QUERIES, rows, f"\n{selection.readme()}"),
        ("corpus", "train", _FRESHSTACK_CORPUS, _corpus_rows(selection, {}), ""),
    ):
        file, content = _parquet(split, _schema(fields), found)
        yield f"{name}/{file}", content
        # The name of a collection is the `topic` of the official loader.
        head = _front_matter({selection.collection.name: (split, file)})
        yield f"{name}/README.md", f"{head}{text}"
    yield from _changed_ids(queries=queries.items(), nuggets=nuggets.items())


# Hugging Face


def _hf(selection: Selection) -> Files:
    from freshstack_dspy.collection.card import data_card

    collection = selection.collection
    chunks = list(collection.chunks())
    qrels = {"query_id": str, "chunk_id": str, "score": int}
    measured = Selection(collection, selection.slices, "trec", selection.measured_on)
    grades = (dict(zip(qrels, grade, strict=True)) for grade in measured.grades())
    own = sorted({name for query in selection.queries for name in query.fields})
    queries = _kinds(Query) | {"fields": dict.fromkeys(own, str) or str}
    tables: dict[str, tuple[pa.Schema, Iterable[dict[str, Any]]]] = {
        name: (_schema(record), (one.model_dump() for one in found))
        for name, record, found in (
            ("queries", queries, selection.queries),
            ("nuggets", Nugget, selection.of_queries(collection.nuggets)),
            ("judgments", Judgment, selection.of_queries(collection.judgments)),
            ("pool", Candidate, selection.of_queries(collection.pool)),
        )
    }
    tables["corpus"] = (corpus_schema(), (chunk.model_dump() for chunk in chunks))
    tables["qrels"] = (_schema(qrels), grades)
    files = {}
    for config, (schema, rows) in tables.items():
        file, content = _parquet("test", schema, rows)
        files[config] = ("test", f"{config}/{file}")
        yield files[config][1], content
    about = (
        f"pretty_name: {json.dumps(collection.name)}\n"
        "license: other\n"
        "license_name: see-the-attribution-below\n"
        "task_categories:\n- text-retrieval\n"
        "tags:\n- test-collection\n- nuggets\n- freshstack_dspy\n"
    )
    parts = (
        _front_matter(files, about),
        selection.readme(),
        "---\n\nThe card of the whole collection, as it was built:\n",
        data_card(collection, chunks, collection.manifest),
    )
    yield "README.md", "\n".join(parts)


# CRUX

_REST = "!corpus"
"""No topic is called so: in a word, two digits follow every `!`."""


def _crux(selection: Selection) -> Files:
    from freshstack_dspy.measures.contexts import REQUIRED, required_subset

    threshold = selection.collection.threshold
    chunks = {chunk.chunk_id: chunk for chunk in selection.collection.chunks()}
    topics = {one.query_id: word(one.query_id).replace(":", "!3A") for one in selection.queries}
    passages: dict[str, str] = {}  # passage id -> chunk id
    judgements: list[dict[str, Any]] = []
    subtopics: list[str] = []
    contexts: list[str] = []
    documents: list[str] = []
    for query_id, topic in topics.items():
        labels = selection.by_chunk(query_id)
        nuggets = [nugget.nugget_id for nugget in selection.nuggets[query_id]]
        ids = _passage_ids(topic, (chunks[chunk_id] for chunk_id in labels))
        passages.update(zip(ids, labels, strict=True))
        ratings = [[found.get(nugget) for nugget in nuggets] for found in labels.values()]
        for id_, chunk_id, rated in zip(ids, labels, ratings, strict=True):
            row = [-1 if rating is None else rating for rating in rated]
            judgements.append({"example_id": topic, "pid": id_, "rating": row})
            subtopics += [
                f"{topic} {number} {id_} {selection.support[nugget][chunk_id]}"
                for number, nugget in enumerate(nuggets, start=1)
                if chunk_id in selection.support[nugget]
            ]
        labelled = required_subset(ratings, threshold)
        required = [ids[place] for place, label in labelled.items() if label == REQUIRED]
        if required:
            contexts += [f"{topic} 0 {ids[place]} {n}" for place, n in labelled.items()]
            documents += [
                f"{topic} 0 {document} 1"
                for document in dict.fromkeys(id_.partition("#")[0] for id_ in required)
            ]
    pooled = set(passages.values())
    rest = [chunk for id_, chunk in chunks.items() if id_ not in pooled]
    passages.update(zip(_passage_ids(_REST, rest), (one.chunk_id for one in rest), strict=True))

    ranking = f"ranking_{threshold}"
    yield f"{ranking}/test_topics.tsv", _topics(selection, topics)
    yield f"{ranking}/test_topics.jsonl", _crux_topics(selection, topics)
    yield f"{ranking}/test_judgements.jsonl", judgements
    yield f"{ranking}/test_div_qrels_pr.txt", subtopics
    yield f"{ranking}/test_qrels_oracle_context_pr.txt", contexts
    yield f"{ranking}/test_qrels_oracle_adhoc_dr.txt", documents
    texts = ({"id": id_, "contents": chunks[chunk].titled} for id_, chunk in passages.items())
    yield "passages/test_psgs.jsonl", texts
    chunk_ids = ((chunk, passage) for passage, chunk in passages.items())
    yield from _changed_ids(queries=topics.items(), chunks=chunk_ids)


def _passage_ids(topic: str, chunks: Iterable[Chunk]) -> list[str]:
    """Give CRUX's ids, `{topic}:{document}#{passage}`: files and chunks are numbered through.

    CRUX's tools take the topic of a passage to be what is before the first `:`. Numbers are of equal
    width, so that ids sort as those of the chunks do, by which equal scores and gains are ordered.
    """
    given = list(chunks)
    files: dict[tuple[str, str], int] = {}
    for chunk in given:
        files.setdefault((chunk.source, chunk.path), len(files))
    wide, wider = len(str(len(files) - 1)), len(str(len(given) - 1))
    return [
        f"{topic}:{files[chunk.source, chunk.path]:0{wide}}#{number:0{wider}}"
        for number, chunk in enumerate(given)
    ]


def _crux_topics(selection: Selection, ids: Ids) -> Iterator[dict[str, Any]]:
    for query in selection.queries:
        nuggets = selection.nuggets[query.query_id]
        yield {
            "example_id": ids[query.query_id],
            "topic": query.text,
            "questions": [nugget.text for nugget in nuggets],
            "report": query.answer,
            "nugget_ids": [nugget.nugget_id for nugget in nuggets],
            "metadata": _query_metadata(query),
        }


# nuggetizer


def _nuggetizer(selection: Selection) -> Files:
    texts = {chunk.chunk_id: chunk.titled for chunk in selection.collection.chunks()}
    scale = selection.collection.manifest.scale
    pool: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in selection.of_queries(selection.collection.pool):
        pool[candidate.query_id].append(candidate)
    inputs, nuggets, assigned = [], [], []
    for query in selection.queries:
        query_id, text = query.query_id, query.text
        candidates = [
            {"docid": one.chunk_id, "score": 1 / place, "doc": {"segment": texts[one.chunk_id]}}
            for place, one in enumerate(sorted(pool[query_id], key=_best_rank), start=1)
        ]
        inputs.append({"query": {"qid": query_id, "text": text}, "candidates": candidates})
        own = {
            one.nugget_id: {
                "text": one.text,
                "importance": one.importance or "vital",
                "rated": one.importance is not None,
                "nugget_id": one.nugget_id,
            }
            for one in selection.nuggets[query_id]
        }
        row = {"query": text, "qid": query_id, "nuggets": list(own.values())}
        nuggets.append({**row, "metadata": _query_metadata(query)})
        for chunk_id, labels in selection.by_chunk(query_id).items():
            given = [
                {**nugget, "assignment": assignment(labels[id_], scale)}
                for id_, nugget in own.items()
                if id_ in labels
            ]
            passage = {"candidate_text": texts[chunk_id], "docid": chunk_id}
            assigned.append({"text": text, "qid": query_id, **passage, "nuggets": given})
    yield "input.jsonl", inputs
    yield "nuggets.jsonl", nuggets
    yield "assignments.jsonl", assigned


def assignment(label: int | None, scale: Scale) -> Assignment:
    """Give nuggetizer's word for a label; None is a judgment that failed."""
    if label is None:
        return "failed"
    if label >= (SCALES["support"].highest if scale.name == "support" else scale.threshold):
        return "support"
    return "partial_support" if label else "not_support"


def _best_rank(candidate: Candidate) -> tuple[float, str]:
    """Order by the best rank of a fused list or run, those without one last, then by id."""
    ranks = [found.rank for found in candidate.pooled_by]
    ranks += [run.rank for run in candidate.runs]
    return min(ranks, default=float("inf")), candidate.chunk_id


# TREC Auto-Judge: autojudge-base 1.0.0


def _autojudge(selection: Selection) -> Files:
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.rows}
    ids = {one.query_id: _file_word(one.query_id) for one in selection.queries}
    of_chunk = {chunk.chunk_id: chunk for chunk in selection.collection.chunks()}
    texts = {chunks[chunk_id]: chunk.text for chunk_id, chunk in of_chunk.items()}
    spans: dict[str, dict[str, Spans]] = defaultdict(dict)
    for one in selection.collection.judgments:
        if one.evidence:
            chunk = of_chunk[one.chunk_id]
            spans[one.nugget_id][chunks[one.chunk_id]] = _in_text(chunk, one.evidence)
    topics, banks, ragtime, documents = [], [], [], {}
    for query in selection.queries:
        topic = ids[query.query_id]
        row = {"title": query.title, "problem_statement": query.body, "answer": query.answer}
        topics.append({"request_id": topic, **row, "metadata": _query_metadata(query)})
        nuggets = by_text(
            [
                BankNugget(
                    nugget_id=one.nugget_id,
                    text=one.text,
                    importance=one.importance,
                    labels={chunks[c]: n for c, n in selection.labels[one.nugget_id].items()},
                    evidence=spans[one.nugget_id],
                )
                for one in selection.nuggets[query.query_id]
            ]
        )
        supporting = {
            key: [chunks[c] for c, n in selection.support[str(one.nugget_id)].items() if n]
            for key, one in nuggets.items()
        }
        claims = {key: claim(one, supporting[key], texts) for key, one in nuggets.items()}
        banks.append(bank(topic, query.title, claims))
        name = selection.collection.name
        ragtime.append(ragtime_bank(topic, name, query.text, supporting))
        documents[f"nugget_docs/nuggets_{topic}.json"] = nugget_docs(supporting)
    yield "topics.jsonl", topics
    yield "nuggets.jsonl", banks
    yield "ragtime26.jsonl", ragtime
    yield from documents.items()
    yield "qrels.txt", (f"{ids[q]} 0 {chunks[c]} {grade}" for q, c, grade in selection.grades())
    corpus = _corpus_rows(selection, chunks)
    yield "corpus.jsonl", ({"id": row.pop("_id"), **row} for row in corpus)
    yield from _changed_ids(queries=ids.items(), chunks=chunks.items())


def _file_word(id_: str) -> str:
    """Give an id as it is where a file can be called so, or else by a hash."""
    plain = re.fullmatch(r"[A-Za-z0-9._-]{1,100}", id_)
    return id_ if plain else f"~{hashlib.sha256(id_.encode()).hexdigest()[:32]}"


def _in_text(chunk: Chunk, spans: Spans) -> Spans:
    """Places in a chunk's file as places in its text in UTF-8."""
    return tuple(
        (
            len(chunk.text[: chunk.place_at(start)].encode()),
            len(chunk.text[: chunk.place_at(end)].encode()),
        )
        for start, end in spans
    )


_LAYOUTS: dict[ExportFormat, Callable[[Selection], Files]] = {
    "freshstack": _freshstack,
    "beir": _beir,
    "mteb": _mteb,
    "trec": _trec,
    "hf": _hf,
    "crux": _crux,
    "nuggetizer": _nuggetizer,
    "autojudge": _autojudge,
}
