"""Making a collection of one that others made: FreshStack, BEIR, CRUX, nuggetizer, Auto-Judge.

Ids, texts and labels stay as they are. A failure there (a rating of -1, a negative grade, an
assignment `failed`) becomes a judgment without a label. Nothing of the files is executed, sizes
are bounded, and an error names file and line.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError

from freshstack_dspy.collection.answers import importance_of
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.exports import EXPORT_FILE, IDS_FILE, LICENCES_FILE, Description
from freshstack_dspy.collection.manifest import NO_MODEL, Provenance, is_collection
from freshstack_dspy.collection.nugget_banks import Bank, BankNugget, read_bank, read_nugget_docs
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError, FailureStatus, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import json_file, read_lines
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.qrels import read_qrels
from freshstack_dspy.records import (
    SCALES,
    Attribution,
    Candidate,
    Chunk,
    Failure,
    Judgment,
    LicenceFile,
    Nugget,
    Query,
    Record,
    Scale,
    ScaleName,
    SkippedFile,
    Spans,
    Status,
    Step,
)
from freshstack_dspy.rows import Row, read_rows, row_files

R = TypeVar("R", bound=Record)
ImportFormat = Literal["freshstack", "beir", "crux", "nuggetizer", "autojudge"]
IMPORT_FORMATS: tuple[ImportFormat, ...] = get_args(ImportFormat)
NO_TEXT = "the imported data have no text of it"
UNJUDGED = "not in the qrels"
"""Why a query of a BEIR collection is left out: it belongs to another split."""
_DATA = (".jsonl", ".jsonl.gz", ".parquet", ".json")


def import_collection(
    format: ImportFormat,  # noqa: A002
    path: Path | str,
    out: Path | str,
    *,
    corpus: Path | str | None = None,
    threshold: int | None = None,
    split: str | None = None,
    unknown_ids: Literal["error", "drop"] = "error",
    replace: bool = False,
) -> Collection:
    """Make a collection of one that others made.

    Args:
        format: `freshstack`, `beir` (also of MTEB exports), `crux`, `nuggetizer` or
            `autojudge`.
        path: Its folder or file; see docs/formats.md.
        out: The folder of the new collection, which is called as it is.
        corpus: Where the corpus is, if not in `path`.
        threshold: The lowest label that counts as support; by default 1 for BEIR, and that of
            the scale for the others.
        split: Of BEIR: which qrels, where there are several.
        unknown_ids: Whether judgments of a query or document that does not exist are an error, or
            are dropped and listed in `skipped.jsonl`.
        replace: Whether a collection at `out` is replaced.

    Raises:
        SourceError: The data cannot be read, or something is missing.
        CollectionError: The format is unknown, or `out` exists or cannot be written.
    """
    path, out = Path(path), Path(out)
    if format not in IMPORT_FORMATS:
        raise CollectionError(f"no format {format!r}; allowed: {', '.join(IMPORT_FORMATS)}")
    if out.exists() and not replace:
        raise CollectionError(f"{out} exists; name another folder, or replace it")
    found = read_layout(format, path, corpus=corpus, threshold=threshold, split=split)
    chunks, missing = found.with_existing_chunks(drop=unknown_ids == "drop")
    queries, nuggets = tuple(found.queries.values()), tuple(found.nuggets.values())
    judgments = tuple(found.judgments)
    judged = sorted({(one.query_id, one.chunk_id) for one in judgments})
    contents = Contents(
        queries=queries,
        nuggets=nuggets,
        pool=tuple(
            Candidate(query_id=query_id, chunk_id=chunk_id, origin="imported")
            for query_id, chunk_id in judged
        ),
        judgments=judgments,
        failures=tuple(found.failures),
        slices=tuple(slice_queries(queries, nuggets, judgments, found.scale.threshold)),
        skipped=tuple(missing),
        licences=found.licences,
    )
    settings = {
        "format": format,
        "files": dict(_hashes(found.files, path)),
        "unknown_ids": unknown_ids,
        "split": split,
    }
    if found.export is not None:
        settings["export"] = found.export.origin()
    provenance = Provenance(
        name=_name_of(out),
        recipe=f"import:{format}",
        model=NO_MODEL,
        scale=found.scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
        config={"import": settings},
    )
    return write_collection(out, contents, chunks, provenance, rejected=found.rejected)


def read_layout(
    format: ImportFormat,  # noqa: A002
    path: Path,
    *,
    corpus: Path | str | None = None,
    threshold: int | None = None,
    split: str | None = None,
) -> "Imported":
    """Read a collection of others; its documents are read later, one at a time."""
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    if is_collection(path):
        raise SourceError(f"{path}: is a collection already, and needs no import")
    found = Imported(path, Path(corpus) if corpus is not None else None, threshold, split)
    if found.export is not None:
        exported = "beir" if found.export.format == "mteb" else found.export.format
        if exported != format:
            use = (
                f"use format={exported!r}" if exported in IMPORT_FORMATS else "export as freshstack"
            )
            raise SourceError(f"{path}: is an export in the format {found.export.format}; {use}")
    _READERS[format](found)
    if not found.queries:
        raise SourceError(f"{path}: no query with judgments in the layout of {format}")
    return found


class Imported:
    """The records of a collection of others, as its reader fills them in.

    An export of ours brings its description, the ids that it had to change, and the licences.

    Attributes:
        judgments: Of the nuggets; their chunks may be missing in the corpus.
        rejected: How many queries were left out, by reason.
        unknown_queries: How many judgments name a query that does not exist, by its id.
        documents: The corpus; None where there is none.
    """

    def __init__(
        self, path: Path, corpus: Path | None, threshold: int | None, split: str | None
    ) -> None:
        self.path, self.corpus, self.threshold, self.split = path, corpus, threshold, split
        self.source = _name_of(path)
        self.scale = Scale(name="binary")
        self.queries: dict[str, Query] = {}
        self.nuggets: dict[str, Nugget] = {}
        self.judgments: list[Judgment] = []
        self.failures: list[Failure] = []
        self.rejected: dict[str, int] = {}
        self.unknown_queries: Counter[str] = Counter()
        self.documents: Iterable[Chunk] | None = None
        self.files: list[Path] = []
        self._places: dict[tuple[str, ...], str] = {}
        self.export = read_description(path)
        ids = path / IDS_FILE
        changed = Row.of(json_file(ids) if ids.is_file() else {}, str(ids))
        self._ids = {kind: changed.inner(kind).values for kind in ("queries", "nuggets", "chunks")}
        licences = path / LICENCES_FILE
        self.licences = tuple(
            LicenceFile(source=row.text("source"), path=row.text("path"), text=row.text("text"))
            for row in (read_rows(licences) if licences.is_file() else ())
        )

    def ours(self, kind: str, id_: str) -> str:
        """Give our id of an exported one."""
        return str(self._ids[kind].get(id_, id_))

    def use_scale(self, scale: Scale) -> None:
        """Set the scale, with the threshold that was asked for."""
        highest = SCALES[scale.name].highest
        if self.threshold is not None and not 1 <= self.threshold <= highest:
            raise SourceError(
                f"threshold {self.threshold}: allowed on {scale.name}: 1 to {highest}"
            )
        self.scale = Scale(name=scale.name, threshold=self.threshold or scale.threshold)

    def part(self, what: str, *patterns: str) -> Path:
        """Find the one file or folder that a pattern names; the first that finds any decides."""
        found = self.optional_part(what, *patterns)
        if found is None:
            raise SourceError(f"{self.path}: has no {what}; looked for {', '.join(patterns)}")
        return found

    def optional_part(self, what: str, *patterns: str) -> Path | None:
        """Find a part, or None where no pattern finds any."""
        found = self.parts(*patterns)
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise SourceError(f"{self.path}: has several files of {what}: {names}; keep one")
        return found[0] if found else None

    def parts(self, *patterns: str) -> list[Path]:
        """Find the files or folders of the first pattern that finds any."""
        return next((files for each in patterns if (files := sorted(self.path.glob(each)))), [])

    def rows(self, file: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Give the rows of a file, which is noted as read."""
        self.files.append(file)
        return read_rows(file, columns)

    def once(self, row: Row, kind: str, *ids: str) -> None:
        """Note ids that may appear once."""
        first = self._places.setdefault((kind, *ids), row.place)
        if first != row.place:
            named = " and ".join(map(_shown, ids))
            raise SourceError(f"{row.place}: {kind} {named} is at {first} already; keep one")

    def add_query(self, row: Row, exported_id: str, **fields: Any) -> Query:
        """Take a query; one that is marked as synthetic stays marked."""
        query_id = self.ours("queries", exported_id)
        fields["origin"] = "imported"
        if row.inner("metadata").values.get("origin") == "synthetic":
            if fields.get("answer"):
                fields["origin"] = "synthetic"
            else:  # a synthetic query has an answer, so the mark becomes a tag
                fields["tags"] = (*fields.get("tags", ()), "synthetic")
        self.once(row, "query", query_id)
        self.queries[query_id] = _validated(Query, row, query_id=query_id, **fields)
        return self.queries[query_id]

    def add_nugget(
        self, row: Row, query_id: str, nugget_id: str, text: str, **fields: Any
    ) -> Nugget:
        """Take a nugget."""
        nugget_id = self.ours("nuggets", nugget_id)
        if nugget_id in self.nuggets:
            raise SourceError(f"{row.place}: nugget {_shown(nugget_id)} exists already; keep one")
        ids = {"nugget_id": nugget_id, "query_id": query_id, "call_id": None}
        self.nuggets[nugget_id] = _validated(Nugget, row, text=text, **ids, **fields)
        return self.nuggets[nugget_id]

    def judge(
        self,
        nugget: Nugget,
        document: str,
        label: int | None,
        status: Status = "ok",
        reason: str = "",
        evidence: Spans = (),
    ) -> None:
        """Take a judgment; one without a label has a status."""
        self.judgments.append(
            Judgment(
                query_id=nugget.query_id,
                nugget_id=nugget.nugget_id,
                chunk_id=self.ours("chunks", document),
                label=label,
                status=status,
                reason=reason,
                call_id=None,
                evidence=evidence,
            )
        )  # fmt: skip

    def fail(self, query_id: str, step: Step, status: FailureStatus, message: str) -> None:
        """Note what went wrong there."""
        ids = {"query_id": query_id, "call_id": None}
        self.failures.append(Failure(step=step, status=status, message=message, **ids))

    def find_corpus(self, what: str, *stems: str) -> None:
        """Find the corpus, and set its documents to be read."""
        if self.corpus is None and self.path.is_dir():
            patterns = [f"{stem}{ending}" for stem in stems for ending in _DATA]
            self.corpus = self.optional_part(what, *patterns, "corpus")
        if self.corpus is not None:
            if not self.corpus.exists():
                raise SourceError(f"{self.corpus}: no such file or folder")
            self.files.append(self.corpus)
            self.documents = _documents(self.corpus, self)

    def with_existing_chunks(self, *, drop: bool) -> tuple[list[Chunk], list[SkippedFile]]:
        """Read the documents, and see that every judgment has its query and its chunk.

        A collection without a corpus gets chunks without texts, each of which is listed.
        """
        judged = Counter(judgment.chunk_id for judgment in self.judgments)
        if self.documents is None:
            chunks = [_chunk(None, id_, self.source, "") for id_ in sorted(judged)]
        else:
            chunks = list(self.documents)
        existing = {chunk.chunk_id for chunk in chunks}
        unknown = Counter({id_: count for id_, count in judged.items() if id_ not in existing})
        self.judgments = [one for one in self.judgments if one.chunk_id not in unknown]
        empty = (chunk for chunk in chunks if not chunk.titled.strip())
        missing = [
            *_dropped("queries", "queries", self.unknown_queries, drop),
            *_dropped("corpus", "documents", unknown, drop),
            *(_missing(chunk.source, chunk.chunk_id, NO_TEXT) for chunk in empty),
        ]
        return chunks, missing


