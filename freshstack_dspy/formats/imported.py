"""What is read of a collection of others: the records that a format's reader fills in.

And a collection of records, rows or data frames in memory (`read_given`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError, FailureStatus, SourceError, argument
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import json_file
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import (
    SCALES,
    Attribution,
    Candidate,
    Chunk,
    Failure,
    Judgment,
    LicenceFile,
    Note,
    Nugget,
    Query,
    Record,
    Scale,
    ScaleName,
    SkippedFile,
    Spans,
    Status,
    StepName,
)
from freshstack_dspy.rows import Row, given_rows, read_rows, rows_of
from freshstack_dspy.stored.contents import Contents, NuggetsName, slice_queries
from freshstack_dspy.stored.manifest import NO_MODEL, NOT_MEASURED, Manifest, Provenance
from freshstack_dspy.stored.writing import manifest_of

R = TypeVar("R", bound=Record)
EXPORT_FILE, IDS_FILE, LICENCES_FILE = "export.json", "ids.json", "licences.jsonl"
JUDGMENTS_FILE = "judgments.jsonl"
"""Our judgments with our ids, next to a layout that has no room for labels and evidence."""
NO_TEXT = "the imported data have no text of it"
DATA_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet", ".json")
DOCUMENT_IDS = ("_id", "id", "docid", "doc_id", "pid", "chunk_id")
DOCUMENT_TEXTS = ("text", "contents", "segment", "body")


class Description(BaseModel):
    """`export.json`: of which collection an export is, and what it holds."""

    format: str
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


def read_description(folder: Path) -> Description | None:
    """Read what an export of ours is of; None where there is no `export.json`."""
    file = folder / EXPORT_FILE
    if not file.is_file():
        return None
    try:
        return Description.model_validate(json_file(file))
    except ValidationError as error:
        raise SourceError(f"{file}: {first_fault(error)}") from None


class Imported:
    """The records of a collection of others, as its reader fills them in.

    An export of ours brings its description, the ids that it had to change, and the licences.

    Attributes:
        judgments: Of the nuggets; their chunks may be missing in the corpus.
        pool: What found the chunks; if empty, it is the judged ones.
        rejected: How many queries were left out, by reason.
        unknown_queries: How many judgments name a query that does not exist, by its id.
        documents: The corpus; None where there is none.
    """

    def __init__(
        self,
        path: Path,
        corpus: Path | Iterable[Chunk] | None,
        threshold: int | None = None,
        split: str | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.corpus, self.threshold, self.split = path, corpus, threshold, split
        self.columns = columns or {}
        self.source = name_of(path)
        self.scale = Scale(name="binary")
        self.queries: dict[str, Query] = {}
        self.nuggets: dict[str, Nugget] = {}
        self.judgments: list[Judgment] = []
        self.pool: list[Candidate] = []
        self.failures: list[Failure] = []
        self.notes: list[Note] = []
        self.rejected: dict[str, int] = {}
        self.unknown_queries: Counter[str] = Counter()
        self.documents: Iterable[Chunk] | None = None
        self.files: list[Path] = []
        self._places: dict[tuple[str, ...], str] = {}
        self.export = read_description(path)
        ids, licences = path / IDS_FILE, path / LICENCES_FILE
        changed = Row.of(json_file(ids) if ids.is_file() else {}, str(ids))
        self._ids = {kind: changed.inner(kind).values for kind in ("queries", "nuggets", "chunks")}
        self.licences = tuple(
            validated(LicenceFile, row, **row.values)
            for row in (read_rows(licences) if licences.is_file() else ())
        )

    def ours(self, kind: str, id_: str) -> str:
        """Give our id of an exported one; the kind is `queries`, `nuggets` or `chunks`."""
        return str(self._ids[kind].get(id_, id_))

    # The scale

    def use_scale(self, scale: Scale) -> None:
        """Set the scale, with the threshold that was asked for."""
        highest = SCALES[scale.name].highest
        if self.threshold is not None and not 1 <= self.threshold <= highest:
            raise SourceError(
                f"threshold {self.threshold}: allowed on {scale.name}: 1 to {highest}"
            )
        self.scale = Scale(name=scale.name, threshold=self.threshold or scale.threshold)

    def use_scale_of(self, labels: Iterable[int | None]) -> None:
        """Set the scale of our export; for others the smallest that holds these labels."""
        highest = max((label for label in labels if label is not None), default=1)
        name = smallest_scale(highest) or "graded_5"
        scale = Scale(name=name, threshold=SCALES[name].threshold)
        self.use_scale(self.export.scale if self.export else scale)

    # Files

    def parts(self, *patterns: str) -> list[Path]:
        """Find the files or folders of the first pattern that finds any."""
        return next((files for each in patterns if (files := sorted(self.path.glob(each)))), [])

    def part(self, what: str, *patterns: str) -> Path:
        """Find the one file or folder that a pattern names; the first that finds any decides."""
        part = self.optional_part(what, *patterns)
        if part is None:
            raise SourceError(f"{self.path}: has no {what}; looked for {', '.join(patterns)}")
        return part

    def optional_part(self, what: str, *patterns: str) -> Path | None:
        """Find a part, or None where no pattern finds any."""
        parts = self.parts(*patterns)
        if len(parts) > 1:
            names = ", ".join(file.name for file in parts)
            raise SourceError(f"{self.path}: has several files of {what}: {names}; keep one")
        return parts[0] if parts else None

    def rows(self, file: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Give the rows of a file, which is noted as read."""
        self.files.append(file)
        return read_rows(file, columns)

    def once(self, row: Row, kind: str, *ids: str) -> None:
        """Note ids that may appear once."""
        first = self._places.setdefault((kind, *ids), row.place)
        if first != row.place:
            named = " and ".join(map(shown, ids))
            raise SourceError(f"{row.place}: {kind} {named} is at {first} already; keep one")

    # Records

    def add_query(
        self, row: Row, exported_id: str, *, text: str | None = None, **fields: Any
    ) -> Query:
        """Take a query; one that is marked as synthetic stays marked.

        A `text` is taken apart where the row's metadata have the title. Those of our exports say
        more of a query.
        """
        query_id = self.ours("queries", exported_id)
        if self.export is not None:
            fields = {**query_fields(row), **fields}
        metadata = row.inner("metadata").values
        if text is not None:
            title = metadata.get("title")
            fields |= {"title": text, "body": ""}
            if title == "":
                fields |= {"title": "", "body": text}
            elif title and isinstance(title, str) and text.startswith(f"{title} "):
                fields |= {"title": title, "body": text[len(title) + 1 :]}
        fields["origin"] = "imported"
        if metadata.get("origin") == "synthetic":
            if fields.get("answer"):
                fields["origin"] = "synthetic"
            else:  # a synthetic query has an answer, so the mark becomes a tag
                fields["tags"] = (*fields.get("tags", ()), "synthetic")
        self.once(row, "query", query_id)
        self.queries[query_id] = validated(Query, row, query_id=query_id, **fields)
        return self.queries[query_id]

    def add_nugget(
        self, row: Row, query_id: str, nugget_id: str, text: str, **fields: Any
    ) -> Nugget:
        """Take a nugget."""
        nugget_id = self.ours("nuggets", nugget_id)
        if nugget_id in self.nuggets:
            raise SourceError(f"{row.place}: nugget {shown(nugget_id)} exists already; keep one")
        ids = {"nugget_id": nugget_id, "query_id": query_id, "call_id": None}
        self.nuggets[nugget_id] = validated(Nugget, row, text=text, **ids, **fields)
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
        )

    def take_judgments(self) -> bool:
        """Take the judgments of an export of ours that has them, with its scale; else False."""
        file = self.path / JUDGMENTS_FILE
        if self.export is None or not file.is_file():
            return False
        self.use_scale(self.export.scale)
        self.judgments += [
            validated(Judgment, row, **{**row.values, "call_id": None}) for row in self.rows(file)
        ]
        return True

    def fail(
        self,
        query_id: str,
        step: StepName,
        status: FailureStatus,
        message: str,
        expected: str | None = None,
    ) -> None:
        """Note what went wrong there."""
        ids = {"query_id": query_id, "call_id": None, "expected": expected}
        self.failures.append(Failure(step=step, status=status, message=message, **ids))

    # The corpus

    def find_corpus(self, what: str, *stems: str) -> None:
        """Find the corpus, and set its documents to be read."""
        if self.corpus is None and self.path.is_dir():
            patterns = [f"{stem}{ending}" for stem in stems for ending in DATA_ENDINGS]
            self.corpus = self.optional_part(what, *patterns, "corpus")
        if self.corpus is not None and not isinstance(self.corpus, Path):
            self.documents = self.corpus
        elif self.corpus is not None:
            if not self.corpus.exists():
                raise SourceError(f"{self.corpus}: no such file or folder")
            self.files.append(self.corpus)
            self.documents = self._documents(self.corpus)

    def _documents(self, path: Path) -> Iterator[Chunk]:
        """Give the documents of a corpus; passages of an export that are one chunk become one."""
        texts: dict[str, str] = {}
        for row in read_rows(path, (*DOCUMENT_IDS, *DOCUMENT_TEXTS, "title", "url", "metadata")):
            own = row.id(*DOCUMENT_IDS)
            self.once(row, "document", own)
            chunk_id, text = self.ours("chunks", own), row.text(*DOCUMENT_TEXTS)
            if chunk_id != own:
                if texts.get(chunk_id, text) != text:
                    raise SourceError(f"{row.place}: {shown(own)} has another text than before")
                if chunk_id in texts:
                    continue
                texts[chunk_id] = text
            metadata, title = row.inner("metadata"), row.text("title", default="")
            inside = metadata.optional("title")
            if inside and not title and text.startswith(f"{inside}\n"):
                title, text = inside, text[len(inside) + 1 :]
            start = metadata.number("start_byte", 0)
            yield chunk_of(
                row,
                chunk_id,
                metadata.optional("source") or self.source,
                text,
                path=metadata.optional("path") or chunk_id,
                start_byte=start,
                end_byte=metadata.number("end_byte", start + len(text.encode())),
                revision=metadata.optional("commit_id"),
                encoding=metadata.optional("encoding") or "utf-8",
                title=title,
                url=metadata.optional("url") or row.optional("url"),
            )

    def with_existing_chunks(self, *, drop: bool) -> tuple[list[Chunk], list[SkippedFile]]:
        """Read the documents, and see that every judgment has its query and its chunk.

        A collection without a corpus gets chunks without texts, each of which is listed.
        """
        judged = Counter(judgment.chunk_id for judgment in self.judgments)
        if self.documents is None:
            chunks = [chunk_of(None, id_, self.source, "") for id_ in sorted(judged)]
        else:
            chunks = list(self.documents)
        for chunk in chunks:
            del judged[chunk.chunk_id]
        self.judgments = [
            judgment for judgment in self.judgments if judgment.chunk_id not in judged
        ]
        missing = []
        for source, what, ids in (
            ("queries", "queries", self.unknown_queries),
            ("corpus", "documents", judged),
        ):
            if ids and not drop:
                raise SourceError(
                    f"{len(ids)} {what} of {ids.total()} judgments do not exist, such as "
                    f"{shown(min(ids))}; drop these judgments with {argument('unknown_ids', 'drop')}"
                )
            missing += [
                _missing(source, id_, f"named by {ids[id_]} judgments, which were dropped")
                for id_ in sorted(ids)
            ]
        return chunks, [*missing, *_without_text(chunks)]


