"""The baseline's reply to a prompt: from a task's name and its inputs to its outputs."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, validate_call

from freshstack_dspy.baseline.statements import (
    Statement,
    listed,
    most_telling,
    statements,
    subjects,
    telling_terms,
    weight,
)
from freshstack_dspy.baseline.support import (
    Json,
    JudgeInputs,
    Numbered,
    support,
    verdicts,
    weights,
)
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.records import ScaleName
from freshstack_dspy.text import find_quotation, is_alike, restates, terms

SENTENCES = 5
"""The most that an answer has."""
AGREES = 0.5
"""From which share of a reference's weight on an answer agrees with it."""
WORDS = 200
"""About how long a passage is."""
_GRADES = {"none": 0.0, "little": 0.25, "most": AGREES, "full": 0.9}
_RELEVANT = (0.15, 0.3, 0.45)
"""The least scores of the grades 1, 2 and 3 of relevance."""
_ASKED = 3
_WORTH_KEEPING = 0.33
_BLANK_LINE = re.compile(r"\n\s*\n")


def _text_of(question: Any) -> Any:
    if isinstance(question, dict):
        return f"{question.get('title', '')} {question.get('body', '')}".strip()
    return question


Question = Annotated[str, BeforeValidator(_text_of)]


class _Passage(BaseModel):
    text: str


def reply(task: str, inputs: Json, demos: Sequence[tuple[Json, Json]] = ()) -> Json:
    """Answer one prompt, by the name of its signature; all values are as JSON has them.

    Only `JudgeSupport` and `JudgeSupportLevel` use the demonstrations: their labels set the
    threshold. A task or inputs of others are a FatalModelError, and a blank text a ReplyError.
    """
    if task not in _TASKS:
        named = "" if task == "answer" else f", {task}"  # `typed.UNNAMED`
        raise FatalModelError(
            "extractive/baseline answers the signatures of this package alone, and was asked for "
            f"another{named}: name a real model in [model] name, "
            "as openai/gpt-4o, or give the program a model of its own, set_lm(connect(…))"
        )
    answered = _TASKS[task]
    if task in ("JudgeSupport", "JudgeSupportLevel"):
        answered = partial(answered, demos=demos)
    try:
        outputs = answered(**inputs)
    except ValidationError as error:
        raise FatalModelError(
            f"extractive/baseline cannot read {task}: {first_fault(error)}. It answers the "
            "signatures of this package as they are; for changed ones name a real model in [model] "
            "name"
        ) from None
    for field, value in outputs.items():
        if not value and field not in _MAY_BE_EMPTY:
            raise ReplyError(
                f"{task}: the baseline has no {field} to give, because the text is blank",
                status="failed",
                call_id=None,
            )
    return outputs


# What is written


def _chosen(text: str, limit: int, known: Sequence[str] = ()) -> list[Statement]:
    """The most telling statements of a text."""
    found = statements(text)
    places = most_telling([each.text for each in found], limit, known)
    return [found[place] for place in places]


def _nuggetize(question: Question, answer: str, limit: int) -> Json:
    """Statements of the answer, in its order, none of which restates the question."""
    found = [each for each in statements(answer) if not restates(each.shown, question)]
    texts = [each.text for each in found]
    chosen = [found[place] for place in most_telling(texts, limit, terms(question))]
    rated = _importance(question, [each.text for each in chosen])
    return {
        "nuggets": [
            {"quote": quote, "text": each.shown, "importance": rating, "doubtful": False}
            for each, rating in zip(chosen, rated, strict=True)
            for span in [find_quotation(each.text, answer)]
            for quote in [answer[span.start : span.end] if span else ""]
        ]
    }


def _importance(question: str, nuggets: Sequence[str]) -> list[str]:
    """Vital is what holds a telling term of the question; if nothing does, all are."""
    asked = telling_terms(question).keys()
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]


def _rate(question: Question, nuggets: list[Numbered]) -> Json:
    rated = _importance(question, [nugget.text for nugget in nuggets])
    numbers = [nugget.number for nugget in nuggets]
    return {
        "ratings": [
            {"nugget": number, "importance": rating}
            for number, rating in zip(numbers, rated, strict=True)
        ]
    }


