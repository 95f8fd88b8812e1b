"""What a report answers: the request that it was written for, and its sub-questions (CRUX §3.2)."""

from typing import Annotated

import dspy
from pydantic import AfterValidator, ValidationInfo

from freshstack_dspy.lm.schemas import Bound
from freshstack_dspy.lm.typed import named
from freshstack_dspy.signatures.checks import (
    FilledText,
    Sentence,
    ShownQuestion,
    quoted,
    raise_if,
)
from freshstack_dspy.signatures.judge_support import NumberedChunk
from freshstack_dspy.text import is_alike, terms


def _exactly_and_different(questions: list[str], info: ValidationInfo) -> list[str]:
    faults = []
    count = (info.context or {}).get("count", len(questions))
    if len(questions) != count:
        faults.append(f"exactly {count} questions are wanted, and there are {len(questions)}")
    asked = [set(terms(question)) for question in questions]
    for place, question in enumerate(questions):
        if is_alike(asked[place], asked[:place]):
            faults.append(f"{quoted(question)} asks nearly the same as an earlier one")
    raise_if(faults)
    return questions


@named
class WriteReportRequest(dspy.Signature):
    """Write the request that a report was written for, in about 50 words.

    It names the subject and the aspects that the report has to cover, and says neither what the
    report found nor that there is one already.
    """

    report: str = dspy.InputField(desc="the report")
    request: FilledText = dspy.OutputField(desc="the request")


@named
class WriteSubQuestions(dspy.Signature):
    """Write diverse questions that can reveal the information contained in a report.

    Each question asks for one thing that the report says, and the report answers it. It is
    self-contained: it names what it is about, has the necessary context, and does not mention the
    report. No two ask the same. Together they cover all of the report. Give exactly `count`.
    """

    report: str = dspy.InputField(desc="the report")
    count: int = dspy.InputField(desc="how many questions to write")
    questions: Annotated[
        list[Sentence], AfterValidator(_exactly_and_different), Bound(most="count", least=True)
    ] = dspy.OutputField(desc="the questions, in the order of the report", min_length=1)


@named
class WriteReport(dspy.Signature):
    """Write the report that a request asks for.

    Where there are passages, take all facts from them, and leave out those that the request does
    not ask for; where there are none, write what you know. Cover every aspect of the request, in
    continuous text of at most `words` words, without headings and without a word on the passages.
    """

    request: ShownQuestion = dspy.InputField(desc="the request for the report")
    passages: list[NumberedChunk] = dspy.InputField(desc="the passages, numbered; may be empty")
    words: int = dspy.InputField(desc="the most words that the report may have")
    report: FilledText = dspy.OutputField(desc="the report")
