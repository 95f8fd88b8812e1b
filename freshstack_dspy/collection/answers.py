"""Reading whether answers agree with those from gold chunks (LLM-retEval)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from freshstack_dspy.collection.imports.foreign import Row, read_rows, shown
from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.answers import (
    NOT_RETRIEVED,
    AnswerAssignments,
    Citation,
    CitedAnswer,
    ComparedAnswer,
    NuggetAssignment,
    NuggetVerdict,
    ReadNuggets,
    Support,
)
from freshstack_dspy.records import Assignment, Importance

_RUN = ("run_id", "run", "runtag")
_QUERY = ("query_id", "qid", "topic_id", "narrative_id")


class Keys:
    """The runs and queries that were read, and where."""

    def __init__(self) -> None:
        """Begin with none."""
        self._places: dict[tuple[str, str], str] = {}

    def take(self, row: Row, *names: str) -> tuple[str, str]:
        """Give the run and the query of a row.

        Args:
            row: Of a file.
            names: Under which the run's name stands, if not those of a run.

        Raises:
            SourceError: It has none, or both stood in an earlier row.
        """
        key = run, query = row.id(*(names or _RUN)), row.id(*_QUERY)
        if (first := self._places.setdefault(key, row.place)) != row.place:
            raise SourceError(
                f"{row.place}: {shown(run)} and query {shown(query)} stood already at {first}; "
                "keep one"
            )
        return key


def rows_of(paths: Iterable[Path]) -> Iterator[Row]:
    """Give the rows of several files: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: A file cannot be read, is named twice, or is of another format.
    """
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise SourceError(f"{path}: named twice; name each file once")
        seen.add(path.resolve())
        yield from read_rows(path)


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


_LABELS: dict[str | int, Support | None] = {
    0: 0,
    1: 1,
    2: 2,
    -1: None,
    "0": 0,
    "1": 1,
    "2": 2,
    "-1": None,
}


def read_citations(paths: Iterable[Path]) -> tuple[CitedAnswer, ...]:
    """Read how far each citation supports its sentence.

    A row: `{"topic_id", "run_id", "sentences": [{"sentenceID", "text", "citations":
    [{"citationID", "reference", "support"}, …]}, …]}`, with the labels 2 full, 1 partial, 0 none
    and -1, null or nothing where there is none, as numbers or texts. A citation is outside of the
    answer's references where its `reference` is null or empty, or where the row also has a list
    `references` that does not hold it.

    Args:
        paths: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be,
            or a run has two answers to a query, an answer a sentenceID twice, or a sentence a
            citationID twice.
    """
    keys = Keys()
    answers = []
    for row in rows_of(paths):
        if row.has("answer") and not row.has("sentences"):
            raise SourceError(
                f"{row.place}: an answer with its citations, and no label of any; label them first "
                "(no command does), and give a file of run_id, topic_id, references and sentences: "
                '[{"sentenceID", "citations": [{"citationID", "reference", "support": 2, 1, 0 or '
                "-1}]}]"
            )
        run, query = keys.take(row)
        references = frozenset(row.texts("references"))
        known = references if row.values.get("references") is not None else None
        sentences = [
            tuple(_citations(sentence, known)) for sentence in _once(row, "sentences", "sentenceID")
        ]
        answers.append(CitedAnswer(run, query, tuple(sentences)))
    return tuple(answers)


def _once(row: Row, name: str, id_: str) -> Iterator[Row]:
    """Give the objects of a list; those that have an id have it once."""
    seen = set()
    for each in row.inners(name):
        if each.values.get(id_) is not None:
            value = each.id(id_)
            if value in seen:
                raise SourceError(f"{row.place}: {id_} {value[:80]!r} stands twice; keep one")
            seen.add(value)
        yield each


def _citations(sentence: Row, references: frozenset[str] | None) -> Iterator[Citation]:
    if sentence.values.get("citations") is None:
        return
    for each in _once(sentence, "citations", "citationID"):
        reference = each.optional("reference")
        outside = reference is None if "reference" in each.values else False
        if references is not None:
            outside = reference not in references
        yield Citation(reference, _support(each), outside)


def _support(row: Row) -> Support | None:
    value = row.values.get("support")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or value not in _LABELS:
        raise row.fault("support", "2, 1, 0, or -1 where there is no label")
    return _LABELS[value]


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
