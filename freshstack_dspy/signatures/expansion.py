"""Which simpler questions does a question consist of, and how would a model answer it unaided?"""

from typing import Annotated

import dspy

from freshstack_dspy.lm.schemas import Bound
from freshstack_dspy.lm.typed import named
from freshstack_dspy.signatures.checks import (
    DISTINCT,
    FilledText,
    Sentence,
    ShownQuestion,
    within_limit,
)


@named
class DecomposeQuestion(dspy.Signature):
    """Break a community question into the sub-questions that someone answering it must look up.

    Each sub-question stands on its own: it names the concept, product, library, function, option
    or error that it is about, and can be typed into a search box over documents and source code.
    Together they cover what the question needs. Give the most important first; each asks for
    something else, so none is a paraphrase of another. Give at most `limit`; a simple question
    needs only one.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    limit: int = dspy.InputField(desc="the largest number of sub-questions allowed")
    sub_questions: Annotated[
        list[Sentence], DISTINCT, within_limit("sub-questions"), Bound(most="limit")
    ] = dspy.OutputField(desc="the sub-questions, most important first", min_length=1)


@named
class AnswerClosedBook(dspy.Signature):
    """Answer a question from what you know, without any document.

    Write what an expert on its subject would answer, in 150 to 300 words, code included: the
    concept or cause that explains it, and the method, product, library, functions, options or code
    that solve it. Answer as of the day on which it was asked, where that is given. Name things as
    their documentation would. The answer is only used to search for documents like it, so a
    plausible answer in the right vocabulary is better than none, and names may be guesses.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    answer: FilledText = dspy.OutputField(desc="the answer, as Markdown")
