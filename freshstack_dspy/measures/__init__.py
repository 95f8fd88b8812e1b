"""Measures: pure functions over runs, judgments and labels."""

from freshstack_dspy.measures.compare import compare, ranking_agreement
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate, grouped, read_groups
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import NuggetQrels, read_qrels
from freshstack_dspy.measures.run import Run, read_run, write_run

__all__ = [
    "FRESHSTACK_MEASURES",
    "NuggetQrels",
    "Run",
    "compare",
    "evaluate",
    "grouped",
    "parse_measure",
    "ranking_agreement",
    "read_groups",
    "read_qrels",
    "read_run",
    "write_run",
]
