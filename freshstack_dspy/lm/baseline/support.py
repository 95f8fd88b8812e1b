"""How far a chunk supports a nugget, by their words, and the threshold that labels it.

Few-shot optimizers put judged calls into the prompt. Their labels say how strict the user's people
are, so the threshold moves from its default to where it fits them best, as far as they suffice:
it is the maximum a posteriori centre of a logistic curve over the score, under a normal prior
around the default, with both labels weighing the same.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, field_validator

from freshstack_dspy.lm.baseline.phrases import expected_share, information
from freshstack_dspy.records import ScaleName
from freshstack_dspy.text import terms

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]

THRESHOLD = 0.25
"""From which score on a nugget counts as supported."""
FULL = 0.05
"""By how much more than the threshold a score is full support."""
CUT_POINTS: dict[ScaleName, tuple[float, ...]] = {
    "graded_3": (0.15, THRESHOLD, 0.4),
    "graded_5": (0.1, 0.2, THRESHOLD, 0.35, 0.5),
}
"""The least scores of the labels 1, 2, … on scales that grade every nugget."""

UNIT_TERMS = 8
NEAR_UNITS, WIDE_UNITS = 2, 10
PRIOR_UNITS = 30.0
ASKED = 0.5
NUMBER = 2.0
DOUBT = 2.0
DENIAL = 0.2

SLOPE = 8.0
SPREAD = 0.05
"""Standard deviation of the prior: how far label sets differ in what they call support."""

_REACH = 4 * SPREAD
_HALVINGS = 40
_WORDS_SHOWN = 5
_TINY = float(np.finfo(np.float64).tiny)
_WORD = re.compile(r"\w+(?:\.\w+)*")
_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+")
_DENIES = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE
)


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
        return [one["nugget"] if isinstance(one, dict) else one for one in supported]


class JudgeInputs(BaseModel):
    """What a judge is given and, in a demonstration, what it should have answered."""

    question: str
    nuggets: list[Numbered]
    chunks: list[Numbered]
    verdicts: list[Supported] = []


def verdicts(
    call: JudgeInputs, scale: ScaleName, demonstrated: Sequence[JudgeInputs] = ()
) -> list[Json]:
    """Judge every chunk of a call: `chunk`, `reason`, and `supported` nuggets or their `grades`."""
    needed = threshold([pair for one in demonstrated for pair in _labelled(one)])
    said = []
    for chunk, found, scores in _scored(call):
        if scale in ("binary", "support"):
            reason = _reason(call.nuggets, found, f" ({needed:.2f} is needed)")
            supported = {
                number: {"nugget": number, "grade": 1 + (score >= needed + FULL), "quotes": [unit]}
                for (number, score), unit in zip(scores, found.nearest, strict=True)
                if score >= needed
            }
            judged: Json = {
                "supported": [*(supported if scale == "binary" else supported.values())]
            }
        else:
            reason = _reason(call.nuggets, found)
            judged = {
                "grades": [
                    {"nugget": number, "grade": bisect_right(CUT_POINTS[scale], score)}
                    for number, score in scores
                ]
            }
        said.append({"chunk": chunk, "reason": reason, **judged})
    return said


class Support(NamedTuple):
    """How far one chunk supports each nugget, in the order given."""

    scores: tuple[float, ...]
    """One score in [0, 1) for each nugget."""
    matched: tuple[tuple[str, ...], ...]
    """For each nugget the terms that the chunk holds, the most telling first."""
    nearest: tuple[str, ...]
    """For each nugget the sentence, or run of lines, of the chunk that holds most of it."""


def threshold(demonstrated: Sequence[tuple[float, bool]]) -> float:
    """From which score on a nugget counts as supported, by the scores and labels of demonstrations.

    At most four standard deviations of the prior from the default.
    """
    if not demonstrated:
        return THRESHOLD
    positives = sum(supported for _, supported in demonstrated)
    negatives = len(demonstrated) - positives
    weight = {
        True: len(demonstrated) / (2 * max(1, positives)),
        False: len(demonstrated) / (2 * max(1, negatives)),
    }
    low, high = THRESHOLD - _REACH, THRESHOLD + _REACH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        pull = sum(
            weight[supported] * (1 / (1 + math.exp(SLOPE * (middle - score))) - supported)
            for score, supported in demonstrated
        )
        # The derivative of the log posterior is positive where the threshold should be higher.
        if SLOPE * pull - (middle - THRESHOLD) / SPREAD**2 > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def support(question: str, nuggets: Sequence[str], chunks: Iterable[str]) -> list[Support]:
    """Score every nugget against every chunk; one `Support` for each chunk, in order."""
    # The nuggets as a matrix over their terms, made once for all chunks.
    rows = [_parts(nugget) for nugget in nuggets]
    asked = set(terms(question))
    vocabulary = sorted(set().union(*rows))
    column = {term: place for place, term in enumerate(vocabulary)}
    holds = np.array(
        [[row.get(term, 0.0) for term in vocabulary] for row in rows], dtype=np.float64
    ).reshape(len(rows), len(vocabulary))
    denies = np.array([bool(_DENIES.search(nugget)) for nugget in nuggets], dtype=np.bool_)
    expected = np.array([expected_share(term) for term in vocabulary], dtype=np.float64)
    emphasis = np.array([NUMBER if t.isdigit() else 1.0 for t in vocabulary])
    discount = np.array([ASKED if term in asked else 1.0 for term in vocabulary])
    discount /= np.sqrt(np.maximum(1, (holds > 0).sum(axis=0)))

    supports = []
    for chunk in chunks:
        units = _units(chunk)
        # Which terms each unit holds, and in how many of the first k units each term is.
        present = np.zeros((len(units), len(vocabulary)), dtype=np.bool_)
        for row, (_, found) in enumerate(units):
            present[row, [column[term] for term in found if term in column]] = True
        counts = np.zeros((len(units) + 1, len(vocabulary)), dtype=np.int64)
        np.cumsum(present, axis=0, out=counts[1:])

        share = (counts[-1] + PRIOR_UNITS * expected) / (len(units) + PRIOR_UNITS)
        weight = emphasis * information(share)
        size = holds @ weight
        parts = holds * (weight * discount)
        covered = _best(parts, counts, NEAR_UNITS) + _best(parts, counts, WIDE_UNITS)
        scores = covered / 2 / np.maximum(parts.sum(axis=1), _TINY) * size / (size + DOUBT)
        nearest = (parts @ present.T).argmax(axis=1)
        if denies.any():
            unit_denies = np.array([bool(_DENIES.search(text)) for text, _ in units])
            scores *= np.where(denies & ~unit_denies[nearest], 1 - DENIAL, 1.0)

        held = parts * (counts[-1] > 0)
        matched = (
            tuple(vocabulary[place] for place in places if row[place] > 0)
            for row, places in zip(held, np.argsort(-held, axis=1, kind="stable"), strict=True)
        )
        quotes = tuple(units[place][0] for place in nearest)
        supports.append(Support(tuple(scores.tolist()), tuple(matched), quotes))
    return supports


def _parts(nugget: str) -> dict[str, float]:
    """The terms of a nugget; those of a name that gives n terms count 1 / √n each."""
    parts: dict[str, float] = {}
    for word in _WORD.findall(nugget):
        found = terms(word)
        for term in found:
            parts[term] = max(parts.get(term, 0.0), len(found) ** -0.5)
    return parts


def _units(text: str) -> list[tuple[str, list[str]]]:
    """Cut a text into sentences, or runs of lines, of at least `UNIT_TERMS` terms; with these."""
    units: list[tuple[str, list[str]]] = []
    found: list[str] = []
    start = begin = 0
    for end, after in [*(one.span() for one in _BREAK.finditer(text)), (len(text), len(text))]:
        found += terms(text[begin:end])
        begin = after
        if len(found) >= UNIT_TERMS:
            units.append((text[start:end].strip(), found))
            start, found = after, []
    if found or not units:
        units.append((text[start:].strip(), found))
    return units


def _best(parts: Floats, counts: npt.NDArray[np.int64], length: int) -> Floats:
    """What the best run of `length` units holds of each nugget, by weight."""
    length = min(length, len(counts) - 1)
    held = counts[length:] > counts[:-length]
    best: Floats = (parts @ held.T).max(axis=1)
    return best


def _scored(call: JudgeInputs) -> Iterator[tuple[int, Support, list[tuple[int, float]]]]:
    """The number of each chunk, its support, and the score of each nugget by number."""
    numbers = [nugget.number for nugget in call.nuggets]
    texts = [nugget.text for nugget in call.nuggets]
    found = support(call.question, texts, [chunk.text for chunk in call.chunks])
    for chunk, one in zip(call.chunks, found, strict=True):
        yield chunk.number, one, list(zip(numbers, one.scores, strict=True))


def _labelled(call: JudgeInputs) -> Iterator[tuple[float, bool]]:
    supported = {verdict.chunk: verdict.supported for verdict in call.verdicts}
    for chunk, _, scores in _scored(call):
        if chunk in supported:
            for number, score in scores:
                yield score, number in supported[chunk]


def _reason(nuggets: Sequence[Numbered], found: Support, bar: str = "") -> str:
    """Name the nugget that comes nearest, its score, and the words that it shares."""
    best = max(range(len(nuggets)), key=lambda place: found.scores[place], default=None)
    if best is None or not found.matched[best]:
        return "It shares no words with any nugget."
    nugget = nuggets[best]
    written = {term: word for word in _WORD.findall(nugget.text) for term in terms(word)}
    words = list(dict.fromkeys(written[term] for term in found.matched[best]))[:_WORDS_SHOWN]
    return (
        f"Nugget {nugget.number} is nearest with a score of {found.scores[best]:.2f}{bar}, "
        f"by the words: {', '.join(words)}."
    )
