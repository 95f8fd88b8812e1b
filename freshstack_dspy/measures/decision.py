"""The decision between two runs: ship one, no difference that matters, not yet, or none."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from pydantic import ConfigDict

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.ppi import Corrected
from freshstack_dspy.measures.qrels import About
from freshstack_dspy.measures.statistics import (
    FEWEST,
    LEVEL,
    Weighted,
    deviation,
    rare_sum,
    weighted,
)
from freshstack_dspy.pages.page import counted
from freshstack_dspy.records import MATTERS, Record

_RARE = 8
"""Below as many queries that differ, the spread of the differences says little."""
_MOST = 1_000_000
"""No more questions than this are forecast."""
_POWER = 0.8
"""How often the forecast number of questions or labels decides."""
_SECONDS = 18
"""What a label is assumed to take, where no times of labels are known."""
Outcome = Literal["ship", "no difference that matters", "cannot tell yet", "no decision"]
Blocked = Literal["dry run", "not calibrated", "unjudged", "few questions"]


class Decision(Record):
    """What the values of two runs decide, in one measure."""

    model_config = ConfigDict(
        use_attribute_docstrings=True
    )  # they are in docs/decision.schema.json

    measure: str
    run: str
    against: str
    matters: float
    """The smallest difference of means that matters, above 0."""
    outcome: Outcome
    ship: str | None = None
    """The run to ship; None for every outcome but `ship`."""
    blocked: Blocked | None = None
    """Why nothing is decided; None for every outcome but `no decision`."""
    difference: float | None = None
    """The mean of the run's values minus the other's."""
    low: float | None = None
    """The lower end of the decision's interval; None with fewer than two questions."""
    high: float | None = None
    basis: Literal["judge", "people"] = "judge"
    """Whose labels the values rest on: the judge's, or the judge's corrected by people's."""
    queries: int
    pairs: int
    """How many pairs of runs are decided between; the interval allows for all of them."""
    more_queries: int | None = None
    """For `cannot tell yet`: about how many more questions of this kind decide it four times in five
    if there is no difference, or one of at least twice what matters; None if the difference is near
    what matters, so that more questions may not decide it."""
    more_queries_as_observed: int | None = None
    """The same if the true difference is the observed one; None where that is more than a million,
    and for values corrected by people's labels."""
    dollars: float | None = None
    """What `more_queries` cost, in US dollars, at what a question of the collection cost; None if
    unknown."""
    labels: int | None = None
    """About how many more labels by people decide it, or make the collection calibrated, four times
    in five; None if something else is missing, or no number can be forecast."""
    minutes: float | None = None
    """What `labels` take, at the median time of the labels that there are; None if unknown."""
    reason: str
    """Why, in one sentence."""
    settled_by: str = ""
    """What would settle it, and when that holds; empty where nothing can be forecast."""
    command: str = ""
    """What to type to come to a decision; empty where there is one, or nothing can be forecast."""

    @property
    def headline(self) -> str:
        """The outcome, with the run to ship."""
        return f"ship {self.ship}" if self.ship else self.outcome

    @property
    def why(self) -> str:
        """The reason, and what would settle it."""
        return "; ".join(filter(None, (self.reason, self.settled_by)))


def check_matters(matters: float) -> None:
    """Raise a ConfigError unless `matters` is a difference that means can have."""
    if not 0 < matters < math.inf:
        raise ConfigError(
            f"matters is {matters}; it is a difference of means, above 0, such as .02"
        )


