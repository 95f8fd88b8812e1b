"""What a significance test found."""

from typing import Literal

from freshstack_dspy.records import Record

TestName = Literal["permutation", "t"]


class Significance(Record):
    """The p-value of a test, and how it was come by.

    Attributes:
        test: The test.
        by: `enumeration` of all permutations, `sampling` of some, or a `distribution`.
        statistic: The mean difference, or Student's t; None where it is undefined.
        p_value: Two-sided, above 0; None where the test cannot be made.
        standard_error: How far the p-value may be off because permutations were sampled; 0 where
            nothing was.
        permutations: How many were looked at; 0 for a distribution.
        smallest: The smallest p-value that these permutations could have given, however large
            the differences; None for a distribution.
        reason: Why there is no p-value; None where there is one.
    """

    test: TestName
    by: Literal["enumeration", "sampling", "distribution"]
    statistic: float | None = None
    p_value: float | None = None
    standard_error: float | None = None
    permutations: int = 0
    smallest: float | None = None
    reason: str | None = None
