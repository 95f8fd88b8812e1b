"""How far two answers say the same, by their words alone; each is from 0 to 1 and symmetric."""

import re
import string
from collections import Counter
from collections.abc import Callable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_words(text: str) -> list[str]:
    """Cut into lower-case words without punctuation and articles, as SQuAD's evaluation does."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def exact_match(one: str, other: str) -> float:
    """Give 1 if the words are the same, else 0 (SQuAD, arXiv 1606.05250)."""
    return float(answer_words(one) == answer_words(other))


def token_f1(one: str, other: str) -> float:
    """Compute 2 * shared / (words of one + words of the other), as SQuAD does."""
    first, second = Counter(answer_words(one)), Counter(answer_words(other))
    return _f1((first & second).total(), first.total(), second.total())


def _f1(shared: int, first: int, second: int) -> float:
    return 2 * shared / (first + second) if first and second else float(first == second)


SIMILARITIES: dict[str, Callable[[str, str], float]] = {
    "exact_match": exact_match,
    "token_f1": token_f1,
}
"""By the name of the comparer."""