def _dropped(source: str, what: str, ids: Counter[str], drop: bool) -> Iterator[SkippedFile]:
    """List unknown ids with the number of their judgments; an error where none is dropped."""
    if ids and not drop:
        raise SourceError(
            f"{len(ids)} {what} of {ids.total()} judgments do not exist, as "
            f"{_shown(min(ids))}; drop these judgments with unknown_ids='drop'"
        )
    for id_ in sorted(ids):
        reason = f"named by {ids[id_]} judgments, which were dropped"
        yield _missing(source, id_, reason)


def read_description(folder: Path) -> Description | None:
    """Read what an export of ours is of; None where there is no `export.json`."""
    file = folder / EXPORT_FILE
    if not file.is_file():
        return None
    try:
        return Description.model_validate(json_file(file))
    except ValidationError as error:
        raise SourceError(f"{file}: {first_fault(error)}") from None


def _name_of(path: Path) -> str:
    """Make a name of a folder's or file's: letters, digits, `.`, `_` and `-`."""
    stem = path.name.split(".")[0] if path.is_file() else path.resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")
    if not name:
        raise CollectionError(f"{path}: a name begins with a letter or digit")
    return name


def _hashes(read: Iterable[Path], root: Path) -> Iterator[tuple[str, str]]:
    """Hash the files that were read, each by its path below the root or its name alone."""
    files = sorted(file for path in read for file in row_files(path))
    for file in files:
        inside = root.is_dir() and file.is_relative_to(root)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        yield file.relative_to(root).as_posix() if inside else file.name, digest


