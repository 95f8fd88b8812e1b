"""Lexical entailment: how much of what a nugget says is found, close together, in a chunk.

The score of a nugget and a chunk is the share of the nugget's information that the chunk's best
passage repeats:

    score = size / (size + DOUBT) * (½ coverage(2 units) + ½ coverage(10 units))

A unit is a sentence, or enough lines to make one; coverage(k) is that of the best k units in a
row: the weight of the nugget's terms in them over the weight of all its terms. A term weighs

    information(share of units that hold it) · ASKED if the question has it · 1 / √(its nuggets)

where the share is counted in the chunk and smoothed by `rarity.expected_share`: a word that is
everywhere in the chunk or in the question says nothing of one fact, nor does one that most
nuggets of the call have. A number weighs double, and the terms of a name of code that
gives n of them 1 / √n each. `size` is the nugget's weight before the last two factors; so a nugget
of a single word needs a better match than a sentence. A nugget that denies something loses DENIAL
of its score where the unit nearest to it denies nothing.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from freshstack_dspy.lm.baseline.rarity import expected_share, information
from freshstack_dspy.terms import terms

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

    Args:
        question: Whose nuggets they are; may be empty.
        nuggets: The facts looked for.
        chunks: The texts looked into.

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
