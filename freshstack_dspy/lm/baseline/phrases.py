"""Key phrases and names: what a text is about, in its own words."""

import functools
import math
import re
from collections import Counter
from importlib.resources import files
from typing import Any

import numpy as np

from freshstack_dspy.languages import ENGLISH, stop_words
from freshstack_dspy.lm.baseline.markdown import blocks, plain
from freshstack_dspy.text import terms

_FUNCTION, _COMMON, _FREQUENT, _RARE = 0.3, 0.1, 0.05, 0.01
"""In which share of sentences a term of each line of `words.txt`, and of none, is expected."""

_LONG_WORD = 8
_LONG, _COMPOUND = 0.7, 0.5
"""By how much a long word, a number or a compound name is rarer still."""


@functools.lru_cache(maxsize=1)
def _listed() -> dict[str, float]:
    text = (files("freshstack_dspy.lm.baseline") / "words.txt").read_text(encoding="utf-8")
    by_line = [*zip(text.splitlines(), (_FUNCTION, _COMMON, _FREQUENT), strict=True)]
    return {term: share for words, share in reversed(by_line) for term in terms(words)}


@functools.lru_cache(maxsize=65_536)
def expected_share(term: str) -> float:
    """In which share of all sentences a term is expected, in (0, 1)."""
    listed = _listed().get(term)
    if listed is not None:
        return listed
    if "." in term or "_" in term:
        return _RARE * _COMPOUND
    if len(term) >= _LONG_WORD or not term.isalpha():
        return _RARE * _LONG
    return _RARE


def information(share: Any) -> Any:
    """How much a term tells that occurs in a share of the sentences: 1 for an unlisted word."""
    return np.log(share) / math.log(_RARE)


def is_common(term: str) -> bool:
    """Whether a term is on one of the two shorter lists, and so names nothing."""
    return expected_share(term) >= _COMMON


_WORD = re.compile(r"[^\W_][\w.+#-]*[\w+#]|[^\W_]")
_BOUNDARY = re.compile(r"[,;:!?()\[\]{}\"“”|<>=`]|\.(?:\s|$)|\s[-–—]\s")
_NAME = re.compile(r"\b[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*\b(?:\(\))?")
_MIXED_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|\w[._:]\w|_\w|\(\)$")
_NOT_A_NAME = re.compile(r"https?://\S+|\b(?:e\.g|i\.e|U\.S|a\.k\.a)\b")
_FAULT = re.compile(
    r"\b\w*(?:Error|Exception|Warning)\b[^\n`]{0,200}|\b(?:error|fatal):[^\n`]{1,200}"
)
_LONGEST_PHRASE = 4
_LONGEST_NAME = 60
_LONGEST_FAULT = 160


def key_phrases(text: str, limit: int) -> list[str]:
    """The most telling runs of up to four uncommon words of the prose, the best first."""
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for block in blocks(text):
        if block.kind != "code":
            for phrase in _phrases(_NOT_A_NAME.sub(" ", plain(block.text))):
                counts[phrase.lower()] += 1
                written.setdefault(phrase.lower(), phrase)
    value = {
        key: sum(information(expected_share(term)) for term in terms(key)) * count**0.5
        for key, count in counts.items()
    }
    order = sorted(value, key=lambda key: (-value[key], key))
    chosen: list[str] = []
    covered: set[str] = set()
    for key in order:
        found = set(terms(key))
        if not found <= covered:
            chosen.append(written[key])
            covered |= found
        if len(chosen) == limit:
            break
    return chosen


def names(text: str, limit: int) -> list[str]:
    """The most frequent names of code in a text: dotted, underscored, mixed-case or called."""
    counts = Counter(
        name.removesuffix("()")
        for name in _NAME.findall(_NOT_A_NAME.sub(" ", text))
        if _MIXED_CASE.search(name) and len(name) <= _LONGEST_NAME
    )
    return [name for name, _ in counts.most_common(limit)]


def faults(text: str, limit: int) -> list[str]:
    """The error messages that a text quotes, each once, in order."""
    found = [
        " ".join(fault.split())[:_LONGEST_FAULT].rstrip(" .?!") for fault in _FAULT.findall(text)
    ]
    return list(dict.fromkeys(found))[:limit]


def _phrases(text: str) -> list[str]:
    found: list[str] = []
    for part in _BOUNDARY.split(text):
        run: list[str] = []
        for word in [*_WORD.findall(part), ""]:
            if word and len(run) < _LONGEST_PHRASE and not _is_filler(word):
                run.append(word)
                continue
            if run:
                found.append(" ".join(run))
            run = [word] if word and not _is_filler(word) else []
    return found


def _is_filler(word: str) -> bool:
    found = terms(word)
    return word.lower() in stop_words(ENGLISH) or not found or all(map(is_common, found))