def _shown(id_: str) -> str:
    return repr(id_ if len(id_) <= 120 else f"{id_[:120]}…")


def _missing(source: str, path: str, reason: str) -> SkippedFile:
    return SkippedFile(source=source, path=path, kind="missing", reason=reason)


def _validated(record: type[R], row: Row | None, **fields: Any) -> R:
    try:
        return record(**fields)
    except ValidationError as error:
        place = f"{row.place}: " if row else ""
        fault = f"not a {record.__name__.lower()}: {first_fault(error)}"
        raise SourceError(f"{place}{fault}") from None


# Documents

DOCUMENT_IDS = ("_id", "id", "docid", "doc_id", "pid", "chunk_id")
DOCUMENT_TEXTS = ("text", "contents", "segment", "body")


def _documents(path: Path, found: Imported) -> Iterator[Chunk]:
    """Give the documents of a corpus; passages of an export that are one chunk become one."""
    texts: dict[str, str] = {}
    for row in read_rows(path, (*DOCUMENT_IDS, *DOCUMENT_TEXTS, "title", "url", "metadata")):
        own = row.id(*DOCUMENT_IDS)
        found.once(row, "document", own)
        chunk_id, text = found.ours("chunks", own), row.text(*DOCUMENT_TEXTS)
        if chunk_id != own:
            if texts.get(chunk_id, text) != text:
                raise SourceError(f"{row.place}: {_shown(own)} has another text than before")
            if chunk_id in texts:
                continue
            texts[chunk_id] = text
        metadata = row.inner("metadata")
        start = metadata.number("start_byte", 0)
        yield _chunk(
            row,
            chunk_id,
            metadata.optional("source") or found.source,
            text,
            path=metadata.optional("path") or chunk_id,
            start_byte=start,
            end_byte=metadata.number("end_byte", start + len(text.encode())),
            revision=metadata.optional("commit_id"),
            encoding=metadata.optional("encoding") or "utf-8",
            title=row.text("title", default=""),
            url=metadata.optional("url") or row.optional("url"),
        )


