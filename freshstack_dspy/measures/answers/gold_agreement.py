"""LLM-retEval: whether the answer from what was retrieved agrees with that from gold chunks."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from freshstack_dspy.measures.answers.scores import (
    NOT_RETRIEVED,
    Absent,
    AnswerScore,
    Sampling,
    Scores,
    answer_score,
    summarise,
)
from freshstack_dspy.measures.estimate import Estimate

AGREEMENT = "agreement"
Undecided = Literal["leave_out", "disagrees"]
"""What an answer counts that nobody could compare: it is left out, or it does not agree."""


class ComparedAnswer(NamedTuple):
    """The answer of one run, compared with the answers from the gold chunks.

    Attributes:
        run: Whose retrieved chunks it was written from.
        query_id: The question.
        agrees: One verdict on all gold answers together, or one on each; None where the
            comparison failed or did not decide.
        reason: Of the verdict; where there is none, why.
        status: Where there is no verdict, the kind of the reason, as `no_gold_context`. One that is
            `not_retrieved` is no answer: its query is absent.
    """

    run: str
    query_id: str
    agrees: tuple[bool | None, ...]
    reason: str | None = None
    status: str | None = None


def agrees_with_any(verdicts: Sequence[bool | None]) -> bool | None:
    """Tell whether an answer agrees with any of the gold answers.

    It is not known where no verdict is yes and one is missing, or where there is none at all.
    """
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def score_agreement(
    answers: Iterable[ComparedAnswer],
    *,
    undecided: Undecided = "leave_out",
    absent: Absent = "skip",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Compute the agreement rate of each run, which is what its retriever scores.

    The rate is the share of queries whose answer from the retrieved chunks agrees with any of the
    answers that the same model gave from the gold chunks. It is the mean of 1 and 0 by query.

    Source: Alinejad, Kumar and Vahdat, Evaluating the Retrieval Component in LLM-Based Question
    Answering Systems, 2024 (arXiv 2406.06458), section 2.2.

    Args:
        answers: One for each run and query.
        undecided: What an answer counts that has no verdict.
        absent: What a query counts that other runs answer and this one does not, or for which it
            retrieved nothing.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    given = tuple(answers)
    return summarise(
        (AGREEMENT,),
        (_score(answer, undecided) for answer in given if answer.status != NOT_RETRIEVED),
        choices={"undecided": undecided},
        absent=absent,
        not_retrieved=((one.run, one.query_id) for one in given if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


def _score(answer: ComparedAnswer, undecided: Undecided) -> AnswerScore:
    agrees = agrees_with_any(answer.agrees)
    if agrees is None and undecided == "leave_out":
        why = answer.reason or answer.status or "no verdict, and no reason given"
        figure = Estimate(reason=why)
    else:
        figure = Estimate(value=float(agrees is True))
    counts = {
        "agree": int(agrees is True),
        "disagree": int(agrees is False),
        "undecided": int(agrees is None),
    }
    if agrees is None and answer.status:
        counts[f"undecided: {answer.status}"] = 1
    return answer_score(answer.run, answer.query_id, {AGREEMENT: figure}, counts)
