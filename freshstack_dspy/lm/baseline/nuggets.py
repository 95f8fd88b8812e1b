"""Nuggets by extraction: the statements of an answer that tell most beyond the question."""

import re
from typing import NamedTuple

from freshstack_dspy.lm.baseline.markdown import Statement, blocks, statements
from freshstack_dspy.lm.baseline.rarity import is_common
from freshstack_dspy.lm.baseline.selection import most_telling
from freshstack_dspy.quotation import find_quotation
from freshstack_dspy.restatement import restates
from freshstack_dspy.terms import terms

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

    Args:
        question: What was asked, as Markdown.
        answer: The accepted answer, as Markdown with code.
        limit: The largest number of nuggets.

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
