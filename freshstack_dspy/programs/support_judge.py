"""Judge which nuggets of a query the chunks of a batch support, together."""

from collections.abc import Sequence
from typing import Any

import dspy

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.typed.targeted import IncompleteReplyError
from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.programs.failed import failure_of
from freshstack_dspy.records import Chunk, Failure, Judgment, Nugget, Query
from freshstack_dspy.signatures.judge_support import (
    ChunkVerdict,
    JudgeSupport,
    NumberedChunk,
    NumberedNugget,
)


class SupportJudge(dspy.Module):
    """From a query, all its nuggets and a batch of chunks to a judgment of every pair.

    One call costs n + k texts rather than the n x k of pairwise judging (FreshStack §3.5); chunks
    that a reply leaves out are asked about again by themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self.predict = TypedPredict(JudgeSupport)

    def forward(
        self, query: Query, nuggets: Sequence[Nugget], chunks: Sequence[Chunk]
    ) -> dspy.Prediction:
        """Judge.

        Returns:
            A prediction with `judgments`, a tuple of `Judgment`: for each chunk, in the given
            order, each nugget, with label 1 (supported) or 0 and the reason given for the chunk.
            Chunks that every reply left out have judgments without a label, and `failure` says
            so; it is None otherwise. Without nuggets or chunks nothing is asked.

        Raises:
            ReplyError: The model gave no valid answer.
        """
        if not nuggets or not chunks:
            return dspy.Prediction(judgments=(), failure=None)
        try:
            outputs, error = self._ask(query, nuggets, chunks), None
        except IncompleteReplyError as incomplete:
            outputs, error = incomplete.outputs, incomplete
        said = {
            verdict.chunk: (verdict, call_id)
            for verdict, call_id in zip(outputs["verdicts"], outputs["call_ids"], strict=True)
        }
        judgments: list[Judgment] = []
        for number, chunk in enumerate(chunks, 1):
            if number in said:
                judgments += _judged(query, nuggets, chunk, *said[number])
            elif error is not None:
                judgments += unjudged(query, nuggets, chunk, error)
        left_out = [chunk for number, chunk in enumerate(chunks, 1) if number not in said]
        failure = failure_of(query, "support", error, left_out) if error is not None else None
        return dspy.Prediction(judgments=tuple(judgments), failure=failure)

    def _ask(self, query: Query, nuggets: Sequence[Nugget], chunks: Sequence[Chunk]) -> Any:
        return self.predict(
            question=query.text,
            nuggets=[
                NumberedNugget(number=number, text=nugget.text)
                for number, nugget in enumerate(nuggets, 1)
            ],
            chunks=[
                NumberedChunk(number=number, path=f"{chunk.source}/{chunk.path}", text=chunk.passage)
                for number, chunk in enumerate(chunks, 1)
            ],
        )


def unjudged(
    query: Query, nuggets: Sequence[Nugget], chunk: Chunk, error: ReplyError
) -> list[Judgment]:
    """The judgments of a chunk that nothing valid was said of: they have no labels."""
    return [
        Judgment(
            query_id=query.query_id,
            nugget_id=nugget.nugget_id,
            chunk_id=chunk.chunk_id,
            label=None,
            status=error.status,
            reason=str(error),
            call_id=error.call_id,
        )
        for nugget in nuggets
    ]


def _judged(
    query: Query, nuggets: Sequence[Nugget], chunk: Chunk, verdict: ChunkVerdict, call_id: str
) -> list[Judgment]:
    return [
        Judgment(
            query_id=query.query_id,
            nugget_id=nugget.nugget_id,
            chunk_id=chunk.chunk_id,
            label=int(number in verdict.supported),
            status="ok",
            reason=verdict.reason,
            call_id=call_id,
        )
        for number, nugget in enumerate(nuggets, 1)
    ]
