"""Nuggets by extraction: the statements of an answer that tell most beyond the question."""

import math
import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from freshstack_dspy.lm.baseline.markdown import Statement, blocks, statements
from freshstack_dspy.lm.baseline.phrases import expected_share, information, is_common
from freshstack_dspy.text import find_quotation, restates, terms


def importance(question: str, nuggets: Sequence[str]) -> list[Literal["vital", "okay"]]:
    """Rate nuggets.

    A nugget is vital if at least one of its telling terms, those on no list of common words, is
    also one of the question; it is then about what was asked. The others are okay. If none is
    about what was asked, nothing tells them apart, and all are vital.

    Returns:
        One rating for each nugget, in the order given.
    """
    asked = {term for term in terms(question) if not is_common(term)}
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]


KNOWN = 0.25
"""What a term is still worth that the reader already has, as one of the question."""

REPEATS = 0.7
"""The share of its information that makes a statement a repetition of another."""

WORTH_KEEPING = 0.33
"""The least value of a kept statement, as a share of the best one's."""

_MOST = 500


class _Candidate(NamedTuple):
    place: int
    weights: dict[str, float]
    value: float
    repeats: float
    """The largest share of its information that one chosen statement has too."""

    def beside(self, chosen: "_Candidate") -> "_Candidate":
        whole = sum(self.weights.values())
        shared = sum(self.weights[term] for term in self.weights if term in chosen.weights)
        share = shared / whole if whole else 1.0
        return self._replace(repeats=max(self.repeats, share))


def most_telling(
    texts: Sequence[str],
    limit: int,
    *,
    known: Collection[str] = (),
    favoured: Collection[int] = (),
) -> list[int]:
    """Choose statements greedily by what they add, and say where they stand.

    Returns:
        Places in `texts`, ascending; at least one if there is a text.
    """
    known, favoured = frozenset(known), frozenset(favoured)
    candidates = [
        _candidate(place, text, known, 1.5 if place in favoured else 1.0)
        for place, text in enumerate(texts)
    ]
    candidates = sorted(candidates, key=lambda item: (-item.value, item.place))[:_MOST]
    floor = WORTH_KEEPING * candidates[0].value if candidates else 0.0
    chosen: list[int] = []
    while candidates and len(chosen) < limit:
        best = max(candidates, key=lambda item: item.value * (1 - item.repeats))
        if chosen and best.value * (1 - best.repeats) < floor:
            break
        chosen.append(best.place)
        candidates = [item.beside(best) for item in candidates]
        candidates = [item for item in candidates if item.repeats < REPEATS]
    return sorted(chosen)


def _candidate(place: int, text: str, known: frozenset[str], favour: float) -> _Candidate:
    found = terms(text)
    weights = {
        term: information(expected_share(term)) * (KNOWN if term in known else 1.0)
        for term in dict.fromkeys(found)
    }
    value = favour * sum(weights.values()) / math.sqrt(len(found) + 4)
    return _Candidate(place, weights, value, repeats=0.0)


_CHATTER = re.compile(
    r"(?:(?:i )?hope (?:this|that|it|you)|thanks|thank you|good luck|cheers|welcome|sorry|hi\b|"
    r"hello\b|let me know|feel free|any (?:help|ideas|suggestions))",
    re.IGNORECASE,
)
_FEWEST_TERMS, _FEWEST_BEFORE_COLON = 3, 6
_LONGEST_FACT = 400


class Extracted(NamedTuple):
    """A nugget, and the words of the answer that it was taken from."""

    quote: str
    """Exactly as they stand there; empty where they do not stand together."""
    text: str


def nuggets(question: str, answer: str, limit: int) -> list[Extracted]:
    """Extract nuggets.

    Returns:
        1 to `limit` different nuggets, in the answer's order, none of which restates the
        question; none if the answer has no text, or says nothing else.
    """
    found = [fact for fact in facts(answer) if not restates(shown(fact), question)]
    said = [place for place, fact in enumerate(found) if not fact.is_code]
    texts = [fact.text for fact in found]
    places = most_telling(texts, limit, known=set(terms(question)), favoured=said)
    return [Extracted(_quote(found[place], answer), shown(found[place])) for place in places]


def _quote(fact: Statement, answer: str) -> str:
    span = find_quotation(fact.text, answer)
    return answer[span.start : span.end] if span else ""


def facts(markdown: str) -> list[Statement]:
    """The different statements of a Markdown text that state something.

    Returns:
        Of a text that states nothing all statements, and of one without any the text itself;
        none if it is blank.
    """
    found: dict[str, Statement] = {}
    for block in blocks(markdown):
        for statement in statements(block):
            text = shortened(statement.text, _LONGEST_FACT)
            found.setdefault(text.lower(), statement._replace(text=text))
    if not found and markdown.strip():
        return [Statement(shortened(markdown, _LONGEST_FACT), is_code=False)]
    return [fact for fact in found.values() if _states_something(fact)] or list(found.values())


def is_chatter(sentence: str) -> bool:
    """Whether a sentence greets, thanks or excuses."""
    return bool(_CHATTER.match(sentence))


def shown(fact: Statement) -> str:
    """A statement as a nugget's text: code as a code span."""
    return f"`{fact.text}`" if fact.is_code and "`" not in fact.text else fact.text


def shortened(text: str, length: int) -> str:
    """At most `length` characters of a text, to the last whole word, without double spaces."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return text[: length + 1].rpartition(" ")[0] or text[:length]


def _states_something(fact: Statement) -> bool:
    telling = sum(not is_common(term) for term in terms(fact.text))
    if fact.is_code:
        return telling >= 1 and any(mark in fact.text for mark in "=([.{- ")
    fewest = _FEWEST_BEFORE_COLON if fact.text.endswith(":") else _FEWEST_TERMS
    return telling >= fewest and not fact.text.endswith("?") and not is_chatter(fact.text)
