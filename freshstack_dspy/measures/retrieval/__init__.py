"""Measures of one query's ranking. To add one: a file here, and a line in `families`."""

from freshstack_dspy.measures.retrieval.alpha_ndcg import alpha_ndcg
from freshstack_dspy.measures.retrieval.coverage import coverage
from freshstack_dspy.measures.retrieval.recall import recall

__all__ = ["alpha_ndcg", "coverage", "recall"]
