"""Nuggets by extraction: the statements of an answer that tell most beyond the question."""

import math
import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

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


def nuggets(question: str, answer: str, limit: int) -> list[dict[str, Any]]:
    """Extract at most `limit` nuggets in the answer's order, none of which restates the question.

    `quote` is the words of the answer, empty where they are not together; none is `doubtful`.
    """
    found = [fact for fact in facts(answer) if not restates(shown(fact), question)]
    sentences = [place for place, fact in enumerate(found) if not fact.is_code]
    texts = [fact.text for fact in found]
    places = most_telling(texts, limit, known=set(terms(question)), favoured=sentences)
    rated = importance(question, [texts[place] for place in places])
    return [
        {
            "quote": _quote(texts[place], answer),
            "text": shown(found[place]),
            "importance": rating,
            "doubtful": False,
        }
        for place, rating in zip(places, rated, strict=True)
    ]


def importance(question: str, nuggets: Sequence[str]) -> list[Literal["vital", "okay"]]:
    """Rate nuggets: vital is what holds an uncommon term of the question; if none does, all are."""
    asked = {term for term in terms(question) if not is_common(term)}
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]


def most_telling(
    texts: Sequence[str],
    limit: int,
    *,
    known: Collection[str] = (),
    favoured: Collection[int] = (),
) -> list[int]:
    """Choose statements greedily by what they add: their places, ascending, at least one."""
    weights: list[dict[str, float]] = []
    value: list[float] = []
    for place, text in enumerate(texts):
        found = terms(text)
        weights.append(
            {
                term: information(expected_share(term)) * (KNOWN if term in known else 1.0)
                for term in dict.fromkeys(found)
            }
        )
        favour = _FAVOUR if place in favoured else 1.0
        value.append(favour * sum(weights[place].values()) / math.sqrt(len(found) + 4))
    order = sorted(range(len(texts)), key=lambda place: (-value[place], place))[:_MOST]
    # The largest share of its information that a chosen statement has too.
    repeated = dict.fromkeys(order, 0.0)
    chosen: list[int] = []
    while repeated and len(chosen) < limit:
        adds = {place: value[place] * (1 - share) for place, share in repeated.items()}
        best = max(adds, key=lambda place: adds[place])
        if chosen and adds[best] < WORTH_KEEPING * value[order[0]]:
            break
        chosen.append(best)
        for place, share in list(repeated.items()):
            repeated[place] = max(share, _share_in(weights[place], weights[best]))
            if repeated[place] >= REPEATS:
                del repeated[place]
    return sorted(chosen)


def _share_in(weights: dict[str, float], other: Collection[str]) -> float:
    """The share of the information of one statement that another has."""
    whole = sum(weights.values())
    return sum(weights[term] for term in weights if term in other) / whole if whole else 1.0


def facts(markdown: str) -> list[Statement]:
    """The different statements of a Markdown text that state something.

    Of a text that states nothing all statements, and of one without any the text itself.
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