def decide(  # noqa: PLR0913 - what is compared, what matters, and what it rests on
    measure: str,
    pair: tuple[str, str],
    differences: Sequence[float],
    *,
    weights: Sequence[float] = (),
    matters: float = MATTERS,
    pairs: int = 1,
    blocked: Blocked | None = None,
    judged_only: float | None = None,
    corrected: Corrected | None = None,
    about: About | None = None,
) -> Decision:
    """Decide between two runs by the differences of their values, query by query.

    With n differences of mean d and standard deviation s, the decision's interval holds both
    d ± t s / √n, where t is the 1 - .025 / m quantile of Student's t with n - 1 degrees of freedom
    (with weights, of the effective number) and m is the number of pairs, and the same corrected for
    skewness (`_interval`). Above `matters`, or below its negative, the better run is shipped.
    Between the two there is no difference that matters, which is a test of equivalence and not a
    difference that was not found. For one pair each of these is wrong at most once in 40; with m
    pairs all are right 19 times in 20. Where fewer than 8 queries differ, the interval also holds
    what Poisson counts of gains and of losses allow for, as one of size 1 may just not have been
    seen; so two runs that never differ are equal to .02 from 185 queries on.

    What is unjudged blocks a decision that judged chunks alone do not confirm, and comes before more
    questions where it moves the difference by more than half of what matters.

    Source: Schuirmann, A Comparison of the Two One-Sided Tests Procedure and the Power Approach for
    Assessing the Equivalence of Average Bioavailability, 1987; m pairs: Bonferroni;
    few that differ: `rare_sum`.

    Args:
        measure: What is compared.
        pair: The names of the runs; the second's values were subtracted.
        differences: One for each query that has a value in both.
        weights: Those of the queries, for a weighted mean.
        matters: The smallest difference that matters, above 0.
        pairs: How many pairs are decided between.
        blocked: Why the values decide nothing, if so.
        judged_only: The mean difference by judged chunks alone.
        corrected: The mean difference corrected by people's labels, with an interval for all pairs
            together; where it has one, it decides in place of the judge's values.
        about: What they rest on.
    """
    about = about or About()
    prepared = weighted(differences, weights)
    differences = prepared.terms
    n, mean = len(differences), fmean(differences) if differences else 0.0
    low = high = None
    moved = 0.0 if judged_only is None else judged_only - mean
    people = None if corrected is None or corrected.wide_low is None else corrected
    if people is not None:
        mean, low, high = people.value or 0.0, people.wide_low, people.wide_high
    elif n > 1:
        low, high = _interval(prepared, pairs)
    if round(prepared.effective, 6) < FEWEST and blocked != "dry run":
        blocked = "few questions"  # more of them come before labels of them
    outcome: Outcome = "no decision"
    if blocked is None and low is not None and high is not None:
        outcome, confirmed = _outcome(mean, low, high, moved, matters)
        if not confirmed:
            outcome, blocked = "no decision", "unjudged"
    decision = Decision(
        measure=measure,
        run=pair[0],
        against=pair[1],
        matters=matters,
        outcome=outcome,
        ship=pair[mean < 0] if outcome == "ship" else None,
        blocked=blocked,
        difference=mean if n else None,
        low=low,
        high=high,
        basis="judge" if people is None else "people",
        queries=n,
        pairs=pairs,
        reason="",
    )
    forecast = _forecast(decision, prepared, people, about)
    decision = decision.model_copy(update=forecast)
    texts = {
        "reason": _reason(decision, about, prepared.effective),
        "settled_by": _settled_by(decision, about),
        "command": _command(decision, people, about),
    }
    return decision.model_copy(update=texts)


def questions_needed(
    spread: float, matters: float, *, pairs: int = 1, difference: float = 0.0
) -> int | None:
    """Forecast how many questions decide between two runs four times in five.

    With s the standard deviation of the differences, δ the true mean difference, z the 1 - .025 / m
    quantile of the normal distribution Φ for m pairs, and e = s / √(n - z² / 2), where z² / 2 allows
    for Student's t, n questions decide with the probability

        Φ((matters - δ) / e - z) + Φ((matters + δ) / e - z) - 1    for δ from 0 to below matters
        Φ((δ - matters) / e - z)                                   for δ above matters

    Without a difference, that is .8 for n = ((z + z(.9)) s / matters)² + z² / 2.

    Source: Julious, Sample Sizes for Clinical Trials with Normal Data, Statistics in Medicine 2004;
    the last term: Guenther, Sample Size Formulas for Normal Theory t Tests, 1981.

    Returns:
        None for more than a million.
    """
    from scipy.special import ndtr

    critical, true = _critical(pairs), abs(difference)

    def power(n: int) -> float:
        freedom = n - critical**2 / 2
        if freedom <= 0:
            return 0.0
        error = max(spread, 1e-12) / math.sqrt(freedom)
        farther = float(ndtr((matters + true) / error - critical)) if true < matters else 1.0
        return float(ndtr(abs(matters - true) / error - critical)) + farther - 1

    needed = bisect_left(range(_MOST + 1), _POWER, key=power)
    return needed if needed <= _MOST else None


def labelling_time(labels: int, seconds: float | None) -> str:
    """Say how long labels take at these seconds each; None: 200 an hour are assumed."""
    minutes = labels * (_SECONDS if seconds is None else seconds) / 60
    took = f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"
    return took if seconds is not None else f"{took}, assuming 200 an hour"


def _outcome(
    mean: float, low: float, high: float, moved: float, matters: float
) -> tuple[Outcome, bool]:
    """Decide by an interval, and say whether judged chunks alone, which move the mean, confirm it."""
    if low > matters or high < -matters:
        return "ship", math.copysign(1, low) * (mean + moved) > matters
    if -matters < low and high < matters:
        return "no difference that matters", abs(mean + moved) < matters
    return "cannot tell yet", abs(moved) <= matters / 2


