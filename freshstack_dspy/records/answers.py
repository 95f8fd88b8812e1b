"""Answers from a context, what they hold, and whether two agree.

The lines of `answers.jsonl` are those of TREC RAG, those of `assignments.jsonl` those that
castorini's nuggetizer writes for answers, each with fields of ours at the end.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from freshstack_dspy.errors import FailureStatus
from freshstack_dspy.records.judging import Failure, Status
from freshstack_dspy.records.queries import Importance
from freshstack_dspy.records.record import Record, Whole

Assignment = Literal["support", "partial_support", "not_support", "failed"]
"""nuggetizer's words for how far a text supports a nugget; `failed` where nobody knows."""
AnswerStatus = Status | Literal["not_retrieved"]
"""`not_retrieved`: the context is empty, so that nobody was asked."""
AgreementStatus = (
    Literal["ok", "not_retrieved", "no_gold_context", "no_gold_answer"] | FailureStatus
)
Place = Annotated[Whole, Field(ge=0)]


class CitedSentence(Record):
    """One sentence of an answer."""

    text: str = Field(min_length=1)
    citations: tuple[Place, ...]
    """Places in the answer's `references`, from 0, the best first."""


class OmittedChunk(Record):
    """A chunk of the context that was not shown to the generator."""

    chunk_id: str
    reason: Literal["no_room", "no_text"]
    """The model's window was full, or the corpus has no text of it."""


class Answer(Record):
    """What a generator answered to a query from a context. Whatever is not `ok` has no sentences.

    An answer that is `ok` and has no sentences says that its context does not answer the query.
    """

    run_id: str
    """Whose context it was."""
    topic_id: str
    """The query."""
    topic: str
    """Its text."""
    references: tuple[str, ...]
    """Ids of the chunks that were shown, in their order."""
    response_length: Whole = Field(ge=0)
    """Words of the answer."""
    answer: tuple[CitedSentence, ...]
    sample: Whole = Field(default=1, ge=1)
    """Of several answers from the same context which."""
    omitted: tuple[OmittedChunk, ...] = ()
    status: AnswerStatus
    call_id: str | None

    @property
    def text(self) -> str:
        """All sentences, a line each."""
        return "\n".join(sentence.text for sentence in self.answer)

    @property
    def is_answered(self) -> bool:
        """Whether it is an answer, and not a failure or the word that there is none."""
        return bool(self.answer)

    @model_validator(mode="after")
    def _sentences_rest_on_references(self) -> Self:
        if self.status != "ok" and self.answer:
            raise ValueError(f"an answer that is {self.status} has no sentences")
        cited = (place for sentence in self.answer for place in sentence.citations)
        if (last := max(cited, default=-1)) >= len(self.references):
            raise ValueError(f"citation {last} is beyond the {len(self.references)} references")
        return self


class Agreement(Record):
    """Whether the answer from a run's context agrees with one from the gold context (LLM-retEval)."""

    run_id: str
    """Whose context it was."""
    query_id: str
    agrees: bool | None
    """None unless the status is `ok`."""
    status: AgreementStatus
    """`not_retrieved`: the run has nothing for the query; `no_gold_context`: no chunk supports a
    nugget of it; `no_gold_answer`: the generator found no answer in the gold context, so that there
    is nothing to agree with."""
    reason: str
    call_id: str | None
    """The reply that compared; None where it was plain without asking."""
    answer_call_id: str | None = None
    gold_call_ids: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _said_only_when_ok(self) -> Self:
        if (self.status == "ok") != (self.agrees is not None):
            raise ValueError(f"agrees is said if and only if the status is ok, not {self.status!r}")
        return self


class AssignedNugget(Record):
    """A nugget of a query, and how far an answer supports it."""

    text: str
    importance: Importance
    """`vital` where it was not rated, as nuggetizer reads it."""
    assignment: Assignment
    """`failed`: nothing valid was said of it."""
    nugget_id: str
    rated: bool
    """Whether the nugget's importance was rated."""
    label: Whole | None = Field(ge=0)
    """On the judge's scale; None where nothing valid was said."""
    reason: str
    call_id: str | None


class AssignedAnswer(Record):
    """An answer held against the nuggets of its query."""

    query: str
    qid: str
    answer_text: str
    response_length: Whole = Field(ge=0)
    run_id: str
    nuggets: tuple[AssignedNugget, ...]
    status: AnswerStatus
    """Of the answer."""


class AnsweringFailure(Failure):
    """Something that answering from runs asked for and did not get."""

    run_id: str
    """Whose context it was of."""
    sample: Whole = Field(default=1, ge=1)
