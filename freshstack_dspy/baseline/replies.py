"""The baseline's reply to a prompt: from a task's name and its inputs to its outputs."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from freshstack_dspy.baseline.words import (
    WORTH_KEEPING,
    Statement,
    listed,
    most_telling,
    statements,
    subjects,
    support,
    telling_terms,
    weight,
    weights,
)
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.records import ScaleName
from freshstack_dspy.text import find_quotation, is_alike, restates, terms

Json = dict[str, Any]
"""A JSON object, as prompts and replies have it: nuggets, passages and chunks have `text`, `number`."""
SENTENCES = 5
"""The most that an answer has."""
AGREES = 0.5
"""From which share of a reference's weight on an answer agrees with it."""
WORDS = 200
"""About how long a passage is."""
THRESHOLD, FULL = 0.33, 0.05
"""From which score on a nugget counts as supported, and by how much more in full."""
STEP = 0.05
"""How far the threshold moves for each label that it then contradicts no longer."""
CUT_POINTS: dict[ScaleName, tuple[float, ...]] = {
    "graded_3": (0.2, THRESHOLD, 0.5),
    "graded_5": (0.15, 0.25, THRESHOLD, 0.45, 0.6),
}
"""The least scores of the labels 1, 2, … on scales that grade every nugget."""
_GRADES = {"none": 0.0, "little": 0.25, "most": AGREES, "full": 0.9}
_RELEVANT = (0.15, 0.3, 0.45)
"""The least scores of the grades 1, 2 and 3 of relevance."""
_ASKED, _WORDS_SHOWN = 3, 5
_BLANK_LINE = re.compile(r"\n\s*\n")


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
    asked = {name: _text_of(inputs[name]) for name in ("question", "request") if name in inputs}
    answered = _TASKS[task]
    if task in ("JudgeSupport", "JudgeSupportLevel"):
        answered = partial(answered, demos=demos)
    try:
        outputs = answered(**inputs | asked)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FatalModelError(
            f"extractive/baseline cannot read {task}: {error}. It answers the signatures of this "
            "package as they are; for changed ones name a real model in [model] name"
        ) from None
    for field, value in outputs.items():
        if not value and field not in _MAY_BE_EMPTY:
            raise ReplyError(
                f"{task}: the baseline has no {field} to give, because the text is blank",
                status="failed",
                call_id=None,
            )
    return outputs


def _text_of(question: Any) -> Any:
    if isinstance(question, dict):
        return f"{question.get('title', '')} {question.get('body', '')}".strip()
    return question


# What is written


def _nuggetize(question: str, answer: str, limit: int) -> Json:
    """Statements of the answer, in its order, none of which restates the question."""
    stated = [each for each in statements(answer) if not restates(each.shown, question)]
    places = most_telling([each.text for each in stated], limit, terms(question))
    chosen = [stated[place] for place in places]
    ratings = _importance(question, [each.text for each in chosen])
    nuggets = []
    for each, rating in zip(chosen, ratings, strict=True):
        span = find_quotation(each.text, answer)
        quote = answer[span.start : span.end] if span else ""
        nuggets.append(
            {"quote": quote, "text": each.shown, "importance": rating, "doubtful": False}
        )
    return {"nuggets": nuggets}


def _importance(question: str, nuggets: Sequence[str]) -> list[str]:
    """Vital is what holds a telling term of the question; if nothing does, all are."""
    asked = telling_terms(question).keys()
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]


def _rate(question: str, nuggets: list[Json]) -> Json:
    rated = _importance(question, _texts(nuggets))
    pairs = zip(nuggets, rated, strict=True)
    return {
        "ratings": [{"nugget": nugget["number"], "importance": rating} for nugget, rating in pairs]
    }


def _texts(items: list[Json]) -> list[str]:
    return [item["text"] for item in items]


def _update(question: str, passages: list[Json], nuggets: list[Json], limit: int) -> Json:
    """Keep the listed nuggets, and add what each passage tells most beyond the question."""
    kept = [
        {"text": nugget["text"], "nuggets": [nugget["number"]], "passages": []}
        for nugget in nuggets
    ]
    for passage in passages:
        for nugget in _nuggetize(question, passage["text"], 2)["nuggets"]:
            said = set(terms(nugget["text"]))
            alike = (held for held in kept if is_alike(said, [set(terms(held["text"]))]))
            if (known := next(alike, None)) is None:
                known = {"text": nugget["text"], "nuggets": [], "passages": []}
                kept.append(known)
            known["passages"] = [*dict.fromkeys([*known["passages"], passage["number"]])]
    return {"found": [nugget for nugget in kept if not restates(nugget["text"], question)][:limit]}


def _prose(question: str) -> list[str]:
    """The sentences of a question outside its code, those that ask first; else its statements."""
    body = re.sub(r"```.*?(?:```|\Z)", "", question, flags=re.DOTALL)
    sentences = [each.text for each in statements(body)]
    asked = [part.strip() for part in re.findall(r"[^.!?\n]*\?", body) if part.strip(" ?\t")]
    return [*dict.fromkeys([*asked, *sentences])] or [each.text for each in statements(question)]


