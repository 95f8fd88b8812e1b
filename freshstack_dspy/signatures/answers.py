"""How is a question answered, from passages or unaided, and does one answer agree with another?"""

from typing import Annotated, Literal

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.lm.schemas import Bound, NuggetNumber, PassageNumber, Reason
from freshstack_dspy.lm.typed import ACCEPT_LESSER_FAULTS, named
from freshstack_dspy.signatures.judge_support import NumberedChunk, NumberedNugget
from freshstack_dspy.signatures.question import PromptPart, ShownQuestion
from freshstack_dspy.signatures.reply_rules import (
    DISTINCT,
    FilledText,
    Sentence,
    numbers_of,
    quoted,
    raise_if,
    within_limit,
)
from freshstack_dspy.text import find_quotation


class AnswerSentence(PromptPart):
    """One sentence of an answer, and the passages that support it."""

    text: FilledText
    citations: Annotated[list[PassageNumber], DISTINCT] = Field(
        description="the numbers of the passages that support the sentence, the one that does so "
        "best first; may be empty"
    )


def _cited_from_the_passages(
    sentences: list[AnswerSentence], info: ValidationInfo
) -> list[AnswerSentence]:
    passages = numbers_of(info.context, "passages")
    faults = []
    for place, sentence in enumerate(sentences, 1):
        if passages and (invented := sorted(set(sentence.citations) - passages)):
            faults.append(f"sentence {place} cites passage {invented}, which does not exist")
    # The field before is missing here where it was itself at fault, and that is said already.
    if (answerable := info.data.get("answerable")) is not None and answerable != bool(sentences):
        faults.append(
            "answerable is true, and there is no sentence"
            if answerable
            else "answerable is false, and there are sentences; give none, or set it to true"
        )
    raise_if(faults)
    return sentences


@named
class AnswerQuestion(dspy.Signature):
    """Answer a question from passages, and cite the passages that support each sentence.

    Use only what the passages say, and nothing else that you know. Some passages may have nothing
    to do with the question; ignore them. Answer what was asked, with the functions, options,
    values and steps that it takes, in as few sentences as will do; code belongs to the sentence
    that introduces it. After each sentence give the numbers of the passages that state it. If the
    passages answer a part of the question, answer that part. If they answer none of it, set
    `answerable` to false and give no sentence.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    passages: list[NumberedChunk] = dspy.InputField(
        desc="the passages, numbered, each with its path"
    )
    answerable: bool = dspy.OutputField(desc="whether the passages answer any of the question")
    sentences: Annotated[
        list[AnswerSentence], AfterValidator(_cited_from_the_passages), Bound(most=40)
    ] = dspy.OutputField(desc="the sentences of the answer, in order; none if not answerable")


class ReferenceAnswer(PromptPart):
    """An answer that another is compared with."""

    number: int
    text: str


@named
class CompareAnswers(dspy.Signature):
    """Decide whether an answer to a question agrees with at least one reference answer.

    It agrees if it gives what answers the question in that reference: the same cause, solution,
    names, numbers and dates, in whatever words and detail. It may say more, as long as nothing in
    it contradicts the reference. It does not agree if what answers the question is missing,
    different or incomplete. Do not judge which answer is right, or better written: only
    whether they agree. A reference that also holds side remarks is matched without them.
    First give the reason, then decide.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    references: list[ReferenceAnswer] = dspy.InputField(desc="the reference answers, numbered")
    answer: str = dspy.InputField(desc="the answer to compare with them")
    reason: Reason = dspy.OutputField(desc="one sentence: what decides it")
    agrees: Literal["yes", "no"] = dspy.OutputField(
        desc="yes if the answer agrees with at least one reference answer, else no"
    )


AgreementGrade = Literal["none", "little", "most", "full"]
"""Ascending, from 0 to 3."""


@named
class GradeAgreement(dspy.Signature):
    """Grade how far an answer to a question agrees with the reference answer that it is nearest to.

    full: it gives all that answers the question in that reference, in whatever words and detail.
    most: it gives the main thing; a detail, a qualifier or one of several parts is missing.
    little: it shares something with the reference, and lacks the main thing or contradicts it.
    none: it gives nothing of what answers the question, or something else.

    It may say more, as long as nothing in it contradicts the reference. Do not grade which answer is right, or better written: only how far they agree. Side
    remarks of a reference do not count. First give the reason, then the grade.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    references: list[ReferenceAnswer] = dspy.InputField(desc="the reference answers, numbered")
    answer: str = dspy.InputField(desc="the answer to compare with them")
    reason: Reason = dspy.OutputField(desc="one sentence: what decides it")
    grade: AgreementGrade = dspy.OutputField(
        desc="how far the answer agrees with the reference answer that it is nearest to"
    )


class ContradictedNugget(PromptPart):
    """A nugget that an answer contradicts, and its words that do."""

    nugget: NuggetNumber = Field(description="the number of the nugget")
    quote: Sentence = Field(
        description="the words of the answer that contradict it, copied exactly and as few as will "
        "do"
    )
    reason: Reason = Field(description="one sentence: why both cannot be true")


def _in_the_answer(
    contradicted: list[ContradictedNugget], info: ValidationInfo
) -> list[ContradictedNugget]:
    inputs = info.context or {}
    numbers = numbers_of(inputs, "nuggets")
    faults = []
    if numbers and (unknown := sorted({each.nugget for each in contradicted} - numbers)):
        faults.append(f"there is no nugget {unknown}")
    if numbers and ACCEPT_LESSER_FAULTS not in inputs:
        faults += [
            f"the answer does not have the words {quoted(each.quote)}, quoted for nugget "
            f"{each.nugget}; copy them exactly"
            for each in contradicted
            if not find_quotation(each.quote, inputs["answer"])
        ]
    raise_if(faults)
    return contradicted


@named
class FindContradictions(dspy.Signature):
    """Find the nuggets that an answer to a question contradicts, and tell whether it answers at all.

    A nugget is a fact that is known to be true. The answer contradicts it if what the answer states
    and the nugget cannot both be true of the same thing, version and case: another value, name,
    cause, order or direction, or a denial. Someone who followed the answer would then do or believe
    something wrong. What the answer leaves out, says less precisely, or solves in another way that
    may work too is no contradiction. Most answers contradict no nugget.

    An answer declines if it gives nothing of what was asked and says so: that it cannot or will not
    answer, does not know, or found nothing. One that answers a part does not decline.
    """

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    answer: str = dspy.InputField(desc="the answer")
    declines: bool = dspy.OutputField(desc="whether the answer declines to answer")
    contradicted: Annotated[list[ContradictedNugget], DISTINCT, AfterValidator(_in_the_answer)] = (
        dspy.OutputField(desc="the nuggets that it contradicts; mostly none")
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
