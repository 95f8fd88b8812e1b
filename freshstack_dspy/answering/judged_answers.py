"""Reading files of judged answers: verdicts, assigned nuggets, labelled citations.

Files are JSON Lines (also gzip), JSON or Parquet. Every function raises a `SourceError` with file
and line if something is missing or not what it should be, or if an answer is there twice.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from freshstack_dspy.answering.scores import (
    ALL,
    NOT_RETRIEVED,
    agrees_with_any,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.records import (
    Agreement,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    CheckedAnswer,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
)
from freshstack_dspy.rows import Row, importance_of, read_rows

_RUN = ("run_id", "run", "runtag")
_QUERY = ("query_id", "qid", "topic_id", "narrative_id")
_SUPPORT: dict[object, Literal[-1, 0, 1, 2]] = {
    0: 0, 1: 1, 2: 2, -1: -1, "0": 0, "1": 1, "2": 2, "-1": -1, None: -1,
}  # fmt: skip


def read_agreement(paths: Iterable[Path]) -> tuple[Agreement, ...]:
    """Read verdicts on whether answers agree with answers from gold chunks (LLM-retEval).

    A row is `{"run_id", "query_id", "agrees", "reason"}`, with `agrees` true, false or null, or a
    list of these, one for each of `gold_answers`. If there is no verdict, `reason` says why, and
    `status` (other than `ok`) gives the kind of failure.
    """
    answers = []
    for row, run, query in _rows(paths):
        verdicts = _verdicts(row)
        status = "" if row.values.get("status") == "ok" else row.text("status", default="")
        if status and verdicts != (None,):
            raise row.fault("status", "ok where there is a verdict")
        agrees = agrees_with_any(verdicts)
        answers.append(
            Agreement(
                run_id=run,
                query_id=query,
                agrees=agrees,
                status=status if agrees is None else "ok",
                reason=row.text("reason", default=""),
            )
        )
    return tuple(answers)


def read_assignments(paths: Iterable[Path]) -> tuple[AssignedAnswer, ...]:
    """Read which nuggets of its query each answer supports.

    A row is `{"qid", "run_id", "nuggets": [{"text", "importance", "assignment"}, …]}`. A nugget is
    identified by its `nugget_id` or, without one, by its text. A null assignment counts as missing.
    An importance is unknown if it is null or `failed`, or if the nugget has `"rated": false`. The
    `status` `not_retrieved` means that there was nothing to answer from.
    """
    answers = []
    for row, run, query in _rows(paths):
        nuggets = []
        for each in _once(row, "nuggets", "nugget_id", "text"):
            text, importance = each.text("text", default=""), importance_of(each)
            assigned = each.values.get("assignment")
            if assigned is not None and assigned not in get_args(Assignment):
                raise each.fault("assignment", f"{', '.join(get_args(Assignment))} or null")
            nuggets.append(
                AssignedNugget(
                    text=text,
                    importance=importance or "vital",
                    assignment=assigned,
                    nugget_id=each.optional("nugget_id") or each.text("text"),
                    rated=importance is not None,
                )
            )
        status = NOT_RETRIEVED if row.values.get("status") == NOT_RETRIEVED else "ok"
        answers.append(AssignedAnswer(qid=query, run_id=run, nuggets=tuple(nuggets), status=status))
    return tuple(answers)


def read_citations(paths: Iterable[Path]) -> tuple[JudgedAnswer, ...]:
    """Read how far each citation supports its sentence.

    A row is `{"topic_id", "run_id", "sentences": [{"sentenceID", "text", "citations":
    [{"citationID", "reference", "support"}, …]}, …]}`. The label `support`, a number or a string, is
    2 for full, 1 for partial and 0 for no support; without a label it is -1, null or missing. A
    citation is outside the answer's references if its `reference` is null or empty, or if the row
    has a list `references` without it.
    """
    answers = []
    for row, run, query in _rows(paths):
        listed = row.values.get("references") is not None
        sentences = tuple(
            JudgedSentence(
                sentenceID=place,
                text=sentence.text("text", default=""),
                citations=tuple(_citations(sentence)),
            )
            for place, sentence in enumerate(_once(row, "sentences", "sentenceID"))
        )
        answers.append(
            JudgedAnswer(
                topic_id=query,
                run_id=run,
                references=row.texts("references") if listed else None,
                sentences=sentences,
            )
        )
    return tuple(answers)


def read_checks(paths: Iterable[Path]) -> tuple[CheckedAnswer, ...]:
    """Read what answers contradict, from `checks.jsonl` of `freshstack answer`."""
    answers = []
    for row, _, _ in _rows(paths):
        try:
            answers.append(CheckedAnswer.model_validate(row.values))
        except ValidationError as error:
            raise SourceError(f"{row.place}: {first_fault(error)}") from None
    return tuple(answers)


def read_leaderboard(paths: Iterable[Path]) -> dict[tuple[str, str], dict[str, float]]:
    """Read leaderboards of TREC Auto-Judge: values by (run, topic), then by measure.

    A line is `run topic measure value`; means over topics, called `all`, are left out.
    """
    leaderboard: dict[tuple[str, str], dict[str, float]] = {}
    for path in paths:
        for number, line in read_lines(path):
            fields = line.decode("utf-8", "replace").split()
            if not fields:
                continue
            try:
                run, topic, measure, value = fields
                if topic != ALL:
                    leaderboard.setdefault((run, topic), {})[measure] = float(value)
            except ValueError:
                raise SourceError(
                    f"{path}:{number}: not a line `run topic measure value`, with a number as value"
                ) from None
    return leaderboard


def _rows(paths: Iterable[Path]) -> Iterator[tuple[Row, str, str]]:
    """Give the rows of several files, each with its run and its query."""
    places: dict[tuple[str, str], str] = {}
    for path in paths:
        for row in read_rows(path):
            key = run, query = row.id(*_RUN), row.id(*_QUERY)
            if (first := places.setdefault(key, row.place)) != row.place:
                raise SourceError(
                    f"{row.place}: {run[:80]!r} and query {query[:80]!r} are at {first} already; "
                    "keep one"
                )
            yield row, run, query


def _verdicts(row: Row) -> tuple[bool | None, ...]:
    value = row.values.get("agrees", "")
    verdicts: list[Any] = value if isinstance(value, list) and value else [value]
    if not all(each is None or isinstance(each, bool) for each in verdicts):
        raise row.fault("agrees", "true, false, null, or a list of these")
    return tuple(verdicts)


def _once(row: Row, name: str, *ids: str) -> Iterator[Row]:
    """Give the objects of a list, whose ids, if any, must be distinct."""
    seen = set()
    for each in row.inners(name):
        if each.values.get(each.name(*ids)) is not None:
            value = each.id(*ids)
            if value in seen:
                raise SourceError(f"{row.place}: {ids[0]} {value[:80]!r} is there twice; keep one")
            seen.add(value)
        yield each


def _citations(sentence: Row) -> Iterator[JudgedCitation]:
    if sentence.values.get("citations") is None:
        return
    for place, each in enumerate(_once(sentence, "citations", "citationID")):
        support = each.values.get("support")
        if isinstance(support, bool | list | dict) or support not in _SUPPORT:
            raise each.fault("support", "2, 1, 0, or -1 where there is no label")
        has_reference = "reference" in each.values
        yield JudgedCitation(
            citationID=place,
            reference=each.text("reference", default="") if has_reference else None,
            support=_SUPPORT[support],
        )
