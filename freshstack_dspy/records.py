"""The records of a test collection: frozen, typed, with every id explicit.

A record is one line of JSON in the file named in `docs/formats.md`. Those that a language model
made carry `call_id`, the key of the reply they came from.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from freshstack_dspy.errors import FailureStatus, ReplyError


class Record(BaseModel):
    """The base of all records: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    together: ClassVar[tuple[str, ...]] = ()
    """The fields that must agree with one another."""

    if not TYPE_CHECKING:  # Pydantic's note of which fields were given is half of a record's memory

        @property
        def __pydantic_fields_set__(self) -> set[str]:
            """All fields: which of them were given is not kept."""
            return set(type(self).__pydantic_fields__)

        @__pydantic_fields_set__.setter
        def __pydantic_fields_set__(self, _given: Any) -> None:
            pass


def _is_none(value: object) -> bool:
    return value is None


_STRICT = ConfigDict(extra="forbid")
"""For the parts of records: there are many, so that they take no more memory than their fields."""


Status = Literal["ok", "unparsed", "refused", "truncated", "failed"]
STEPS = (
    "synthesis",
    "passages",
    "request",
    "nuggets",
    "sub_questions",
    "closed_book_answer",
    "reranking",
    # The recipe `nuggets`, for questions without answers:
    "relevance",
    "importance",
    "support",
    "contamination",
    # Answering from a run, which a build does not do:
    "gold_answer",
    "answer",
    "assignment",
    "citation",
    "contradiction",
    "comparison",
    "correctness",
)
"""The steps of our recipes, in the order in which they ask."""
StepName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""A step that asks a model: one of `STEPS`, or one of somebody's own recipe."""


def in_order_of_steps(names: Iterable[str]) -> list[str]:
    """Put the names of steps into the order of `STEPS`, others behind them."""
    return sorted(
        names, key=lambda name: (STEPS.index(name) if name in STEPS else len(STEPS), name)
    )


ScaleName = Literal["binary", "support", "graded_3", "graded_5"]


class GradeMeaning(NamedTuple):
    """What a label says, in the words that its judge is given."""

    meaning: str
    name: str = ""
    """Empty where a label is known by its number alone."""


class ScaleDefinition(NamedTuple):
    """The labels of a scale, from 0."""

    threshold: int
    """The lowest label that counts as support unless a configuration says otherwise."""
    grades: tuple[GradeMeaning, ...]
    """What each label says, in their order."""

    @property
    def highest(self) -> int:
        """The highest label."""
        return len(self.grades) - 1


SCALES: dict[ScaleName, ScaleDefinition] = {
    "binary": ScaleDefinition(  # FreshStack
        1,
        (
            GradeMeaning(
                "being about the same topic, or stating half of the nugget, is no support",
                "no support",
            ),
            GradeMeaning(
                "someone who reads only the passage finds the nugget's information stated, shown "
                "in code, or following directly from it",
                "support",
            ),
        ),
    ),
    "support": ScaleDefinition(  # TREC RAG, nuggetizer
        1,
        (
            GradeMeaning(
                "the reader learns none of what the nugget claims. That the chunk is about the "
                "same topic is not support",
                "no support",
            ),
            GradeMeaning(
                "the reader learns a substantial part of what the nugget says: its main point "
                "without a qualifier, a number or an example; one of several parts; the same claim "
                "made weaker, more general or more special",
                "partial support",
            ),
            GradeMeaning(
                "someone who reads only this chunk learns what the nugget says", "full support"
            ),
        ),
    ),
    "graded_3": ScaleDefinition(  # UMBRELA
        2,
        (
            GradeMeaning("the chunk has nothing to do with the fact"),
            GradeMeaning("the chunk is about the same matter and does not hold the fact"),
            GradeMeaning(
                "the chunk holds the fact or most of it, but among other things, in passing or not "
                "plainly"
            ),
            GradeMeaning("the chunk is about this fact and states or shows all of it"),
        ),
    ),
    "graded_5": ScaleDefinition(  # CRUX, RUBRIC
        3,
        (
            GradeMeaning("nothing of it"),
            GradeMeaning("a hint in its direction and no more"),
            GradeMeaning("some of it, too little to be used alone"),
            GradeMeaning("enough of it to be used, though something is left open"),
            GradeMeaning("nearly all of it; what is missing is a detail"),
            GradeMeaning("all of the answer, exact and beyond doubt"),
        ),
    ),
}


