"""Reading what people said of the nuggets themselves."""

from collections.abc import Iterable
from pathlib import Path

from freshstack_dspy.collection.answers.keys import Keys, rows_of
from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import NuggetVerdict, ReadNuggets


def read_nugget_verdicts(paths: Iterable[Path]) -> tuple[ReadNuggets, ...]:
    """Read what people said of the nuggets of queries.

    A row: `{"annotator", "query_id", "nuggets": [{"nugget_id", "hallucinated", "redundant"}, …],
    "additional"}`: whether each nugget says what is not in the answer, whether it is minor or
    repeats another, and how many more nuggets all key ideas would take. The questions are those
    of FreshStack (arXiv 2504.13128), section 5.2.1; null is one that was not answered.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be,
            or an annotator read a query's nuggets twice, or a nugget stands twice.
    """
    keys = Keys()
    read = []
    for row in rows_of(paths):
        annotator, query = keys.take(row, "annotator")
        seen: set[str] = set()
        verdicts = []
        for each in row.inners("nuggets"):
            if (nugget := each.optional("nugget_id", "text")) is not None:
                if nugget in seen:
                    raise SourceError(f"{row.place}: nugget {shown(nugget)} stands twice; keep one")
                seen.add(nugget)
            verdicts.append(NuggetVerdict(_flag(each, "hallucinated"), _flag(each, "redundant")))
        read.append(ReadNuggets(annotator, query, tuple(verdicts), _additional(row)))
    return tuple(read)


def _flag(row: Row, name: str) -> bool | None:
    value = row.values.get(name)
    if name not in row.values or not (value is None or isinstance(value, bool)):
        raise row.fault(name, "true, false, or null where it was not answered")
    return value


def _additional(row: Row) -> int | None:
    if not row.has("additional"):
        raise row.fault("additional", "a whole number from 0, or null where it was not answered")
    if row.values["additional"] is None:
        return None
    return row.number_of("additional", 0)
