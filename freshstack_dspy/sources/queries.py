"""The queries of a build: read, filtered, put in order, and every rejection counted."""

from collections import Counter
from typing import NamedTuple

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.records import Query
from freshstack_dspy.sources.jsonl import read_jsonl
from freshstack_dspy.sources.selection import Selection, id_order
from freshstack_dspy.sources.stackexchange import read_stackexchange


class QueryReading(NamedTuple):
    """What was read, and what was left out."""

    queries: tuple[Query, ...]
    """In the order of `id_order`."""
    rejected: dict[str, int]
    """How many questions were left out, by reason; each question counts once, under the first
    reason that holds."""


def read_queries(config: QueriesConfig) -> QueryReading:
    """Read the questions that have an accepted answer and pass the filters.

    Numeric ids come first, by number; other ids follow in code point order. `limit` keeps the
    first in that order and counts the others as rejected.

    Raises:
        ConfigError: `since`, `until` or `site` cannot be understood.
        SourceError: The file is missing, damaged, hostile or not of the kind that
            `config.source` names.
    """
    rejected: Counter[str] = Counter()
    selection = Selection.of(config)
    if config.source == "stackexchange":
        queries = read_stackexchange(config, selection, rejected)
    else:
        queries = read_jsonl(config.path, selection, rejected)
    queries.sort(key=lambda query: id_order(query.query_id))
    kept = queries[: config.limit]
    rejected["beyond limit"] += len(queries) - len(kept)
    return QueryReading(tuple(kept), {key: rejected[key] for key in sorted(+rejected)})
