"""Diagnostics of a pool: what found what, and what a smaller or a larger pool would hold.

All of them are made from the records of a collection; none needs the index or a model.
"""

from freshstack_dspy.collection.diagnostics.depths import Depth, depth_curve
from freshstack_dspy.collection.diagnostics.diagnosis import Diagnosis, diagnose
from freshstack_dspy.collection.diagnostics.finders import Finder, Finders, finders
from freshstack_dspy.collection.diagnostics.losses import Loss, Losses, leave_one_out
from freshstack_dspy.collection.diagnostics.missing import (
    MissingSupport,
    RankRate,
    missing_support,
)
from freshstack_dspy.collection.diagnostics.pooled import Pooled, pooled
from freshstack_dspy.collection.diagnostics.results import PoolingResult, pooling_results

__all__ = [
    "Depth",
    "Diagnosis",
    "Finder",
    "Finders",
    "Loss",
    "Losses",
    "MissingSupport",
    "Pooled",
    "PoolingResult",
    "RankRate",
    "depth_curve",
    "diagnose",
    "finders",
    "leave_one_out",
    "missing_support",
    "pooled",
    "pooling_results",
]
