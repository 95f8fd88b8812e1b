"""Which nuggets of its query an answer supports, asked of the judge of the configuration."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.collection.exports.nuggetizer import assignment
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judging.judge_calls import ToJudge, judge_calls
from freshstack_dspy.recipes.judging.voting import merged
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Answer,
    AnsweringFailure,
    AssignedAnswer,
    AssignedNugget,
    Chunk,
    Judgment,
    Nugget,
    Query,
    Scale,
)

_UNFIT = (
    "the question with its nuggets leaves no room for an answer in the model's window: take a model "
    "with a larger one, say with [model] context what really fits, or lower [model] max_tokens"
)
"""Answers are judged in one call whatever `[judge] shape` is, so that no shape would help."""


class Assigned(NamedTuple):
    """What came of it: one for each answer, in their order, and what failed."""

    answers: tuple[AssignedAnswer, ...]
    failures: tuple[AnsweringFailure, ...]


def assign(
    config: BuildConfig,
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
) -> Assigned:
    """Hold answers against the nuggets of their queries, in the step `assignment`.

    An answer is judged as if it were a chunk: one call with all nuggets, once, whatever shape and
    votes `[judge]` says; one that does not fit into the model's window takes several. An answer
    that says that there is none supports nothing, and nobody is asked. Of one that failed, or that
    there is not because its run retrieved nothing, every nugget is `failed`.

    Args:
        config: With the judge.
        session: Asks, with progress and account.
        answers: From whatever contexts; of a run at most one for each query.
        queries: By id.
        nuggets: By query id.

    Raises:
        BudgetError: The budget is used up.
        ConfigError: The longest reply leaves no room for a prompt.
    """
    once = config.judge.model_copy(update={"shape": "batch", "votes": 1, "shuffle": None})
    recipe = FreshStack(config)
    pairs = [
        ToJudge(queries[one.topic_id], nuggets[one.topic_id], [_as_chunk(one)])
        for one in answers
        if one.is_answered
    ]
    calls = judge_calls(
        config.model_copy(update={"judge": once}), recipe.support_judge, pairs, step="assignment"
    )
    fitting = [call._replace(unfit=call.unfit and _UNFIT) for call in calls]
    batches = session.each("assignment", recipe.judged, fitting)
    said = {(one.chunk_id, one.nugget_id): one for one in merged(batches, 1)}
    scale = config.judge.graded
    return Assigned(
        tuple(
            _assigned(one, queries[one.topic_id], nuggets[one.topic_id], said, scale)
            for one in answers
        ),
        tuple(
            AnsweringFailure.model_validate(
                {
                    **dict(batch.failure),
                    "chunk_ids": (),
                    "run_id": batch.call.passages[0].chunk.chunk_id,
                }
            )
            for batch in batches
            if batch.failure is not None
        ),
    )


def _assigned(
    answer: Answer,
    query: Query,
    nuggets: Sequence[Nugget],
    said: Mapping[tuple[str, str], Judgment],
    scale: Scale,
) -> AssignedAnswer:
    return AssignedAnswer(
        query=query.text,
        qid=query.query_id,
        answer_text=answer.text,
        response_length=answer.response_length,
        run_id=answer.run_id,
        nuggets=tuple(
            _nugget(nugget, answer, said.get((answer.run_id, nugget.nugget_id)), scale)
            for nugget in nuggets
        ),
        status=answer.status,
    )


def _nugget(
    nugget: Nugget, answer: Answer, judged: Judgment | None, scale: Scale
) -> AssignedNugget:
    """A nugget with nuggetizer's word for what the judge said, or what is plain without it."""
    if judged is not None:
        label, reason, call_id = judged.label, judged.reason, judged.call_id
    elif answer.status == "ok":
        label, reason, call_id = 0, "there is no answer", None
    elif answer.status == "not_retrieved":
        label, reason, call_id = None, "nothing was retrieved to answer from", None
    else:
        label, reason, call_id = None, "the answer failed", None
    return AssignedNugget(
        text=nugget.text,
        importance=nugget.importance or "vital",
        assignment=assignment(label, scale),
        nugget_id=nugget.nugget_id,
        rated=nugget.importance is not None,
        label=label,
        reason=reason,
        call_id=call_id,
    )


def _as_chunk(answer: Answer) -> Chunk:
    """The answer as the judge is shown it: equal answers of two runs are the same question."""
    return Chunk(
        chunk_id=answer.run_id,  # not shown to the judge; with the nugget it names the answer
        source="model",
        path="answer",
        start_byte=0,
        end_byte=max(1, len(answer.text.encode())),
        text=answer.text,
        tokens=0,
    )
