"""Measures: pure functions over runs, judgments and labels."""

from freshstack_dspy.measures.agreement import (
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    weighted_kappa,
)
from freshstack_dspy.measures.answers import (
    score_agreement,
    score_assignments,
    score_citations,
    score_nuggets,
)
from freshstack_dspy.measures.compare import (
    Comparison,
    ComparisonRules,
    compare,
    compare_evaluations,
    ranking_agreement,
)
from freshstack_dspy.measures.contexts import (
    ContextScores,
    answer_coverage,
    answer_density,
    evaluate_context,
    evaluate_contexts,
    required_chunks,
    required_subset,
)
from freshstack_dspy.measures.conventions import CONVENTIONS, Conventions
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    MEASURES_VERSION,
    Evaluation,
    Unjudged,
    evaluate,
    find_unjudged,
)
from freshstack_dspy.measures.groups import GroupedEvaluation, QueryGroups, grouped, read_groups
from freshstack_dspy.measures.measure import FAMILIES, Measure, parse_measure
from freshstack_dspy.measures.qrels import Judged, NuggetQrels, read_qrels
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.measures.statistics import (
    Estimate,
    Interval,
    bootstrap_interval,
    kendall_tau,
    macro_interval,
    mean_interval,
    mean_intervals,
    permutation_test,
    spearman_rho,
    t_test,
    tau_ap,
)

__all__ = [
    "CONVENTIONS",
    "FAMILIES",
    "FRESHSTACK_MEASURES",
    "MEASURES_VERSION",
    "Comparison",
    "ComparisonRules",
    "ContextScores",
    "Conventions",
    "Estimate",
    "Evaluation",
    "GroupedEvaluation",
    "Interval",
    "Judged",
    "Measure",
    "NuggetQrels",
    "QueryGroups",
    "Run",
    "Unjudged",
    "answer_coverage",
    "answer_density",
    "bootstrap_interval",
    "cohen_kappa",
    "compare",
    "compare_evaluations",
    "evaluate",
    "evaluate_context",
    "evaluate_contexts",
    "find_unjudged",
    "fleiss_kappa",
    "grouped",
    "kendall_tau",
    "krippendorff_alpha",
    "macro_interval",
    "mean_interval",
    "mean_intervals",
    "parse_measure",
    "permutation_test",
    "ranking_agreement",
    "read_groups",
    "read_qrels",
    "read_run",
    "required_chunks",
    "required_subset",
    "score_agreement",
    "score_assignments",
    "score_citations",
    "score_nuggets",
    "spearman_rho",
    "t_test",
    "tau_ap",
    "weighted_kappa",
    "write_run",
]
