"""Measures of a context, the passages that an answer is written from (CRUX)."""

from freshstack_dspy.measures.contexts.coverage_of_answer import (
    AnswerCoverage,
    answer_coverage,
    answer_density,
)
from freshstack_dspy.measures.contexts.density import density
from freshstack_dspy.measures.contexts.required_subset import (
    RequiredChunks,
    RequiredSubset,
    required_chunks,
    required_subset,
)
from freshstack_dspy.measures.contexts.scores import (
    ContextScores,
    evaluate_context,
    evaluate_contexts,
)

__all__ = [
    "AnswerCoverage",
    "ContextScores",
    "RequiredChunks",
    "RequiredSubset",
    "answer_coverage",
    "answer_density",
    "density",
    "evaluate_context",
    "evaluate_contexts",
    "required_chunks",
    "required_subset",
]
