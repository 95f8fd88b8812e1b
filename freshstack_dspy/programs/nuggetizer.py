"""Cut an accepted answer into nuggets, and flag near-duplicates among them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.records import Failure, Nugget, Query
from freshstack_dspy.signatures.nuggetize_answer import NuggetizeAnswer, misquotations
from freshstack_dspy.text import denies, find_quotation, jaccard, terms


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
        failure = None
        if wrong := misquotations(reply.nuggets, query.answer):
            failure = Failure(
                query_id=query.query_id,
                step="nuggets",
                status="unparsed",
                message=f"{len(wrong)} of {len(nuggets)} nuggets have no place in the answer: "
                + "; ".join(wrong),
                call_id=reply.call_id,
            )
        return dspy.Prediction(nuggets=with_near_duplicates(nuggets), failure=failure)


NEARLY_THE_SAME = 0.8
"""From which Jaccard index of their terms on two nuggets state nearly the same."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*")


class _Statement(NamedTuple):
    nugget: Nugget
    terms: frozenset[str]
    numbers: frozenset[str]
    denies: bool


def with_near_duplicates(nuggets: Sequence[Nugget]) -> tuple[Nugget, ...]:
    """Flag each nugget that states nearly the same as an earlier one of its query.

    Two nuggets do if the Jaccard index of their terms (`freshstack_dspy.text`) is 0.8 or more,
    they name the same numbers, and both or neither deny something: in a long sentence one number,
    or one `not`, changes few terms and the whole meaning.

    Args:
        nuggets: Of one or several queries, each query's in their order.

    Returns:
        The same nuggets, each with `duplicate_of` as the earliest such nugget, or None.
    """
    statements = [
        _Statement(
            nugget,
            frozenset(terms(nugget.text)),
            frozenset(_NUMBER.findall(nugget.text)),
            denies(nugget.text),
        )
        for nugget in nuggets
    ]
    flagged = []
    for place, statement in enumerate(statements):
        same = (one for one in statements[:place] if _nearly_the_same(one, statement))
        first = next((one.nugget.nugget_id for one in same), None)
        flagged.append(statement.nugget.model_copy(update={"duplicate_of": first}))
    return tuple(flagged)


def _nearly_the_same(one: _Statement, other: _Statement) -> bool:
    return (
        one.nugget.query_id == other.nugget.query_id
        and one.numbers == other.numbers
        and one.denies == other.denies
        and jaccard(one.terms, other.terms) >= NEARLY_THE_SAME
    )
