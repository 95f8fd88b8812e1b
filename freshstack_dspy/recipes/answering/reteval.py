"""The recipe LLM-retEval for one query, as a DSPy module (arXiv 2406.06458 §2).

`forward` runs all steps for one query and one context; `answering.py` runs the same steps for
many queries and runs, a step at a time.
"""

from collections.abc import Sequence

import dspy

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.programs.answer_comparer import AnswerComparer
from freshstack_dspy.programs.answer_generator import AnswerGenerator
from freshstack_dspy.programs.failed import failure_of
from freshstack_dspy.recipes.answering.comparing import ToCompare, agreement, failed_status, settled
from freshstack_dspy.recipes.answering.contexts import GOLD, Context
from freshstack_dspy.records import Agreement, Answer, AnsweringFailure, Chunk, Query, Step


class LLMRetEval(dspy.Module):
    """The same generator answers from two contexts, and a comparer says whether it agrees."""

    def __init__(self) -> None:
        super().__init__()
        self.answer_generator = AnswerGenerator()
        self.answer_comparer = AnswerComparer()

    def forward(
        self, query: Query, retrieved: Sequence[Chunk], gold: Sequence[Chunk], run_id: str = "run"
    ) -> dspy.Prediction:
        """Run every step for one query.

        All chunks are shown as they are: nothing is left out to fit the model's window, as
        `answer_from_runs` does with `Packing`; a prompt that is too long is refused by the model.

        Args:
            query: What is asked.
            retrieved: What a retriever found for it, the best first; where it is empty nobody is
                asked, and the status of the agreement is `not_retrieved`.
            gold: What an ideal retriever would have found.
            run_id: What the retriever is called.

        Returns:
            A prediction with `answer` and `gold_answer` (`Answer`) and `agreement` (`Agreement`).

        Raises:
            ReplyError: The model gave no valid answer in one of the steps.
        """
        answer = self.answer_generator(query=query, chunks=retrieved, run_id=run_id).answer
        gold_answer = self.answer_generator(query=query, chunks=gold, run_id=GOLD).answer
        asked = ToCompare(query, answer, [gold_answer] if gold else [])
        return dspy.Prediction(
            answer=answer,
            gold_answer=gold_answer,
            agreement=settled(asked) or self._compared(asked),
        )

    def answered(self, context: Context) -> Answer | AnsweringFailure:
        """The answer from a context, or why there is none."""
        if context.is_withheld:
            return _failed(context, ReplyError(_withheld(context), status="failed", call_id=None))
        try:
            answer: Answer = self.answer_generator(
                query=context.query,
                chunks=context.chunks,
                run_id=context.run_id,
                sample=context.sample,
                temperature=context.temperature,
            ).answer
        except ReplyError as error:
            return _failed(context, error)
        return answer.model_copy(update={"omitted": context.omitted})

    def compared(self, asked: ToCompare) -> Agreement | AnsweringFailure:
        """Whether an answer agrees with a gold one, or why that could not be said."""
        if asked.unfit is not None:
            return _uncompared(asked, ReplyError(asked.unfit, status="failed", call_id=None))
        try:
            return self._compared(asked)
        except ReplyError as error:
            return _uncompared(asked, error)

    def _compared(self, asked: ToCompare) -> Agreement:
        said = self.answer_comparer(
            query=asked.query, references=asked.references, answer=asked.answer.text
        )
        failed = asked.failed
        if failed is not None and not said.agrees:
            return agreement(
                asked,
                status=failed_status(failed),
                reason="it agrees with no gold answer, and one of them failed",
                call_id=said.call_id,
            )
        return agreement(asked, agrees=said.agrees, reason=said.reason, call_id=said.call_id)


def _failed(context: Context, error: ReplyError) -> AnsweringFailure:
    step: Step = "gold_answer" if context.run_id == GOLD else "answer"
    failure = failure_of(context.query, step, error)
    return AnsweringFailure.model_validate(
        {**dict(failure), "run_id": context.run_id, "sample": context.sample}
    )


def _uncompared(asked: ToCompare, error: ReplyError) -> AnsweringFailure:
    failure = failure_of(asked.query, "comparison", error)
    return AnsweringFailure.model_validate({**dict(failure), "run_id": asked.answer.run_id})


def _withheld(context: Context) -> str:
    if all(one.reason == "no_text" for one in context.omitted):
        return f"none of the {len(context.omitted)} chunks of the context has a text"
    return (
        f"none of the {len(context.omitted)} chunks of the context fits beside the question into "
        "the model's window: take a model with a larger one, say with [model] context what really "
        "fits, or lower [model] max_tokens"
    )
