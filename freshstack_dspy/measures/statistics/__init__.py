"""How sure a figure is, and whether two runs differ."""

from freshstack_dspy.measures.statistics.bootstrap import Interval, bootstrap_interval
from freshstack_dspy.measures.statistics.comparison import Comparison, compare
from freshstack_dspy.measures.statistics.comparison_rules import ComparisonRules
from freshstack_dspy.measures.statistics.correction import CorrectionName, adjust
from freshstack_dspy.measures.statistics.difference import RunDifference
from freshstack_dspy.measures.statistics.macro import macro_interval
from freshstack_dspy.measures.statistics.means import mean_interval, mean_intervals
from freshstack_dspy.measures.statistics.permutation import permutation_test
from freshstack_dspy.measures.statistics.power import detectable_difference, queries_needed
from freshstack_dspy.measures.statistics.rank_correlation import (
    kendall_tau,
    spearman_rho,
    tau_ap,
)
from freshstack_dspy.measures.statistics.ranking_agreement import (
    MeasureAgreement,
    RankingAgreement,
    measure_agreements,
    ranking_agreement,
)
from freshstack_dspy.measures.statistics.significance import Significance, TestName
from freshstack_dspy.measures.statistics.t_test import t_test

__all__ = [
    "Comparison",
    "ComparisonRules",
    "CorrectionName",
    "Interval",
    "MeasureAgreement",
    "RankingAgreement",
    "RunDifference",
    "Significance",
    "TestName",
    "adjust",
    "bootstrap_interval",
    "compare",
    "detectable_difference",
    "kendall_tau",
    "macro_interval",
    "mean_interval",
    "mean_intervals",
    "measure_agreements",
    "permutation_test",
    "queries_needed",
    "ranking_agreement",
    "spearman_rho",
    "t_test",
    "tau_ap",
]
