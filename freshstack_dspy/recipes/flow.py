"""The flow of a recipe: stages of steps, run for all queries of a build or for one.

A step takes the work and what was made so far, and gives it with its own records. Steps of one stage
do not need each other's replies, so that a deferred build writes their requests down together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import dspy
from pydantic import ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.typed import given_and_read
from freshstack_dspy.programs.support_judge import failure_of
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.questions.report_groups import Groups
from freshstack_dspy.recipes.known import NOTHING, Known
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.recipes.session import Session, SingleCall
from freshstack_dspy.records import Chunk, Failure, Query, StepName
from freshstack_dspy.stored.contents import Contents

Result = TypeVar("Result")


@dataclass
class Work:
    """What the steps of a recipe share, and what the first of them found about the inputs."""

    session: Session | SingleCall
    """Whom they ask, for which configuration."""
    recipe: Any
    """The `dspy.Module` with the programs."""
    corpus: Searches
    """The documents, cut into chunks when they are first needed."""
    known: Known = NOTHING
    """What need not be asked again."""
    most: int | None = None
    """How many of the questions are taken; None: all."""
    reading: QueryReading = field(default_factory=lambda: QueryReading((), {}))
    """All questions, and how many were left out."""
    little_overlap: Mapping[str, float] = field(default_factory=dict)
    """Questions that use words that the corpus lacks, by id; see `check_overlap`."""
    groups: Groups | None = None
    """The documents of each query, and the sub-questions it came with, where it has its own."""

    @property
    def config(self) -> BuildConfig:
        """The configuration of the session."""
        return self.session.config

    def chunks(self, made: Contents, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Give chunks by their ids: of the corpus, or written by a step."""
        written = {one.chunk_id: one for one in made.passages}
        ids = list(dict.fromkeys(chunk_ids))
        found = self.corpus.chunks_by_id(id_ for id_ in ids if id_ not in written)
        return {id_: written[id_] if id_ in written else found[id_] for id_ in ids}


Step = Callable[[Work, Contents], Contents]
Stages = Sequence[Sequence[Step]]


def run_stages(work: Work, made: Contents, stages: Stages) -> Contents:
    """Run the steps of all stages, one after the other.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests of a stage were written down.
        ConfigError: A step gave something else than contents.
        FatalModelError: A step without which nothing can be made gave nothing.
    """
    for stage in stages:
        for step in stage:
            result: Any = step(work, made)
            if not isinstance(result, Contents):
                raise ConfigError(
                    f"step {step} returned {result!r:.80}; it must return the contents that it "
                    "was given, with its changes: replace(made, notes=…)"
                )
            made = result
        work.session.stop_if_deferred()
    return made


class _Answered(NamedTuple, Generic[Result]):
    """The records made of a reply, and what failed."""

    records: Result | None
    failure: Failure | None


def ask(
    session: Session | SingleCall,
    step: StepName,
    program: dspy.Module,
    questions: Sequence[Mapping[str, Any]],
    records: Callable[[Query, Any, str | None], Result],
) -> tuple[list[Result], list[Failure]]:
    """Run a program on the inputs of each question; one without a valid reply is a failure.

    Args:
        session: Whom it asks.
        step: The name that the calls are entered under.
        program: Of this package, or somebody's own.
        questions: The inputs of each, with its `query`.
        records: Makes the records of a query, a prediction, and the key of the reply that it names
            as `call_id`, or else of the last.

    Raises:
        ConfigError: A prediction lacks what the records are made of.
    """

    def answer(inputs: Mapping[str, Any]) -> _Answered[Result]:
        query = inputs["query"]
        try:
            with given_and_read(type(program).__name__) as replies:
                reply: Any = program(**inputs)
        except ReplyError as error:
            return _Answered(None, failure_of(query, step, error))
        call_id = replies[-1].id if replies else None
        try:
            own = reply.get("call_id", call_id)  # of the best of several, say
            return _Answered(records(query, reply, own), reply.get("failure"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise no_records(program, step, reply, error) from None

    answers = session.each(step, answer, questions)
    made = [answer.records for answer in answers if answer.records is not None]
    return made, [answer.failure for answer in answers if answer.failure is not None]


def no_records(program: dspy.Module, step: str, reply: Any, error: Exception) -> ConfigError:
    """Say that a user's program returned something that fits none of its records."""
    fault = first_fault(error) if isinstance(error, ValidationError) else error
    given = " ".join(repr(reply).split())
    return ConfigError(
        f"{type(program).__name__} of step {step!r} returned no valid records: {fault}; see "
        f"docs/your-own-step.md for what it must return; it returned {given:.200}"
    )


def by_query(records: Iterable[Any]) -> dict[str, list[Any]]:
    """Group records by their query."""
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups
