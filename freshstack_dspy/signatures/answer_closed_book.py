"""How would a model answer a question without any document?"""

import dspy

from freshstack_dspy.signatures.checks import FilledText


class AnswerClosedBook(dspy.Signature):
    """Answer a technical question from what you know, without any document.

    Write the answer that an expert of the library in question would give: the likely cause, the
    functions, options and code that solve it. Name things as the library's documentation would.
    The answer is used to search for documents like it, so a plausible answer in the right
    vocabulary is better than none.
    """

    question: str = dspy.InputField(desc="the question, as Markdown")
    answer: FilledText = dspy.OutputField(desc="the answer, as Markdown")
