"""Cov(y): which of its query's answerable nuggets each answer tells."""

from collections.abc import Iterable

from freshstack_dspy.measures.answers import NOT_RETRIEVED, Absent
from freshstack_dspy.measures.contexts import answer_coverage
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.records import AssignedAnswer, Scale


def answer_coverages(
    answers: Iterable[AssignedAnswer],
    qrels: NuggetQrels,
    scale: Scale,
    *,
    absent: Absent = "skip",
) -> dict[str, dict[str, float]]:
    """Compute the coverage of each answer (CRUX, arXiv 2506.20051, eq. 3).

    Args:
        answers: Held against nuggets.
        qrels: The collection's judgments, which say which nuggets are answerable.
        scale: Of the judge of the answers; it may be another than that of the collection.
        absent: What a query counts for which a run retrieved nothing: it is left out, or 0.

    Returns:
        Run, query id -> coverage; an answer with a nugget that nobody could judge is left out, and
        so is one to a query without answerable nuggets.
    """
    found: dict[str, dict[str, float]] = {}
    for answer in answers:
        judged = qrels.judged(answer.qid)
        ratings = {
            nugget.nugget_id: judged.rel * (nugget.label >= scale.threshold)
            for nugget in answer.nuggets
            if nugget.label is not None
        }
        if answer.status == NOT_RETRIEVED and absent == "zero":
            ratings = dict.fromkeys((nugget.nugget_id for nugget in answer.nuggets), 0)
        told = answer_coverage(ratings, judged)
        values = found.setdefault(answer.run_id, {})
        if told.coverage is not None and not told.unrated:
            values[answer.qid] = told.coverage
    return found
