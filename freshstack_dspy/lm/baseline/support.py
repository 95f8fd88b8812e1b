"""The threshold of support, moved by the labels that the prompt demonstrates.

Few-shot optimizers put judged calls into the prompt. Their labels say how strict the user's people
are, so the threshold moves from its default to where it fits them best, as far as they suffice:
it is the maximum a posteriori centre of a logistic curve over the score, under a normal prior
around the default, with both labels weighing the same.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from freshstack_dspy.lm.baseline.phrases import expected_share, information
from freshstack_dspy.records import ScaleName
from freshstack_dspy.text import terms

THRESHOLD = 0.25
"""From which score on a nugget counts as supported."""

UNIT_TERMS = 8
NEAR_UNITS, WIDE_UNITS = 2, 10
PRIOR_UNITS = 30.0
ASKED = 0.5
NUMBER = 2.0
DOUBT = 2.0
DENIAL = 0.2

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

_TINY = float(np.finfo(np.float64).tiny)
_WORD = re.compile(r"\w+(?:\.\w+)*")
_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+")
_DENIES = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE
)


class Support(NamedTuple):
    """How far one chunk supports each nugget, in the order given."""

    scores: tuple[float, ...]
    """One score in [0, 1) for each nugget."""
    matched: tuple[tuple[str, ...], ...]
    """For each nugget the terms that the chunk holds, the most telling first."""


def support(question: str, nuggets: Sequence[str], chunks: Iterable[str]) -> list[Support]:
    """Score every nugget against every chunk.

    Returns:
        One `Support` for each chunk, in order.
    """
    facts = _Facts(question, nuggets)
    return [facts.found_in(chunk) for chunk in chunks]


class _Unit(NamedTuple):
    """A sentence, or enough lines to make one."""

    text: str
    terms: list[str]


class _Facts:
    """The nuggets of one call as a matrix over their terms, made once for all chunks."""

    def __init__(self, question: str, nuggets: Sequence[str]) -> None:
        rows = [_parts(nugget) for nugget in nuggets]
        self.vocabulary = sorted(set().union(*rows))
        self.column = {term: place for place, term in enumerate(self.vocabulary)}
        self.holds = np.array(
            [[row.get(term, 0.0) for term in self.vocabulary] for row in rows], dtype=np.float64
        ).reshape(len(rows), len(self.vocabulary))
        self.denies = np.array([bool(_DENIES.search(nugget)) for nugget in nuggets], dtype=np.bool_)
        self.share = np.array([expected_share(term) for term in self.vocabulary], dtype=np.float64)
        self.emphasis = np.array([NUMBER if t.isdigit() else 1.0 for t in self.vocabulary])
        asked = set(terms(question))
        self.discount = np.array([ASKED if term in asked else 1.0 for term in self.vocabulary])
        self.discount /= np.sqrt(np.maximum(1, (self.holds > 0).sum(axis=0)))

    def found_in(self, chunk: str) -> Support:
        units = _units(chunk)
        present = self._present(units)
        counts = _counts(present)
        share = (counts[-1] + PRIOR_UNITS * self.share) / (len(units) + PRIOR_UNITS)
        weight = self.emphasis * information(share)
        size = self.holds @ weight
        parts = self.holds * (weight * self.discount)
        whole = np.maximum(parts.sum(axis=1), _TINY)
        covered = _best(parts, counts, NEAR_UNITS) + _best(parts, counts, WIDE_UNITS)
        scores = covered / 2 / whole * size / (size + DOUBT)
        if self.denies.any():
            scores *= self._agreement(units, parts @ present.T)
        return Support(tuple(scores.tolist()), self._matched(parts * (counts[-1] > 0)))

    def _present(self, units: list[_Unit]) -> Bools:
        """Which terms each unit holds, as a matrix of units by terms."""
        present = np.zeros((len(units), len(self.vocabulary)), dtype=np.bool_)
        for row, unit in enumerate(units):
            for term in unit.terms:
                column = self.column.get(term)
                if column is not None:
                    present[row, column] = True
        return present

    def _agreement(self, units: list[_Unit], coverage: Floats) -> Floats:
        """What is left of each nugget's score once denials are compared."""
        unit_denies = np.array([bool(_DENIES.search(unit.text)) for unit in units])
        return np.where(self.denies & ~unit_denies[coverage.argmax(axis=1)], 1 - DENIAL, 1.0)

    def _matched(self, weights: Floats) -> tuple[tuple[str, ...], ...]:
        order = np.argsort(-weights, axis=1, kind="stable")
        return tuple(
            tuple(self.vocabulary[place] for place in places if row[place] > 0)
            for row, places in zip(weights, order, strict=True)
        )


