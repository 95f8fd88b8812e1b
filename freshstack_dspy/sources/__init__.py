"""Where queries and documents come from: dumps, folders, git, wheels, packages, JSON Lines."""

from freshstack_dspy.sources.clones import fetch
from freshstack_dspy.sources.files import read_files
from freshstack_dspy.sources.queries import QueryReading, read_queries
from freshstack_dspy.sources.skips import SkipCount, summary

__all__ = ["QueryReading", "SkipCount", "fetch", "read_files", "read_queries", "summary"]
