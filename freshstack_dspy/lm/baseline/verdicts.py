"""Verdicts: which nuggets each chunk of a call supports, with what matched as the reason.

On the scales of several grades a nugget has as many as cut points its score reaches. The label
that is support by default is given from `THRESHOLD` on, on every scale, so that all of them agree
on what is support. The other cut points are round numbers: of those of partial support .2 fitted
two public label sets best (docs/baseline.md); those of `graded_3` and `graded_5` are measured
against nobody.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from pydantic import BaseModel

from freshstack_dspy.lm.baseline.calibration import LabelledScore, threshold
from freshstack_dspy.lm.baseline.entailment import THRESHOLD, Support, support
from freshstack_dspy.records import ScaleName
from freshstack_dspy.terms import terms

CUT_POINTS: dict[ScaleName, tuple[float, ...]] = {
    "support": (0.2, THRESHOLD),
    "graded_3": (0.15, THRESHOLD, 0.4),
    "graded_5": (0.1, 0.2, THRESHOLD, 0.35, 0.5),
}
"""The least scores of the labels 1, 2, …"""

_WORD = re.compile(r"\w+(?:\.\w+)*")
_WORDS_SHOWN = 5


class _Nugget(BaseModel):
    number: int
    text: str


class _Chunk(BaseModel):
    number: int
    path: str
    text: str


class JudgeInputs(BaseModel):
    """What a judge is given: the nuggets of a question, and chunks."""

    question: str
    nuggets: list[_Nugget]
    chunks: list[_Chunk]


class _Supported(BaseModel):
    chunk: int
    supported: list[int]


class Judged(JudgeInputs):
    """A demonstrated call: what the judge was given, and what it should have said."""

    verdicts: list[_Supported]


class Verdict(NamedTuple):
    """What the baseline says of one chunk."""

    chunk: int
    reason: str
    supported: list[int]


class Grade(NamedTuple):
    """A nugget and its grade."""

    nugget: int
    grade: int


class GradedVerdict(NamedTuple):
    """What the baseline says of one chunk on a scale of several grades."""

    chunk: int
    reason: str
    grades: list[Grade]


def graded_verdicts(given: JudgeInputs, scale: ScaleName) -> list[GradedVerdict]:
    """Grade every nugget in every chunk of a call, on a scale other than the binary one.

    Returns:
        One verdict for each chunk, in the order given, with the grades in that of the nuggets.
    """
    cuts = CUT_POINTS[scale]
    return [
        GradedVerdict(
            chunk.number,
            _reason(given.nuggets, found),
            [
                Grade(nugget.number, sum(1 for _ in takewhile(score.__ge__, cuts)))
                for nugget, score in _scored(given, found)
            ],
        )
        for chunk, found in zip(given.chunks, _support(given), strict=True)
    ]


def verdicts(given: JudgeInputs, judged: Sequence[Judged] = ()) -> list[Verdict]:
    """Judge every chunk of a call.

    Args:
        given: The question, its nuggets and the chunks.
        judged: Demonstrated calls, whose labels set the threshold.

    Returns:
        One verdict for each chunk, in the order given.
    """
    needed = threshold([pair for call in judged for pair in _labelled(call)])
    return [
        Verdict(
            chunk.number,
            _reason(given.nuggets, found, needed),
            list(dict.fromkeys(n.number for n, s in _scored(given, found) if s >= needed)),
        )
        for chunk, found in zip(given.chunks, _support(given), strict=True)
    ]


def _support(call: JudgeInputs) -> list[Support]:
    return support(
        call.question,
        [nugget.text for nugget in call.nuggets],
        [chunk.text for chunk in call.chunks],
    )


def _scored(call: JudgeInputs, found: Support) -> Iterator[tuple[_Nugget, float]]:
    return zip(call.nuggets, found.scores, strict=True)


def _labelled(call: Judged) -> Iterator[LabelledScore]:
    supported = {verdict.chunk: set(verdict.supported) for verdict in call.verdicts}
    for chunk, found in zip(call.chunks, _support(call), strict=True):
        if chunk.number in supported:
            for nugget, score in _scored(call, found):
                yield LabelledScore(score, nugget.number in supported[chunk.number])


def _reason(nuggets: Sequence[_Nugget], found: Support, needed: float | None = None) -> str:
    """Name the nugget that comes nearest, its score, and the words that it shares."""
    best = max(range(len(nuggets)), key=lambda place: found.scores[place], default=None)
    if best is None or not found.matched[best]:
        return "It shares no words with any nugget."
    nugget = nuggets[best]
    written = {term: word for word in _WORD.findall(nugget.text) for term in terms(word)}
    words = list(dict.fromkeys(written[term] for term in found.matched[best]))[:_WORDS_SHOWN]
    bar = "" if needed is None else f" ({needed:.2f} is needed)"
    return (
        f"Nugget {nugget.number} is nearest with a score of {found.scores[best]:.2f}{bar}, "
        f"by the words: {', '.join(words)}."
    )
