"""Say whether an answer agrees with one of several reference answers."""

from collections.abc import Sequence
from typing import Any

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Query
from freshstack_dspy.signatures.compare_answers import CompareAnswers, ReferenceAnswer


class AnswerComparer(dspy.Module):
    """From a question, its reference answers and another answer to yes or no.

    LLM-retEval's third step (Alinejad, Kumar and Vahdat, arXiv 2406.06458, §2.2): all references in
    one call, and agreeing with any of them is enough.

    The paper's question (Appendix A, Figure 3) asks whether all information of a reference is in
    the prediction; it was written for answers of five tokens. For answers of several sentences ours
    asks whether what answers the question is the same, and for a reason.
    """

    def __init__(self) -> None:
        super().__init__()
        self.predict = TypedPredict(CompareAnswers)

    def forward(self, query: Query, references: Sequence[str], answer: str) -> dspy.Prediction:
        """Compare; the query's own answer is not shown.

        Returns:
            A prediction with `agrees`, True or False, `reason` and `call_id`.
        """
        reply = self.predict(**comparer_inputs(query, references, answer))
        return dspy.Prediction(
            agrees=reply.agrees == "yes", reason=reply.reason, call_id=reply.call_id
        )


def comparer_inputs(query: Query, references: Sequence[str], answer: str) -> dict[str, Any]:
    """The question that a comparer is asked: numbers are those of the places, from 1."""
    return {
        "question": query.text,
        "references": [
            ReferenceAnswer(number=number, text=text) for number, text in enumerate(references, 1)
        ],
        "answer": answer,
    }
