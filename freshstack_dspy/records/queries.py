"""Questions, their nuggets, and what a model makes of them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from freshstack_dspy.records.record import Record, Signed, Whole

QueryOrigin = Literal["community", "synthetic", "imported"]
Importance = Literal["vital", "okay"]
ExpansionKind = Literal["sub_questions", "closed_book_answer"]
SliceName = Literal["answerable", "partly_supported", "unanswerable", "undetermined"]


class Attribution(Record):
    """Who wrote a text, where it stands and under which licence it may be passed on."""

    author: str
    url: str
    licence: str


class Query(Record):
    """A question with its accepted answer, both as Markdown."""

    query_id: str = Field(min_length=1)
    title: str
    body: str
    answer_id: str | None = None
    answer: str = ""
    """Empty only where a collection was imported that has none."""
    tags: tuple[str, ...] = ()
    asked_at: str | None = None
    """ISO 8601 date and time."""
    score: Signed | None = None
    question_source: Attribution | None = None
    answer_source: Attribution | None = None
    origin: QueryOrigin = "community"
    """Whether people asked it, a model did, or it came with an imported collection."""
    seed_chunk_ids: tuple[str, ...] = ()
    """Of a synthetic query: the chunks that it was made from."""
    call_id: str | None = None
    """Of a synthetic query: the key of the reply that it came from."""

    @model_validator(mode="after")
    def _answered(self) -> Self:
        if not self.answer and self.origin != "imported":
            raise ValueError("a query has an answer; only an imported one may lack it")
        return self

    @property
    def text(self) -> str:
        """Title and body joined by a space, as FreshStack's loader makes the query text."""
        return f"{self.title} {self.body}".strip()


class Nugget(Record):
    """An atomic fact that a good answer to its query must hold."""

    nugget_id: str
    query_id: str
    text: str = Field(min_length=1)
    call_id: str | None
    """None where it was imported."""
    answer_span: tuple[Signed, Signed] | None = None
    """Where in the answer it comes from, as `query.answer[start:end]`; None where nobody knows."""
    importance: Importance | None = None
    """`vital` or `okay` (nuggetizer's scale); None where it was not rated."""
    importance_call_id: str | None = None
    """The key of the reply that rated it."""
    duplicate_of: str | None = None
    """An earlier nugget of its query that says nearly the same."""


class Expansion(Record):
    """What a model made of a question, without the corpus, to search with."""

    query_id: str
    kind: ExpansionKind
    texts: tuple[str, ...] = Field(min_length=1)
    call_id: str


class QuerySlice(Record):
    """To which slice of the collection a query belongs, by the support of its nuggets.

    `answerable`: every nugget has a supporting chunk; `partly_supported`: some have none;
    `unanswerable`: none has one; `undetermined`: failures leave it open.
    """

    query_id: str
    slice: SliceName
    nuggets: Whole = Field(ge=0)
    supported: Whole = Field(ge=0)
    undetermined: Whole = Field(ge=0)
    unsupported_nuggets: tuple[str, ...] = ()
    """Ids of the nuggets that no chunk supports, by nugget_id; those undetermined left out."""


class Contamination(Record):
    """What a model knows of a query without the corpus, and where else the query may be known from.

    The closed-book answer is judged against the nuggets as a chunk is; None stands for what was
    not looked at, or could not be.
    """

    query_id: str
    known_nuggets: tuple[str, ...] | None
    """Ids of the nuggets that the closed-book answer supports, by nugget_id."""
    closed_book_coverage: float | None = Field(ge=0, le=1)
    """Their share of the query's nuggets."""
    asked: Literal["before_cutoff", "after_cutoff"] | None
    """When the question was asked, by the model's cut-off that the configuration gives."""
    gold_overlap: float | None = Field(ge=0, le=1)
    """The largest share of the question's word n-grams that one supporting chunk holds."""
    near_duplicates: tuple[str, ...] = ()
    """Other queries of the collection that ask nearly the same, by query_id; the first 20."""
    call_id: str | None = None
    """The key of the reply that judged the closed-book answer."""
