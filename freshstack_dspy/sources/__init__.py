"""Where queries and documents come from: dumps, folders, git, wheels, packages, JSON Lines."""

from freshstack_dspy.sources.documents.clones import fetch
from freshstack_dspy.sources.documents.files import read_files
from freshstack_dspy.sources.questions.queries import QueryReading, read_queries

__all__ = ["QueryReading", "fetch", "read_files", "read_queries"]
