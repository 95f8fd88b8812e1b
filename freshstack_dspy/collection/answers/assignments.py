"""Reading the assignments of nuggets to answers.

Source: castorini/nuggetizer v0.0.6, `nuggetizer assign --input-kind answers`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from freshstack_dspy.collection.answers.keys import Keys, rows_of
from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import (
    NOT_RETRIEVED,
    AnswerAssignments,
    NuggetAssignment,
)
from freshstack_dspy.records import Assignment, Importance

_IMPORTANCE: tuple[Importance, ...] = get_args(Importance)
_ASSIGNMENTS: tuple[Assignment, ...] = get_args(Assignment)
_FAILED = "failed"


def read_assignments(
    paths: Iterable[Path], *, rated_only: bool = True
) -> tuple[AnswerAssignments, ...]:
    """Read which nuggets of its query each answer supports.

    A row: `{"qid", "run_id", "nuggets": [{"text", "importance", "assignment"}, …]}`. A nugget is
    known by its `nugget_id` or, without one, its text. An assignment that is null or not there is
    missing. An importance that is null, `failed`, or has `"rated": false` beside it, is unknown.
    Where `status` is `not_retrieved`, there was nothing to answer from, and nothing was assigned.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.
        rated_only: Whether `rated` is looked at. nuggetizer does not know it: a nugget that was not
            rated is written as `vital` for it, and so it counts it.

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
        nuggets = tuple(_nuggets(row, rated_only=rated_only))
        answered = row.values.get("status") != NOT_RETRIEVED
        answers.append(AnswerAssignments(run, query, nuggets, None if answered else NOT_RETRIEVED))
    return tuple(answers)


def _nuggets(row: Row, *, rated_only: bool) -> Iterable[NuggetAssignment]:
    known: set[str] = set()
    for each in row.inners("nuggets"):
        nugget = each.optional("nugget_id") or each.text("text")
        if nugget in known:
            raise SourceError(f"{row.place}: nugget {shown(nugget)} stands twice; keep one")
        known.add(nugget)
        yield NuggetAssignment(nugget, _importance(each, rated_only), _assignment(each))


def _importance(row: Row, rated_only: bool) -> Importance | None:
    unrated = rated_only and not row.values.get("rated", True)
    value = None if unrated else row.optional("importance")
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