def _forecast(
    decision: Decision, prepared: Weighted, corrected: Corrected | None, about: About
) -> dict[str, float]:
    """Forecast what would settle it, by the field of a decision that says so."""
    wanted: dict[str, float] = {}
    if decision.outcome == "cannot tell yet":
        wanted |= (
            _questions(decision, prepared)
            if corrected is None
            else _labels_or_questions(decision, corrected, about)
        )
    elif decision.blocked == "not calibrated" and about.people.needed:
        wanted["labels"] = about.people.needed - about.people.labels
    if "more_queries" in wanted and about.dollars is not None:
        wanted["dollars"] = wanted["more_queries"] * about.dollars
    if "labels" in wanted and about.people.seconds is not None:
        wanted["minutes"] = wanted["labels"] * about.people.seconds / 60
    return wanted


def _questions(decision: Decision, prepared: Weighted) -> dict[str, int]:
    n, pairs, least = len(prepared.terms), decision.pairs, 0
    if n - prepared.terms.count(0) < _RARE:
        unseen = rare_sum([], prepared.largest, tail=_tail(pairs)).high
        least = math.ceil(unseen / decision.matters)
    true = {"more_queries": 0.0, "more_queries_as_observed": decision.difference or 0.0}
    spread, needed = deviation(prepared.linearized), dict[str, int]()
    for field, difference in true.items():
        forecast = questions_needed(spread, decision.matters, pairs=pairs, difference=difference)
        if forecast is not None and (number := max(forecast, least)) > n:
            needed[field] = number - n
    return needed


def _labels_or_questions(decision: Decision, corrected: Corrected, about: About) -> dict[str, int]:
    """Forecast what decides four times in five, if there is no difference, from corrected values.

    The interval's half width is √(a (1/n - 1/N) + b / N) with n of N queries labelled. Labels make n
    larger; where N labelled queries are too few, more questions do, of which the same share is
    labelled.
    """
    from scipy.special import ndtri

    items, labelled, pairs = corrected.items, corrected.labelled, about.people.pairs
    ends = [corrected.low, corrected.high, corrected.wide_low, corrected.wide_high]
    low, high, wide_low, wide_high = (end or 0.0 for end in ends)
    narrow, wide = ((high - low) / 2) ** 2, ((wide_high - wide_low) / 2) ** 2
    critical = _critical(decision.pairs)
    aim = (decision.matters * critical / (critical + float(ndtri((1 + _POWER) / 2)))) ** 2
    if wide <= aim:
        return {}
    if narrow and (room := (aim - (wide - narrow)) / narrow) > 0:
        needed = math.ceil(1 / (1 / items + room * (1 / labelled - 1 / items)))
        return {"labels": math.ceil((needed - labelled) * pairs)}
    more = math.ceil(items * (wide / aim - 1))
    return {"more_queries": more, "labels": math.ceil(more * labelled / items * pairs)}


def _tail(pairs: int) -> float:
    return (1 - LEVEL) / 2 / pairs


def _critical(pairs: int) -> float:
    from scipy.special import ndtri

    return -float(ndtri(_tail(pairs)))


def _interval(prepared: Weighted, pairs: int) -> tuple[float, float]:
    """Give the ends of Student's interval, or of Hall's where they are farther.

    With k = g / 3√n, where g is the skewness of the n differences, Hall's ends are d - h(±t) s / √n
    with h(x) = ((1 + 3k (x - k/2))^⅓ - 1) / k: rare large gains make the mean too low and the spread
    too small at once.

    Source: Hall, On the Removal of Skewness by Transformation, JRSS B 1992.
    """
    from scipy.special import stdtrit

    differences, column, largest, effective = prepared
    n, mean, tail, spread = len(differences), fmean(differences), _tail(pairs), deviation(column)
    freedom = max(1.0, effective - 1)
    t, error = -float(stdtrit(freedom, tail)), spread / math.sqrt(n)
    low, high = mean - t * error, mean + t * error
    k = fmean(((each - mean) / (spread or 1)) ** 3 for each in column) / 3 / math.sqrt(n)
    if abs(k) > 1e-9:
        low = min(low, mean - error * (math.cbrt(1 + 3 * k * (t - k / 2)) - 1) / k)
        high = max(high, mean - error * (math.cbrt(1 - 3 * k * (t + k / 2)) - 1) / k)
    if n - differences.count(0) < _RARE:
        gains = rare_sum([each for each in differences if each > 0], largest, tail=tail)
        losses = rare_sum([-each for each in differences if each < 0], largest, tail=tail)
        low = min(low, (gains.low - losses.high) / n)
        high = max(high, (gains.high - losses.low) / n)
    return low, high