def _parts(nugget: str) -> dict[str, float]:
    """The terms of a nugget; those of a name that gives n terms count 1 / √n each."""
    parts: dict[str, float] = {}
    for word in _WORD.findall(nugget):
        found = terms(word)
        for term in found:
            parts[term] = max(parts.get(term, 0.0), len(found) ** -0.5)
    return parts


def _units(text: str) -> list[_Unit]:
    """Cut a text into sentences, or runs of lines, of at least `UNIT_TERMS` terms."""
    units: list[_Unit] = []
    parts: list[str] = []
    found: list[str] = []
    for part in _BREAK.split(text):
        parts.append(part)
        found += terms(part)
        if len(found) >= UNIT_TERMS:
            units.append(_Unit(" ".join(parts), found))
            parts, found = [], []
    if found or not units:
        units.append(_Unit(" ".join(parts), found))
    return units


def _counts(present: Bools) -> Counts:
    """In how many of the first k units each term is, for k from 0: units + 1 by terms."""
    counts = np.zeros((len(present) + 1, present.shape[1]), dtype=np.int64)
    np.cumsum(present, axis=0, out=counts[1:])
    return counts


def _best(parts: Floats, counts: Counts, length: int) -> Floats:
    """What the best run of `length` units holds of each nugget, by weight."""
    length = min(length, len(counts) - 1)
    held = counts[length:] > counts[:-length]
    best: Floats = (parts @ held.T).max(axis=1)
    return best


SLOPE = 8.0
SPREAD = 0.05
"""Standard deviation of the prior: how far label sets differ in what they call support."""

_REACH = 4 * SPREAD
_HALVINGS = 40


class LabelledScore(NamedTuple):
    """The score of a demonstrated pair and whether it was labelled as supported."""

    score: float
    supported: bool


def threshold(demonstrated: Sequence[LabelledScore]) -> float:
    """From which score on a nugget counts as supported.

    Returns:
        The threshold, at most four standard deviations of the prior from the default.
    """
    if not demonstrated:
        return THRESHOLD
    low, high = THRESHOLD - _REACH, THRESHOLD + _REACH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _pull(demonstrated, middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _pull(demonstrated: Sequence[LabelledScore], centre: float) -> float:
    """Derivative of the log posterior: positive where the threshold should be higher."""
    positives = sum(pair.supported for pair in demonstrated)
    weight = {
        True: len(demonstrated) / (2 * max(1, positives)),
        False: len(demonstrated) / (2 * max(1, len(demonstrated) - positives)),
    }
    pull = sum(
        weight[pair.supported]
        * (1 / (1 + math.exp(SLOPE * (centre - pair.score))) - pair.supported)
        for pair in demonstrated
    )
    return SLOPE * pull - (centre - THRESHOLD) / SPREAD**2


CUT_POINTS: dict[ScaleName, tuple[float, ...]] = {
    "support": (0.2, THRESHOLD),
    "graded_3": (0.15, THRESHOLD, 0.4),
    "graded_5": (0.1, 0.2, THRESHOLD, 0.35, 0.5),
}
"""The least scores of the labels 1, 2, …"""

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
