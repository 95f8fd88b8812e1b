"""Break a question into sub-questions to search with."""

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Expansion, Query
from freshstack_dspy.signatures.decompose_question import DecomposeQuestion


class QuestionDecomposer(dspy.Module):
    """From a question, without its answer, to at most `limit` sub-questions (FreshStack §3.4)."""

    def __init__(self, limit: int = 5) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(DecomposeQuestion)

    def forward(self, query: Query) -> dspy.Prediction:
        """Decompose.

        Returns:
            A prediction with `expansion`, an `Expansion` whose texts are the sub-questions.
        """
        reply = self.predict(question=query.text, limit=self.limit)
        return dspy.Prediction(
            expansion=Expansion(
                query_id=query.query_id,
                kind="sub_questions",
                texts=tuple(reply.sub_questions),
                call_id=reply.call_id,
            )
        )