DEPENDS = "depends on what is unjudged"
"""The verdict on a difference of runs that their judged chunks alone do not show."""
MATTERS = 0.02
"""The smallest difference of means that matters to a decision, where nothing else is said."""
MIN_KAPPA = 0.6
"""What the lower end of kappa's interval reaches in a calibrated collection, where nothing else is
said."""
DRY_RUN = "dry run: labels by a word counter"
"""What stands in place of a conclusion where the embedded baseline made labels."""


class Scale(Record):
    """On which scale the labels of a collection are, and from which one on they are support."""

    name: ScaleName = "support"
    threshold: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _threshold_on_scale(self) -> Self:
        highest = SCALES[self.name].highest
        if self.threshold > highest:
            raise ValueError(
                f"threshold {self.threshold} is above the highest label of scale {self.name}, "
                f"which is {highest}"
            )
        return self


Spans = tuple[tuple[int, int], ...]
"""Places in a source file: (start, end) in bytes, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Vote:
    """One of several labels that a model gave a pair."""

    vote: int = Field(ge=1)
    """From 1; each sees the chunks in another order."""
    part: int = Field(default=1, ge=1)
    """Which part of the chunk, from 1, where it is longer than the model's window."""
    label: int | None = Field(ge=0)
    status: Status
    reason: str
    call_id: str | None
    evidence: Spans = ()


class Judgment(Record):
    """Whether, or how well, a chunk supports a nugget. One that is not `ok` has no label."""

    together = ("label", "status")
    query_id: str
    nugget_id: str
    chunk_id: str
    label: int | None = Field(ge=0)
    """On the scale of the collection, which its manifest names with the threshold of support."""
    status: Status
    reason: str
    """What the judge says of the chunk: the same for all its nuggets in one call."""
    call_id: str | None
    """The key of the reply; of several votes, of the first that gave the label."""
    same_as: str | None = None
    """The chunk that was judged in its place, for they say the same; the label and all else that
    the judge said is of that one."""
    evidence: Spans = ()
    """Where the chunk says it, one or two spans; of several votes, that of the first that gave the
    label. Empty at label 0, on a scale that asks for no quotes, and where none was verbatim."""
    parts: int = Field(default=1, ge=1)
    """In how many parts the chunk was judged; its label is the highest of theirs."""
    votes: tuple[Vote, ...] = ()
    """All of them, where there are several."""
    probability: float | None = Field(default=None, ge=0, le=1, exclude_if=_is_none)
    """How probable support is, where the judge says it."""
    followed_from: str | None = Field(default=None, exclude_if=_is_none)
    """The chunk of an earlier revision of the file that was judged: the label followed the words at
    `evidence` into this chunk, whose other words the judge has not seen."""

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
    step: StepName
    status: FailureStatus
    message: str
    """The error."""
    chunk_ids: tuple[str, ...] = ()
    """Those that were to be judged."""
    expected: str | None = Field(default=None, exclude_if=_is_none)
    """What a golden set expects and the corpus has not."""
    call_id: str | None
    """The key of the last reply."""


LanguageCode = Annotated[str, Field(pattern=r"^[a-z]{2,3}$")]
"""A natural language by its code of ISO 639, such as `de`."""
QueryOrigin = Literal["community", "synthetic", "imported"]
Importance = Literal["vital", "okay"]
ExpansionKind = Literal["sub_questions", "closed_book_answer"]
SliceName = Literal[
    "answerable", "partly_supported", "unanswerable", "undetermined", "without_nuggets"
]