def _sub_questions(question: str, limit: int) -> Json:
    sentences = _prose(question)
    chosen = [sentences[place] for place in most_telling(sentences, limit)]
    return {"sub_questions": [text if text.endswith("?") else _ask(text) for text in chosen]}


def _closed_book(question: str) -> Json:
    """The question's words as statements, and what it is about."""
    chosen = [each.rstrip("?!. ") for each in _prose(question)[:SENTENCES]]
    about = subjects(question, 8)
    concerns = [f"It concerns {listed(about)}."] if about else []
    said = " ".join([*(f"{each}." for each in chosen if each), *concerns])
    return {"answer": said or question.strip()}


def _ask(text: str) -> str:
    return f"What should one know about {listed(subjects(text, 3) or [text.rstrip('?.! ')])}?"


def _synthesize(passages: list[Json], style_examples: list[str], limit: int) -> Json:
    """Ask about the most telling statements of passages, which are the answer."""
    marked = sum(example.rstrip().endswith("?") for example in style_examples)
    mark = "" if 2 * marked < len(style_examples) else "?"
    answers: dict[str, str] = {}
    for together in zip(*(_chosen(text, limit) for text in _texts(passages)), strict=False):
        most = 3 if len(together) == 1 else 1
        about = [
            word
            for statement in together
            for word in subjects(statement.text, most) or [statement.text]
        ]
        ask = f"What should one know about {listed(about)}{mark}"
        answers.setdefault(ask, "\n\n".join(statement.shown for statement in together))
    return {"queries": [{"question": ask, "answer": text} for ask, text in answers.items()]}


def _chosen(text: str, limit: int) -> list[Statement]:
    """The most telling statements of a text."""
    stated = statements(text)
    return [
        stated[place] for place in most_telling([statement.text for statement in stated], limit)
    ]


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


def _report(request: str, passages: list[Json], words: int) -> Json:
    sentences = _answer(request, passages)["sentences"]
    text = " ".join(each["text"] for each in sentences) or _closed_book(request)["answer"]
    return {"report": " ".join(text.split()[:words])}


def _answer(question: str, passages: list[Json]) -> Json:
    """The statements of passages that share most with the question, with every passage that has them."""
    asked = telling_terms(question).keys()
    stated: dict[str, list[int]] = {}
    for passage in passages:
        for each in statements(passage["text"]):
            stated.setdefault(each.shown, []).append(passage["number"])
    worth = {text: math.fsum(weight(term) for term in asked & {*terms(text)}) for text in stated}
    least = WORTH_KEEPING * max(worth.values(), default=0.0)
    best = sorted(worth, key=lambda text: -worth[text])[:SENTENCES]
    kept = {text for text in best if worth[text] > 0 and worth[text] >= least}
    sentences = [
        {"text": text, "citations": list(dict.fromkeys(numbers))}
        for text, numbers in stated.items()
        if text in kept
    ]
    return {"answerable": bool(sentences), "sentences": sentences}


# What is judged


def _judge(
    scale: ScaleName,
    *,
    question: str,
    nuggets: list[Json],
    chunks: list[Json],
    demos: Sequence[tuple[Json, Json]] = (),
    **_others: Any,
) -> Json:
    """Judge every chunk of a call: `chunk`, `reason`, and `supported` nuggets or their `grades`."""
    needed = threshold([label for inputs, outputs in demos for label in _labels(inputs | outputs)])
    verdicts = []
    matches_of = support(question, _texts(nuggets), _texts(chunks))
    for chunk, matches in zip(chunks, matches_of, strict=True):
        by_number = list(zip((nugget["number"] for nugget in nuggets), matches, strict=True))
        best = max(by_number, key=lambda one: one[1].score, default=None)
        reason = "It shares no words with any nugget."
        if best is not None and best[1].words:
            words = ", ".join(best[1].words[:_WORDS_SHOWN])
            score = f"{best[1].score:.2f}"
            reason = f"Nugget {best[0]} is nearest with a score of {score}, by the words: {words}."
        verdict: Json = {"chunk": chunk["number"], "reason": reason}
        if scale in CUT_POINTS:
            verdict["grades"] = [
                {"nugget": number, "grade": bisect_right(CUT_POINTS[scale], match.score)}
                for number, match in by_number
            ]
        else:
            verdict["supported"] = [
                number
                if scale == "binary"
                else {
                    "nugget": number,
                    "grade": 1 + (match.score >= needed + FULL),
                    "quotes": [match.nearest],
                }
                for number, match in by_number
                if match.score >= needed
            ]
        verdicts.append(verdict)
    return {"verdicts": verdicts}


