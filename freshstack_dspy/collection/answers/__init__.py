"""Reading what was said of answers: assignments, citation labels, verdicts."""

from freshstack_dspy.collection.answers.agreement import read_agreement
from freshstack_dspy.collection.answers.assignments import read_assignments
from freshstack_dspy.collection.answers.citations import read_citations
from freshstack_dspy.collection.answers.nuggets import read_nugget_verdicts

__all__ = ["read_agreement", "read_assignments", "read_citations", "read_nugget_verdicts"]
