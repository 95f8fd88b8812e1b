"""Cut an accepted answer into nuggets, and flag near-duplicates among them."""

import functools
from collections.abc import Sequence
from typing import Any

from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.records import Failure, Nugget, Query
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer, misquotations
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.text import denies, find_quotation, jaccard, numbers, terms


class Nuggets(Prediction):
    """The nuggets of an answer."""

    nuggets: tuple[Nugget, ...]
    """Most important first, each with its place in the answer, its importance, and doubtful ones
    and near-duplicates flagged; empty where the answer states no fact."""
    failure: Failure | None
    """Says which quotes are not in the answer: those nuggets count, but have no place."""


class Nuggetizer(Program):
    """From a question and its accepted answer to at most `limit` nuggets (FreshStack §3.3)."""

    def __init__(self, limit: int = 10) -> None:
        super().__init__(NuggetizeAnswer)
        self.limit = limit

    def forward(self, query: Query) -> Nuggets:
        """Nuggetize the query's answer."""
        reply = self.ask(question=ShownQuestion.of(query), answer=query.answer, limit=self.limit)
        nuggets = tuple(
            nugget_of(
                query,
                number,
                nugget.text,
                reply.call_id,
                answer_span=find_quotation(nugget.quote, query.answer),
                importance=nugget.importance,
                doubtful=nugget.doubtful,
            )
            for number, nugget in enumerate(reply.nuggets)
        )
        failure = None
        placed = all(nugget.answer_span for nugget in nuggets)
        if wrong := [] if placed else misquotations(reply.nuggets, query.answer):
            failure = Failure(
                query_id=query.query_id,
                step="nuggets",
                status="unparsed",
                message=f"{len(wrong)} of {len(nuggets)} nuggets have no place in the answer: "
                + "; ".join(wrong),
                call_id=reply.call_id,
            )
        return Nuggets(nuggets=with_near_duplicates(nuggets), failure=failure)


def nugget_of(query: Query, number: int, text: str, call_id: str | None, **more: Any) -> Nugget:
    """A nugget that a model wrote for a query; they are numbered from 0."""
    nugget_id = f"{query.query_id}_{number}"
    return Nugget(
        nugget_id=nugget_id, query_id=query.query_id, text=text.strip(), call_id=call_id, **more
    )


NEARLY_THE_SAME = 0.8
"""From which Jaccard index of their terms on two nuggets state nearly the same."""


def with_near_duplicates(nuggets: Sequence[Nugget]) -> tuple[Nugget, ...]:
    """Flag each nugget that states nearly the same as an earlier one of its query.

    Two nuggets do if the Jaccard index of their terms (`freshstack_dspy.text`) is 0.8 or more,
    they name the same numbers, and both or neither deny something: in a long sentence one number,
    or one `not`, changes few terms and the whole meaning.

    Returns:
        The same nuggets, each with `duplicate_of` as the earliest such nugget, or None.
    """
    flagged = []
    by_query: dict[str, list[Nugget]] = {}
    for nugget in nuggets:
        earlier = by_query.setdefault(nugget.query_id, [])
        same = (
            other.nugget_id
            for other in earlier
            if likeness(other.text, nugget.text) >= NEARLY_THE_SAME
        )
        first = next(same, None)
        is_flagged = nugget.duplicate_of == first
        flagged.append(nugget if is_flagged else nugget.model_copy(update={"duplicate_of": first}))
        earlier.append(nugget)
    return tuple(flagged)


def likeness(text: str, other: str) -> float:
    """How alike two nuggets are: the Jaccard index of their terms, as in `with_near_duplicates`.

    It is 0 where they name different numbers, or one denies something and the other does not.
    """
    (*stated, held), (*others, holds) = _traits(text), _traits(other)
    return jaccard(held, holds) if stated == others else 0.0


@functools.lru_cache(maxsize=256)
def _traits(text: str) -> tuple[frozenset[str], bool, frozenset[str]]:
    return frozenset(numbers(text)), denies(text), frozenset(terms(text))