def query_fields(row: Row) -> dict[str, Any]:
    """Give what the metadata of a query's row say of it, as our exports write them."""
    metadata = row.inner("metadata")
    return {
        "tags": metadata.texts("tags"),
        "asked_at": metadata.optional("date"),
        "question_source": _attribution(metadata.inner("question_source")),
        "answer_source": _attribution(metadata.inner("answer_source")),
    }


def _attribution(row: Row) -> Attribution | None:
    names = ("author", "url", "licence")
    return Attribution(**{name: row.text(name) for name in names}) if row.has(*names) else None


def name_of(path: Path) -> str:
    """Make a name of a folder's or file's: letters, digits, `.`, `_` and `-`."""
    stem = path.name.split(".")[0] if path.is_file() else path.resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")
    if not name:
        raise CollectionError(f"{path}: a name begins with a letter or digit")
    return name


def shown(id_: str) -> str:
    """Give an id as messages have it."""
    return repr(id_ if len(id_) <= 120 else f"{id_[:120]}…")


def _missing(source: str, path: str, reason: str) -> SkippedFile:
    """List what judgments name and no corpus has."""
    return SkippedFile(source=source, path=path, kind="missing", reason=reason)


def _without_text(chunks: Iterable[Chunk]) -> Iterator[SkippedFile]:
    for chunk in chunks:
        if not chunk.titled.strip():
            yield _missing(chunk.source, chunk.chunk_id, NO_TEXT)


