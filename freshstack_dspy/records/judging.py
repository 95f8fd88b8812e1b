"""What was said of chunks: by models, by people, and what was not said."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from freshstack_dspy.errors import FailureStatus
from freshstack_dspy.records.record import Record, Whole

Status = Literal["ok", "unparsed", "refused", "truncated", "failed"]
Step = Literal[
    "synthesis",
    "nuggets",
    "importance",
    "sub_questions",
    "closed_book_answer",
    "support",
    "single_support",  # of single chunks, to compare with batches
    "contamination",
    # Of answering from a run, which a build does not do:
    "gold_answer",
    "answer",
    "assignment",
    "comparison",
]
ScaleName = Literal["binary", "support", "graded_3", "graded_5"]


class ScaleDefinition(NamedTuple):
    """The labels of a scale, from 0."""

    highest: int
    threshold: int
    """The lowest label that counts as support unless a configuration says otherwise."""


SCALES: dict[ScaleName, ScaleDefinition] = {
    "binary": ScaleDefinition(1, 1),  # FreshStack: no, yes
    "support": ScaleDefinition(2, 2),  # TREC RAG, nuggetizer: no, partial, full support
    "graded_3": ScaleDefinition(3, 2),  # UMBRELA: 0 to 3
    "graded_5": ScaleDefinition(5, 3),  # CRUX, RUBRIC: 0 to 5
}


class Scale(Record):
    """On which scale the labels of a collection are, and from which one on they are support."""

    name: ScaleName = "binary"
    threshold: Whole = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _threshold_on_scale(self) -> Self:
        highest = SCALES[self.name].highest
        if self.threshold > highest:
            raise ValueError(
                f"threshold {self.threshold} is above the highest label of scale {self.name}, "
                f"which is {highest}"
            )
        return self


class Vote(Record):
    """One of several things that a model said of a pair."""

    vote: Whole = Field(ge=1)
    """Which vote, from 1; each sees the chunks in another order."""
    part: Whole = Field(default=1, ge=1)
    """Which part of the chunk, from 1, where it is longer than the model's window."""
    label: Whole | None = Field(ge=0)
    status: Status
    reason: str
    call_id: str | None


class Judgment(Record):
    """Whether, or how well, a chunk supports a nugget. Whatever is not `ok` has no label."""

    query_id: str
    nugget_id: str
    chunk_id: str
    label: Whole | None = Field(ge=0)
    """On the scale of the collection, which its manifest names with the threshold of support."""
    status: Status
    reason: str
    call_id: str | None
    """The key of the reply; of several votes, of the first that gave the label."""
    parts: Whole = Field(default=1, ge=1)
    """In how many parts the chunk was judged; its label is the highest of theirs."""
    votes: tuple[Vote, ...] = ()
    """Everything that was said, where that is more than one thing."""

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


class HumanLabel(Record):
    """What one person says of one (nugget, chunk) pair.

    The three texts make a label file stand on its own, as optimization without a
    collection needs; with a collection they are taken from it by the ids.
    """

    query_id: str
    nugget_id: str
    chunk_id: str
    label: Whole = Field(ge=0)
    annotator: str
    time: str | None = None
    question: str | None = None
    nugget: str | None = None
    chunk: str | None = None
