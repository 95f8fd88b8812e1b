"""The judge's question on each scale; every shape of a call asks the same one."""

from typing import Any

from freshstack_dspy.records import ScaleName
from freshstack_dspy.signatures.grade_answerability import GradeAnswerability
from freshstack_dspy.signatures.grade_support import GradeSupport
from freshstack_dspy.signatures.judge_support import JudgeSupport
from freshstack_dspy.signatures.judge_support_level import JudgeSupportLevel

JUDGES: dict[ScaleName, Any] = {
    "binary": JudgeSupport,
    "support": JudgeSupportLevel,
    "graded_3": GradeSupport,
    "graded_5": GradeAnswerability,
}
"""Signatures with the inputs `question`, `nuggets` and `chunks`, and an output `verdicts` whose
items give the label of a nugget by its number (`label_of`)."""
