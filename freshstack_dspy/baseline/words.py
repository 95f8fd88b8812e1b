"""What a text says, what it is about, and how far a chunk supports a nugget: all by their words."""

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from freshstack_dspy.text import plain, terms

LISTED = (0.25, 0.5, 0.65)
"""What a term is worth that is on a line of `words.txt` (function words, common, frequent); else 1."""
KNOWN = 0.25
"""What a term is still worth that the reader has, as a share."""
WORTH_KEEPING = 0.33
"""The least value of a kept statement, as a share of the best one's."""
ASKED, NUMBER = 0.5, 2.0
"""By how much the weight of a word of the question, and that of a number, is multiplied."""
DOUBT = 2.0
"""Added to the weight of a nugget, so that a short one needs a better match."""
_LONGEST, _FEWEST_TERMS, _UNIT_TERMS = 400, 3, 8
_FENCE = re.compile(r"^[> \t]*(?:```|~~~).*$", re.MULTILINE)
_NEW_PARAGRAPH = re.compile(r"\n[> \t]*(?:\n|(?=(?:[-*+|#]|\d{1,3}[.)])))")
_LINE_MARK = re.compile(r"^[> \t]*(?:[-*+|#]+|\d{1,3}[.)])?[ \t]*|[ \t|]+$")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[^a-z\s])")
_COMMENT = re.compile(r"#(?!include)|//|--|/?\*")
_WORD = re.compile(r"[^\W_][\w.:-]*\w|[^\W_]")
_BREAK = re.compile(r"\s(?:(?<=[.!?;]\s)\s*|(?<=\n)\n*)")


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
    different: dict[str, Statement] = {}
    parts = [*_FENCE.split(markdown), ""]  # prose and code take turns
    for prose, code in zip(parts[::2], parts[1::2], strict=False):
        for paragraph in _NEW_PARAGRAPH.split(prose):
            for sentence in _SENTENCE_END.split(plain(_LINE_MARK.sub("", paragraph))):
                if text := sentence[:_LONGEST].strip():
                    different.setdefault(text.lower(), Statement(text, is_code=False))
        for line in map(str.strip, code.splitlines()):
            if line and not _COMMENT.match(line):
                text = " ".join(line.split())[:_LONGEST].strip()
                different.setdefault(text.lower(), Statement(text, is_code=True))
    if not different:
        return [Statement(text, is_code=False)] if (text := markdown.strip()[:_LONGEST]) else []
    telling = [
        each
        for each in different.values()
        if len(telling_terms(each.text)) >= (2 if each.is_code else _FEWEST_TERMS)
        and not each.text.endswith("?")
    ]
    return telling or list(different.values())


def most_telling(texts: Sequence[str], limit: int, known: Collection[str] = ()) -> list[int]:
    """Choose texts greedily by what they add to each other and to `known`; their places, in order."""
    held = set(known)
    waiting = {place: dict.fromkeys(terms(text)) for place, text in enumerate(texts)}
    chosen: list[int] = []
    least = 0.0

    def value(place: int) -> float:
        worth = (weight(term) * (KNOWN if term in held else 1.0) for term in waiting[place])
        return math.fsum(worth) / math.sqrt(len(waiting[place]) + 4)

    while waiting and len(chosen) < limit:
        best = max(waiting, key=value)
        if chosen and value(best) < least:
            break
        least = least or WORTH_KEEPING * value(best)
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


class Match(NamedTuple):
    """How far a chunk supports a nugget."""

    score: float
    """In [0, 1)."""
    words: tuple[str, ...]
    """The terms that the chunk holds, the most telling first."""
    nearest: str
    """The sentence, or run of lines, of the chunk that holds most of it."""


def support(question: str, nuggets: Sequence[str], chunks: Iterable[str]) -> list[list[Match]]:
    """Match every nugget with every chunk; for each chunk, in order, one of each nugget.

    A score is the share of a nugget's weight that the chunk repeats: half of it within two units
    in a row, half anywhere.
    """
    asked = set(terms(question))
    weighed = [weights(nugget, asked) for nugget in nuggets]
    return [_matches(weighed, chunk) for chunk in chunks]


def weights(text: str, asked: Iterable[str] = ()) -> dict[str, float]:
    """What each term of a text tells; numbers count double, words of the question half."""
    return {
        term: weight(term) * (NUMBER if term.isdigit() else 1) * (ASKED if term in asked else 1)
        for term in terms(text)
    }


def _matches(weighed: Sequence[Mapping[str, float]], chunk: str) -> list[Match]:
    units = _units(chunk)
    matches = []
    for of_nugget in weighed:
        common = {term: value for term, value in of_nugget.items() if term in units.with_term}
        within_two = _summed(common, units.pairs_with_term).values()
        covered = (max(within_two, default=0.0) + math.fsum(common.values())) / 2
        score = covered / (math.fsum(of_nugget.values()) + DOUBT)
        words = tuple(sorted(common, key=lambda term: -common[term]))
        within = _summed(common, units.with_term)
        nearest = min(within, key=lambda place: (-within[place], place), default=0)
        matches.append(Match(score, words, units.texts[nearest]))
    return matches


def _summed(values: Mapping[str, float], places: Mapping[str, Sequence[int]]) -> dict[int, float]:
    """By place, the sum of the values of the terms that are there."""
    at: defaultdict[int, list[float]] = defaultdict(list)
    for term, value in values.items():
        for place in places[term]:
            at[place].append(value)
    return {place: math.fsum(there) for place, there in at.items()}


class _Units(NamedTuple):
    """Sentences, or runs of lines, of a least number of terms."""

    texts: list[str]
    with_term: dict[str, list[int]]
    """By term, the places of those that have it."""
    pairs_with_term: dict[str, list[int]]
    """The same of each two in a row, or of the only one."""


@functools.lru_cache(maxsize=1024)  # a chunk is judged for many questions
def _units(text: str) -> _Units:
    texts, held = zip(*_cut(text), strict=True)
    pairs = [first | second for first, second in pairwise(held)] or held
    return _Units([*texts], _places(held), _places(pairs))


def _places(held: Iterable[set[str]]) -> dict[str, list[int]]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, terms_there in enumerate(held):
        for term in terms_there:
            places[term].append(place)
    return dict(places)


def _cut(text: str) -> Iterator[tuple[str, set[str]]]:
    held: list[str] = []
    start = begin = 0
    for end, after in [*(each.span() for each in _BREAK.finditer(text)), (len(text), len(text))]:
        held += terms(text[begin:end])
        begin = after
        if len(held) >= _UNIT_TERMS:
            yield text[start:end].strip(), set(held)
            start, held = after, []
    if held or start == 0:
        yield text[start:].strip(), set(held)
