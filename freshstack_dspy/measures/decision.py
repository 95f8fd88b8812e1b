"""The decision between two runs: ship one, no difference that matters, not yet, or none."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from freshstack_dspy.errors import ConfigError
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
Outcome = Literal["ship", "no difference that matters", "cannot tell yet", "no decision"]
Blocked = Literal["dry run", "not calibrated", "unjudged", "few questions"]


class Decision(Record):
    """What the values of two runs decide, in one measure."""

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
    queries: int
    pairs: int
    """How many pairs of runs are decided between; the interval allows for all of them."""
    more_queries: int | None = None
    """For `cannot tell yet`: about how many more questions of this kind decide it; None where the
    difference is so near to what matters that no number of questions can be forecast."""
    dollars: float | None = None
    """What these cost, in US dollars, at what a question of the collection cost; None if unknown."""
    reason: str
    """Why, in one sentence."""
    command: str = ""
    """What to type to come to a decision; empty where there is one."""

    @property
    def headline(self) -> str:
        """The outcome, with the run to ship."""
        return f"ship {self.ship}" if self.ship else self.outcome


def check_matters(matters: float) -> None:
    """Raise a ConfigError where `matters` is no difference that means can have."""
    if not 0 < matters < math.inf:
        raise ConfigError(f"matters is {matters}; it is a difference of means, above 0, as .02")


def decide(
    measure: str,
    pair: tuple[str, str],
    differences: Sequence[float] | Weighted,
    *,
    matters: float = MATTERS,
    pairs: int = 1,
    blocked: Blocked | None = None,
    judged_only: float | None = None,
    about: About | None = None,
) -> Decision:
    """Decide between two runs by the differences of their values, query by query.

    With n differences of mean d and standard deviation s, the decision's interval is d ± t s / √n,
    where t is the 1 - .025 / m quantile of Student's t with n - 1 degrees of freedom, and m is the
    number of pairs. Above `matters`, or below its negative, the better run is shipped. Between the
    two there is no difference that matters, which is a test of equivalence and not a difference
    that was not found. For one pair each of these is wrong at most once in 40; with m pairs all are
    right 19 times in 20. Where fewer than 8 queries differ, the interval also holds what Poisson
    counts of gains and of losses allow for, as one of size 1 may just not have been seen; so two
    runs that never differ are equal to .02 from 185 queries on.

    Source: Schuirmann, A Comparison of the Two One-Sided Tests Procedure and the Power Approach for
    Assessing the Equivalence of Average Bioavailability, 1987; m pairs: Bonferroni;
    few that differ: `rare_sum`.

    Args:
        measure: What is compared.
        pair: The names of the runs; the second's values were subtracted.
        differences: One for each query that has a value in both; prepared by `weighted`, for a
            weighted mean, whose standard error is linearized.
        matters: The smallest difference that matters, above 0.
        pairs: How many pairs are decided between.
        blocked: Why the values decide nothing, if so.
        judged_only: The mean difference by judged chunks alone; no run is shipped if that does not
            matter, or favours the other.
        about: What they rest on.
    """
    about = about or About()
    prepared = differences if isinstance(differences, Weighted) else weighted(differences)
    differences = prepared.terms
    n, mean = len(differences), fmean(differences) if differences else None
    low = high = more = None
    spread = deviation(prepared.linearized) if n > 1 else 0.0
    if mean is not None and n > 1:
        low, high = _interval(prepared, spread, pairs)
    if n < FEWEST:
        blocked = blocked or "few questions"
    outcome: Outcome = "cannot tell yet"
    if blocked is not None:
        outcome = "no decision"
    elif low is not None and high is not None:
        if low > matters or high < -matters:
            outcome = "ship"
            if judged_only is not None and math.copysign(1, low) * judged_only <= matters:
                outcome, blocked = "no decision", "unjudged"
        elif -matters < low and high < matters:
            outcome = "no difference that matters"
    if outcome == "cannot tell yet" and (needed := questions_needed(spread, matters, pairs=pairs)):
        if n - differences.count(0) < _RARE:
            unseen = rare_sum([], prepared.largest, tail=_tail(pairs)).high
            needed = max(needed, math.ceil(unseen / matters))
        more = needed - n if needed > n else None
    decision = Decision(
        measure=measure,
        run=pair[0],
        against=pair[1],
        matters=matters,
        outcome=outcome,
        ship=pair[(mean or 0) < 0] if outcome == "ship" else None,
        blocked=blocked,
        difference=mean,
        low=low,
        high=high,
        queries=n,
        pairs=pairs,
        more_queries=more,
        dollars=more * about.dollars if more and about.dollars is not None else None,
        reason="",
        command=_command(outcome, blocked, about),
    )
    return decision.model_copy(update={"reason": _reason(decision, about)})


def questions_needed(spread: float, matters: float, *, pairs: int = 1) -> int | None:
    """Forecast how many questions decide between two runs four times in five.

    That is so where the true difference is 0, or at least twice `matters`; nearer to `matters` more
    are needed, without bound. With s the standard deviation of the differences, m the number of
    pairs and z the quantiles of the normal distribution, both ends of the interval are within
    `matters` of a true difference of 0 with power .8 for

        n = ((z(1 - .025 / m) + z(.9)) s / matters)² + z(1 - .025 / m)² / 2

    where the last term allows for Student's t.

    Source: Julious, Sample Sizes for Clinical Trials with Normal Data, Statistics in Medicine 2004;
    the last term: Guenther, Sample Size Formulas for Normal Theory t Tests, 1981.

    Returns:
        None for more than a million.
    """
    from scipy.special import ndtri

    critical = -float(ndtri(_tail(pairs)))
    needed = ((critical + float(ndtri(0.9))) * spread / matters) ** 2 + critical**2 / 2
    return math.ceil(needed) if needed <= _MOST else None


def _tail(pairs: int) -> float:
    return (1 - LEVEL) / 2 / pairs


def _interval(prepared: Weighted, spread: float, pairs: int) -> tuple[float, float]:
    from scipy.special import stdtrit

    differences, largest = prepared.terms, prepared.largest
    n, mean, tail = len(differences), fmean(differences), _tail(pairs)
    half = -float(stdtrit(n - 1, tail)) * spread / math.sqrt(n)
    low, high = mean - half, mean + half
    if n - differences.count(0) < _RARE:
        gains = rare_sum([each for each in differences if each > 0], largest, tail=tail)
        losses = rare_sum([-each for each in differences if each < 0], largest, tail=tail)
        low = min(low, (gains.low - losses.high) / n)
        high = max(high, (gains.high - losses.low) / n)
    return low, high


def _reason(decision: Decision, about: About) -> str:
    run, against, matters = decision.run, decision.against, f"{decision.matters:g}"
    blocked: dict[Blocked, str] = {
        "dry run": "the labels are a dry run by a word counter, and say nothing about runs",
        "not calibrated": f"how far the labels can be trusted is not known ({about.uncalibrated})",
        "unjudged": f"{run} and {against} may differ only by what is unjudged in their top results",
        "few questions": f"{counted(decision.queries, 'question')}, and {FEWEST} are needed",
    }
    if decision.blocked is not None:
        return blocked[decision.blocked]
    ends = f"[{decision.low:+.3f}, {decision.high:+.3f}]"
    said = (
        f"{decision.measure} of {run} minus {against} is {decision.difference:+.3f} {ends} on "
        f"{counted(decision.queries, 'question')}"
        f"{', each as often as it was asked' * bool(about.weighted)}"
    )
    if decision.outcome == "ship":
        return f"{said}, more than the {matters} that matters"
    if decision.outcome == "no difference that matters":
        return f"{said}, within ±{matters}"
    if decision.more_queries is None:
        return (
            f"{said}, which is near the {matters} that matters, so that more questions may not "
            "tell; decide by cost, or name another difference"
        )
    cost = "" if decision.dollars is None else f", at about ${decision.dollars:,.2f}"
    return f"{said}; about {decision.more_queries:,} more questions like these would tell{cost}"


def _command(outcome: Outcome, blocked: Blocked | None, about: About) -> str:
    """What to type next; CONFIG and RUN stand for the user's files."""
    folder = about.path or "COLLECTION"
    commands: dict[Blocked | Outcome, str] = {
        "cannot tell yet": "freshstack refresh CONFIG",
        "few questions": "freshstack refresh CONFIG",
        "dry run": "freshstack plan CONFIG",
        "not calibrated": f"freshstack sample {folder} --for agreement --limit 150 --out tasks.jsonl",
        "unjudged": f"freshstack extend {folder} RUN … --config CONFIG",
    }
    return commands.get(blocked or outcome, "")
