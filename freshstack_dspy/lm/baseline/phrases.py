"""Key phrases and names: what a text is about, in its own words."""

import re
from collections import Counter

from freshstack_dspy.lm.baseline.markdown import blocks, plain
from freshstack_dspy.lm.baseline.rarity import is_common, total_information
from freshstack_dspy.terms import STOP_WORDS, terms

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
    """The most telling runs of up to four uncommon words of the prose.

    Args:
        text: Markdown; its code is left out.
        limit: The largest number of phrases.

    Returns:
        Phrases as they are written, the most telling first.
    """
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}
    for block in blocks(text):
        if block.kind != "code":
            for phrase in _phrases(_NOT_A_NAME.sub(" ", plain(block.text))):
                counts[phrase.lower()] += 1
                written.setdefault(phrase.lower(), phrase)
    value = {key: total_information(terms(key)) * count**0.5 for key, count in counts.items()}
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
    """The names of code in a text: dotted, underscored, mixed-case or called.

    Returns:
        At most `limit` names, the most frequent first, then as they appear.
    """
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
    return word.lower() in STOP_WORDS or not found or all(map(is_common, found))
