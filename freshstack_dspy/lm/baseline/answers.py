"""Answers by extraction: the statements of passages that say most of what a question asks.

A statement is worth the weights of the question's terms that it holds, half of those in the
statements before and behind it, and a quarter of those in its whole passage; code is worth half.
A term weighs the more, the rarer it is in English and among all statements. An answer agrees with
a reference if it repeats half of what that says, words of the question counting half.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.lm.baseline.nuggets import REPEATS, facts, shown
from freshstack_dspy.lm.baseline.phrases import expected_share, information, is_common
from freshstack_dspy.lm.baseline.questions import prose
from freshstack_dspy.lm.baseline.support import ASKED, NUMBER, PRIOR_UNITS
from freshstack_dspy.text import terms

SENTENCES = 5
"""The most that an answer has."""
AGREES = 0.5
"""From which share of a reference's information on an answer agrees with it."""

_BESIDE, _PASSAGE, _CODE = 0.5, 0.25, 0.5
_WORTH_KEEPING = 0.33
"""The least worth of a further statement, as a share of the best one's."""


class Extract(NamedTuple):
    """A statement and the numbers of the passages that it stands in."""

    text: str
    citations: list[int]


class Comparison(NamedTuple):
    """Whether an answer agrees with one of its references, and by what."""

    agrees: bool
    reason: str


class _Statement(NamedTuple):
    passage: int
    text: str
    is_code: bool
    terms: frozenset[str]


def answer(question: str, passages: Mapping[int, str]) -> list[Extract]:
    """Extract the statements that answer a question.

    Returns:
        At most `SENTENCES` different statements in the passages' order; none where no passage
        holds an uncommon term of the question.
    """
    asked = {term for term in terms(" ".join(prose(question))) if not is_common(term)}
    by_passage = {number: _statements(number, text) for number, text in passages.items()}
    found = [statement for statements in by_passage.values() for statement in statements]
    weights = _weights(asked, found)
    worth = [value for each in by_passage.values() for value in _worth(each, weights)]
    places: dict[str, list[int]] = {}
    for statement in found:
        numbers = places.setdefault(statement.text.lower(), [])
        numbers += [statement.passage] * (statement.passage not in numbers)
    chosen = _chosen(found, worth)
    return [Extract(found[place].text, places[found[place].text.lower()]) for place in chosen]


def compare(question: str, references: Mapping[int, str], given: str) -> Comparison:
    """Say whether an answer repeats enough of a reference."""
    asked, held = set(terms(question)), set(terms(given))
    shares = {number: _repeated(text, given, held, asked) for number, text in references.items()}
    best = max(shares, key=lambda number: (shares[number], -number))
    said = f"It repeats {shares[best]:.0%} of what reference {best} says ({AGREES:.0%} is needed)."
    return Comparison(shares[best] >= AGREES, said)


def _statements(number: int, text: str) -> list[_Statement]:
    return [
        _Statement(number, shown(fact), fact.is_code, frozenset(terms(fact.text)))
        for fact in facts(text)
    ]


def _weights(asked: set[str], found: Sequence[_Statement]) -> dict[str, float]:
    counts = Counter(term for statement in found for term in statement.terms & asked)
    prior = {term: PRIOR_UNITS * expected_share(term) for term in asked}
    return {
        term: information((counts[term] + prior[term]) / (len(found) + PRIOR_UNITS))
        for term in sorted(asked)
    }


def _worth(statements: Sequence[_Statement], weights: Mapping[str, float]) -> list[float]:
    own = [_total(statement.terms, weights) for statement in statements]
    whole = _total(frozenset().union(*(statement.terms for statement in statements)), weights)
    return [
        (_CODE if statements[place].is_code else 1.0)
        * (
            value
            + _BESIDE * sum(own[max(0, place - 1) : place] + own[place + 1 : place + 2])
            + _PASSAGE * whole
        )
        for place, value in enumerate(own)
    ]


def _total(held: frozenset[str], weights: Mapping[str, float]) -> float:
    return math.fsum(weight for term, weight in weights.items() if term in held)


def _chosen(found: Sequence[_Statement], worth: Sequence[float]) -> list[int]:
    """The places of the best statements that do not repeat each other, ascending."""
    order = sorted(range(len(found)), key=lambda place: (-worth[place], place))
    if not order or not worth[order[0]]:
        return []
    chosen: list[int] = []
    for place in order:
        if len(chosen) == SENTENCES or worth[place] < _WORTH_KEEPING * worth[order[0]]:
            break
        if not any(_repeats(found[place], found[other]) for other in chosen):
            chosen.append(place)
    return sorted(chosen)


def _repeats(statement: _Statement, other: _Statement) -> bool:
    shared = len(statement.terms & other.terms)
    return shared >= REPEATS * len(statement.terms) if statement.terms else True


def _repeated(reference: str, given: str, held: set[str], asked: set[str]) -> float:
    """The share of a reference's information that an answer holds."""
    weights = {
        term: information(expected_share(term))
        * (NUMBER if term.isdigit() else 1.0)
        * (ASKED if term in asked else 1.0)
        for term in dict.fromkeys(terms(reference))
    }
    if not weights:  # nothing but stop words or signs
        return float(" ".join(reference.split()).lower() == " ".join(given.split()).lower())
    return math.fsum(w for term, w in weights.items() if term in held) / math.fsum(weights.values())