def _chunk(row: Row | None, chunk_id: str, source: str, text: str, **fields: Any) -> Chunk:
    """Make a chunk; where its place is not known, it is a file of its own."""
    whole = {"path": chunk_id, "start_byte": 0, "end_byte": len(text.encode()), "revision": None}
    known = {"chunk_id": chunk_id, "source": source, "text": text, "tokens": count_tokens(text)}
    return _validated(Chunk, row, **{**known, **whole, **fields})


# FreshStack: the data sets `freshstack/queries-oct-2024` and `freshstack/corpus-oct-2024`


def _read_freshstack(found: Imported) -> None:
    queries = found.path
    if queries.is_dir():
        patterns = ("queries", *(f"queries*{ending}" for ending in _DATA))
        queries = found.optional_part("queries", *patterns) or queries
    columns = ("query_id", "query_title", "query_text", "nuggets", "answer_id", "answer_text")
    for row in found.rows(queries, (*columns, "metadata")):
        metadata = row.inner("metadata")
        query = found.add_query(
            row,
            row.id("query_id"),
            title=row.text("query_title", default=""),
            body=row.text("query_text", default=""),
            answer_id=row.optional("answer_id"),
            answer=row.text("answer_text", default=""),
            tags=metadata.texts("tags"),
            asked_at=metadata.optional("date"),
            question_source=_attribution(metadata.inner("question_source")),
            answer_source=_attribution(metadata.inner("answer_source")),
        )
        for each in row.inners("nuggets"):
            id_ = each.id("_id", "nugget_id")
            nugget = found.add_nugget(each, query.query_id, id_, each.text("text"))
            relevant, others = (each.texts(f"{kind}relevant_corpus_ids") for kind in ("", "non_"))
            for chunk_id, count in Counter((*relevant, *others)).items():
                if count > 1:
                    raise SourceError(
                        f"{row.place}: nugget {_shown(nugget.nugget_id)} names chunk "
                        f"{_shown(chunk_id)} twice; keep one"
                    )
                found.judge(nugget, chunk_id, int(chunk_id in relevant))
    found.find_corpus("the corpus", "corpus*")


def _attribution(row: Row) -> Attribution | None:
    if not row.has("author", "url", "licence"):
        return None
    return Attribution(author=row.text("author"), url=row.text("url"), licence=row.text("licence"))


# BEIR: Thakur et al., 2021

_QRELS = (
    "qrels/*.tsv", "qrels/*.txt", "qrels/*.jsonl", "qrels/*.parquet", "qrels*.tsv", "qrels*.txt",
    "qrels*.jsonl", "*.qrels", "data/*.parquet", "default/*.parquet",
)  # fmt: skip


