"""Calibration: how far a judge can be trusted, and programs tuned against people's labels."""

from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.calibration.labels import read_labels, write_labels
from freshstack_dspy.calibration.optimization import (
    OPTIMIZERS,
    OptimizationReport,
    OptimizerName,
    SplitMetrics,
    optimize,
)

__all__ = [
    "OPTIMIZERS",
    "AgreementReport",
    "OptimizationReport",
    "OptimizerName",
    "SplitMetrics",
    "agree",
    "optimize",
    "read_labels",
    "write_labels",
]