def _update(
    question: Question, passages: list[Numbered], nuggets: list[Numbered], limit: int
) -> Json:
    """Keep the listed nuggets, and add what each passage tells most beyond the question."""
    found = [{"text": each.text, "nuggets": [each.number], "passages": []} for each in nuggets]
    for passage in passages:
        for nugget in _nuggetize(question, passage.text, 2)["nuggets"]:
            said = set(terms(nugget["text"]))
            alike = (each for each in found if is_alike(said, [set(terms(str(each["text"])))]))
            if (known := next(alike, None)) is None:
                known = {"text": nugget["text"], "nuggets": [], "passages": []}
                found.append(known)
            known["passages"] = [*dict.fromkeys([*known["passages"], passage.number])]
    found = [each for each in found if not restates(str(each["text"]), question)]
    return {"found": found[:limit]}


def _prose(question: str) -> list[str]:
    """The sentences of a question outside its code, those that ask first; else its statements."""
    body = re.sub(r"```.*?(?:```|\Z)", "", question, flags=re.DOTALL)
    sentences = [each.text for each in statements(body)]
    asked = [part.strip() for part in re.findall(r"[^.!?\n]*\?", body) if part.strip(" ?\t")]
    return [*dict.fromkeys([*asked, *sentences])] or [each.text for each in statements(question)]


def _sub_questions(question: Question, limit: int) -> Json:
    found = _prose(question)
    chosen = [found[place] for place in most_telling(found, limit)]
    return {"sub_questions": [text if text.endswith("?") else _ask(text) for text in chosen]}


def _closed_book(question: Question) -> Json:
    """The question's words as statements, and what it is about."""
    chosen = [each.rstrip("?!. ") for each in _prose(question)[:SENTENCES]]
    about = subjects(question, 8)
    concerns = [f"It concerns {listed(about)}."] if about else []
    said = " ".join([*(f"{each}." for each in chosen if each), *concerns])
    return {"answer": said or question.strip()}


def _ask(text: str) -> str:
    return f"What should one know about {listed(subjects(text, 3) or [text.rstrip('?.! ')])}?"


def _synthesize(passages: list[_Passage], style_examples: list[str], limit: int) -> Json:
    """Ask about the most telling statements of passages, which are the answer."""
    marked = sum(example.rstrip().endswith("?") for example in style_examples)
    bare = 2 * marked < len(style_examples)
    answers: dict[str, str] = {}
    for together in zip(*(_chosen(each.text, limit) for each in passages), strict=False):
        answer = "\n\n".join(each.shown for each in together)
        about = [
            (subjects(each.text, 3 if len(together) == 1 else 1), each.text) for each in together
        ]
        ask = f"What should one know about {listed([w for some, text in about for w in some or [text]])}"
        answers.setdefault(ask if bare else f"{ask}?", answer)
    return {"queries": [{"question": ask, "answer": text} for ask, text in answers.items()]}


def _passages(document: str, title: str, limit: int) -> Json:
    """Cut a document into at most `limit` runs of paragraphs of some `WORDS` words, after its title."""
    runs: list[list[str]] = []
    count = WORDS
    for piece in _pieces(document):
        words = len(piece.split())
        if count + words > WORDS:
            runs.append([])
            count = 0
        runs[-1].append(piece)
        count += words
    head = f"{title}: " if title.strip() else ""
    texts = dict.fromkeys(head + "\n\n".join(run) for run in runs[:limit])
    return {"passages": list(texts)}


def _pieces(document: str) -> Iterator[str]:
    """Paragraphs, and the sentences of long ones."""
    for paragraph in filter(str.strip, _BLANK_LINE.split(document)):
        if len(paragraph.split()) <= WORDS:
            yield paragraph.strip()
        else:
            yield from filter(None, map(str.strip, re.split(r"(?<=[.!?])\s+|\n", paragraph)))


def _request(report: str) -> Json:
    about = subjects(report, 8) or _prose(report)[:1]
    return {"request": f"Write a report about {listed(about)}." if about else ""}


def _report_questions(report: str, count: int) -> Json:
    """`count` different questions on a report's statements and subjects, or none."""
    asks = [_ask(each.text) for each in _chosen(report, count)]
    asks += [f"What is {subject}?" for subject in subjects(report, 4 * count)]
    different: dict[str, set[str]] = {}
    for ask in asks:
        if not is_alike(asked := set(terms(ask)), different.values()):
            different[ask] = asked
    return {"questions": list(different)[:count] if len(different) >= count else []}


def _report(request: Question, passages: list[Numbered], words: int) -> Json:
    sentences = _answer(request, passages)["sentences"]
    text = " ".join(each["text"] for each in sentences) or _closed_book(request)["answer"]
    return {"report": " ".join(text.split()[:words])}