def _read_beir(found: Imported) -> None:
    """Read queries, each with its text as its one nugget, and grades as labels.

    Grades are on the smallest scale that holds them; where one is above 5, labels are 0 and 1 by
    the threshold, which must be given. A grade below 0 is a judgment without a label.
    """
    rows: dict[str, Row] = {}
    patterns = [f"queries*{ending}" for ending in _DATA]
    file = found.part("queries", *patterns, "queries")
    for row in found.rows(file, ("_id", "id", "text", "title", "metadata")):
        metadata, text = row.inner("metadata"), row.text("text")
        given = metadata.values.get("title")
        title, body = ("", text) if given == "" else (text, "")
        if given and isinstance(given, str) and text.startswith(f"{given} "):
            title, body = given, text[len(given) + 1 :]
        query = found.add_query(
            row,
            row.id("_id", "id"),
            title=title,
            body=body,
            tags=metadata.texts("tags"),
            asked_at=metadata.optional("date"),
        )
        rows[query.query_id] = row
    qrels = _beir_qrels(found)
    highest = max((grade for grades in qrels.values() for grade in grades.values()), default=1)
    scale = _smallest_scale(highest)
    if scale is not None:
        found.use_scale(Scale(name=scale, threshold=1))
    elif found.threshold is None:
        raise SourceError(
            f"grade {highest} is on no scale; give the lowest grade that counts as support, and "
            "labels become 0 and 1 with threshold=1"
        )
    judged = set()
    for exported, grades in qrels.items():
        query_id = found.ours("queries", exported)
        if query_id not in found.queries:
            found.unknown_queries[query_id] += len(grades)
            continue
        judged.add(query_id)
        text = found.queries[query_id].text
        nugget = found.add_nugget(rows[query_id], query_id, f"{query_id}_0", text)
        for document, grade in grades.items():
            if grade < 0:
                found.judge(nugget, document, None, "failed", f"grade {grade}")
            else:
                label = grade if scale else int(grade >= (found.threshold or 1))
                found.judge(nugget, document, label)
    if unjudged := found.queries.keys() - judged:
        found.rejected[UNJUDGED] = len(unjudged)
    found.queries = {id_: query for id_, query in found.queries.items() if id_ in judged}
    found.find_corpus("the corpus", "corpus*")


def _smallest_scale(highest: int) -> ScaleName | None:
    return next((name for name, of in SCALES.items() if of.highest >= highest), None)


def _qrels_file(found: Imported) -> Path:
    for pattern in _QRELS:
        splits = {}
        for file in sorted(found.path.glob(pattern)):
            parts = [part for part in file.name.split(".")[:-1] if part != "qrels"]
            splits[".".join(parts) or file.stem] = file
        if found.split is None and len(splits) == 1:
            return next(iter(splits.values()))
        if found.split in splits:
            return splits[found.split]
        if splits:
            raise SourceError(
                f"{found.path}: name a split, as {', '.join(f'split={name!r}' for name in splits)}"
            )
    raise SourceError(f"{found.path}: has no qrels; looked for {', '.join(_QRELS)}")


def _beir_qrels(found: Imported) -> dict[str, dict[str, int]]:
    """Read BEIR's table, TREC's lines, or rows of JSON Lines or Parquet."""
    file = _qrels_file(found)
    if file.suffix not in (".jsonl", ".parquet"):
        found.files.append(file)
        try:
            qrels = read_qrels(file)
        except CollectionError as error:
            raise SourceError(str(error)) from None
        if any(nuggets != (query,) for query, nuggets in qrels.nuggets.items()):
            raise SourceError(f"{file}: qrels of subtopics, whose texts are not known")
        return {query: dict(qrels.labels[query]) for query in qrels.nuggets}
    graded: dict[str, dict[str, int]] = {}
    for row in found.rows(file, ("query-id", "corpus-id", "score")):
        query, document, score = row.id("query-id"), row.id("corpus-id"), row.values.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or score != int(score):
            raise row.fault("score", "a whole number")
        found.once(row, "judgment", query, document)
        graded.setdefault(query, {})[document] = int(score)
    return graded


# CRUX: Ju et al., arXiv 2506.20051; DylanJoo/crux and the ratings that LANCER publishes

_TOPIC_IDS = ("example_id", "id", "topic_id")
_TOPICS = ("ranking_*/*topics*.jsonl", "*topics*.jsonl")
_QUESTIONS = ("*subquestions*.jsonl", "*subquestions*.json")
_RATINGS = ("ranking_*/*judg*.jsonl", "*judg*.jsonl", "ratings*.jsonl", "*ratings*.json")
_SHARD = re.compile(r"\.(\d{1,6})-\d{1,6}\.jsonl$")
_FAILED_RATINGS: dict[int | None, Status] = {-1: "unparsed", -2: "failed", None: "failed"}
"""What CRUX writes where a reply had no rating, and where there was no reply."""