def few_questions(number: int, worth: str = "") -> str:
    """Say that questions are fewer than a decision needs, `FEWEST`."""
    return f"{counted(number, 'question')}{worth}, and {FEWEST} are needed to decide between runs"


def _reason(decision: Decision, about: About, effective: float) -> str:
    run, against, matters = decision.run, decision.against, f"{decision.matters:g}"
    worth = ", by their weights as good as {:.1f} equal ones" * (decision.queries >= FEWEST)
    unknown = f"how far the labels can be trusted is not known ({about.uncalibrated})"
    also = f"; {unknown}" if about.uncalibrated and decision.basis == "judge" else ""
    blocked: dict[Blocked, str] = {
        "dry run": "the labels are a dry run by a word counter, and say nothing about runs",
        "not calibrated": unknown,
        "unjudged": f"{run} and {against} may differ only by what is unjudged in their top results",
        "few questions": f"{few_questions(decision.queries, worth.format(effective))}{also}",
    }
    if decision.blocked is not None:
        return blocked[decision.blocked]
    ends = f"[{decision.low:+.3f}, {decision.high:+.3f}]"
    corrected = ", corrected by people's labels," if decision.basis == "people" else ""
    said = (
        f"{decision.measure} of {run} minus {against}{corrected} is {decision.difference:+.3f} "
        f"{ends} on {counted(decision.queries, 'question')}"
        f"{', each as often as it was asked' * bool(about.weighted)}"
    )
    if decision.outcome == "ship":
        return f"{said}, more than the {matters} that matters"
    if decision.outcome == "no difference that matters":
        return f"{said}, within ±{matters}"
    return said


def _settled_by(decision: Decision, about: About) -> str:
    more, observed = decision.more_queries, decision.more_queries_as_observed
    labels, people, labelled = decision.labels, about.people, ""
    if labels:
        took = labelling_time(labels, people.seconds)
        labelled = f"{labels:,} {'more ' * bool(people.labels)}labels by people ({took})"
    if decision.blocked == "not calibrated" and labels:
        kappa = f"{'stays' if people.labels else 'is'} {people.kappa:.2f}"
        return f"about {labelled} would calibrate it four times in five if kappa {kappa}"
    if decision.outcome != "cannot tell yet":
        return ""
    if not (more or observed or labels):
        return (
            f"that is near the {decision.matters:g} that matters, so that more questions may not "
            "tell; decide by cost, or name another difference"
        )
    questions = f"{more:,} more questions like these{_price(decision.dollars)}" if more else ""
    if decision.basis == "people":
        wanted = " with ".join(filter(None, (questions, labelled)))
        return f"about {wanted} would tell four times in five if there is no difference"
    dollars = None if about.dollars is None else (observed or 0) * about.dollars
    rest = f"{observed:,}{_price(dollars)}" if observed else "more than can be said"
    if not more:
        return (
            f"that is near the {decision.matters:g} that matters: about {rest} more questions like "
            "these would tell four times in five if it is as observed"
        )
    bound = "about" if observed and observed <= more else "at least about"
    return (
        f"{bound} {questions} would tell four times in five if there is no difference, and "
        f"{rest} if it is as observed"
    )


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f" (${dollars:,.2f})"


def _command(decision: Decision, corrected: Corrected | None, about: About) -> str:
    """What to type next; CONFIG and RUN stand for the user's files."""
    folder, people = about.path or "COLLECTION", about.people
    more = decision.more_queries or decision.more_queries_as_observed
    defer = " --mode defer" * about.by_hand
    if decision.outcome == "cannot tell yet" and not more:
        if not decision.labels or corrected is None:
            return ""
        queries = corrected.labelled + round(decision.labels / people.pairs)
        return f"freshstack sample {folder} --for runs --limit {queries} --out tasks.jsonl"
    limit = f" --limit {people.needed}" if people.needed else ""
    # No optimizer waits for an agent's replies.
    better = "freshstack optimize CONFIG labels.jsonl --out judge.json"
    if about.by_hand:
        better = f"freshstack rejudge {folder} --config CONFIG --out REJUDGED"
    more_questions = f"freshstack refresh CONFIG{defer}"
    if about.imported:
        more_questions = (
            f"freshstack import FILE --format {about.imported} --out {folder} --replace"
        )
    commands: dict[Blocked | Outcome, str] = {
        "cannot tell yet": more_questions,
        "few questions": more_questions,
        "dry run": "freshstack plan CONFIG",
        "not calibrated": f"freshstack sample {folder} --for agreement{limit} --out tasks.jsonl"
        if people.needed or not people.labels
        else better,
        "unjudged": f"freshstack extend {folder} RUN … --config CONFIG{defer}",
    }
    return commands.get(decision.blocked or decision.outcome, "")
