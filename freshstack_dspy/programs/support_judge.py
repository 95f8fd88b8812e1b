"""Judge which nuggets of a query a batch of chunks supports, in one call."""

from collections.abc import Sequence

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Chunk, Judgment, Nugget, Query
from freshstack_dspy.signatures.judge_support import JudgeSupport, NumberedChunk, NumberedNugget


class SupportJudge(dspy.Module):
    """From a query, all its nuggets and a batch of chunks to a judgment of every pair.

    One call costs n + k texts rather than the n x k of pairwise judging (FreshStack §3.5).
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
            Without nuggets or without chunks it is empty, and nothing is asked.

        Raises:
            ReplyError: The model gave no valid answer.
        """
        if not nuggets or not chunks:
            return dspy.Prediction(judgments=())
        reply = self.predict(
            question=query.text,
            nuggets=[
                NumberedNugget(number=number, text=nugget.text)
                for number, nugget in enumerate(nuggets, 1)
            ],
            chunks=[
                NumberedChunk(number=number, path=f"{chunk.source}/{chunk.path}", text=chunk.text)
                for number, chunk in enumerate(chunks, 1)
            ],
        )
        verdicts = {verdict.chunk: verdict for verdict in reply.verdicts}
        return dspy.Prediction(
            judgments=tuple(
                Judgment(
                    query_id=query.query_id,
                    nugget_id=nugget.nugget_id,
                    chunk_id=chunk.chunk_id,
                    label=int(nugget_number in verdicts[chunk_number].supported),
                    status="ok",
                    reason=verdicts[chunk_number].reason,
                    call_id=reply.call_id,
                )
                for chunk_number, chunk in enumerate(chunks, 1)
                for nugget_number, nugget in enumerate(nuggets, 1)
            )
        )
