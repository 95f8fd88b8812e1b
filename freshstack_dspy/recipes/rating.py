"""Rating: which nuggets are asked about for their importance, and what comes of it."""

from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Failure, Nugget, Query


class ToRate(NamedTuple):
    """All nuggets of a query."""

    query: Query
    nuggets: Sequence[Nugget]


class Rated(NamedTuple):
    """All nuggets, rated as far as they could be, and what failed."""

    nuggets: tuple[Nugget, ...]
    failures: tuple[Failure, ...]


def to_rate(
    recipe: FreshStack, queries: Sequence[Query], nuggets: Sequence[Nugget]
) -> list[ToRate]:
    """List what is asked: one call for each query with a nugget that is not rated.

    Args:
        recipe: With a rater, or without one: nothing is asked then.
        queries: All of them.
        nuggets: Of all queries.
    """
    if recipe.importance_rater is None:
        return []
    nuggets_of: dict[str, list[Nugget]] = {}
    for nugget in nuggets:
        nuggets_of.setdefault(nugget.query_id, []).append(nugget)
    return [
        ToRate(query, nuggets_of[query.query_id])
        for query in queries
        if any(one.importance is None for one in nuggets_of.get(query.query_id, []))
    ]


def rate(
    recipe: FreshStack, session: Session, queries: Sequence[Query], nuggets: Sequence[Nugget]
) -> Rated:
    """Have nuggets rated, in the step `importance`; without a rater they stay as they are.

    Args:
        recipe: With the rater.
        session: Asks, with progress and account.
        queries: All of them.
        nuggets: Of all queries.

    Returns:
        The nuggets in the order given; one whose rating failed has no importance.

    Raises:
        BudgetError: The budget is used up.
    """
    asked = to_rate(recipe, queries, nuggets)
    if not asked:
        return Rated(tuple(nuggets), ())
    replies = session.each("importance", lambda one: recipe.importance_of(*one), asked)
    rated = {nugget.nugget_id: nugget for reply in replies for nugget in reply.nuggets}
    return Rated(
        tuple(rated.get(nugget.nugget_id, nugget) for nugget in nuggets),
        tuple(reply.failure for reply in replies if reply.failure is not None),
    )
