"""Verdicts: which nuggets each chunk of a call supports, with what matched as the reason."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from freshstack_dspy.lm.baseline.calibration import LabelledScore, threshold
from freshstack_dspy.lm.baseline.entailment import Support, support
from freshstack_dspy.terms import terms

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


def _reason(nuggets: Sequence[_Nugget], found: Support, needed: float) -> str:
    """Name the nugget that comes nearest, its score, and the words that it shares."""
    best = max(range(len(nuggets)), key=lambda place: found.scores[place], default=None)
    if best is None or not found.matched[best]:
        return "It shares no words with any nugget."
    nugget = nuggets[best]
    written = {term: word for word in _WORD.findall(nugget.text) for term in terms(word)}
    words = list(dict.fromkeys(written[term] for term in found.matched[best]))[:_WORDS_SHOWN]
    return (
        f"Nugget {nugget.number} is nearest with a score of {found.scores[best]:.2f} "
        f"({needed:.2f} is needed), by the words: {', '.join(words)}."
    )
