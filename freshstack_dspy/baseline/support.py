"""How far a chunk supports a nugget, by their words, and the threshold that labels it."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic import BaseModel, field_validator

from freshstack_dspy.baseline.statements import weight
from freshstack_dspy.records import ScaleName
from freshstack_dspy.text import terms

Json = dict[str, Any]

THRESHOLD = 0.33
"""From which score on a nugget counts as supported."""
FULL = 0.05
"""By how much more than the threshold a score is full support."""
CUT_POINTS: dict[ScaleName, tuple[float, ...]] = {
    "graded_3": (0.2, THRESHOLD, 0.5),
    "graded_5": (0.15, 0.25, THRESHOLD, 0.45, 0.6),
}
"""The least scores of the labels 1, 2, … on scales that grade every nugget."""

UNIT_TERMS = 8
ASKED = 0.5
"""What a word of the question is worth, as a share."""
NUMBER = 2.0
DOUBT = 2.0
"""Added to the weight of a nugget, so that a short one needs a better match."""
STEP = 0.05
"""How far the threshold moves for each label that it then contradicts no longer."""
_WORDS_SHOWN = 5
_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+")


class Numbered(BaseModel):
    """A nugget or a chunk of a call."""

    number: int
    text: str


class Supported(BaseModel):
    """The numbers of the nuggets that a chunk supports."""

    chunk: int
    supported: list[int]

    @field_validator("supported", mode="before")
    @classmethod
    def _numbers(cls, supported: list[Any]) -> list[Any]:
        return [each["nugget"] if isinstance(each, dict) else each for each in supported]


class JudgeInputs(BaseModel):
    """What a judge is given and, in a demonstration, what it should have answered."""

    question: str
    nuggets: list[Numbered]
    chunks: list[Numbered]
    verdicts: list[Supported] = []


class Support(NamedTuple):
    """How far one chunk supports each nugget, in the order given."""

    scores: tuple[float, ...]
    """One score in [0, 1) for each nugget."""
    matched: tuple[tuple[str, ...], ...]
    """For each nugget the terms that the chunk holds, the most telling first."""
    nearest: tuple[str, ...]
    """For each nugget the sentence, or run of lines, of the chunk that holds most of it."""


def verdicts(
    call: JudgeInputs, scale: ScaleName, demonstrated: Sequence[JudgeInputs] = ()
) -> list[Json]:
    """Judge every chunk of a call: `chunk`, `reason`, and `supported` nuggets or their `grades`."""
    needed = threshold([pair for each in demonstrated for pair in _labelled(each)])
    judged = []
    for chunk, support, scores in _scored(call):
        verdict: Json = {"chunk": chunk, "reason": _reason(call.nuggets, support)}
        if scale in CUT_POINTS:
            verdict["grades"] = [
                {"nugget": number, "grade": bisect_right(CUT_POINTS[scale], score)}
                for number, score in scores.items()
            ]
        else:
            quotes = dict(zip(scores, support.nearest, strict=True))
            verdict["supported"] = [
                number
                if scale == "binary"
                else {
                    "nugget": number,
                    "grade": 1 + (score >= needed + FULL),
                    "quotes": [quotes[number]],
                }
                for number, score in scores.items()
                if score >= needed
            ]
        judged.append(verdict)
    return judged


def threshold(demonstrated: Sequence[tuple[float, bool]]) -> float:
    """From which score on a nugget counts as supported, by the scores and labels of demonstrations.

    The threshold within .2 of the default that contradicts the fewest labels; each `STEP` away from the
    default must be worth a label.
    """

    def loss(cut: float) -> float:
        wrong = sum((score >= cut) != supported for score, supported in demonstrated)
        return wrong + abs(cut - THRESHOLD) / STEP

    return min((THRESHOLD + step / 100 for step in range(-20, 21)), key=loss)


def support(question: str, nuggets: Sequence[str], chunks: Iterable[str]) -> list[Support]:
    """Score every nugget against every chunk; one `Support` for each chunk, in order.

    A score is the share of a nugget's weight that the chunk repeats: half of it within two units
    in a row, half anywhere.
    """
    asked = set(terms(question))
    weighed = [weights(nugget, asked) for nugget in nuggets]
    return [_support(weighed, chunk) for chunk in chunks]


def weights(text: str, asked: Iterable[str] = ()) -> dict[str, float]:
    """What each term of a text tells; numbers count double, words of the question half."""
    return {
        term: weight(term) * (NUMBER if term.isdigit() else 1) * (ASKED if term in asked else 1)
        for term in terms(text)
    }


def _support(weighed: Sequence[Mapping[str, float]], chunk: str) -> Support:
    units = list(_units(chunk))
    held = [terms_ for _, terms_ in units]
    pairs = [one | other for one, other in pairwise(held)] or held
    everywhere = set().union(*held)
    scores, matched, nearest = [], [], []
    for of_nugget in weighed:
        common = {term: value for term, value in of_nugget.items() if term in everywhere}

        def within(terms_: set[str], common: Mapping[str, float] = common) -> float:
            return math.fsum(value for term, value in common.items() if term in terms_)

        whole = math.fsum(of_nugget.values())
        covered = (max(map(within, pairs)) + math.fsum(common.values())) / 2
        scores.append(covered / (whole + DOUBT))
        matched.append(tuple(sorted(common, key=lambda term: -common[term])))
        nearest.append(units[max(range(len(units)), key=lambda place: within(held[place]))][0])
    return Support(tuple(scores), tuple(matched), tuple(nearest))


def _units(text: str) -> Iterator[tuple[str, set[str]]]:
    """Cut a text into sentences, or runs of lines, of at least `UNIT_TERMS` terms; with these."""
    found: list[str] = []
    start = begin = 0
    for end, after in [*(each.span() for each in _BREAK.finditer(text)), (len(text), len(text))]:
        found += terms(text[begin:end])
        begin = after
        if len(found) >= UNIT_TERMS:
            yield text[start:end].strip(), set(found)
            start, found = after, []
    if found or start == 0:
        yield text[start:].strip(), set(found)


def _scored(call: JudgeInputs) -> Iterator[tuple[int, Support, dict[int, float]]]:
    """The number of each chunk, its support, and the score of each nugget by number."""
    numbers = [nugget.number for nugget in call.nuggets]
    texts = [nugget.text for nugget in call.nuggets]
    supports = support(call.question, texts, [chunk.text for chunk in call.chunks])
    for chunk, each in zip(call.chunks, supports, strict=True):
        yield chunk.number, each, dict(zip(numbers, each.scores, strict=True))


def _labelled(call: JudgeInputs) -> Iterator[tuple[float, bool]]:
    supported = {verdict.chunk: verdict.supported for verdict in call.verdicts}
    for chunk, _, scores in _scored(call):
        if chunk in supported:
            yield from ((score, number in supported[chunk]) for number, score in scores.items())


def _reason(nuggets: Sequence[Numbered], support: Support) -> str:
    """Name the nugget that comes nearest, its score, and the terms that it shares."""
    best = max(range(len(nuggets)), key=lambda place: support.scores[place], default=None)
    if best is None or not support.matched[best]:
        return "It shares no words with any nugget."
    words = ", ".join(support.matched[best][:_WORDS_SHOWN])
    number, score = nuggets[best].number, support.scores[best]
    return f"Nugget {number} is nearest with a score of {score:.2f}, by the words: {words}."
