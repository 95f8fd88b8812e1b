"""Texts to search with next to the question: sub-questions, and an answer from memory."""

from collections.abc import Sequence

import dspy

from freshstack_dspy.lm.typed import Program
from freshstack_dspy.records import Expansion, ExpansionKind, Query, as_query
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.expansion import AnswerClosedBook, DecomposeQuestion


class QuestionDecomposer(Program):
    """From a question, without its answer, to at most `limit` sub-questions (FreshStack §3.4)."""

    def __init__(self, limit: int = 5) -> None:
        super().__init__(DecomposeQuestion)
        self.limit = limit

    def forward(self, query: Query | str) -> dspy.Prediction:
        """Return a prediction with `expansion`, an `Expansion` of the sub-questions."""
        query = as_query(query)
        reply = self.ask(question=ShownQuestion.of(query), limit=self.limit)
        return _expansion(query, "sub_questions", reply.sub_questions, reply.call_id)


class ClosedBookAnswerer(Program):
    """From a question to a hypothetical answer (FreshStack §3.4; HyDE, arXiv 2212.10496)."""

    def __init__(self) -> None:
        super().__init__(AnswerClosedBook)

    def forward(self, query: Query | str) -> dspy.Prediction:
        """Return a prediction with `expansion`, an `Expansion` whose one text is the answer."""
        query = as_query(query)
        reply = self.ask(question=ShownQuestion.of(query))
        return _expansion(query, "closed_book_answer", [reply.answer], reply.call_id)


def _expansion(
    query: Query, kind: ExpansionKind, texts: Sequence[str], call_id: str
) -> dspy.Prediction:
    made = Expansion(query_id=query.query_id, kind=kind, texts=tuple(texts), call_id=call_id)
    return dspy.Prediction(expansion=made)
