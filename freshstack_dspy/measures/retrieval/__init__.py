"""Measures of one query's ranking. To add one: a file here, and a line in `families`."""

from freshstack_dspy.measures.retrieval.alpha_dcg import alpha_dcg
from freshstack_dspy.measures.retrieval.alpha_ndcg import alpha_ndcg
from freshstack_dspy.measures.retrieval.average_precision import average_precision
from freshstack_dspy.measures.retrieval.average_precision_ia import average_precision_ia
from freshstack_dspy.measures.retrieval.coverage import coverage
from freshstack_dspy.measures.retrieval.err_ia import err_ia
from freshstack_dspy.measures.retrieval.f1 import f1
from freshstack_dspy.measures.retrieval.judged_share import judged_share
from freshstack_dspy.measures.retrieval.ndcg import ndcg
from freshstack_dspy.measures.retrieval.nerr_ia import nerr_ia
from freshstack_dspy.measures.retrieval.nnrbp import nnrbp
from freshstack_dspy.measures.retrieval.nrbp import nrbp
from freshstack_dspy.measures.retrieval.precision import precision
from freshstack_dspy.measures.retrieval.precision_ia import precision_ia
from freshstack_dspy.measures.retrieval.r_precision import r_precision
from freshstack_dspy.measures.retrieval.recall import recall
from freshstack_dspy.measures.retrieval.reciprocal_rank import reciprocal_rank
from freshstack_dspy.measures.retrieval.subtopic_recall import subtopic_recall
from freshstack_dspy.measures.retrieval.success import success

__all__ = [
    "alpha_dcg",
    "alpha_ndcg",
    "average_precision",
    "average_precision_ia",
    "coverage",
    "err_ia",
    "f1",
    "judged_share",
    "ndcg",
    "nerr_ia",
    "nnrbp",
    "nrbp",
    "precision",
    "precision_ia",
    "r_precision",
    "recall",
    "reciprocal_rank",
    "subtopic_recall",
    "success",
]