def _read_crux(found: Imported) -> None:
    """Read topics, whose questions become nuggets `{topic}_{n}`, and ratings from 0 to 5."""
    default = Scale(name="graded_5", threshold=SCALES["graded_5"].threshold)
    found.use_scale(found.export.scale if found.export else default)
    topics = _crux_topics(found)
    highest = SCALES[found.scale.name].highest
    for row in _crux_ratings(found):
        topic, passage = row.id(*_TOPIC_IDS), row.id("pid", "docid")
        found.once(row, "rating of", topic, passage)
        query_id, ratings = found.ours("queries", topic), row.list("rating", "ratings")
        if query_id not in topics:
            found.unknown_queries[query_id] += 1
            continue
        if len(ratings) != len(topics[query_id]):
            wanted = f"{len(topics[query_id])} questions"
            raise SourceError(f"{row.place}: {len(ratings)} ratings for {wanted}")
        for nugget, given in zip(topics[query_id], ratings, strict=True):
            is_text = isinstance(given, str) and re.fullmatch("-[12]|[0-5]", given)
            rating = int(given) if is_text else given
            if rating is not None and (type(rating) is not int or not -2 <= rating <= highest):
                raise SourceError(
                    f"{row.place}: a rating is {_shown(str(given))}; allowed: 0 to {highest}, -1 "
                    "where none was in the reply, -2 where there was no reply"
                )
            if nugget is None:
                continue  # its question is missing, as a failure records
            if rating in _FAILED_RATINGS:
                found.judge(nugget, passage, None, _FAILED_RATINGS[rating], f"rating {given!r}")
            else:
                found.judge(nugget, passage, rating)
    found.find_corpus("the passages", "passages/*", "*passages*", "corpus*")


def _crux_topics(found: Imported) -> dict[str, list[Nugget | None]]:
    """Give the nuggets of each topic by its questions; None where a question is missing."""
    requests: dict[str, str] = {}
    file = found.optional_part("topics", *_TOPICS)
    if file is None:
        file = found.part("topics", *_TOPICS, *_QUESTIONS)
        if (request := found.optional_part("requests", "*request*.jsonl")) is not None:
            for row in found.rows(request):
                requests[row.id(*_TOPIC_IDS)] = row.text("request", "topic")
    topics: dict[str, list[Nugget | None]] = {}
    for row in _by_topic(found, file, "questions"):
        own, ids = row.id(*_TOPIC_IDS), row.texts("nugget_ids")
        query_id = found.add_query(
            row,
            own,
            title=row.text("topic", "request", default=requests.get(own, "")),
            body="",
            answer=row.text("report", "summary", default=""),
        ).query_id
        questions = row.list("questions", "subquestions")
        if ids and len(ids) != len(questions):
            raise row.fault("nugget_ids", "one id for each question")
        ids = ids or tuple(f"{query_id}_{place + 1}" for place in range(len(questions)))
        topics[query_id] = [
            _crux_nugget(found, row, query_id, nugget_id, question)
            for nugget_id, question in zip(ids, questions, strict=True)
        ]
    return topics


def _crux_nugget(
    found: Imported, row: Row, query_id: str, nugget_id: str, question: Any
) -> Nugget | None:
    if question is not None and not isinstance(question, str):
        raise row.fault(row.name("questions", "subquestions"), "a list of texts")
    text = (question or "").strip()
    if text and text != "NA":  # what the published data have where a reply held no question
        return found.add_nugget(row, query_id, nugget_id, text)
    found.fail(query_id, "nuggets", "unparsed", f"question {nugget_id!r} is {question!r}")
    return None


def _by_topic(found: Imported, file: Path, name: str) -> Iterator[Row]:
    """Give rows; a `.json` file is one object of values by topic."""
    if file.suffix != ".json":
        yield from found.rows(file)
        return
    found.files.append(file)
    by_topic = Row.of(json_file(file), str(file)).values
    for number, (topic, given) in enumerate(by_topic.items(), start=1):
        yield Row(f"{file}:{number}", {"id": topic, name: given})


def _crux_ratings(found: Imported) -> Iterator[Row]:
    """Give the ratings of all questions of a topic in one passage, row by row."""
    files = found.parts(*_RATINGS)  # CRUX may write them in shards
    if not files:
        raise SourceError(f"{found.path}: has no ratings; looked for {', '.join(_RATINGS)}")
    shards = {int(match[1]) for file in files if (match := _SHARD.search(file.name))}
    if missing := sorted({*range(max(shards, default=0))} - shards):
        raise SourceError(f"{found.path}: the ratings of shard {missing[0]} are missing")
    if files[0].suffix != ".json":
        for file in files:
            yield from found.rows(file)
        return
    run = found.part("run whose ranks were rated", "*.run")
    found.files.append(run)
    ranked = _ranks(run)
    for row in _by_topic(found, files[0], "rows"):
        topic, rows = row.id("id"), row.list("rows")
        passages = ranked.get(topic, [])
        if len(rows) > len(passages):
            raise SourceError(
                f"{row.place}: ratings for more ranks than the {len(passages)} of the run"
            )
        for rank, (passage, rating) in enumerate(zip(passages, rows, strict=False), start=1):
            values = {"id": topic, "docid": passage, "rating": rating}
            yield Row(f"{row.place}, rank {rank}", values)


