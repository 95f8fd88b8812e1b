"""Nuggets by extraction: the statements of an answer that tell most beyond the question."""

import math
import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from freshstack_dspy.lm.baseline.markdown import Statement, blocks, statements
from freshstack_dspy.lm.baseline.phrases import expected_share, information, is_common
from freshstack_dspy.text import find_quotation, restates, terms

KNOWN = 0.25
"""What a term is still worth that the reader already has, as one of the question."""
REPEATS = 0.7
"""The share of its information that makes a statement a repetition of another."""
WORTH_KEEPING = 0.33
"""The least value of a kept statement, as a share of the best one's."""

_FAVOUR = 1.5
_MOST = 500
_LONGEST_FACT = 400
_FEWEST_TERMS, _FEWEST_BEFORE_COLON = 3, 6
_CHATTER = re.compile(
    r"(?:(?:i )?hope (?:this|that|it|you)|thanks|thank you|good luck|cheers|welcome|sorry|hi\b|"
    r"hello\b|let me know|feel free|any (?:help|ideas|suggestions))",
    re.IGNORECASE,
)


def nuggets(question: str, answer: str, limit: int) -> list[dict[str, str]]:
    """Extract nuggets, each with the words of the answer that it was taken from.

    Returns:
        `quote` (empty where the words do not stand together) and `text` of 1 to `limit` different
        nuggets, in the answer's order, none of which restates the question; none if the answer has
        no text, or says nothing else.
    """
    found = [fact for fact in facts(answer) if not restates(shown(fact), question)]
    sentences = [place for place, fact in enumerate(found) if not fact.is_code]
    texts = [fact.text for fact in found]
    places = most_telling(texts, limit, known=set(terms(question)), favoured=sentences)
    return [
        {"quote": _quote(texts[place], answer), "text": shown(found[place])} for place in places
    ]


def importance(question: str, nuggets: Sequence[str]) -> list[Literal["vital", "okay"]]:
    """Rate nuggets: vital is what holds an uncommon term of the question.

    If none is about what was asked, nothing tells them apart, and all are vital.
    """
    asked = {term for term in terms(question) if not is_common(term)}
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]


class _Candidate(NamedTuple):
    place: int
    weights: dict[str, float]
    value: float
    repeats: float
    """The largest share of its information that one chosen statement has too."""

    def beside(self, chosen: "_Candidate") -> "_Candidate":
        whole = sum(self.weights.values())
        shared = sum(self.weights[term] for term in self.weights if term in chosen.weights)
        return self._replace(repeats=max(self.repeats, shared / whole if whole else 1.0))


def most_telling(
    texts: Sequence[str],
    limit: int,
    *,
    known: Collection[str] = (),
    favoured: Collection[int] = (),
) -> list[int]:
    """Choose statements greedily by what they add.

    Returns:
        Places in `texts`, ascending; at least one if there is a text.
    """
    candidates = []
    for place, text in enumerate(texts):
        found = terms(text)
        weights = {
            term: information(expected_share(term)) * (KNOWN if term in known else 1.0)
            for term in dict.fromkeys(found)
        }
        favour = _FAVOUR if place in favoured else 1.0
        value = favour * sum(weights.values()) / math.sqrt(len(found) + 4)
        candidates.append(_Candidate(place, weights, value, repeats=0.0))
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


def _quote(text: str, answer: str) -> str:
    span = find_quotation(text, answer)
    return answer[span.start : span.end] if span else ""


def _states_something(fact: Statement) -> bool:
    telling = sum(not is_common(term) for term in terms(fact.text))
    if fact.is_code:
        return telling >= 1 and any(mark in fact.text for mark in "=([.{- ")
    fewest = _FEWEST_BEFORE_COLON if fact.text.endswith(":") else _FEWEST_TERMS
    return telling >= fewest and not fact.text.endswith("?") and not is_chatter(fact.text)
