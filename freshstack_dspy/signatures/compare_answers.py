"""Does an answer agree with one of several reference answers? After GPT4-Eval, as LLM-retEval asks."""

from typing import Literal

import dspy

from freshstack_dspy.signatures.checks import FilledText, Item


class ReferenceAnswer(Item):
    """An answer that another is compared with."""

    number: int
    text: str


class CompareAnswers(dspy.Signature):
    """Decide whether an answer to a question agrees with at least one reference answer.

    It agrees if it gives what answers the question in that reference: the same cause, solution,
    names, numbers and dates, in whatever words and detail. It may say more, as long as nothing in
    it contradicts the reference. It does not agree if what answers the question is missing,
    another, or only half there. Do not judge which answer is right, or better written: only
    whether they agree. A reference that also holds side remarks is matched without them.
    First give the reason, then decide.
    """

    question: str = dspy.InputField(desc="the question that the answers belong to")
    references: list[ReferenceAnswer] = dspy.InputField(desc="the reference answers, numbered")
    answer: str = dspy.InputField(desc="the answer to compare with them")
    reason: FilledText = dspy.OutputField(desc="one sentence: what decides it")
    agrees: Literal["yes", "no"] = dspy.OutputField(
        desc="yes if the answer agrees with at least one reference answer, else no"
    )
