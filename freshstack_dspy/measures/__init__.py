"""Measures: pure functions over runs, judgments and labels."""

from freshstack_dspy.measures.agreement import (
    ClassAgreement,
    Confusion,
    PairKappa,
    SharedLabel,
    by_class,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
    mean_pairwise_kappa,
    pairwise_kappa,
    shared_labels,
    vote_agreement,
)
from freshstack_dspy.measures.contexts import RequiredSubset, required_subset
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    Evaluation,
    Undefined,
    evaluate,
)
from freshstack_dspy.measures.families import FAMILIES, Family
from freshstack_dspy.measures.holes import Holes, find_holes
from freshstack_dspy.measures.judged import Judged, NuggetLabels
from freshstack_dspy.measures.measure import Measure, parse_measure
from freshstack_dspy.measures.qrels import NuggetQrels, OfficialDicts
from freshstack_dspy.measures.retrieval import alpha_ndcg, coverage, recall
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.measures.statistics import Interval, bootstrap_interval

__all__ = [
    "FAMILIES",
    "FRESHSTACK_MEASURES",
    "ClassAgreement",
    "Confusion",
    "Estimate",
    "Evaluation",
    "Family",
    "Holes",
    "Interval",
    "Judged",
    "Measure",
    "NuggetLabels",
    "NuggetQrels",
    "OfficialDicts",
    "PairKappa",
    "RequiredSubset",
    "Run",
    "SharedLabel",
    "Undefined",
    "alpha_ndcg",
    "bootstrap_interval",
    "by_class",
    "class_precision",
    "class_recall",
    "cohen_kappa",
    "confusion",
    "coverage",
    "evaluate",
    "exact_match",
    "find_holes",
    "mean_pairwise_kappa",
    "pairwise_kappa",
    "parse_measure",
    "read_run",
    "recall",
    "required_subset",
    "shared_labels",
    "vote_agreement",
    "write_run",
]
