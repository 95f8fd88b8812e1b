"""Measures: pure functions over runs, judgments and labels."""

from freshstack_dspy.measures.agreement import (
    ClassAgreement,
    Confusion,
    by_class,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
)
from freshstack_dspy.measures.ceiling import (
    PairKappa,
    SharedLabel,
    mean_pairwise_kappa,
    pairwise_kappa,
    shared_labels,
)
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, evaluate
from freshstack_dspy.measures.holes import Holes, find_holes
from freshstack_dspy.measures.measure import MEASURES, Measure, parse_measure
from freshstack_dspy.measures.qrels import NuggetLabels, NuggetQrels, OfficialDicts
from freshstack_dspy.measures.required_subset import RequiredSubset, required_subset
from freshstack_dspy.measures.retrieval import alpha_ndcg, coverage, recall
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.measures.statistics import Interval, bootstrap_interval
from freshstack_dspy.measures.vote_agreement import vote_agreement

__all__ = [
    "FRESHSTACK_MEASURES",
    "MEASURES",
    "ClassAgreement",
    "Confusion",
    "Estimate",
    "Evaluation",
    "Holes",
    "Interval",
    "Measure",
    "NuggetLabels",
    "NuggetQrels",
    "OfficialDicts",
    "PairKappa",
    "RequiredSubset",
    "Run",
    "SharedLabel",
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
