"""Whether a statement only repeats what a question says already."""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from freshstack_dspy.likeness import jaccard
from freshstack_dspy.quotation import find_quotation
from freshstack_dspy.terms import terms

RESTATED = 0.8
"""From which likeness to a sentence of the question on a statement restates it."""
FEWEST_TERMS = 3
"""A statement of fewer content terms is never taken for a restatement."""

_LONGEST_TITLE = 40
"""Words of the longest title that is looked for in front of a body."""
_LONGEST_SENTENCE = 250
"""Words of the longest first sentence that is cut into beginnings and ends."""
_WORDS_OF_ASKING = frozenset(
    term
    for word in """
    how what why which where when who whose whom do does did doing done am is are was were been
    being can could should shall would will may might must have has had having i me my mine myself
    we us our ours you your yours he she his her him its it's i'm i've i'd there here so any some
    please thanks thank hello hi help anyone someone way ways possible
    """.split()
    for term in terms(word)
)
_ASKS_OPENLY = re.compile(r"\b(?:how|what|why|which|where|when|who|whose|whom)\b", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|cannot)\b|n['\u2019]t\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_`]{0,4}\s+")
_CODE = re.compile(r"`([^`\n]+)`")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?!\w)")
"""One that stands alone: terms know neither the 3 of `mp3` from a 3 nor 1.5 from 15."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


class _Said(NamedTuple):
    terms: frozenset[str]
    denies: bool


class _Question(NamedTuple):
    terms: frozenset[str]
    sentences: tuple[_Said, ...]


def restates(statement: str, question: str) -> bool:
    """Whether a statement says nothing that the question does not say itself.

    That is so if all of these hold, which is meant to err on the side of the statement:

    - it has at least three content terms: its terms (`freshstack_dspy.terms`), without words of
      asking (interrogatives, auxiliaries, pronouns);
    - all of them occur in the question, so that a statement with one word of its own never counts;
    - they are those of one sentence of the question, by a Jaccard index of 0.8 or more;
    - its code, in backticks, stands in the question as it is: terms know neither `<=` from `>=` nor
      `-f` from `-F`, and the answer may be that;
    - so does every number that stands alone in it: the 3 of `knob3` does not answer how far;
    - the statement and that sentence both deny something, or neither does;
    - that sentence is no yes-or-no question, whose answer has its words.

    A question is its title and its body joined by a space (`Query.text`), and few titles end as
    sentences do. So every beginning of the first sentence, and every end of it, up to 40 words into
    it, is held for a sentence as well.

    Args:
        statement: What a nugget says.
        question: Title and body, as Markdown.
    """
    said = _said(statement)
    if len(said.terms) < FEWEST_TERMS:
        return False
    asked = _cut(question)
    return (
        said.terms <= asked.terms
        and any(
            said.denies == sentence.denies and jaccard(said.terms, sentence.terms) >= RESTATED
            for sentence in asked.sentences
        )
        and all(find_quotation(code, question) for code in _CODE.findall(statement))
        and set(_NUMBER.findall(statement)) <= set(_NUMBER.findall(question))
    )


def _said(text: str) -> _Said:
    return _Said(frozenset(terms(text)) - _WORDS_OF_ASKING, bool(_DENIES.search(text)))


@functools.lru_cache(maxsize=64)
def _cut(question: str) -> _Question:
    found = dict.fromkeys(
        _said(sentence) for sentence in _sentences(question) if not _is_yes_or_no(sentence)
    )
    return _Question(
        frozenset(terms(question)),
        tuple(sentence for sentence in found if len(sentence.terms) >= FEWEST_TERMS - 1),
    )


def _is_yes_or_no(sentence: str) -> bool:
    return sentence.rstrip("\"')]*_` ").endswith("?") and not _ASKS_OPENLY.search(sentence)


def _sentences(question: str) -> Iterator[str]:
    """Every sentence, once as its paragraph and once as its line has it; some lines are broken."""
    paragraphs = [" ".join(part.split()) for part in _PARAGRAPH_END.split(question)]
    first = _SENTENCE_END.split(paragraphs[0])[0].split()
    longest = _LONGEST_TITLE if len(first) <= _LONGEST_SENTENCE else 0
    for place in range(1, min(len(first), longest + 1)):
        yield " ".join(first[:place])
        yield " ".join(first[place:])
    for text in [*paragraphs, *question.splitlines()]:
        yield from _SENTENCE_END.split(text)