# What is judged


def _judge(scale: ScaleName, demos: Sequence[tuple[Json, Json]] = (), **inputs: Any) -> Json:
    def read(fields: Json) -> JudgeInputs:
        question = _text_of(fields.get("question"))
        return JudgeInputs.model_validate({**fields, "question": question})

    return {"verdicts": verdicts(read(inputs), scale, [read(a | b) for a, b in demos])}


def _relevance(question: Question, passages: list[Numbered]) -> Json:
    """Grade passages by the best score of what the question asks."""
    asked = _prose(question)[:_ASKED]
    grades = []
    for passage, found in zip(
        passages, support("", asked, [each.text for each in passages]), strict=True
    ):
        score, matched = max(zip(found.scores, found.matched, strict=True), default=(0.0, ()))
        reason = f"Its best score is {score:.2f}, by the words: {', '.join(matched[:5]) or 'none'}."
        grade = bisect_right(_RELEVANT, score)
        grades.append({"passage": passage.number, "reason": reason, "grade": grade})
    return {"grades": grades}


def _answer(question: Question, passages: list[Numbered]) -> Json:
    """The statements of passages that share most with the question, with every passage that has them."""
    asked = telling_terms(question)
    found: dict[str, list[int]] = {}
    for passage in passages:
        for each in statements(passage.text):
            found.setdefault(each.shown, []).append(passage.number)
    worth = {
        text: math.fsum(weight(term) for term in asked.keys() & set(terms(text))) for text in found
    }
    least = _WORTH_KEEPING * max(worth.values(), default=0.0)
    best = sorted(worth, key=lambda text: -worth[text])[:SENTENCES]
    kept = {text for text in best if worth[text] > 0 and worth[text] >= least}
    sentences = [
        {"text": text, "citations": list(dict.fromkeys(numbers))}
        for text, numbers in found.items()
        if text in kept
    ]
    return {"answerable": bool(sentences), "sentences": sentences}


References = Annotated[list[Numbered], Field(min_length=1)]


def _compare(question: Question, references: References, answer: str) -> Json:
    best, share = _nearest(question, references, answer)
    return {
        "reason": f"It repeats {share:.0%} of what reference {best} says ({AGREES:.0%} is needed).",
        "agrees": "yes" if share >= AGREES else "no",
    }


def _grade(question: Question, references: References, answer: str) -> Json:
    best, share = _nearest(question, references, answer)
    grade = [name for name, least in _GRADES.items() if share >= least][-1]
    return {"reason": f"It repeats {share:.0%} of what reference {best} says.", "grade": grade}


def _nearest(question: str, references: Sequence[Numbered], answer: str) -> tuple[int, float]:
    """The reference that an answer repeats most of, and the share of its weight."""
    asked, held = set(terms(question)), set(terms(answer))

    def share(reference: Numbered) -> float:
        of: Mapping[str, float] = weights(reference.text, asked)
        if not of:  # nothing but stop words or signs
            return float(reference.text.split() == answer.split())
        return math.fsum(value for term, value in of.items() if term in held) / math.fsum(
            of.values()
        )

    best = max(references, key=share)
    return best.number, share(best)


_MAY_BE_EMPTY = frozenset(["nuggets", "found", "verdicts", "answerable", "sentences"])
"""Outputs that say by it that there is nothing."""
_TASKS: dict[str, Callable[..., Json]] = {
    "AnswerClosedBook": validate_call(_closed_book),
    "AnswerQuestion": validate_call(_answer),
    "CompareAnswers": validate_call(_compare),
    "DecomposeQuestion": validate_call(_sub_questions),
    "DecontextualizePassages": validate_call(_passages),
    "GradeAgreement": validate_call(_grade),
    "GradeAnswerability": partial(_judge, "graded_5"),
    "GradeRelevance": validate_call(_relevance),
    "GradeSupport": partial(_judge, "graded_3"),
    "JudgeSupport": partial(_judge, "binary"),
    "JudgeSupportLevel": partial(_judge, "support"),
    "NuggetizeAnswer": validate_call(_nuggetize),
    "RateImportance": validate_call(_rate),
    "SynthesizeQueries": validate_call(_synthesize),
    "UpdateNuggets": validate_call(_update),
    "WriteReport": validate_call(_report),
    "WriteReportRequest": validate_call(_request),
    "WriteSubQuestions": validate_call(_report_questions),
}
