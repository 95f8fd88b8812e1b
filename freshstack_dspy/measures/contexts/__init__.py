"""Measures of a context, the passages that an answer is written from (CRUX)."""

from freshstack_dspy.measures.contexts.required_subset import RequiredSubset, required_subset

__all__ = ["RequiredSubset", "required_subset"]