def _ranks(path: Path) -> dict[str, list[str]]:
    """Read the passages of a run by its ranks, which are 1, 2, 3, … for each topic."""
    ranks: dict[str, dict[int, str]] = {}
    for number, line in read_lines(path):
        fields = line.decode("utf-8", "replace").split()
        if fields and (len(fields) != 6 or not fields[3].isdecimal()):
            raise SourceError(f"{path}:{number}: not a line `topic Q0 passage rank score run`")
        if fields:
            ranks.setdefault(fields[0], {})[int(fields[3])] = fields[2]
    for topic, of_topic in ranks.items():
        if sorted(of_topic) != [*range(1, len(of_topic) + 1)]:
            raise SourceError(f"{path}: topic {_shown(topic)}: a rank is missing")
    return {topic: [of[rank] for rank in sorted(of)] for topic, of in ranks.items()}


# nuggetizer: castorini/nuggetizer v0.0.6, `nuggetizer assign --input-kind retrieval`

_ASSIGNED = {"support": 2, "partial_support": 1, "not_support": 0}


def _read_nuggetizer(found: Imported) -> None:
    """Read nuggets and their assignments to passages.

    Nuggets have no ids there: they are called `{qid}_{n}`, n from 0 in the order of the list, and
    an assignment names one by its text.
    """
    default = Scale(name="support", threshold=2)
    exported = found.export.scale if found.export else default
    found.use_scale(exported if exported.name == "support" else default)
    assignments, nuggets = found.path, None
    if assignments.is_dir():
        assignments = found.part("assignments", "*assign*.jsonl", "*assign*.jsonl.gz")
        nuggets = found.optional_part("nuggets", "*nuggets*.jsonl", "*nuggets*.jsonl.gz")
    by_query: dict[str, dict[str, Nugget]] = {}
    for row in found.rows(nuggets) if nuggets else ():
        by_query[row.id("qid")] = _own_nuggets(found, row, row.text("query", "text"))
    texts: dict[str, str] = {}
    for row in found.rows(assignments):
        query_id, chunk_id = row.id("qid"), row.id("docid")
        if query_id not in by_query and nuggets is not None:
            found.unknown_queries[query_id] += 1
            continue
        if query_id not in by_query:
            by_query[query_id] = _own_nuggets(found, row, row.text("text", "query"))
        found.once(row, "assignment of", query_id, chunk_id)
        if row.has("candidate_text"):
            text = row.text("candidate_text")
            if texts.setdefault(chunk_id, text) != text:
                raise SourceError(f"{row.place}: {_shown(chunk_id)} has another text than before")
        for each in row.inners("nuggets"):
            _take_assignment(found, each, by_query[query_id], chunk_id)
    found.find_corpus("the corpus", "corpus*")
    if found.documents is None:
        found.documents = [_chunk(None, id_, found.source, text) for id_, text in texts.items()]


def _own_nuggets(found: Imported, row: Row, query: str) -> dict[str, Nugget]:
    """Take a query and its nuggets; gives them by id, or text where they have none."""
    query_id = found.add_query(row, row.id("qid"), title=query, body="").query_id
    own: dict[str, Nugget] = {}
    for number, each in enumerate(row.inners("nuggets")):
        text, given = each.text("text"), each.optional("nugget_id")
        if (given or text) in own:
            raise SourceError(
                f"{row.place}: nugget {_shown(given or text)} is there twice; keep one"
            )
        importance = importance_of(each)
        if each.values.get("importance") == "failed" and each.values.get("rated", True):
            message = f"importance 'failed' of {_shown(text)}"
            found.fail(query_id, "nuggets", "failed", message)
        own[given or text] = found.add_nugget(
            each, query_id, given or f"{query_id}_{number}", text, importance=importance
        )
    return own


def _take_assignment(found: Imported, row: Row, nuggets: dict[str, Nugget], chunk_id: str) -> None:
    key, assigned = row.optional("nugget_id") or row.text("text"), row.text("assignment")
    if key not in nuggets:
        raise SourceError(f"{row.place}: the query has no nugget {_shown(key)}")
    if assigned == "failed":
        found.judge(nuggets[key], chunk_id, None, "failed", "assignment 'failed'")
    elif assigned in _ASSIGNED:
        reason = row.text("reasoning", default="")
        found.judge(nuggets[key], chunk_id, _ASSIGNED[assigned], reason=reason)
    else:
        raise row.fault("assignment", f"{', '.join(_ASSIGNED)} or failed")


# TREC Auto-Judge: autojudge-base 1.0.0

_BANKS = (
    "*nuggets*.jsonl",
    "*nuggets*.jsonl.gz",
    "*bank*.jsonl",
    "nuggets_*.json",
    "*/nuggets_*.json",
)


