"""How far those who label agree: judges with people, people with each other."""

from freshstack_dspy.measures.agreement.ceiling import (
    PairKappa,
    SharedLabel,
    mean_pairwise_kappa,
    pairwise_kappa,
    shared_labels,
)
from freshstack_dspy.measures.agreement.many_raters import (
    Level,
    Ratings,
    fleiss_kappa,
    krippendorff_alpha,
)
from freshstack_dspy.measures.agreement.nominal import (
    ClassAgreement,
    Confusion,
    LabelPair,
    by_class,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
)
from freshstack_dspy.measures.agreement.votes import vote_agreement
from freshstack_dspy.measures.agreement.weighted import (
    Weights,
    binarised,
    binarised_kappa,
    weighted_kappa,
)

__all__ = [
    "ClassAgreement",
    "Confusion",
    "LabelPair",
    "Level",
    "PairKappa",
    "Ratings",
    "SharedLabel",
    "Weights",
    "binarised",
    "binarised_kappa",
    "by_class",
    "class_precision",
    "class_recall",
    "cohen_kappa",
    "confusion",
    "exact_match",
    "fleiss_kappa",
    "krippendorff_alpha",
    "mean_pairwise_kappa",
    "pairwise_kappa",
    "shared_labels",
    "vote_agreement",
    "weighted_kappa",
]
