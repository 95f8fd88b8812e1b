"""Cut an accepted answer into nuggets."""

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Nugget, Query
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer


class Nuggetizer(dspy.Module):
    """From a question and its accepted answer to at most `limit` nuggets (FreshStack §3.3)."""

    def __init__(self, limit: int = 10) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(NuggetizeAnswer)

    def forward(self, query: Query) -> dspy.Prediction:
        """Nuggetize.

        Returns:
            A prediction with `nuggets`, a tuple of `Nugget`, most important first.

        Raises:
            ReplyError: The model gave no valid answer.
        """
        reply = self.predict(question=query.text, answer=query.answer, limit=self.limit)
        nuggets = tuple(
            Nugget(
                nugget_id=f"{query.query_id}_{number}",
                query_id=query.query_id,
                text=nugget.text.strip(),
                call_id=reply.call_id,
            )
            for number, nugget in enumerate(reply.nuggets)
        )
        return dspy.Prediction(nuggets=nuggets)