def _read_autojudge(found: Imported) -> None:
    """Read nugget banks of topics: a document that a nugget refers to supports it.

    A document that the qrels grade 0 supports none of its topic's nuggets. Of one that they grade
    higher, they do not tell which it supports.
    """
    files = found.parts(*_BANKS) if found.path.is_dir() else [found.path]
    topics = found.optional_part("topics", "*topics*.jsonl", "*requests*.jsonl")
    of_topic = {row.id("request_id"): row for row in (found.rows(topics) if topics else ())}
    nuggets: dict[str, list[tuple[Nugget, BankNugget]]] = {}
    for row, given in _banks(found, files):
        topic = of_topic.get(given.query_id, row)
        query_id = found.add_query(
            topic if topic is not row else Row(row.place, {}),
            given.query_id,
            title=topic.text("title", default=given.query),
            body="\n\n".join(
                filter(None, map(topic.optional, ("problem_statement", "background")))
            ),
            answer=topic.text("answer", default=""),
        ).query_id
        nuggets[query_id] = [
            (
                found.add_nugget(
                    row,
                    query_id,
                    one.nugget_id or f"{query_id}_{number}",
                    one.text,
                    importance=one.importance,
                ),
                one,
            )
            for number, one in enumerate(given.nuggets)
        ]
    found.find_corpus("the documents", "corpus*", "documents*")
    wanted = {document for of in nuggets.values() for _, one in of for document in one.evidence}
    chunks = {}
    if wanted and found.documents is not None:
        found.documents = list(found.documents)
        ours = {found.ours("chunks", document) for document in wanted}
        chunks = {one.chunk_id: one for one in found.documents if one.chunk_id in ours}
    found.use_scale(found.export.scale if found.export else _scale_of(found, nuggets))
    unsupporting = _graded_zero(found)
    for query_id, of_query in nuggets.items():
        for nugget, one in of_query:
            labels = {**dict.fromkeys(unsupporting.get(query_id, ()), 0), **one.labels}
            for document, label in labels.items():
                chunk = chunks.get(found.ours("chunks", document))
                spans = one.evidence.get(document, ()) if chunk else ()
                status: Status = "ok" if label is not None else "failed"
                found.judge(nugget, document, label, status, evidence=_in_file(chunk, spans))


def _scale_of(found: Imported, nuggets: dict[str, list[tuple[Nugget, BankNugget]]]) -> Scale:
    """Give the smallest scale that holds the labels of banks."""
    labels = [n for of in nuggets.values() for _, one in of for n in one.labels.values()]
    for n in labels:
        if n is not None and (type(n) is not int or not 0 <= n <= 5):
            raise SourceError(f"{found.path}: label {n!r}; allowed: 0 to 5, or null")
    highest = max((n for n in labels if n is not None), default=1)
    name = _smallest_scale(highest) or "graded_5"
    return Scale(name=name, threshold=SCALES[name].threshold)


def _banks(found: Imported, files: Sequence[Path]) -> Iterator[tuple[Row, Bank]]:
    if not files:
        raise SourceError(
            f"{found.path}: has no nugget banks; looked for {', '.join(_BANKS)}; qrels without "
            "nuggets are imported with format='beir'"
        )
    for file in files:
        for row in found.rows(file):
            if row.has("claim_bank") or row.has("nugget_bank") or row.has("qid"):
                yield row, read_bank(row)
            else:
                topic = file.name.removeprefix("nuggets_").removesuffix(".json")
                yield row, read_nugget_docs(row, topic)


def _graded_zero(found: Imported) -> dict[str, list[str]]:
    """Give the documents that the qrels grade 0, by query; of an export of ours all is known."""
    file = None if found.export else found.optional_part("qrels", "*qrels.txt", "*.qrels")
    if file is None:
        return {}
    found.files.append(file)
    qrels = read_qrels(file)
    return {
        found.ours("queries", query): [
            one for one, grade in qrels.labels[query].items() if not grade
        ]
        for query in qrels.nuggets
    }


def _in_file(chunk: Chunk | None, spans: Spans) -> Spans:
    """Places in a chunk's text in UTF-8 as places in its file."""
    if chunk is None:
        return ()
    data = chunk.text.encode()
    places = [[len(data[:place].decode("utf-8", "ignore")) for place in span] for span in spans]
    return tuple((chunk.byte_at(start), chunk.byte_at(end)) for start, end in places)


_READERS: dict[ImportFormat, Callable[[Imported], None]] = {
    "freshstack": _read_freshstack,
    "beir": _read_beir,
    "crux": _read_crux,
    "nuggetizer": _read_nuggetizer,
    "autojudge": _read_autojudge,
}
