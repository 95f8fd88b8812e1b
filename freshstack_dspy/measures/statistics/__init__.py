"""How sure a figure is, and whether two runs differ."""

from freshstack_dspy.measures.statistics.bootstrap import Interval, bootstrap_interval

__all__ = ["Interval", "bootstrap_interval"]
