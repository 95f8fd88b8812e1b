"""Cut an accepted answer into nuggets."""

from typing import Any
import dspy
from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.programs.near_duplicates import with_near_duplicates
from freshstack_dspy.text import find_quotation
from freshstack_dspy.records import Failure
from freshstack_dspy.records import Nugget
from freshstack_dspy.records import Query
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer
from freshstack_dspy.signatures.nuggetize_answer import misquotations

class Nuggetizer(dspy.Module):
    """From a question and its accepted answer to at most `limit` nuggets (FreshStack §3.3)."""

    def __init__(self, limit: int = 10) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(NuggetizeAnswer)

    def forward(self, query: Query) -> dspy.Prediction:
        """Nuggetize.

        Returns:
            A prediction with `nuggets`, a tuple of `Nugget`, most important first, each with its
            place in the answer, and near-duplicates flagged; and with `failure`, a `Failure` if
            quotes do not stand in the answer. That is no reason to lose a query's nuggets: they
            are as good as others, but where they come from is not known, and counted as such.

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
                answer_span=find_quotation(nugget.quote, query.answer),
            )
            for number, nugget in enumerate(reply.nuggets)
        )
        return dspy.Prediction(
            nuggets=with_near_duplicates(nuggets), failure=_misquoted(query, reply)
        )


def _misquoted(query: Query, reply: Any) -> Failure | None:
    wrong = list(misquotations(reply.nuggets, query.answer))
    if not wrong:
        return None
    return Failure(
        query_id=query.query_id,
        step="nuggets",
        status="unparsed",
        message=f"{len(wrong)} of {len(reply.nuggets)} nuggets have no place in the answer: "
        + "; ".join(wrong),
        call_id=reply.call_id,
    )
