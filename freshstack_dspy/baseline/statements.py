"""What a text says and what it is about: its sentences and lines of code, and their telling words."""

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

from freshstack_dspy.text import plain, terms

LISTED = (0.25, 0.5, 0.65)
"""What a term is worth that is on a line of `words.txt` (function words, common, frequent); else 1."""
KNOWN = 0.25
"""What a term is still worth that the reader has, as a share."""
_WORTH_KEEPING = 0.33
"""The least value of a kept statement, as a share of the best one's."""
_LONGEST = 400
_FEWEST_TERMS = 3
_FENCE = re.compile(r"^[> \t]*(?:```|~~~).*$", re.MULTILINE)
_NEW_PARAGRAPH = re.compile(r"\n[> \t]*(?:\n|(?=(?:[-*+|#]|\d{1,3}[.)])))")
_LINE_MARK = re.compile(r"^[> \t]*(?:[-*+|#]+|\d{1,3}[.)])?[ \t]*|[ \t|]+$")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[^a-z\s])")
_COMMENT = re.compile(r"#(?!include)|//|--|/?\*")
_WORD = re.compile(r"[^\W_][\w.:-]*\w|[^\W_]")


class Statement(NamedTuple):
    """A sentence of prose or a line of code."""

    text: str
    is_code: bool

    @property
    def shown(self) -> str:
        """The text, with code as a code span."""
        return f"`{self.text}`" if self.is_code and "`" not in self.text else self.text


@functools.lru_cache(maxsize=1)
def _listed() -> dict[str, float]:
    words = (files("freshstack_dspy.baseline") / "words.txt").read_text(encoding="utf-8")
    lines = [*zip(words.splitlines(), LISTED, strict=True)]
    return {term: worth for line, worth in reversed(lines) for term in terms(line)}


def weight(term: str) -> float:
    """How much a term tells, in (0, 1]: the less, the more common it is in English."""
    return _listed().get(term, 1.0)


def telling_terms(text: str) -> dict[str, None]:
    """The uncommon terms of a text, in order."""
    return {term: None for term in terms(text) if weight(term) > LISTED[1]}


def statements(markdown: str) -> list[Statement]:
    """The different statements of a text that have some telling terms, else all, else the text."""
    found: dict[str, Statement] = {}
    for statement in _all_statements(markdown):
        text = statement.text[:_LONGEST].strip()
        found.setdefault(text.lower(), statement._replace(text=text))
    if not found:
        return [Statement(text, is_code=False)] if (text := markdown.strip()[:_LONGEST]) else []
    telling = [each for each in found.values() if _says_something(each)]
    return telling or list(found.values())


def _all_statements(markdown: str) -> Iterator[Statement]:
    parts = [*_FENCE.split(markdown), ""]  # prose and code take turns
    for prose, code in zip(parts[::2], parts[1::2], strict=False):
        for paragraph in _NEW_PARAGRAPH.split(prose):
            text = plain(_LINE_MARK.sub("", paragraph))
            for sentence in filter(None, _SENTENCE_END.split(text)):
                yield Statement(sentence, is_code=False)
        for line in map(str.strip, code.splitlines()):
            if line and not _COMMENT.match(line):
                yield Statement(" ".join(line.split()), is_code=True)


def _says_something(statement: Statement) -> bool:
    fewest = 2 if statement.is_code else _FEWEST_TERMS
    return len(telling_terms(statement.text)) >= fewest and not statement.text.endswith("?")


def most_telling(texts: Sequence[str], limit: int, known: Collection[str] = ()) -> list[int]:
    """Choose texts greedily by what they add to each other and to `known`; their places, in order."""
    held = set(known)
    waiting = {place: dict.fromkeys(terms(text)) for place, text in enumerate(texts)}
    chosen: list[int] = []
    least = 0.0

    def value(place: int) -> float:
        found = waiting[place]
        worth = (weight(term) * (KNOWN if term in held else 1.0) for term in found)
        return math.fsum(worth) / math.sqrt(len(found) + 4)

    while waiting and len(chosen) < limit:
        best = max(waiting, key=value)
        if chosen and value(best) < least:
            break
        least = least or _WORTH_KEEPING * value(best)
        chosen.append(best)
        held.update(waiting.pop(best))
    return sorted(chosen)


def subjects(text: str, limit: int) -> list[str]:
    """The most frequent telling words of a text, names of code among them, as they are written."""
    counts = Counter(word for word in _WORD.findall(plain(text)) if telling_terms(word))
    return [word for word, _ in counts.most_common(limit)]


def listed(texts: Sequence[str]) -> str:
    """Texts as English lists them: `a, b and c`."""
    *most, last = dict.fromkeys(texts)
    return f"{', '.join(most)} and {last}" if most else last
