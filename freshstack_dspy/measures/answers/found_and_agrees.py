"""What a ranking measure says of a retriever, beside what its answers say."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from freshstack_dspy.measures.answers.scores import Scores
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.statistics import kendall_tau, spearman_rho
from freshstack_dspy.records import Record


class FoundAndAgrees(Record):
    """The table of two by two, and how far both sides go together, by query.

    Attributes:
        measure: The ranking measure.
        found_from: The value from which on the measure says that the retriever found it.
        queries: How many have a value of the measure and a verdict on the answer.
        found_agree: Found, and the answer agrees.
        found_disagree: Found, and it does not: where case C (distracting chunks) is to be looked
            for, beside the errors of the models (cases D, E and F).
        missed_agree: Not found, and yet the answer agrees: where cases A and B (relevant chunks
            that nobody annotated, or of another version) are to be looked for, beside what the
            model knows itself.
        missed_disagree: Not found, and it does not agree.
        unannotated_share: Of the queries where both sides differ, the share not found that agree.
        distracted_share: Of these, the share found that do not agree.
        phi: Correlation of found with agreeing.
        point_biserial: Correlation of the measure's values with agreeing.
        tau_b: Kendall's rank correlation of the same.
        spearman: Spearman's, which the paper reports.
        without_value: Queries with a verdict and no value of the measure, ascending.
        without_verdict: Queries with a value and no verdict, ascending.
    """

    measure: str
    found_from: float
    queries: int
    found_agree: int
    found_disagree: int
    missed_agree: int
    missed_disagree: int
    unannotated_share: Estimate
    distracted_share: Estimate
    phi: Estimate
    point_biserial: Estimate
    tau_b: Estimate
    spearman: Estimate
    without_value: tuple[str, ...]
    without_verdict: tuple[str, ...]


def found_and_agrees(
    values: Mapping[str, float],
    verdicts: Mapping[str, bool | None],
    *,
    measure: str,
    found_from: float | None = None,
) -> FoundAndAgrees:
    """Compare a ranking measure with whether the answers agree, query by query.

    Only a person can say which case a query is: the table says where to look.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1 (cases A to F) and
    4.2 (failures and correlation).

    Args:
        values: Of the measure, by query id.
        verdicts: Whether the answer agrees with any of the gold answers, by query id; None where
            nobody could say.
        measure: What the measure is called.
        found_from: The value from which on it says found; None: every value above 0.

    Raises:
        ValueError: A value is not a finite number.
    """
    for query, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"query {query!r}: a value is a finite number, not {value!r}")
    decided = {query: agrees for query, agrees in verdicts.items() if agrees is not None}
    both = sorted(decided.keys() & values.keys())
    least = math.ulp(0.0) if found_from is None else found_from
    found = [values[query] >= least for query in both]
    agrees = [decided[query] for query in both]
    cells = {
        (one, other): sum(pair == (one, other) for pair in zip(found, agrees, strict=True))
        for one in (True, False)
        for other in (True, False)
    }
    given = {query: values[query] for query in both}
    said = {query: float(decided[query]) for query in both}
    fault = _undefined([*given.values()], agrees, measure)
    differ = cells[False, True] + cells[True, False]
    return FoundAndAgrees(
        measure=measure,
        found_from=0.0 if found_from is None else found_from,
        queries=len(both),
        found_agree=cells[True, True],
        found_disagree=cells[True, False],
        missed_agree=cells[False, True],
        missed_disagree=cells[False, False],
        unannotated_share=_share(cells[False, True], differ),
        distracted_share=_share(cells[True, False], differ),
        phi=_correlation(found, agrees, f"{measure}, above or below,"),
        point_biserial=_correlation([*given.values()], agrees, measure),
        tau_b=fault or kendall_tau(given, said),
        spearman=fault or spearman_rho(given, said),
        without_value=tuple(sorted(decided.keys() - values.keys())),
        without_verdict=tuple(sorted(values.keys() - decided.keys())),
    )


def verdicts_of(scores: Scores, run: str) -> dict[str, bool | None]:
    """Give whether each answer of a run agrees, by query id, for `found_and_agrees`.

    Args:
        scores: Of the agreement. Where an absent query counts 0, its answer does not agree.
        run: Its name.
    """
    verdicts: dict[str, bool | None] = {
        answer.query_id: None if answer.counts["undecided"] else bool(answer.counts["agree"])
        for answer in scores.answers
        if answer.run == run
    }
    if scores.choices["absent"] == "zero":
        for each in scores.runs:
            if each.run == run:
                verdicts |= dict.fromkeys(each.absent, False)
    return verdicts


def _share(part: int, whole: int) -> Estimate:
    if not whole:
        return Estimate(reason="the measure and the answers never differ")
    return Estimate(value=part / whole)


def _undefined(values: Sequence[float], agrees: Sequence[bool], measure: str) -> Estimate | None:
    if len(set(agrees)) < 2:
        said = "all agree" if agrees and agrees[0] else "none agrees"
        return Estimate(reason=f"of {len(agrees)} answers {said}")
    if len(set(values)) < 2:
        return Estimate(reason=f"{measure} is the same for all {len(values)} queries")
    return None


def _correlation(values: Sequence[float], agrees: Sequence[bool], measure: str) -> Estimate:
    """Compute Pearson's correlation with a yes or no: point-biserial, or phi of two of them."""
    if fault := _undefined(values, agrees, measure):
        return fault
    mean, rate = fmean(values), fmean(agrees)
    together = math.fsum((x - mean) * (y - rate) for x, y in zip(values, agrees, strict=True))
    spread = math.fsum((x - mean) ** 2 for x in values) * math.fsum((y - rate) ** 2 for y in agrees)
    if not spread:  # the values differ by less than a float can square
        return Estimate(reason=f"{measure} is nearly the same for all {len(values)} queries")
    return Estimate(value=max(-1.0, min(1.0, together / math.sqrt(spread))))
