"""Reading whether answers agree with those from gold chunks (LLM-retEval)."""

from collections.abc import Iterable
from pathlib import Path

from freshstack_dspy.collection.answers.keys import Keys, rows_of
from freshstack_dspy.collection.imports.rows import Row
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import ComparedAnswer

_DECIDED = "ok"


def read_agreement(paths: Iterable[Path]) -> tuple[ComparedAnswer, ...]:
    """Read the verdicts on answers.

    A row: `{"run_id", "query_id", "agrees", "reason"}`, with `agrees` true, false or null, or a
    list of these, one for each of `gold_answers`. Where nobody could say, `reason` says why, and
    `status` (beside `ok`) its kind. `answer` and other fields may stand there, and are not read.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be,
            or a run has two answers to a query.
    """
    keys = Keys()
    answers = []
    for row in rows_of(paths):
        run, query = keys.take(row)
        verdicts = _verdicts(row)
        status = row.optional("status")
        if status not in (None, _DECIDED) and verdicts != (None,):
            raise SourceError(
                f"{row.place}: status is {status[:80]!r}, and yet there is a verdict; allowed: "
                f"agrees null, or status {_DECIDED!r}"
            )
        kind = None if status == _DECIDED else status
        answers.append(ComparedAnswer(run, query, verdicts, row.optional("reason"), kind))
    return tuple(answers)


def _verdicts(row: Row) -> tuple[bool | None, ...]:
    if "agrees" not in row.values:
        raise row.fault("agrees", "true, false, null, or a list of these")
    value = row.values["agrees"]
    if value is None or isinstance(value, bool):
        return (value,)
    if not isinstance(value, list) or not all(
        each is None or isinstance(each, bool) for each in value
    ):
        raise row.fault("agrees", "true, false, null, or a list of these")
    gold = len(row.texts("gold_answers")) if row.has("gold_answers") else len(value)
    if not value or len(value) != gold:
        raise SourceError(
            f"{row.place}: agrees has {len(value)} verdicts for {gold} gold answers; give one for "
            "each, or a single one"
        )
    return tuple(value)
