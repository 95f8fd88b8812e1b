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
from freshstack_dspy.lm.baseline.support import ASKED, NUMBER, PRIOR_UNITS, Json
from freshstack_dspy.text import terms

SENTENCES = 5
"""The most that an answer has."""
AGREES = 0.5
"""From which share of a reference's information on an answer agrees with it."""

_BESIDE, _PASSAGE, _CODE = 0.5, 0.25, 0.5
_WORTH_KEEPING = 0.33
"""The least worth of a further statement, as a share of the best one's."""


class _Statement(NamedTuple):
    passage: int
    text: str
    is_code: bool
    terms: frozenset[str]


def answer(question: str, passages: Mapping[int, str]) -> list[Json]:
    """Extract at most `SENTENCES` statements that answer a question, with the passages they are in.

    None where no passage holds an uncommon term of the question.
    """
    asked = {term for term in terms(" ".join(prose(question))) if not is_common(term)}
    by_passage = [
        [
            _Statement(number, shown(fact), fact.is_code, frozenset(terms(fact.text)))
            for fact in facts(text)
        ]
        for number, text in passages.items()
    ]
    found = [statement for statements in by_passage for statement in statements]
    weights = _weights(asked, found)
    worth = [value for statements in by_passage for value in _worth(statements, weights)]
    places: dict[str, dict[int, None]] = {}
    for statement in found:
        places.setdefault(statement.text.lower(), {})[statement.passage] = None
    return [
        {"text": text, "citations": list(places[text.lower()])}
        for text in (found[place].text for place in _chosen(found, worth))
    ]


def compare(question: str, references: Mapping[int, str], given: str) -> Json:
    """Say whether an answer repeats enough of a reference."""
    best, share = _nearest(question, references, given)
    return {
        "reason": f"It repeats {share:.0%} of what reference {best} says ({AGREES:.0%} is needed).",
        "agrees": "yes" if share >= AGREES else "no",
    }


def grade(question: str, references: Mapping[int, str], given: str) -> Json:
    """Grade how much of a reference an answer repeats: little from a quarter on, full from .9."""
    best, share = _nearest(question, references, given)
    reason = f"It repeats {share:.0%} of what reference {best} says."
    grades = ("none", "little", "most", "full")
    return {"reason": reason, "grade": grades[sum(share >= least for least in (0.25, AGREES, 0.9))]}


def _nearest(question: str, references: Mapping[int, str], given: str) -> tuple[int, float]:
    shares = {number: _repeated(text, given, question) for number, text in references.items()}
    best = max(shares, key=lambda number: (shares[number], -number))
    return best, shares[best]


def _weights(asked: set[str], found: Sequence[_Statement]) -> dict[str, float]:
    counts = Counter(term for statement in found for term in statement.terms & asked)
    return {
        term: information(
            (counts[term] + PRIOR_UNITS * expected_share(term)) / (len(found) + PRIOR_UNITS)
        )
        for term in sorted(asked)
    }


def _worth(statements: Sequence[_Statement], weights: Mapping[str, float]) -> list[float]:
    def total(held: frozenset[str]) -> float:
        return math.fsum(weight for term, weight in weights.items() if term in held)

    own = [total(statement.terms) for statement in statements]
    whole = total(frozenset().union(*(statement.terms for statement in statements)))
    others = [
        sum(own[max(0, place - 1) : place] + own[place + 1 : place + 2])
        for place in range(len(own))
    ]
    return [
        (_CODE if statement.is_code else 1.0) * (value + _BESIDE * near + _PASSAGE * whole)
        for statement, value, near in zip(statements, own, others, strict=True)
    ]


def _chosen(found: Sequence[_Statement], worth: Sequence[float]) -> list[int]:
    """The places of the best statements that do not repeat each other, ascending."""
    order = sorted(range(len(found)), key=lambda place: (-worth[place], place))
    if not order or not worth[order[0]]:
        return []
    chosen: list[int] = []
    for place in order:
        if len(chosen) == SENTENCES or worth[place] < _WORTH_KEEPING * worth[order[0]]:
            break
        held = found[place].terms
        if all(len(held & found[other].terms) < REPEATS * len(held) for other in chosen):
            chosen.append(place)
    return sorted(chosen)


def _repeated(reference: str, given: str, question: str) -> float:
    """The share of a reference's information that an answer holds."""
    asked, held = set(terms(question)), set(terms(given))
    weights = {
        term: information(expected_share(term))
        * (NUMBER if term.isdigit() else 1.0)
        * (ASKED if term in asked else 1.0)
        for term in dict.fromkeys(terms(reference))
    }
    if not weights:  # nothing but stop words or signs
        return float(" ".join(reference.split()).lower() == " ".join(given.split()).lower())
    return math.fsum(w for term, w in weights.items() if term in held) / math.fsum(weights.values())