def validated(record: type[R], row: Row | None, **fields: Any) -> R:
    """Make a record; a `SourceError` names the row and its fault."""
    try:
        return record(**fields)
    except ValidationError as error:
        place = f"{row.place}: " if row else ""
        fault = f"not a {record.__name__.lower()}: {first_fault(error)}"
        raise SourceError(f"{place}{fault}") from None


def chunk_of(row: Row | None, chunk_id: str, source: str, text: str, **fields: Any) -> Chunk:
    """Make a chunk; where its place is not known, it is a file of its own."""
    whole = {"path": chunk_id, "start_byte": 0, "end_byte": len(text.encode()), "revision": None}
    known = {"chunk_id": chunk_id, "source": source, "text": text, "tokens": count_tokens(text)}
    return validated(Chunk, row, **{**known, **whole, **fields})


def smallest_scale(highest: int) -> ScaleName | None:
    """Name the smallest scale that holds a label; None where none does."""
    return next((name for name, scale in SCALES.items() if scale.highest >= highest), None)


def contents_of(
    queries: Iterable[Query],
    nuggets: Iterable[Nugget],
    judgments: Iterable[Judgment],
    scale: Scale,
    pool: Iterable[Candidate] = (),
    **others: Any,
) -> Contents:
    """Put records of others together: with slices, and without a pool the judged chunks as one."""
    queries, nuggets, judgments = tuple(queries), tuple(nuggets), tuple(judgments)
    judged = sorted({(judgment.query_id, judgment.chunk_id) for judgment in judgments})
    return Contents(
        queries=queries,
        nuggets=nuggets,
        judgments=judgments,
        pool=tuple(pool)
        or tuple(Candidate(query_id=q, chunk_id=c, origin="imported") for q, c in judged),
        slices=tuple(slice_queries(queries, nuggets, judgments, scale.threshold)),
        threshold=scale.threshold,
        **others,
    )


