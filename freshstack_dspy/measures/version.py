"""The version of the measures: which figures may be compared."""

MEASURES_VERSION = 1
"""Raised whenever a figure of a measure, of the same run on the same judgments, may change: a
formula, a tie rule, what a missing query counts, how an interval is drawn. Figures of two versions
are not compared; they are computed again from the stored runs."""
