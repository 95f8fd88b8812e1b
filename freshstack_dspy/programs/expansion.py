"""Texts to search with next to the question: sub-questions, and an answer from memory."""

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Expansion, Query
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.expansion import AnswerClosedBook, DecomposeQuestion


class QuestionDecomposer(dspy.Module):
    """From a question, without its answer, to at most `limit` sub-questions (FreshStack §3.4)."""

    def __init__(self, limit: int = 5) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(DecomposeQuestion)

    def forward(self, query: Query) -> dspy.Prediction:
        """Return a prediction with `expansion`, an `Expansion` of the sub-questions."""
        reply = self.predict(question=ShownQuestion.of(query), limit=self.limit)
        return dspy.Prediction(
            expansion=Expansion(
                query_id=query.query_id,
                kind="sub_questions",
                texts=tuple(reply.sub_questions),
                call_id=reply.call_id,
            )
        )


class ClosedBookAnswerer(dspy.Module):
    """From a question to a hypothetical answer (FreshStack §3.4; HyDE, arXiv 2212.10496)."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = TypedPredict(AnswerClosedBook)

    def forward(self, query: Query) -> dspy.Prediction:
        """Return a prediction with `expansion`, an `Expansion` whose one text is the answer."""
        reply = self.predict(question=ShownQuestion.of(query))
        return dspy.Prediction(
            expansion=Expansion(
                query_id=query.query_id,
                kind="closed_book_answer",
                texts=(reply.answer,),
                call_id=reply.call_id,
            )
        )
