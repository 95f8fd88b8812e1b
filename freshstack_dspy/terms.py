"""The terms of prose and code: what the lexical index and the baseline model count.

`getUserName`, `get_user_name` and `user.getName` must be found by "user name", and
"indexing" by "index"; so a compound gives its parts, stemmed, and itself, whole.
"""

import functools
import re

import Stemmer

_COMPOUND = re.compile(r"\w+(?:\.\w+)*")
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Japanese syllables and the Han characters of all languages: written without spaces."""
_PART = re.compile(rf"[{_CJK}]+|[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_{_CJK}]+|[^\W\d_{_CJK}]+|\d+")
_UNSPACED = re.compile(f"[{_CJK}]+")
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
"""Lucene's English stop words."""


@functools.lru_cache(maxsize=1)
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")


def terms(text: str) -> list[str]:
    """Cut a text into index terms, in order, with repetitions.

    Args:
        text: Prose, code or both.

    Returns:
        For a plain word its lower-case Snowball stem, stop words left out; for a compound
        (dotted, underscored or mixed-case) the stems of its parts and, last, the whole in lower case.
        Characters written without spaces, as in Chinese and Japanese, give each two neighbours
        as a term, as Lucene's CJK analyzer does; one alone is itself.
    """
    found: list[str] = []
    for compound in _COMPOUND.findall(text):
        found += (_remembered if len(compound) <= _LONGEST_REMEMBERED else _cut)(compound)
    return found


def _cut(compound: str) -> tuple[str, ...]:
    stem = _stemmer().stemWord
    parts = _PART.findall(compound)
    found: list[str] = []
    for part in map(str.lower, parts):
        if _UNSPACED.fullmatch(part):
            found += [part[place : place + 2] for place in range(max(1, len(part) - 1))]
        elif part not in STOP_WORDS:
            found.append(stem(part))
    if len(parts) > 1:
        found.append(compound.lower())
    return tuple(found)


_LONGEST_REMEMBERED = 64
_remembered = functools.lru_cache(maxsize=65_536)(_cut)
