"""Reading the assignments of nuggets to answers.

Source: castorini/nuggetizer v0.0.6, `nuggetizer assign --input-kind answers`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from freshstack_dspy.collection.answers.keys import Keys, rows_of
from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import AnswerAssignments, NuggetAssignment
from freshstack_dspy.records import Assignment, Importance

_IMPORTANCE: tuple[Importance, ...] = get_args(Importance)
_ASSIGNMENTS: tuple[Assignment, ...] = get_args(Assignment)
_FAILED = "failed"


def read_assignments(paths: Iterable[Path]) -> tuple[AnswerAssignments, ...]:
    """Read which nuggets of its query each answer supports.

    A row: `{"qid", "run_id", "nuggets": [{"text", "importance", "assignment"}, …]}`. A nugget is
    known by its `nugget_id` or, without one, its text. An assignment that is null or not there is
    missing. An importance that is null, `failed`, or has `"rated": false` beside it, is unknown.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be,
            or a run has two answers to a query, or an answer a nugget twice.
    """
    keys = Keys()
    answers = []
    for row in rows_of(paths):
        if row.has("docid") and not row.has("run_id"):
            raise SourceError(
                f"{row.place}: an assignment to a passage, and not to an answer; read it with: "
                "freshstack import nuggetizer"
            )
        run, query = keys.take(row)
        answers.append(AnswerAssignments(run, query, tuple(_nuggets(row))))
    return tuple(answers)


def _nuggets(row: Row) -> Iterable[NuggetAssignment]:
    known: set[str] = set()
    for each in row.inners("nuggets"):
        nugget = each.optional("nugget_id") or each.text("text")
        if nugget in known:
            raise SourceError(f"{row.place}: nugget {shown(nugget)} stands twice; keep one")
        known.add(nugget)
        yield NuggetAssignment(nugget, _importance(each), _assignment(each))


def _importance(row: Row) -> Importance | None:
    value = row.optional("importance") if row.values.get("rated", True) else None
    if value is None or value == _FAILED:
        return None
    if value not in _IMPORTANCE:
        raise row.fault("importance", f"{', '.join(_IMPORTANCE)} or {_FAILED}")
    return value


def _assignment(row: Row) -> Assignment | None:
    value = row.values.get("assignment")
    if value is None or (isinstance(value, str) and value in _ASSIGNMENTS):
        return value
    raise row.fault("assignment", f"{', '.join(_ASSIGNMENTS)} or null")
