"""Which simpler questions does a question consist of, and how would a model answer it unaided?"""

from typing import Annotated

import dspy

from freshstack_dspy.signatures.checks import FilledText, within_limit


class DecomposeQuestion(dspy.Signature):
    """Break a community question into the sub-questions that someone answering it must look up.

    Each sub-question stands on its own: it names the library, function, option or error that it
    is about, and can be typed into a search box over documentation and source code.
    Together they cover what the question needs. Give at most `limit`.
    """

    question: str = dspy.InputField(desc="the question, as Markdown")
    limit: int = dspy.InputField(desc="the largest number of sub-questions allowed")
    sub_questions: Annotated[list[FilledText], within_limit("sub-questions")] = dspy.OutputField(
        desc="the sub-questions", min_length=1
    )


class AnswerClosedBook(dspy.Signature):
    """Answer a technical question from what you know, without any document.

    Write the answer that an expert of the library in question would give: the likely cause, the
    functions, options and code that solve it. Name things as the library's documentation would.
    The answer is used to search for documents like it, so a plausible answer in the right
    vocabulary is better than none.
    """

    question: str = dspy.InputField(desc="the question, as Markdown")
    answer: FilledText = dspy.OutputField(desc="the answer, as Markdown")
