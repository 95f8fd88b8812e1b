"""What the answers from runs come to, in figures; nothing is read and nothing is asked."""

from collections.abc import Sequence
from typing import NamedTuple

from freshstack_dspy.measures.answers import (
    NOT_RETRIEVED,
    Absent,
    AnswerAssignments,
    ComparedAnswer,
    FoundAndAgrees,
    NuggetAssignment,
    Sampling,
    Scores,
    found_and_agrees,
    score_agreement,
    score_assignments,
    verdicts_of,
)
from freshstack_dspy.measures.evaluation import Evaluation, evaluate
from freshstack_dspy.measures.statistics import Interval, mean_interval
from freshstack_dspy.recipes.answering.answering import Answering
from freshstack_dspy.recipes.answering.coverage import answer_coverages
from freshstack_dspy.recipes.growing.run_holes import Look
from freshstack_dspy.records import Agreement, AssignedAnswer, Scale, SliceName

FAMILIES = ("alpha_nDCG", "Coverage", "Recall")
"""The ranking measures beside the answers, cut off where the contexts are."""


class Coverage(NamedTuple):
    """The mean Cov(y) of a run's answers."""

    mean: Interval
    answers: int
    """How many have one."""


class Figures(NamedTuple):
    """Everything about the same queries, and from the same readings of the runs."""

    agreement: Scores
    held: Scores
    """Of the assignments, those to the gold answers as run `gold`."""
    coverage: dict[str, Coverage]
    """By run, also `gold`."""
    rankings: dict[str, Evaluation]
    """By run."""
    relations: dict[str, list[FoundAndAgrees]]
    """By run, of recall."""


def figures(
    found: Answering,
    looked: Look,
    *,
    slices: Sequence[SliceName],
    scale: Scale,
    absent: Absent = "skip",
) -> Figures:
    """Compute all figures of answers from runs.

    Args:
        found: What came of answering.
        looked: The collection and the runs that were answered from.
        slices: Whose queries were answered.
        scale: Of the judge of the answers.
        absent: What a query counts for which a run retrieved nothing.
    """
    qrels = looked.collection.qrels(slices)
    agreement = score_agreement(map(_compared, found.agreements), absent=absent)
    assigned = (*found.assignments, *found.gold_assignments)
    covered = answer_coverages(assigned, qrels, scale, absent=absent)
    runs = {one.name: one.run for one in sorted(looked.runs, key=lambda one: one.name)}
    recall = f"Recall@{looked.depth}"
    relations = {}
    for name, run in runs.items():
        values = evaluate(qrels, run, [recall], undefined="skip").values(recall)
        verdicts = verdicts_of(agreement, name)
        relations[name] = [found_and_agrees(values, verdicts, measure=recall)]
    measures = [f"{name}@{looked.depth}" for name in FAMILIES]
    return Figures(
        agreement=agreement,
        held=score_assignments(map(_held, assigned), absent=absent),
        coverage={
            run_id: Coverage(mean_interval(values, *Sampling()), len(values))
            for run_id, values in covered.items()
        },
        rankings={name: evaluate(qrels, run, measures) for name, run in runs.items()},
        relations=relations,
    )


def _compared(one: Agreement) -> ComparedAnswer:
    status = None if one.status == "ok" else one.status
    return ComparedAnswer(one.run_id, one.query_id, (one.agrees,), one.reason, status)


def _held(one: AssignedAnswer) -> AnswerAssignments:
    nuggets = tuple(
        NuggetAssignment(each.nugget_id, each.importance if each.rated else None, each.assignment)
        for each in one.nuggets
    )
    status = NOT_RETRIEVED if one.status == NOT_RETRIEVED else None
    return AnswerAssignments(one.run_id, one.qid, nuggets, status)
