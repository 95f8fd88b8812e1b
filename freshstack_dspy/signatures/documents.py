"""What can be made of documents: passages, questions that they answer, reports and their parts."""

from typing import Annotated

import dspy
from pydantic import AfterValidator, ValidationInfo

from freshstack_dspy.lm.schemas import Bound
from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS, named
from freshstack_dspy.signatures.judge_support import NumberedChunk
from freshstack_dspy.signatures.question import PromptPart, ShownQuestion
from freshstack_dspy.signatures.reply_rules import (
    DISTINCT,
    FilledText,
    Sentence,
    quoted,
    raise_if,
    within_limit,
)
from freshstack_dspy.text import is_alike, plain, terms, unsupported_words


def words_not_in(document: str, title: str, passage: str) -> list[str]:
    """List what a passage says that its document does not; see `unsupported_words`."""
    marked = f"{title}\n{document}"
    return unsupported_words(passage, f"{marked}\n{plain(marked)}")  # `1\\.5` is read as 1.5


def _from_the_document(passages: list[str], info: ValidationInfo) -> list[str]:
    context = info.context or {}
    if "document" in context and ACCEPT_LESSER_FAULTS not in context:
        raise_if(
            f"passage {number} says what the document does not: {', '.join(new)}; keep to it"
            for number, passage in enumerate(passages, 1)
            if (new := words_not_in(context["document"], context.get("title", ""), passage))
        )
    return passages


@named
class DecontextualizePassages(dspy.Signature):
    """Break a document into standalone passages of about 200 words each.

    Each passage can be read by itself: names replace pronouns, and the context that the document
    gives elsewhere is put in where a reader would miss it. Keep the document's own wording and
    facts; add none. Give at most `limit` passages, in the document's order.
    """

    title: str = dspy.InputField(desc="the document's title or path; may be empty")
    document: str = dspy.InputField(desc="the document")
    limit: int = dspy.InputField(desc="the largest number of passages allowed")
    passages: Annotated[
        list[FilledText],
        DISTINCT,
        within_limit("passages"),
        AfterValidator(_from_the_document),
        Bound(most="limit"),
    ] = dspy.OutputField(desc="the passages", min_length=1)


class SeedPassage(PromptPart):
    """A passage that questions are made from, with its path and the headings that it is below."""

    path: str
    headings: tuple[str, ...] = ()
    text: str


class SynthesizedQuery(PromptPart):
    """A question made from passages, with the answer that they give."""

    question: FilledText
    answer: FilledText


@named
class SynthesizeQueries(dspy.Signature):
    """Write questions that a user of what is documented would ask and that the passages answer.

    A question tells the asker's situation: what they want to do, what they see, or what went
    wrong. It is open-ended rather than a quiz about a detail, and can be understood without the
    passages: it names the software or other subject that it is about, never mentions the passages,
    their file or their author, and copies no sentence of them. Do not use rare words of the
    passages that an asker would not know.
    Where there are several passages, each question needs facts from more than one of them.
    The answer states what solves the asker's problem, in full sentences, and uses only what the
    passages say. The questions are about different things.
    Where examples are given, follow their style and length, not their topics. Give at most `limit`.
    """

    passages: list[SeedPassage] = dspy.InputField(
        desc="pieces of documentation or code, each with its path"
    )
    style_examples: list[str] = dspy.InputField(
        desc="questions whose style to follow; may be empty"
    )
    limit: int = dspy.InputField(desc="the largest number of queries allowed")
    queries: Annotated[
        list[SynthesizedQuery], DISTINCT, within_limit("queries"), Bound(most="limit")
    ] = dspy.OutputField(desc="the questions with their answers", min_length=1)


# Reports, as in CRUX (§3.2)


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