def threshold(demonstrated: Sequence[tuple[float, bool]]) -> float:
    """From which score on a nugget counts as supported, by the scores and labels of demonstrations.

    The threshold within .2 of the default that contradicts the fewest labels; each `STEP` away from
    the default must be worth a label.
    """

    def loss(cut: float) -> float:
        wrong = sum((score >= cut) != supported for score, supported in demonstrated)
        return wrong + abs(cut - THRESHOLD) / STEP

    return min((THRESHOLD + step / 100 for step in range(-20, 21)), key=loss)


def _labels(demo: Json) -> Iterator[tuple[float, bool]]:
    """The score of each pair of a demonstration, and whether its verdict says support."""
    supported = {verdict["chunk"]: verdict["supported"] for verdict in demo["verdicts"]}
    question, nuggets, chunks = _text_of(demo["question"]), demo["nuggets"], demo["chunks"]
    for chunk, matches in zip(
        chunks, support(question, _texts(nuggets), _texts(chunks)), strict=True
    ):
        if chunk["number"] in supported:
            said = supported[chunk["number"]]
            numbers = {entry["nugget"] if isinstance(entry, dict) else entry for entry in said}
            for nugget, match in zip(nuggets, matches, strict=True):
                yield match.score, nugget["number"] in numbers


def _nearness(question: str, passages: list[Json]) -> list[tuple[float, Sequence[str]]]:
    """The best score, and its words, of what the question asks, for each passage."""
    matches_of = support("", _prose(question)[:_ASKED], _texts(passages))
    return [
        max(((match.score, match.words) for match in matches), default=(0.0, ()))
        for matches in matches_of
    ]


def _ranking(question: str, passages: list[Json]) -> Json:
    scored = zip(_nearness(question, passages), passages, strict=True)
    ordered = sorted(scored, key=lambda pair: -pair[0][0])
    return {"ranking": [passage["number"] for _, passage in ordered]}


def _best(question: str, passages: list[Json]) -> Json:
    return {"best": _ranking(question, passages)["ranking"][0]}


def _relevance(question: str, passages: list[Json]) -> Json:
    """Grade passages by the best score of what the question asks."""
    grades = []
    for passage, (score, words) in zip(passages, _nearness(question, passages), strict=True):
        shared = ", ".join(words[:_WORDS_SHOWN]) or "none"
        reason = f"Its best score is {score:.2f}, by the words: {shared}."
        grade = bisect_right(_RELEVANT, score)
        grades.append({"passage": passage["number"], "reason": reason, "grade": grade})
    return {"grades": grades}


def _contradictions(**_inputs: Any) -> Json:
    """None, for words alone do not tell."""
    return {"declines": False, "contradicted": []}


def _compare(question: str, references: list[Json], answer: str) -> Json:
    best, share = _nearest(question, references, answer)
    return {
        "reason": f"It repeats {share:.0%} of what reference {best} says ({AGREES:.0%} is needed).",
        "agrees": "yes" if share >= AGREES else "no",
    }


def _grade(question: str, references: list[Json], answer: str) -> Json:
    best, share = _nearest(question, references, answer)
    grade = [name for name, least in _GRADES.items() if share >= least][-1]
    return {"reason": f"It repeats {share:.0%} of what reference {best} says.", "grade": grade}


def _nearest(question: str, references: list[Json], answer: str) -> tuple[int, float]:
    """The reference that an answer repeats most of, and the share of its weight."""
    asked, held = set(terms(question)), set(terms(answer))

    def share(reference: Json) -> float:
        worth = weights(reference["text"], asked)
        if not worth:  # nothing but stop words or signs
            return float(reference["text"].split() == answer.split())
        repeated = math.fsum(value for term, value in worth.items() if term in held)
        return repeated / math.fsum(worth.values())

    best = max(references, key=share)
    return best["number"], share(best)


_MAY_BE_EMPTY = frozenset(
    ["nuggets", "found", "verdicts", "answerable", "sentences", "declines", "contradicted"]
)
"""Outputs that say by it that there is nothing."""
_TASKS: dict[str, Callable[..., Json]] = {
    "AnswerClosedBook": _closed_book,
    "AnswerQuestion": _answer,
    "ChooseBestPassage": _best,
    "CompareAnswers": _compare,
    "DecomposeQuestion": _sub_questions,
    "DecontextualizePassages": _passages,
    "FindContradictions": _contradictions,
    "GradeAgreement": _grade,
    "GradeAnswerability": partial(_judge, "graded_5"),
    "GradeRelevance": _relevance,
    "GradeSupport": partial(_judge, "graded_3"),
    "JudgeSupport": partial(_judge, "binary"),
    "JudgeSupportLevel": partial(_judge, "support"),
    "NuggetizeAnswer": _nuggetize,
    "RankPassages": _ranking,
    "RateImportance": _rate,
    "SynthesizeQueries": _synthesize,
    "UpdateNuggets": _update,
    "WriteReport": _report,
    "WriteReportRequest": _request,
    "WriteSubQuestions": _report_questions,
}
