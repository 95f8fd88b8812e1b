"""Answer a question from the model's memory, to search with the answer (HyDE)."""

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Expansion, Query
from freshstack_dspy.signatures.answer_closed_book import AnswerClosedBook


class ClosedBookAnswerer(dspy.Module):
    """From a question to a hypothetical answer (FreshStack §3.4; HyDE, arXiv 2212.10496)."""

    def __init__(self) -> None:
        super().__init__()
        self.predict = TypedPredict(AnswerClosedBook)

    def forward(self, query: Query) -> dspy.Prediction:
        """Answer.

        Returns:
            A prediction with `expansion`, an `Expansion` whose one text is the answer.
        """
        reply = self.predict(question=query.text)
        return dspy.Prediction(
            expansion=Expansion(
                query_id=query.query_id,
                kind="closed_book_answer",
                texts=(reply.answer,),
                call_id=reply.call_id,
            )
        )