def instant(text: str) -> datetime:
    """Read an ISO 8601 date, or date and time; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class GivenLabel(Record):
    """What every label of a person says; each kind adds its own fields."""

    query_id: str
    annotator: str = Field(min_length=1)
    time: str | None = None
    """ISO 8601 date and time."""
    note: str = ""
    """What the person wrote about it."""
    stratum: str | None = None
    probability: float | None = Field(default=None, gt=0, le=1)
    """For a label that `freshstack sample` asked for: from which part of the judgments it was drawn,
    and with what probability."""


class HumanLabel(GivenLabel):
    """The label that a person gave a (nugget, chunk) pair.

    The texts are what it is of: by them it is found again in a collection whose ids have changed,
    and programs are optimized on them without a collection.
    """

    kind: Literal["support", "answerability"] = "support"
    """`support`: on the scale of the collection, 0 to 5 for recipe crux; `answerability`: whether
    the chunk answers the sub-question at all, 0 or 1 (the first task of CRUX's annotators)."""
    nugget_id: str
    chunk_id: str
    label: int = Field(ge=0)
    evidence: Spans = ()
    """Places in the chunk's file, in bytes, of the words that show it."""
    question: str | None = None
    nugget: str | None = None
    chunk: str | None = None
    """The passage."""
    path: str | None = Field(default=None, exclude_if=operator.not_)
    """The path of its file, below its source."""
    marked: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """The words at `evidence`."""


class NuggetLabel(GivenLabel):
    """What a person says of the quality of one nugget (FreshStack, Table 5)."""

    kind: Literal["nugget"] = "nugget"
    nugget_id: str
    precise: bool
    """It is one fact, and states it correctly and exactly."""
    grounded: bool
    """The answer says it, or a passage that it was made from."""
    vital: bool
    """A good answer must have it."""


class ListedNugget(Record):
    """One nugget of a list that a person made."""

    nugget_id: str = ""
    """Empty where the nugget is new."""
    text: str = Field(min_length=1)
    importance: Importance | None = None
    made_from: tuple[str, ...] = ()
    """Ids of the nuggets that it was split or merged from."""


class NuggetList(GivenLabel):
    """All nuggets that a query should have, as a person edited, split, merged or added them.

    Those of the collection that are not listed were removed.
    """

    kind: Literal["nugget_list"] = "nugget_list"
    nuggets: tuple[ListedNugget, ...]


class AnswerLabel(GivenLabel):
    """Whether an answer agrees with the gold one (LLM-retEval), as a person sees it.

    The texts are for optimization and for reading without the folder of answers.
    """

    kind: Literal["answer"] = "answer"
    run_id: str
    sample: int = Field(default=1, ge=1)
    agrees: bool
    question: str | None = None
    answer: str | None = None
    gold_answer: str | None = None


class ReportLabel(GivenLabel):
    """Whether a report answers a sub-question, and with which words (CRUX, §A.2, task 1)."""

    kind: Literal["report"] = "report"
    run_id: str
    nugget_id: str
    label: int = Field(ge=0, le=1)
    """1 if someone who reads only the report has the answer."""
    evidence: Spans = ()
    """Places in `report`, in characters, of the words that answer it."""
    marked: tuple[str, ...] = ()
    """The words at `evidence`."""
    report: str
    """The text that was labelled."""
    question: str | None = None
    nugget: str | None = None

    @model_validator(mode="after")
    def _evidence_is_what_was_marked(self) -> Self:
        if len(self.evidence) != len(self.marked):
            raise ValueError(
                f"evidence has {len(self.evidence)} places, and marked {len(self.marked)} texts"
            )
        for (start, end), words in zip(self.evidence, self.marked, strict=True):
            if (text := self.report[start:end]) != words:
                raise ValueError(
                    f"evidence {start} to {end} of the report is {text!r:.80}, not {words!r:.80}"
                )
        return self


TaskKind = Literal["support", "answerability", "nuggets", "answer", "report"]


class LabelTask(Record):
    """Something that people are asked to label; a line of the file that `freshstack sample` writes.

    `support` and `answerability` ask for a `HumanLabel` of the pair, `nuggets` for a `NuggetList`
    and a `NuggetLabel` of each nugget of the query, `answer` for an `AnswerLabel`, `report` for a
    `ReportLabel` of one sub-question.
    """

    kind: TaskKind
    query_id: str
    nugget_id: str | None = None
    chunk_id: str | None = None
    run_id: str | None = None
    sample: int = Field(default=1, ge=1)
    answer: str | None = None
    gold_answer: str | None = None
    """The two texts of a task `answer`; `answer` is also the text of a report."""
    stratum: str = ""
    """The part of the judgments that it was drawn from."""
    probability: float = Field(default=1, gt=0, le=1)
    """With which it was drawn."""


class SampleHeader(Record):
    """The first line of a file of tasks: what they were drawn from."""

    schema_version: Literal[1] = 1
    collection: str
    """The folder, relative to the file where it can be."""
    content: str
    """The content hash that the collection had."""
    seed: int = 0


class Attribution(Record):
    """Who wrote a text, where it is and under which licence it may be passed on."""

    author: str
    url: str
    licence: str


class Query(Record):
    """A question, with its accepted answer where it has one, both as Markdown."""

    query_id: str = Field(min_length=1)
    title: str
    body: str
    answer_id: str | None = None
    """The id of the accepted answer."""
    answer: str = ""
    """Empty where there is none: of an import, or by the recipe `nuggets`."""
    tags: tuple[str, ...] = ()
    asked_at: str | None = None
    """ISO 8601 date and time."""
    score: int | None = None
    """The community's votes."""
    question_source: Attribution | None = None
    answer_source: Attribution | None = None
    origin: QueryOrigin = "community"
    """Who asked: people, a model, or it is not known, for the query was imported."""
    seed_chunk_ids: tuple[str, ...] = ()
    """The chunks that a synthetic query was made from."""
    call_id: str | None = None
    """The key of the reply that a synthetic query came from."""
    language: LanguageCode | None = Field(default=None, exclude_if=operator.not_)
    """None where it is not known."""
    fields: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    """Other columns of the table that it is from, by name; no step is shown them."""
    weight: float | None = Field(default=None, gt=0, allow_inf_nan=False, exclude_if=_is_none)
    """How often users asked it, its weight in means; None: once. See `sample_questions`."""

    @property
    def text(self) -> str:
        """Title and body joined by a space, as FreshStack's loader makes the query text."""
        return f"{self.title} {self.body}".strip()


def as_query(query: Query | str) -> Query:
    """A query as it is, or one with the text of a question, whose `query_id` is `question`."""
    return Query(query_id="question", title=query, body="") if isinstance(query, str) else query


class Nugget(Record):
    """An atomic fact that a good answer to its query must hold."""

    nugget_id: str
    query_id: str
    text: str = Field(min_length=1)
    call_id: str | None
    """None where it was imported, or is from a file that people edited."""
    answer_span: tuple[int, int] | None = None
    """Where in the answer it comes from, as `query.answer[start:end]`; None where it is unknown."""
    importance: Importance | None = None
    """`vital` or `okay` (nuggetizer's scale); None where an import does not say."""
    doubtful: bool = False
    """Whether it is plainly wrong, or the answer itself contradicts it. Such a nugget is recorded,
    and neither searched with, nor judged, nor measured."""
    duplicate_of: str | None = None
    """An earlier nugget of its query that says nearly the same."""
    chunk_ids: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """By the recipe `nuggets`: the chunks that it was made from, by id."""


class Expansion(Record):
    """What a model made of a question, without the corpus, to search with."""

    query_id: str
    kind: ExpansionKind
    texts: tuple[str, ...] = Field(min_length=1)
    """What the pool was searched with."""
    call_id: str


class Note(Record):
    """What a step of one's own says of a query, as the type of its answer."""

    query_id: str
    kind: StepName
    """What it is about; queries are grouped by it."""
    value: str
    call_id: str | None = None


class QuerySlice(Record):
    """To which slice of the collection a query belongs, by the support of its nuggets.

    `answerable`: every nugget has a supporting chunk; `partly_supported`: some have one;
    `unanswerable`: none has one; `undetermined`: none has one so far, and judgments failed;
    `without_nuggets`: there are none, for its answer states no fact or was not cut into nuggets.
    Doubtful nuggets do not count.
    """

    query_id: str
    slice: SliceName
    nuggets: int = Field(ge=0)
    supported: int = Field(ge=0)
    undetermined: int = Field(ge=0)
    """Left open by judgments that failed."""
    unsupported_nuggets: tuple[str, ...] = ()
    """Ids of the nuggets that no chunk supports, by nugget_id; those undetermined left out."""


class Contamination(Record):
    """What a model knows of a query without the corpus, and where else the query may be known from.

    The closed-book answer is judged against the nuggets as a chunk is; None: not known.
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


Assignment = Literal["support", "partial_support", "not_support", "failed"]
"""nuggetizer's words for how far a text supports a nugget; `failed` where it is unknown."""
AnswerStatus = Status | Literal["not_retrieved"]
"""`not_retrieved`: the context is empty, so that nothing was asked."""


class CitedSentence(Record):
    """One sentence of an answer."""

    text: str = Field(min_length=1)
    citations: tuple[Annotated[int, Field(ge=0)], ...]
    """Places in the answer's `references`, from 0, the best first."""


class OmittedChunk(Record):
    """A chunk of the context that was not shown to the generator."""

    chunk_id: str
    reason: Literal["no_room", "no_text"]
    """The model's window was full, or the corpus has no text of it."""


class CitedPassage(Record):
    """A passage that is not a chunk of the collection, and where it is in the corpus."""

    passage_id: str
    source: str
    path: str
    start_byte: int = Field(ge=0)
    end_byte: int = Field(ge=0)


class Answer(Record):
    """An answer to a query, as TREC RAG writes it: from a run's context, or of the user's system.

    One that is not `ok` has no sentences. One that is `ok` and has none says that its context does
    not answer the query; if it is that of a system, it is empty.
    """

    run_id: str
    topic_id: str
    topic: str
    """The text of the query."""
    references: tuple[str, ...]
    """Ids of the chunks or passages that were shown, in their order; then of those that are cited
    besides."""
    passages: tuple[CitedPassage, ...] = Field(default=(), exclude_if=operator.not_)
    """Those of the references that are not chunks."""
    outside: dict[str, str] = Field(default_factory=dict, exclude_if=operator.not_)
    """Those of the references that are not in the corpus, each with the reason."""
    response_length: int = Field(ge=0)
    """Words of the answer."""
    answer: tuple[CitedSentence, ...]
    sample: int = Field(default=1, ge=1)
    """Which of several answers from the same context."""
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
    query_id: str
    agrees: bool | None
    """None unless the status is `ok`."""
    status: str
    """`ok`, or why there is no verdict. `not_retrieved`: the run has nothing for the query;
    `no_gold_answer`: the generator found no answer in the gold context, so that there is nothing to
    agree with; a `FailureStatus`; in files of others a word of theirs, or none."""
    reason: str = ""
    call_id: str | None = None
    """The reply that compared; None where it was plain without asking."""
    answer_call_id: str | None = None
    gold_call_ids: tuple[str, ...] = ()
    scores: dict[str, float] = Field(default_factory=dict)
    """By comparer, how near the answer is to the nearest gold one; the first has decided."""

    @model_validator(mode="after")
    def _said_only_when_ok(self) -> Self:
        if (self.status == "ok") != (self.agrees is not None):
            raise ValueError(f"agrees is said if and only if the status is ok, not {self.status!r}")
        return self


class AssignedNugget(Record):
    """A nugget of a query, and how far an answer supports it, as nuggetizer writes it."""

    text: str = ""
    importance: Importance
    """`vital` where it was not rated."""
    assignment: Assignment | None
    """None where a file of others has none."""
    nugget_id: str
    """Its text, where a file of others has no id."""
    rated: bool
    """Whether its importance was rated."""
    label: int | None = Field(default=None, ge=0)
    """On the judge's scale; None where the assignment is `failed`, and in files of others."""
    reason: str = ""
    call_id: str | None = None
    evidence: Spans = ()
    """Places in `answer_text`, in bytes, of the words that the judge quotes."""

    @property
    def rating(self) -> Importance | None:
        """Its importance; None where it was not rated."""
        return self.importance if self.rated else None


class AssignedAnswer(Record):
    """An answer held against the nuggets of its query."""

    query: str = ""
    qid: str
    answer_text: str = ""
    response_length: int = Field(default=0, ge=0)
    run_id: str
    nuggets: tuple[AssignedNugget, ...]
    status: AnswerStatus = "ok"


class JudgedCitation(Record):
    """A chunk that a sentence cites, and how far it supports the sentence, as TREC RAG has it."""

    citationID: int = Field(ge=0)  # noqa: N815 - NIST's name
    reference: str | None
    """The id of the chunk; in files of others empty where it is none, and None where it is not
    known."""
    support: Literal[-1, 0, 1, 2]
    """2 full, 1 partial, 0 none; -1 where judging failed, or there is no label."""
    reason: str = ""
    call_id: str | None = None
    evidence: Spans = ()
    """Places in the chunk's file, in bytes, of the words that the judge quotes."""


class JudgedSentence(Record):
    """A sentence of an answer with its citations, in order."""

    sentenceID: int = Field(ge=0)  # noqa: N815 - NIST's name
    text: str = ""
    citations: tuple[JudgedCitation, ...]


class JudgedAnswer(Record):
    """An answer whose citations were judged, as TREC RAG's support labels are written."""

    topic_id: str
    run_id: str
    references: tuple[str, ...] | None
    """None where a file of others does not say them."""
    sentences: tuple[JudgedSentence, ...]

    def is_outside(self, citation: JudgedCitation) -> bool:
        """Whether a citation is not of the answer's references; it then supports nothing."""
        if self.references is None:
            return citation.reference == ""
        return citation.reference not in self.references


class Contradiction(Record):
    """A nugget that an answer contradicts."""

    nugget_id: str
    nugget: str
    """Its text."""
    quote: str
    """The words of the answer."""
    reason: str


AnswerKind = Literal[
    "answer", "copied", "declined", "empty", "failed", "not_retrieved", "undecided"
]
"""`copied`: it is a passage of the corpus, word for word; `declined`: it says that it does not answer;
`not_retrieved`: the system has none for the query; `undecided`: the judge's reply failed."""


class CheckedAnswer(Record):
    """What an answer of a system is, and which nuggets it contradicts."""

    run_id: str
    query_id: str
    kind: AnswerKind
    nuggets: int = Field(ge=0)
    """How many nuggets the query has."""
    contradictions: tuple[Contradiction, ...] | None
    """None where the judge was not asked, or its reply failed."""
    copied_from: str | None = None
    """The id of the chunk or passage."""
    status: Status = "ok"
    """That of the judge's reply."""
    reason: str = ""
    """Why that failed."""
    call_id: str | None = None


Case = Literal["A", "C", "D", "E", "F"]
"""Where recall and agreement fail (Alinejad, Kumar and Vahdat, arXiv 2406.06458, §4.1); A is A or B."""


class FailureCase(Record):
    """An answer about which recall and agreement differ, and whose failure it seems to be."""

    case: Case
    run_id: str
    query_id: str
    question: str
    recall: float
    agrees: bool | None
    reason: str
    """The reason for the verdict of the comparison."""
    answer: str
    gold_answer: str
    """The first."""
    nuggets: tuple[str, ...]
    """Ids of the nuggets that the answer supports."""
    gold_nuggets: tuple[str, ...]
    """The nuggets that the gold answer supports."""


class AnsweringFailure(Failure):
    """Something that answering from runs asked for and did not get."""

    run_id: str
    sample: int = Field(default=1, ge=1)

    @classmethod
    def of(cls, answer: Answer, step: StepName, error: ReplyError) -> Self:
        """Make the record of what was asked about an answer."""
        return cls(
            query_id=answer.topic_id,
            step=step,
            status=error.status,
            message=str(error),
            call_id=error.call_id,
            run_id=answer.run_id,
            sample=answer.sample,
        )


SkipKind = Literal[
    "not_chosen",  # by include and exclude
    "hidden",
    "link",  # symbolic links and submodules
    "oversized",
    "empty",
    "binary",
    "undecodable",  # text in an encoding that is not known
    "generated",
    "minified",
    "vendored",
    "data",  # tables, drawings and dumps: rows of values, no text
    "licence",  # kept apart: see LicenceFile
    "changelog",
    "configuration",  # a small file of settings
    "licence_header",  # nothing but a comment with a licence
    "unreadable",  # refused by the system, or of a damaged format
    "missing",  # named by imported judgments, and without a text there
]

_BLANK_LINES = re.compile(r"\A(?:[^\S\n\r]*[\n\r])+")


def titled(title: str, text: str) -> str:
    """The text, below its title where it has one."""
    return f"{title}\n{text}" if title else text


def shown(title: str, text: str) -> str:
    """What a model is shown of a chunk: see `Chunk.passage`."""
    return _BLANK_LINES.sub("", titled(title, text).rstrip(), count=1)


class Chunk(Record):
    """A run of bytes of one file: `chunking.text_of(file_bytes, chunk) == chunk.text`.

    For a file in UTF-8 that is `file_bytes[start_byte:end_byte].decode()`. Only a passage of recipe
    crux, whose id ends in `#` and a number, is what a model wrote from these bytes.
    """

    chunk_id: str
    """`{source}/{path}_{start_byte}_{end_byte}`; for reading, never for parsing."""
    source: str
    path: str
    start_byte: int = Field(ge=0)
    end_byte: int = Field(ge=0)
    text: str
    """Empty only where an imported corpus has none for it."""
    tokens: int = Field(ge=0)
    revision: str | None = None
    """The git commit of the file's repository, or the version of its package."""
    encoding: str = "utf-8"
    """How the file's bytes are read; see `SourceFile.encoding`."""
    title: str = ""
    """The title of a document that came with one, as those of BEIR do; it is shown before the text."""
    url: str | None = None
    """Where the text is, as an imported corpus says it."""
    headings: tuple[str, ...] = ()
    """What the text is below in its file, the outermost first: the titles of sections, or the names
    of the definitions that code is in. It is shown and searched with the text, and no part of it."""
    language: LanguageCode | None = Field(default=None, exclude_if=operator.not_)
    """That of its file; None for code, and where it is not known."""

    def byte_at(self, place: int) -> int:
        """The offset in the source file, in bytes, of the character `text[place]`."""
        # From the end: a byte order mark is in the bytes of a file's first chunk, and not in its
        # text. The codecs that know the mark (see `text_of`) write it before any text.
        text_bytes = self.text.encode(self.encoding)
        return self.end_byte - len(text_bytes) + len(self.text[:place].encode(self.encoding))

    def text_at(self, start: int, end: int) -> str:
        """The part of `text` between two offsets in the source file."""
        return self.text[self.place_at(start) : self.place_at(end)]

    def place_at(self, offset: int) -> int:
        """The place in `text` of the character that an offset in the file is at, or inside of."""
        text_bytes = self.text.encode(self.encoding)
        before = text_bytes[: max(0, offset - self.end_byte + len(text_bytes))]
        return len(before.decode(self.encoding, "ignore"))

    @property
    def titled(self) -> str:
        """The text, below its title where it has one."""
        return titled(self.title, self.text)

    @property
    def passage(self) -> str:
        """What a model is shown: title and text without blank lines before and white space behind."""
        return shown(self.title, self.text)

    @property
    def passage_start(self) -> int:
        """The place in `text` of the first character of `passage`; below 0 where that is a title."""
        title = len(self.titled) - len(self.text)
        return len(self.titled.rstrip()) - len(self.passage) - title


class SourceFile(NamedTuple):
    """One readable file of a corpus, as it is on disk or in the repository."""

    source: str
    path: str
    """Relative to the folder or repository, with forward slashes."""
    data: bytes
    revision: str | None = None
    encoding: str = "utf-8"
    """How the bytes are read: a codec of Python that decodes any run of whole characters
    (`utf-8`, `utf-16-le`, `cp1252`, …, never one that looks for a byte order mark)."""


class SkippedFile(Record):
    """A file of a corpus that was not indexed, and why."""

    source: str
    path: str
    kind: SkipKind
    reason: str


class LicenceFile(Record):
    """A licence, notice or list of authors of a corpus: kept next to its passages, not among them."""

    source: str
    path: str
    text: str


Technique = Literal["question", "sub_questions", "closed_book_answer", "answer", "nuggets"]
CandidateOrigin = Literal[
    "pooled",
    "run",  # unjudged in a run, judged by `freshstack extend`
    "seed",  # what a synthetic query was made from
    "document",  # a passage of the documents that the query's report was written from (CRUX)
    "reused",  # judged before a refresh, and pooled no more
    "imported",
]

TECHNIQUES: tuple[Technique, ...] = get_args(Technique)
"""The five pooling techniques, by what is searched with."""
OF_THE_QUESTION, ORACLES = TECHNIQUES[:3], TECHNIQUES[3:]
"""Those that see the question only, and those that know the answer."""


def searched_with(name: str, technique: Technique) -> str:
    """Name a run by what it was searched with, if not the question: as `hybrid@nuggets`."""
    return name if technique == "question" else f"{name}@{technique}"


def technique_of(name: str) -> Technique:
    """What a run was searched with, by its name; also of `hybrid@nuggets@10`, its first 10."""
    parts = name.split("@")[1:]
    for technique in TECHNIQUES:
        if technique in parts:
            return technique
    return "question"


def is_oracle(name: str) -> bool:
    """Whether a run was searched with what only those who know the answer have."""
    return technique_of(name) in ORACLES


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class TechniqueRank:
    """At which rank a technique's fused list holds a chunk (from 1)."""

    technique: Technique
    rank: int = Field(ge=1)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Found:
    """At which rank one retriever found a chunk with one technique's text (from 1)."""

    technique: Technique
    retriever: str
    rank: int = Field(ge=1)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RunRank:
    """At which rank a run that the collection was extended with holds a chunk (from 1)."""

    run: str
    rank: int = Field(ge=1)


RELEVANT = 2
"""The lowest grade of relevance from which nuggets are made (TREC RAG 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Relevance:
    """How relevant a passage is to a question, on UMBRELA's scale."""

    grade: int = Field(ge=0, le=3)
    """0: unrelated, 1: related, 2: holds some of the answer, 3: is dedicated to it."""
    reason: str
    call_id: str | None


class Candidate(Record):
    """A chunk to be judged for a query, with everything that found it."""

    query_id: str
    chunk_id: str
    origin: CandidateOrigin = "pooled"
    """What brought it: the pool, a run, what a synthetic query was made from (`seed`), the documents
    of a report (`document`, recipe crux), an earlier state of the collection (`reused`), an import."""
    pooled_by: tuple[TechniqueRank, ...] = ()
    """The fused lists that hold it among their `pool.top_k`."""
    ranked_below: tuple[TechniqueRank, ...] = ()
    """The fused lists that hold it further down, to `pool.depth`."""
    found_by: tuple[Found, ...] = ()
    """Every retriever and technique that found it."""
    lost_without: tuple[str, ...] = ()
    """Retrievers without any one of which it would not have been pooled."""
    runs: tuple[RunRank, ...] = ()
    """Those that the collection was extended with and that hold it."""
    relevance: Relevance | None = Field(default=None, exclude_if=operator.not_)
    """By the recipe `nuggets`; None otherwise, and where no grade came."""


class ScoredChunk(NamedTuple):
    """One entry of a ranking."""

    chunk_id: str
    score: float


def ranked(scores: dict[str, float], depth: int | None = None) -> list[ScoredChunk]:
    """Order scored chunks by the one rule of this program: score descending, then id ascending."""
    return scored_chunks(scores, ranked_ids(scores)[:depth])


def ranked_ids(scores: Mapping[str, float]) -> list[str]:
    """Give the ids of `ranked`."""
    values = [*scores.values()]
    if all(map(operator.gt, values, values[1:])):  # as retrievers give them
        return list(scores)
    tied = len(set(values)) < len(values)
    # The sort is stable: those of one score stay in the order of their ids.
    return sorted(sorted(scores) if tied else scores, key=scores.__getitem__, reverse=True)


def scored_chunks(scores: Mapping[str, float], ids: Sequence[str]) -> list[ScoredChunk]:
    """Make many entries at once, in a third of the time that the class takes for each."""
    return list(map(_scored, zip(ids, map(scores.__getitem__, ids), strict=True)))


_scored: Callable[[tuple[str, float]], ScoredChunk] = partial(tuple.__new__, ScoredChunk)
