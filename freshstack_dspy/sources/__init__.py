"""Where queries and documents come from: Stack Exchange dumps, JSON Lines, folders, git."""

from freshstack_dspy.sources.files import read_files
from freshstack_dspy.sources.queries import QueryReading, read_queries

__all__ = ["QueryReading", "read_files", "read_queries"]
