"""Rate the importance of nuggets."""

from collections.abc import Sequence

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Nugget, Query
from freshstack_dspy.signatures.judge_support import NumberedNugget
from freshstack_dspy.signatures.rate_importance import RateImportance


class ImportanceRater(dspy.Module):
    """From the nuggets of a question to the same, each vital or okay (nuggetizer; TREC RAG 2024).

    As there the rater sees the question and the nuggets, and neither the answer nor documents; all
    nuggets of a question are rated in one call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.predict = TypedPredict(RateImportance)

    def forward(self, query: Query, nuggets: Sequence[Nugget]) -> dspy.Prediction:
        """Rate.

        Returns:
            A prediction with `nuggets`, the same in the same order, with `importance` and
            `importance_call_id`. Nothing is asked where there are none.
        """
        if not nuggets:
            return dspy.Prediction(nuggets=())
        numbered = [
            NumberedNugget(number=number, text=nugget.text)
            for number, nugget in enumerate(nuggets, 1)
        ]
        reply = self.predict(question=query.text, nuggets=numbered)
        importance = {rating.nugget: rating.importance for rating in reply.ratings}
        return dspy.Prediction(
            nuggets=tuple(
                nugget.model_copy(
                    update={
                        "importance": importance[number],
                        "importance_call_id": reply.call_id,
                    }
                )
                for number, nugget in enumerate(nuggets, 1)
            )
        )
