"""What is read of a collection of others: the records that a format's reader fills in."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from freshstack_dspy.errors import CollectionError, FailureStatus, SourceError, argument
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import json_file
from freshstack_dspy.formats.description import (
    IDS_FILE,
    JUDGMENTS_FILE,
    LICENCES_FILE,
    read_description,
)
from freshstack_dspy.lm.tokens import count_tokens
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
    StepName,
)
from freshstack_dspy.rows import Row, read_rows
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.slices import slice_queries

R = TypeVar("R", bound=Record)
NO_TEXT = "the imported data have no text of it"
DATA_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet", ".json")


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


class Imported:
    """The records of a collection of others, as its reader fills them in.

    An export of ours brings its description, the ids that it had to change, and the licences.

    Attributes:
        judgments: Of the nuggets; their chunks may be missing in the corpus.
        pool: What found the chunks; if empty, it is the judged ones.
        rejected: How many queries were left out, by reason.
        unknown_queries: How many judgments name a query that does not exist, by its id.
        documents: The corpus; None where there is none.
        highest_grade: Where no scale holds the grades, so that labels are 0 and 1.
    """

    def __init__(
        self, path: Path, corpus: Path | None, threshold: int | None, split: str | None
    ) -> None:
        self.path, self.corpus, self.threshold, self.split = path, corpus, threshold, split
        self.source = name_of(path)
        self.scale = Scale(name="binary")
        self.queries: dict[str, Query] = {}
        self.nuggets: dict[str, Nugget] = {}
        self.judgments: list[Judgment] = []
        self.pool: list[Candidate] = []
        self.failures: list[Failure] = []
        self.rejected: dict[str, int] = {}
        self.unknown_queries: Counter[str] = Counter()
        self.documents: Iterable[Chunk] | None = None
        self.files: list[Path] = []
        self.highest_grade: int | None = None
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

    def use_scale_of(self, labels: Iterable[int | None]) -> None:
        """Set the scale of our export; of others the smallest that holds these labels."""
        highest = max((label for label in labels if label is not None), default=1)
        name = smallest_scale(highest) or "graded_5"
        scale = Scale(name=name, threshold=SCALES[name].threshold)
        self.use_scale(self.export.scale if self.export else scale)

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
            named = " and ".join(map(shown, ids))
            raise SourceError(f"{row.place}: {kind} {named} is at {first} already; keep one")

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
        if text is not None:
            fields["title"], fields["body"] = _title_and_body(row, text)
        fields["origin"] = "imported"
        if row.inner("metadata").values.get("origin") == "synthetic":
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
        )  # fmt: skip

    def take_judgments(self) -> bool:
        """Take the judgments of an export of ours that has them, with its scale; else False."""
        file = self.path / JUDGMENTS_FILE
        if self.export is None or not file.is_file():
            return False
        self.use_scale(self.export.scale)
        rows = self.rows(file)
        self.judgments += [
            validated(Judgment, row, **{**row.values, "call_id": None}) for row in rows
        ]
        return True

    def fail(self, query_id: str, step: StepName, status: FailureStatus, message: str) -> None:
        """Note what went wrong there."""
        ids = {"query_id": query_id, "call_id": None}
        self.failures.append(Failure(step=step, status=status, message=message, **ids))

    def find_corpus(self, what: str, *stems: str) -> None:
        """Find the corpus, and set its documents to be read."""
        if self.corpus is None and self.path.is_dir():
            patterns = [f"{stem}{ending}" for stem in stems for ending in DATA_ENDINGS]
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
            chunks = [chunk_of(None, id_, self.source, "") for id_ in sorted(judged)]
        else:
            chunks = list(self.documents)
        existing = {chunk.chunk_id for chunk in chunks}
        unknown = Counter({id_: count for id_, count in judged.items() if id_ not in existing})
        self.judgments = [one for one in self.judgments if one.chunk_id not in unknown]
        empty = (chunk for chunk in chunks if not chunk.titled.strip())
        missing = [
            *_dropped("queries", "queries", self.unknown_queries, drop),
            *_dropped("corpus", "documents", unknown, drop),
            *(missing_file(chunk.source, chunk.chunk_id, NO_TEXT) for chunk in empty),
        ]
        return chunks, missing


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
    if not row.has("author", "url", "licence"):
        return None
    return Attribution(author=row.text("author"), url=row.text("url"), licence=row.text("licence"))


def _title_and_body(row: Row, text: str) -> tuple[str, str]:
    given = row.inner("metadata").values.get("title")
    if given and isinstance(given, str) and text.startswith(f"{given} "):
        return given, text[len(given) + 1 :]
    return ("", text) if given == "" else (text, "")


def _dropped(source: str, what: str, ids: Counter[str], drop: bool) -> Iterator[SkippedFile]:
    """List unknown ids with the number of their judgments; an error where none is dropped."""
    if ids and not drop:
        raise SourceError(
            f"{len(ids)} {what} of {ids.total()} judgments do not exist, as "
            f"{shown(min(ids))}; drop these judgments with {argument('unknown_ids', 'drop')}"
        )
    for id_ in sorted(ids):
        reason = f"named by {ids[id_]} judgments, which were dropped"
        yield missing_file(source, id_, reason)


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


def missing_file(source: str, path: str, reason: str) -> SkippedFile:
    """List what judgments name and no corpus has."""
    return SkippedFile(source=source, path=path, kind="missing", reason=reason)


def validated(record: type[R], row: Row | None, **fields: Any) -> R:
    """Make a record; a `SourceError` names the row and its fault."""
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
            metadata.optional("source") or found.source,
            text,
            path=metadata.optional("path") or chunk_id,
            start_byte=start,
            end_byte=metadata.number("end_byte", start + len(text.encode())),
            revision=metadata.optional("commit_id"),
            encoding=metadata.optional("encoding") or "utf-8",
            title=title,
            url=metadata.optional("url") or row.optional("url"),
        )


def chunk_of(row: Row | None, chunk_id: str, source: str, text: str, **fields: Any) -> Chunk:
    """Make a chunk; where its place is not known, it is a file of its own."""
    whole = {"path": chunk_id, "start_byte": 0, "end_byte": len(text.encode()), "revision": None}
    known = {"chunk_id": chunk_id, "source": source, "text": text, "tokens": count_tokens(text)}
    return validated(Chunk, row, **{**known, **whole, **fields})


def smallest_scale(highest: int) -> ScaleName | None:
    """Name the smallest scale that holds a label; None where none does."""
    return next((name for name, of in SCALES.items() if of.highest >= highest), None)
