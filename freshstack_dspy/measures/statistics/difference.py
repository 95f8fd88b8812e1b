"""By how much a run differs from another in a measure, and how sure that is."""

from typing import Literal

from freshstack_dspy.measures.statistics.bootstrap import Interval
from freshstack_dspy.measures.statistics.significance import Significance
from freshstack_dspy.records import Record

Verdict = Literal["higher", "lower", "not found", "untested"]


class RunDifference(Record):
    """A run held against another in one measure, query by query.

    Attributes:
        measure: The name of the measure.
        run: The run.
        against: The run that it is held against.
        queries: How many queries have a value in both.
        left_out: How many have one in only one of the two.
        interval: The mean of the run's values minus the other's, with its bootstrap interval.
        effect_size: That mean over the standard deviation of the differences (Cohen, Statistical
            Power Analysis, 1988, section 2.3.5: d of paired values); None where all differences
            are the same.
        wins: Queries on which the run's value is higher.
        ties: Queries on which they are equal, but for rounding (1e-12).
        losses: Queries on which it is lower.
        significance: What the test found.
        adjusted_p: The p-value adjusted for all tests of the comparison.
        detectable: The smallest true difference that so many queries would mostly (at power .8)
            show at the level that the family's smallest p-value is held against; None below 10
            queries, where all differences are the same, or where the test cannot come to that
            level: its smallest p-value, `significance.smallest`, is above it.
        queries_needed: How many queries would mostly show a true difference as large as the mean
            observed one; None below 10 queries, where all differences are the same, or where
            that mean is 0.
        verdict: Whether the run was found to be higher or lower.
        conclusion: The same in words.
        per_query: By query id, the run's value minus the other's.
    """

    measure: str
    run: str
    against: str
    queries: int
    left_out: int
    interval: Interval
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    significance: Significance
    adjusted_p: float | None
    detectable: float | None
    queries_needed: int | None
    verdict: Verdict
    conclusion: str
    per_query: dict[str, float]