# What is in memory

_REQUIRED = [name for name, field in Chunk.model_fields.items() if field.is_required()]


def read_given(
    queries: Any,
    nuggets: Any,
    judgments: Any,
    chunks: Any = None,
    name: str = "collection",
    scale: Scale | ScaleName = "support",
) -> tuple[Contents, Manifest, ChunkFile]:
    """Read what a collection is made of; for the arguments and errors see `Collection.of`."""
    from freshstack_dspy.config import QueriesConfig  # these two take 60 ms
    from freshstack_dspy.questions.reading import read_queries

    if not isinstance(scale, Scale):
        scale = Scale(name=scale, threshold=SCALES[scale].threshold)
    reading = read_queries(QueriesConfig(rows=_rows(queries, "queries")), answered=False)
    all_nuggets = [
        _record(Nugget, row, query_id=row.id("query_id"), nugget_id=row.id("nugget_id"))
        for row in given_rows(_rows(nuggets, "nuggets"), "nuggets")
    ]
    owners = {nugget.nugget_id: nugget.query_id for nugget in all_nuggets}
    labels = [
        _judgment(row, owners) for row in given_rows(_rows(judgments, "judgments"), "judgments")
    ]
    if chunks is None:
        ids = {judgment.chunk_id for judgment in labels}
        corpus = ChunkFile.holding(chunk_of(None, id_, name, "") for id_ in ids)
    else:
        rows = given_rows(_rows(chunks, "chunks"), "chunks")
        corpus = ChunkFile.holding(_chunk(row, name) for row in rows)
    contents = contents_of(
        reading.queries, all_nuggets, labels, scale, skipped=tuple(_without_text(corpus))
    )
    provenance = Provenance(
        name=name,
        recipe="import:judgments" if chunks is None else "import:rows",
        model=NO_MODEL,
        scale=scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
    )
    return contents, manifest_of(contents, corpus, provenance, reading.rejected), corpus


def _rows(values: Any, name: str) -> Any:
    try:
        return rows_of(values)
    except ValueError as error:
        raise SourceError(f"{name} {error}") from None


def _judgment(row: Row, owners: dict[str, str]) -> Judgment:
    nugget_id = row.id("nugget_id")
    own = owners.get(nugget_id) if row.values.get("query_id") is None else row.id("query_id")
    if own is None:
        raise row.fault("nugget_id", "that of one of the nuggets")
    failed = row.values.get("label") is None
    defaults = {"status": "failed" if failed else "ok", "reason": "", "label": None}
    ids = {"query_id": own, "nugget_id": nugget_id, "chunk_id": row.id("chunk_id")}
    return _record(Judgment, row, defaults, **ids)


def _chunk(row: Row, source: str) -> Chunk:
    if row.has(*_REQUIRED):
        return _record(Chunk, row)
    fields = {"title": row.text("title", default=""), "url": row.optional("url")}
    text = row.text(*DOCUMENT_TEXTS)
    return chunk_of(row, row.id(*DOCUMENT_IDS, "path"), source, text, **fields)


def _record(record: type[R], row: Row, defaults: Any = None, **ids: str) -> R:
    """Make a record of a row, whose empty cells are as the record has them by default."""
    values = {name: value for name, value in row.values.items() if value is not None}
    call = {"call_id": None} if "call_id" in record.model_fields else {}
    return validated(record, row, **{**call, **(defaults or {}), **values, **ids})
