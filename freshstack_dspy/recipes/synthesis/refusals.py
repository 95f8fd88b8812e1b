"""Why a synthetic question does not become a query, as far as its words tell."""

import re
from collections.abc import Iterable

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.records import Chunk, Query
from freshstack_dspy.text import jaccard, terms

COPIED = "copied from its chunk"
OF_THE_PASSAGE = "about the passage itself"
NEAR_DUPLICATE = "near-duplicate of an earlier one"

_RUN = 4
_WORD = re.compile(r"\w+")
_PASSAGE = re.compile(
    r"\b(?:the|this|these|that|given|provided) (?:given |provided |above )?"
    r"(?:passages?|excerpts?|(?:code )?snippets? above|text above|chunks? above)\b"
    r"|\b(?:according to|based on|as (?:described|stated|shown|mentioned) in) "
    r"(?:the|this|these) (?:above )?(?:texts?|passages?|excerpts?|documents?|snippets?|context)\b",
    re.IGNORECASE,
)


def refusal(query: Query, seeds: Iterable[Chunk], config: QueriesConfig) -> str | None:
    """Say why a question is refused, whatever other questions there are; None where it is not.

    Args:
        query: The question.
        seeds: What it was made from.
        config: With the share of its words that may be copied.
    """
    if _PASSAGE.search(query.text):
        return OF_THE_PASSAGE
    if any(copied_share(query.text, seed.text) >= config.copied for seed in seeds):
        return COPIED
    return None


def copied_share(question: str, text: str) -> float:
    """The share of a question's runs of four words that stand in a text, in [0, 1].

    Words are compared without case and punctuation. A shorter question, as of key words, has none.

    Source:
        Containment of word n-grams: A. Broder, On the Resemblance and Containment of
        Documents, 1997.
    """
    asked = _runs(question)
    return len(asked & _runs(text)) / len(asked) if asked else 0.0


class EarlierQuestions:
    """The questions that were kept, to compare the next one with."""

    def __init__(self, similarity: float) -> None:
        """Begin without any.

        Args:
            similarity: From which Jaccard similarity of their sets of terms on two are alike.
        """
        self._similarity = similarity
        self._kept: list[frozenset[str]] = []

    def holds_alike(self, query: Query) -> bool:
        """Whether a kept question asks nearly the same."""
        asked = _asked(query)
        return any(asked == kept or jaccard(asked, kept) >= self._similarity for kept in self._kept)

    def keep(self, query: Query) -> None:
        """Add a question."""
        self._kept.append(_asked(query))


def _asked(query: Query) -> frozenset[str]:
    return frozenset(terms(query.text))


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return {tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1)}
