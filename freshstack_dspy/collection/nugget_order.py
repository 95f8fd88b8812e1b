"""The nuggets of queries, in the order in which they were made.

A file of nuggets is in the order of their ids as text, where the tenth stands before the second.
"""

from collections.abc import Iterable

from freshstack_dspy.records import Nugget


def nuggets_by_query(nuggets: Iterable[Nugget]) -> dict[str, list[Nugget]]:
    """Give the nuggets of every query that has some, in the order in which they were made.

    The ids of a query's nuggets differ in a number at their ends: the shorter was given first.
    """
    groups: dict[str, list[Nugget]] = {}
    for nugget in sorted(nuggets, key=lambda one: (len(one.nugget_id), one.nugget_id)):
        groups.setdefault(nugget.query_id, []).append(nugget)
    return groups
