"""Nugget recall: how much of what a good answer must hold, an answer holds."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.answers.scores import (
    NOT_RETRIEVED,
    Absent,
    AnswerScore,
    Empty,
    Sampling,
    Scores,
    answer_score,
    summarise,
)
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.records import Assignment, Importance

MissingAssignment = Literal["leave_out", "zero", "no_value"]
"""What a nugget counts whose assignment failed or is not there: it leaves numerator and
denominator, it is not supported, or the answer has no value."""
NuggetsCounted = Literal["query", "answer"]
"""Which nuggets an answer has: all that some answer to its query has, or its own."""
Over = Literal["vital", "all", "weighted"]
"""Over which nuggets: the vital ones, all alike, or vital ones 1 and okay ones a half."""

_CREDIT: Mapping[Assignment, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}


class NuggetAssignment(NamedTuple):
    """A nugget, and how far one answer holds it.

    Attributes:
        nugget: Its id, or its text: what it is known by among the nuggets of its query.
        importance: None where it was not rated.
        assignment: None where there is none.
    """

    nugget: str
    importance: Importance | None
    assignment: Assignment | None


class AnswerAssignments(NamedTuple):
    """The nuggets of a query, assigned to the answer of one run."""

    run: str
    query_id: str
    nuggets: tuple[NuggetAssignment, ...]
    status: str | None = None
    """`not_retrieved` where there was nothing to answer from: the query is then absent."""


class NuggetRecall(NamedTuple):
    """One of the six measures.

    Attributes:
        over: Which nuggets count, and how much.
        strict: Whether partial support counts 0 and not a half.
    """

    over: Over
    strict: bool


NUGGET_RECALLS: Mapping[str, NuggetRecall] = MappingProxyType(
    {
        "V_strict": NuggetRecall("vital", strict=True),
        "V": NuggetRecall("vital", strict=False),
        "A_strict": NuggetRecall("all", strict=True),
        "A": NuggetRecall("all", strict=False),
        "W_strict": NuggetRecall("weighted", strict=True),
        "W": NuggetRecall("weighted", strict=False),
    }
)
"""As the TREC 2024 RAG track calls them; A_strict is All-Strict of FreshStack's second version."""


def nugget_recall(
    nuggets: Sequence[NuggetAssignment],
    measure: NuggetRecall,
    *,
    missing: MissingAssignment = "leave_out",
    empty: Empty = "skip",
) -> Estimate:
    """Compute the share of the nuggets that an answer supports.

        sum over n of weight(n) * credit(n) / sum over n of weight(n)

    with the credit 1 for support, 0 for none, and for partial support 0 (strict) or 1/2. The
    weight is 1 of every nugget (A), of the vital ones only (V), or 1 of vital and 1/2 of okay
    ones (W). A nugget without importance counts in A, and in V and W not at all.

    Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
    AutoNuggetizer Framework, 2024 (arXiv 2411.09607), section 3.3: V, V_strict, A, A_strict, W,
    W_strict.

    Args:
        nuggets: All of the query.
        measure: One of `NUGGET_RECALLS`.
        missing: What a nugget counts whose assignment failed or is not there. castorini's
            nuggetizer 0.0.6 counts it 0 (`zero`).
        empty: What an answer counts where no nugget counts, as none is vital. nuggetizer gives 0.

    Returns:
        From 0 to 1, or why there is no value.
    """
    counted: list[tuple[float, Assignment | None]] = [
        (weight, nugget.assignment)
        for nugget in nuggets
        if (weight := _weight(nugget, measure.over))
    ]
    if not counted:
        if empty == "zero":
            return Estimate(value=0.0)
        return Estimate(reason=_NOTHING[measure.over] if nuggets else "the query has no nuggets")
    given = [
        (weight, _credit(assignment, measure))
        for weight, assignment in counted
        if assignment in _CREDIT
    ]
    unknown = len(counted) - len(given)
    if missing == "no_value" and unknown:
        return Estimate(reason=f"{unknown} of {len(counted)} nuggets have no assignment")
    if not given and missing == "leave_out":
        return Estimate(reason=f"none of {len(counted)} nuggets has an assignment")
    total = sum(weight for weight, _ in (counted if missing == "zero" else given))
    return Estimate(value=sum(weight * credit for weight, credit in given) / total)


