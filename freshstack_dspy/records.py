"""The records of a test collection: frozen, typed, with every id explicit.

A record of a collection is one line of JSON in the file named in `docs/data-model.md`.
Nothing is ever parsed out of an id.
Records that a language model made carry `call_id`, the key of the reply they came from.
"""

import re
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from freshstack_dspy.errors import FailureStatus

Status = Literal["ok", "unparsed", "refused", "truncated", "failed"]
Step = Literal["nuggets", "sub_questions", "closed_book_answer", "support"]
Technique = Literal["question", "sub_questions", "closed_book_answer", "answer", "nuggets"]
ExpansionKind = Literal["sub_questions", "closed_book_answer"]
SliceName = Literal["answerable", "partly_supported", "unanswerable", "undetermined"]
SkipKind = Literal[
    "not_chosen",  # by include and exclude
    "hidden",
    "link",  # symbolic links and submodules
    "oversized",
    "empty",
    "binary",
    "undecodable",  # text in no encoding that can be told
    "generated",
    "minified",
    "vendored",
    "data",  # tables, drawings and dumps: rows of values, no text
    "licence",  # kept apart: see LicenceFile
    "unreadable",  # refused by the system, or of a damaged format
]

TECHNIQUES: tuple[Technique, ...] = (
    "question",
    "sub_questions",
    "closed_book_answer",
    "answer",
    "nuggets",
)
"""The five pooling techniques: three see the question only, the last two are the oracle's."""

_BLANK_LINES = re.compile(r"\A(?:[^\S\n\r]*[\n\r])+")


class Record(BaseModel):
    """The base of all records: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attribution(Record):
    """Who wrote a text, where it stands and under which licence it may be passed on."""

    author: str
    url: str
    licence: str


class Query(Record):
    """A question of the community with its accepted answer, both as Markdown."""

    query_id: str = Field(min_length=1)
    title: str
    body: str
    answer_id: str | None = None
    answer: str = Field(min_length=1)
    tags: tuple[str, ...] = ()
    asked_at: str | None = None
    """ISO 8601 date and time."""
    score: int | None = None
    question_source: Attribution | None = None
    answer_source: Attribution | None = None

    @property
    def text(self) -> str:
        """Title and body joined by a space, as FreshStack's loader makes the query text."""
        return f"{self.title} {self.body}".strip()


class Chunk(Record):
    """A run of bytes of one file: `chunking.text_of(file_bytes, chunk) == chunk.text`.

    Of a file in UTF-8 that is `file_bytes[start_byte:end_byte].decode()`.
    """

    chunk_id: str
    """`{source}/{path}_{start_byte}_{end_byte}`; for reading, never for parsing."""
    source: str
    path: str
    start_byte: int = Field(ge=0)
    end_byte: int = Field(gt=0)
    text: str
    tokens: int = Field(ge=0)
    revision: str | None = None
    """The git commit of the file's repository, or the version of its package."""
    encoding: str = "utf-8"
    """How the file's bytes are read; see `SourceFile.encoding`."""

    @property
    def passage(self) -> str:
        """The text as a model is shown it: without blank lines before it and white space behind."""
        return _BLANK_LINES.sub("", self.text.rstrip(), count=1)


class SourceFile(NamedTuple):
    """One readable file of a corpus, as it is on disk or in the repository."""

    source: str
    path: str
    """Relative to the folder or repository, with forward slashes."""
    data: bytes
    revision: str | None = None
    encoding: str = "utf-8"
    """How the bytes are read: a codec of Python that decodes any run of whole characters
    (`utf-8`, `utf-16-le`, `cp1252`, …, never one that looks for a byte order mark), or `ipynb`."""


class SkippedFile(Record):
    """A file of a corpus that was not indexed, and why."""

    source: str
    path: str
    kind: SkipKind
    reason: str


class LicenceFile(Record):
    """A licence, notice or list of authors of a corpus: kept beside its passages, not among them."""

    source: str
    path: str
    text: str


class Nugget(Record):
    """An atomic fact that a good answer to its query must hold."""

    nugget_id: str
    query_id: str
    text: str = Field(min_length=1)
    call_id: str


class Expansion(Record):
    """What a model made of a question, without the corpus, to search with."""

    query_id: str
    kind: ExpansionKind
    texts: tuple[str, ...] = Field(min_length=1)
    call_id: str


class TechniqueRank(Record):
    """At which rank a technique's fused list holds a chunk (from 1)."""

    technique: Technique
    rank: int = Field(ge=1)


class Found(Record):
    """At which rank one retriever found a chunk with one technique's text (from 1)."""

    technique: Technique
    retriever: str
    rank: int = Field(ge=1)


class Candidate(Record):
    """A chunk pooled for a query, with everything that found it."""

    query_id: str
    chunk_id: str
    pooled_by: tuple[TechniqueRank, ...] = Field(min_length=1)
    found_by: tuple[Found, ...] = Field(min_length=1)


class Judgment(Record):
    """Whether a chunk supports a nugget. Whatever is not `ok` has no label."""

    query_id: str
    nugget_id: str
    chunk_id: str
    label: int | None = Field(ge=0)
    status: Status
    reason: str
    call_id: str | None

    @model_validator(mode="after")
    def _label_only_when_ok(self) -> Self:
        if (self.status == "ok") != (self.label is not None):
            raise ValueError(
                f"a judgment has a label if and only if its status is ok, not {self.status!r}"
            )
        return self


class Failure(Record):
    """Something a build asked for and did not get."""

    query_id: str
    step: Step
    status: FailureStatus
    message: str
    chunk_ids: tuple[str, ...] = ()
    call_id: str | None


class QuerySlice(Record):
    """To which slice of the collection a query belongs, by the support of its nuggets.

    `answerable`: every nugget has a supporting chunk; `partly_supported`: some have none;
    `unanswerable`: none has one; `undetermined`: failures leave it open.
    """

    query_id: str
    slice: SliceName
    nuggets: int = Field(ge=0)
    supported: int = Field(ge=0)
    undetermined: int = Field(ge=0)


class HumanLabel(Record):
    """What one person says of one (nugget, chunk) pair.

    The three texts make a label file stand on its own, as optimization without a
    collection needs; with a collection they are taken from it by the ids.
    """

    query_id: str
    nugget_id: str
    chunk_id: str
    label: int = Field(ge=0)
    annotator: str
    time: str | None = None
    question: str | None = None
    nugget: str | None = None
    chunk: str | None = None


class ScoredChunk(NamedTuple):
    """One entry of a ranking."""

    chunk_id: str
    score: float


def ranked(scores: dict[str, float], depth: int | None = None) -> list[ScoredChunk]:
    """Order scored chunks by the one rule of this program: score descending, then id ascending."""
    order = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [ScoredChunk(chunk_id, score) for chunk_id, score in order[:depth]]
