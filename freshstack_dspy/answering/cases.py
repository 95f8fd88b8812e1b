"""Recall compared with agreement: where they differ, and why (LLM-retEval, cases A to F)."""

from collections import Counter
from collections.abc import Mapping, Set

from freshstack_dspy.answering.reteval import Answering
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.statistics import Estimate, spearman_rho
from freshstack_dspy.records import AssignedAnswer, Case, FailureCase, Record, Scale

CASES: dict[Case, str] = {
    "A": "missed, and the answer agrees: a chunk without a label of support answers the query, "
    "perhaps another version of a gold one (the paper's B)",
    "C": "found, and the answer lacks what a chunk of its context says: distracted",
    "D": "the gold answer is none, or supports no nugget",
    "E": "the answer disagrees, and supports all nuggets of the gold answer and more",
    "F": "the verdict is contrary to the nuggets that both answers support",
}
"""The cases; A and C are failures of recall, D to F failures of answers and their comparison."""
RECALL_FAILS: tuple[Case, ...] = ("A", "C")


def case_of(
    *, found: bool, agrees: bool | None, held: Set[str], gold: Set[str], retrieved: Set[str]
) -> Case | None:
    """Tell which case of failure an answer is, from the nuggets that are supported.

    Only a person who reads the answer can be sure; this is the case that the labels suggest. There
    is none if recall and agreement are consistent, or if the gold answer has more than the
    retrieved chunks hold: then recall is between 0 and 1, and the disagreement is right.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1.

    Args:
        found: Whether recall is above 0.
        agrees: The verdict; None: there was no gold answer to agree with.
        held: The nuggets that the answer supports.
        gold: The nuggets that the gold answer supports.
        retrieved: The nuggets that the chunks of the answer's context support.
    """
    if agrees is None or (found != agrees and not gold):
        return "D"
    if found == agrees:
        return None
    if agrees:
        return "A" if held & gold else "F"
    if held >= gold:
        return "E" if held > gold else "F"
    return "C" if (gold - held) & retrieved else None


class FoundAndAgrees(Record):
    """The two-by-two table of queries, and how far both sides correlate."""

    measure: str
    """The ranking measure."""
    queries: int
    """The number of queries with a value of the measure and a verdict on the answer."""
    found_agree: int
    found_disagree: int
    """Look here for distracting chunks (case C of the paper) and for errors of the models (cases D,
    E and F)."""
    missed_agree: int
    """Look here for relevant chunks that are not annotated, or of another version (cases A and B),
    and for what the model knows itself."""
    missed_disagree: int
    cases: dict[Case, int]
    """The number of queries by case of failure."""
    phi: Estimate
    """Correlation of found with agreeing."""
    spearman: Estimate
    """Correlation of the measure's values with agreeing, which the paper reports (ALL)."""
    refined: Estimate
    """`spearman` without the failures of recall, cases A and C (Refined)."""
    without_value: tuple[str, ...]
    """Queries with a verdict and no value of the measure, ascending."""
    without_verdict: tuple[str, ...]
    """Queries with a value and no verdict, ascending."""


def found_and_agrees(
    values: Mapping[str, float],
    verdicts: Mapping[str, bool | None],
    *,
    measure: str,
    cases: Mapping[str, Case] | None = None,
) -> FoundAndAgrees:
    """Compare a ranking measure with whether the answers agree, query by query.

    A query counts as found if the measure's value is above 0. Only a person can be sure which case
    it is; the table shows where to look.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1 (cases A to F) and
    4.2 (failures and correlation).

    Args:
        values: The measure's values, by query id.
        verdicts: Whether the answer agrees, by query id; None if undecided.
        measure: The name of the measure.
        cases: The failures by query id; see `case_of`.
    """
    cases = cases or {}
    agrees = {query: float(verdict) for query, verdict in verdicts.items() if verdict is not None}
    both = sorted(agrees.keys() & values.keys())
    found_by_query = {query: float(values[query] > 0) for query in both}
    cells = Counter((found_by_query[query], agrees[query]) for query in both)

    def correlation(side: Mapping[str, float], *, without: tuple[Case, ...] = ()) -> Estimate:
        queries = [query for query in both if cases.get(query) not in without]
        return spearman_rho(
            *({query: scores[query] for query in queries} for scores in (side, agrees))
        )

    return FoundAndAgrees(
        measure=measure,
        queries=len(both),
        found_agree=cells[1, 1],
        found_disagree=cells[1, 0],
        missed_agree=cells[0, 1],
        missed_disagree=cells[0, 0],
        cases=dict(sorted(Counter(cases.values()).items())),
        phi=correlation(found_by_query),  # for two binary variables, every correlation is phi
        spearman=correlation(values),
        refined=correlation(values, without=RECALL_FAILS),
        without_value=tuple(sorted(agrees.keys() - values.keys())),
        without_verdict=tuple(sorted(values.keys() - agrees.keys())),
    )


def failure_cases(
    answering: Answering,
    collection: Collection,
    scale: Scale,
    recalls: Mapping[str, Mapping[str, float]],
    labels: Mapping[str, NuggetQrels],
) -> list[FailureCase]:
    """List the answers on which recall and agreement differ, where labels tell why.

    An answer is left out if it, its gold answer or their nuggets failed.

    Args:
        answering: The answers.
        collection: The collection that they are about.
        scale: The scale of the judge of nuggets.
        recalls: By run, query id -> recall; other runs have no cases.
        labels: By run, the judgments of its own passages, where they are not those of chunks.
    """
    qrels = collection.qrels()
    answers = {(answer.run_id, answer.topic_id): answer for answer in answering.answers}
    golds = {gold.topic_id: gold for gold in answering.gold_answers if gold.sample == 1}
    supported = {
        (assigned.run_id, assigned.qid): _held(assigned, scale)
        for assigned in answering.assignments
    }
    supported_by_gold = {
        assigned.qid: _held(assigned, scale) for assigned in answering.gold_assignments
    }
    cases = []
    for agreement in answering.agreements:
        run_id, query_id = key = agreement.run_id, agreement.query_id
        answer, recall = answers[key], recalls.get(run_id, {}).get(query_id)
        held, gold = supported[key], supported_by_gold[query_id]
        if recall is None or held is None or gold is None:
            continue
        if agreement.status not in ("ok", "no_gold_answer"):
            continue
        own = labels.get(run_id, qrels)
        judged = (own if query_id in own.nuggets else qrels).judged(query_id)
        nuggets = [*judged.labels]
        shown = (judged.supported.get(chunk_id, ()) for chunk_id in answer.references)
        case = case_of(
            found=recall > 0,
            agrees=agreement.agrees,
            held=held,
            gold=gold,
            retrieved={nuggets[place] for places in shown for place in places},
        )
        if case is not None:
            cases.append(
                FailureCase(
                    case=case,
                    run_id=run_id,
                    query_id=query_id,
                    question=answer.topic,
                    recall=recall,
                    agrees=agreement.agrees,
                    reason=agreement.reason,
                    answer=answer.text,
                    gold_answer=golds[query_id].text,
                    nuggets=tuple(sorted(held)),
                    gold_nuggets=tuple(sorted(gold)),
                )
            )
    return sorted(cases, key=lambda case: (case.case, case.run_id, case.query_id))


def _held(answer: AssignedAnswer, scale: Scale) -> frozenset[str] | None:
    """Give the ids of the nuggets that an answer supports; None if one has no label."""
    labels = {nugget.nugget_id: nugget.label for nugget in answer.nuggets}
    if None in labels.values():
        return None
    return frozenset(id_ for id_, label in labels.items() if (label or 0) >= scale.threshold)