def score_assignments(
    answers: Iterable[AnswerAssignments],
    *,
    missing: MissingAssignment = "leave_out",
    empty: Empty = "skip",
    absent: Absent = "skip",
    counted: NuggetsCounted = "query",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Score answers by all six measures.

    With `missing="zero", empty="zero", counted="answer"` every answer has what nuggetizer 0.0.6
    gives it: strict_vital_score, vital_score, strict_all_score and all_score are V_strict, V,
    A_strict, A. Its last line mixes all runs of a file in one mean; here each run has its own.

    A nugget that other answers to the same query were assigned, and this one was not, is missing
    in this one: a list that came back too short does not score higher for it. nuggetizer looks at
    the answer's own list only.

    Args:
        answers: One for each run and query.
        missing: As for `nugget_recall`.
        empty: As for `nugget_recall`.
        absent: What a query counts that other runs answer and this one does not, or for which it
            retrieved nothing.
        counted: Whether the nuggets of an answer are all that an answer to its query has, or its
            own.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, a run answers a query twice, an answer has a nugget
            twice, or a nugget of a query has two importances.
    """
    every = tuple(answers)
    given = [each for each in every if each.status != NOT_RETRIEVED]
    known = _nuggets_by_query(given) if counted == "query" else {}
    for each in given:
        _refuse_twice(each)
    return summarise(
        tuple(NUGGET_RECALLS),
        (_score(each, known.get(each.query_id, {}), missing, empty) for each in given),
        choices={"missing": missing, "empty": empty, "nuggets": counted},
        absent=absent,
        not_retrieved=((one.run, one.query_id) for one in every if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


_NOTHING: Mapping[Over, str] = {
    "vital": "no nugget is vital",
    "weighted": "no nugget has an importance",
    "all": "the query has no nuggets",
}


def _score(
    answer: AnswerAssignments,
    known: Mapping[str, Importance | None],
    missing: MissingAssignment,
    empty: Empty,
) -> AnswerScore:
    own = {each.nugget for each in answer.nuggets}
    others = (
        NuggetAssignment(nugget, importance, None)
        for nugget, importance in known.items()
        if nugget not in own
    )
    nuggets = (*answer.nuggets, *others)
    assignments = [each.assignment for each in nuggets]
    return answer_score(
        answer.run,
        answer.query_id,
        {
            name: nugget_recall(nuggets, measure, missing=missing, empty=empty)
            for name, measure in NUGGET_RECALLS.items()
        },
        {
            "nuggets": len(nuggets),
            **{name: assignments.count(name) for name in get_args(Assignment)},
            "missing": assignments.count(None),
            "unrated": sum(each.importance is None for each in nuggets),
        },
    )


def _nuggets_by_query(
    answers: Sequence[AnswerAssignments],
) -> dict[str, dict[str, Importance | None]]:
    """Gather the nuggets of each query from all its answers."""
    known: dict[str, dict[str, Importance | None]] = {}
    for answer in answers:
        of_query = known.setdefault(answer.query_id, {})
        for nugget, importance, _ in answer.nuggets:
            if of_query.setdefault(nugget, importance) != importance:
                raise CollectionError(
                    f"run {answer.run!r}, query {answer.query_id!r}: nugget {nugget!r} is {importance or 'not rated'}, and "
                    f"{of_query[nugget] or 'not rated'} in another answer to the query; score "
                    "answers that were assigned the same nuggets"
                )
    return known


def _refuse_twice(answer: AnswerAssignments) -> None:
    own = set()
    for nugget, _, _ in answer.nuggets:
        if nugget in own:
            raise CollectionError(
                f"run {answer.run!r}, query {answer.query_id!r}: nugget {nugget!r} stands twice; "
                "keep one"
            )
        own.add(nugget)


def _weight(nugget: NuggetAssignment, over: Over) -> float:
    if over == "all" or nugget.importance == "vital":
        return 1.0
    return 0.5 if over == "weighted" and nugget.importance == "okay" else 0.0


def _credit(assignment: Assignment | None, measure: NuggetRecall) -> float:
    if assignment is None or (measure.strict and assignment == "partial_support"):
        return 0.0
    return _CREDIT[assignment]
