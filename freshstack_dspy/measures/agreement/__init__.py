"""How far those who label agree: judges with people, people with each other."""

from freshstack_dspy.measures.agreement.ceiling import (
    PairKappa,
    SharedLabel,
    mean_pairwise_kappa,
    pairwise_kappa,
    shared_labels,
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

__all__ = [
    "ClassAgreement",
    "Confusion",
    "LabelPair",
    "PairKappa",
    "SharedLabel",
    "by_class",
    "class_precision",
    "class_recall",
    "cohen_kappa",
    "confusion",
    "exact_match",
    "mean_pairwise_kappa",
    "pairwise_kappa",
    "shared_labels",
    "vote_agreement",
]
