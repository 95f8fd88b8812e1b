"""Texts compared: their terms, near-duplicates, quotations, and what restates a question."""

import difflib
import functools
import math
import re
import unicodedata
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain
from typing import NamedTuple

from freshstack_dspy.languages import ENGLISH, stems, stop_words

_VOWEL_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd"
    "\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
"""Vowels and accents that are characters of their own, as in Hindi and Thai: inside of words."""
_WORD = rf"[\w{_VOWEL_MARKS}]"
_COMPOUND = re.compile(rf"{_WORD}+(?:\.{_WORD}+)*")
_UNSPACED_LETTERS = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd"
    r"\u1000-\u103f\u1780-\u17d3"
)
"""Japanese syllables, the Han characters of all languages, Thai, Lao, Burmese, Khmer: written
without spaces."""
_PART = re.compile(
    rf"[{_UNSPACED_LETTERS}]+|[A-Z]+(?![a-z])|[A-Z]?[^A-Z\d_.\n{_UNSPACED_LETTERS}]+|\d+|\n"
)
"""The parts of compounds, which have nothing but letters, marks, digits, dots and underscores; and
the ends of their lines."""
_UNSPACED = re.compile(f"[{_UNSPACED_LETTERS}]+")
_UNSPACED_OR_HANGUL = re.compile(f"[{_UNSPACED_LETTERS}]+|[\uac00-\ud7a3]+")


def terms(text: str, languages: tuple[str, ...] = ENGLISH) -> list[str]:
    """Cut prose or code into index terms, in order, with repetitions.

    Args:
        text: A text in any language; only stems and stop words differ.
        languages: Those that it may be in. With several, a word gives the stem of each, those that
            differ once each, and the stop words of all are left out.

    Returns:
        For a plain word its lower-case Snowball stem, stop words left out; for a compound
        (dotted, underscored or mixed-case) the stems of its parts and, last, the whole in lower case.
        Characters written without spaces, as in Chinese, Japanese and Thai, give each two
        neighbours as a term, as Lucene's CJK analyzer does; one alone is itself. So do those of
        Korean, whose words end in particles, where it is among the languages.
    """
    return [*_each_term(text, languages)]


def _each_term(text: str, languages: tuple[str, ...] = ENGLISH) -> Iterator[str]:
    words = spaced(text).decode("utf-8", "surrogatepass").split()
    return chain.from_iterable(map(_word_terms(languages).__getitem__, words))


def spaced(text: str) -> bytes:
    """Compose a text (NFC) and replace the ASCII characters that are in no term by spaces.

    The terms of the text are those of its words, which white space separates, one after the other.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.encode("utf-8", "surrogatepass").translate(_SPACED)


_SPACED = re.sub(rb"[^\w.\x80-\xff]", b" ", bytes(range(256)))


def cut_words(words: Iterable[str], languages: tuple[str, ...]) -> tuple[list[str], list[int]]:
    """Cut words of spaced texts into terms; give these, and their number up to each word's end.

    All words are searched at once, which takes half the time.
    """
    compounds: list[str] = []
    compounds_until: list[int] = []
    for word in words:
        compounds += [word] if "." not in word and word.isascii() else _COMPOUND.findall(word)
        compounds_until.append(len(compounds))
    terms_of_part, parts = _part_terms(languages), 0
    cut: list[str] = []
    ends = [0]
    for part in _PART.findall("\n".join([*compounds, ""])):
        if part != "\n":
            cut += terms_of_part[part]
            parts += 1
            continue
        if parts > 1:
            cut.append(compounds[len(ends) - 1].lower())
        ends.append(len(cut))
        parts = 0
    return cut, [ends[until] for until in compounds_until]


class _Memory(dict[str, tuple[str, ...]]):
    """The terms of what was cut before; bounded in entries, and so are these."""

    def __init__(self, cut: Callable[[str], tuple[str, ...]]) -> None:
        self._cut = cut

    def __missing__(self, text: str) -> tuple[str, ...]:
        cut = self._cut(text)
        if len(self) >= 65_536:
            self.clear()
        if len(text) <= 64:
            self[text] = cut
        return cut


@functools.lru_cache(maxsize=64)
def _word_terms(languages: tuple[str, ...]) -> _Memory:
    return _Memory(lambda word: tuple(cut_words([word], languages)[0]))


@functools.lru_cache(maxsize=64)
def _part_terms(languages: tuple[str, ...]) -> _Memory:
    stop, stemmers = stop_words(languages), stems(languages)
    unspaced = _UNSPACED_OR_HANGUL if "ko" in languages else _UNSPACED

    def cut(part: str) -> tuple[str, ...]:
        part = part.lower()
        if part in stop:
            return ()
        if not part.isascii() and unspaced.fullmatch(part):
            return tuple(part[place : place + 2] for place in range(max(1, len(part) - 1)))
        return tuple({stem(part): None for stem in stemmers})

    return _Memory(cut)


ALIKE = 0.7
"""From which Jaccard index of their terms on two texts say, or ask, nearly the same."""


def is_alike(held: AbstractSet[str], others: Iterable[AbstractSet[str]]) -> bool:
    """Whether a set of terms is another one, or nearly: by `ALIKE`."""
    return any(held == other or jaccard(held, other) >= ALIKE for other in others)


def jaccard(a: AbstractSet[str], b: AbstractSet[str]) -> float:
    """The share of the terms of either set that both hold: |a ∩ b| / |a ∪ b|, in [0, 1].

    It is 0 where one or both have no terms: then nothing says that they are alike.

    Source:
        P. Jaccard, Étude comparative de la distribution florale, 1901.
    """
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def alike_pairs(texts: Mapping[str, str], similarity: float) -> Iterator[tuple[str, str]]:
    """Give every pair of texts that are alike, once.

    Args:
        texts: By id; those without terms are like no other.
        similarity: From which Jaccard similarity of their sets of terms on two are alike,
            above 0.

    Source:
        The pairs are found by prefix (C. Xiao, W. Wang, X. Lin and J. X. Yu, Efficient Similarity
        Joins for Near Duplicate Detection, WWW 2008): with all terms in one order, from the rarest
        on, two sets of a similarity of at least t share one of the first n - ceil(t n) + 1 terms
        of each, where n is its size.
    """
    sets = {id_: frozenset(terms(text)) for id_, text in texts.items()}
    texts_with = Counter(term for held in sets.values() for term in held)
    ids_with: dict[str, list[str]] = defaultdict(list)
    for id_ in sorted(sets, key=lambda id_: (len(sets[id_]), id_)):
        held = sets[id_]
        rarest = sorted(held, key=lambda term: (texts_with[term], term))
        met = {other for term in _prefix(rarest, similarity) for other in ids_with[term]}
        for other in sorted(met):
            if jaccard(held, sets[other]) >= similarity:
                yield other, id_
        # A set that is no larger than the other shares a larger part of its terms with it.
        for term in _prefix(rarest, 2 * similarity / (1 + similarity)):
            ids_with[term].append(id_)


def clusters(ids: Sequence[str], alike: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Group ids that are alike, or alike to one that is; pairs of other ids are passed over.

    Returns:
        Every id once; each group in the order given, and the groups by their first ids.
    """
    group_of = {id_: [id_] for id_ in ids}
    for first, second in alike:
        if first not in group_of or second not in group_of or group_of[first] is group_of[second]:
            continue
        smaller, larger = sorted((group_of[first], group_of[second]), key=len)
        larger += smaller
        group_of.update(dict.fromkeys(smaller, larger))
    place = {id_: number for number, id_ in enumerate(ids)}
    groups = {id(group): group for group in group_of.values()}
    return [tuple(sorted(group, key=place.__getitem__)) for group in groups.values()]


def _prefix(rarest: Sequence[str], share: float) -> Sequence[str]:
    """Terms of which similar texts share at least one."""
    return rarest[: len(rarest) - math.ceil(share * len(rarest) - _ROUNDING) + 1]


_ROUNDING = 1e-9
"""A product of floats may end just above a whole number; to look at more loses nothing."""

_MARKS = frozenset("*_`\\|")
_SIMPLE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
_FENCE = re.compile(r"^[ \t>]{0,20}(?:`{3,}|~{3,})[^`\n]{0,200}$", re.MULTILINE)
_LINE_MARK = re.compile(
    r"^[ \t]*(?:(?:>[ \t]?)+|(?:\#{1,6}|[-*+]|\d{1,3}[.)]|\.\.\.|\$)(?=[ \t]))", re.MULTILINE
)
_LINK = re.compile(r"!?\[(?P<shown>[^\[\]\n]{0,300})\](?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,100}\])")
_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|code|div|em|hr|i|img|kbd|li|ol|p|pre|span|strong|sub|sup|ul)"
    r"(?:\s[^<>\n]{0,1000})?/?>",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"(?<![\w*\\])\*{1,3}(?=\S)|(?<=[^\s\\])\*{1,3}(?![\w*])")  # not 32*16
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_CODE_SPAN = re.compile(r"(`+[^`\n]*`+)")
_MOST_LOOKED_AT = 100
"""Places of a quotation that are looked at for one that cuts no word."""


def plain(markdown: str) -> str:
    """Drop the marks of links, emphasis, tags and escapes, and join all lines by single spaces."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", markdown))
    pieces = _CODE_SPAN.split(text)
    pieces[::2] = [_ESCAPED.sub(r"\1", _EMPHASIS.sub("", piece)) for piece in pieces[::2]]
    return " ".join("".join(pieces).split())


class Span(NamedTuple):
    """A place in a text, as `text[start:end]`; in characters (code points)."""

    start: int
    end: int


class _Bare(NamedTuple):
    """What is compared of a text, and where each of its characters is in it."""

    text: str
    places: tuple[int, ...]


@functools.lru_cache(maxsize=256)  # the rules of replies ask for a place, and then who records it
def find_quotation(quotation: str, text: str) -> Span | None:
    """Find where a quotation is in a text, which is Markdown.

    White space, marks of Markdown (emphasis, code, links, headings, list items, tags, escapes) and
    the form of quotation marks and dashes may differ.

    Returns:
        The first place that cuts no word, or else the first place; None if there is none, or
        nothing is quoted. Marks of emphasis and code directly around a place belong to it.
    """
    written = quotation.strip()
    span = _first(written, text, text, range(len(text))) if written else None
    for without in (_without_space, _without_marks):
        if span is None:
            bare, whole = without(written).text, without(text)
            span = _first(bare, whole.text, text, whole.places) if bare else None
            span = span and _with_marks(span, text)
    return span


def _first(needle: str, hay: str, text: str, places: Sequence[int]) -> Span | None:
    first: Span | None = None
    position = hay.find(needle)
    for _ in range(_MOST_LOOKED_AT):
        if position < 0:
            break
        span = Span(places[position], places[position + len(needle) - 1] + 1)
        if not (_cuts_word(text, span.start) or _cuts_word(text, span.end)):
            return span
        first = first or span
        position = hay.find(needle, position + 1)
    return first


def _cuts_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and all(
        character.isalnum() or character == "_" for character in text[place - 1 : place + 1]
    )


def _with_marks(span: Span, text: str) -> Span:
    start, end = span
    while start > 0 and text[start - 1] in "*`":
        start -= 1
    while end < len(text) and text[end] in "*`":
        end += 1
    return Span(start, end)


@functools.lru_cache(maxsize=64)  # for the many quotations from one text
def _without_space(text: str) -> _Bare:
    places = tuple(place for place, character in enumerate(text) if not character.isspace())
    return _Bare("".join(text.split()), places)


@functools.lru_cache(maxsize=64)
def _without_marks(text: str) -> _Bare:
    left_out = bytearray(len(text))
    for pattern in (_FENCE, _LINE_MARK, _TAG):
        for match in pattern.finditer(text):
            left_out[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    for match in _LINK.finditer(text):
        (start, end), (first, last) = match.span(), match.span("shown")
        left_out[start:first] = b"\1" * (first - start)
        left_out[last:end] = b"\1" * (end - last)
    places = tuple(
        place
        for place, character in enumerate(text)
        if not (left_out[place] or character in _MARKS or character.isspace())
    )
    simple = text.translate(_SIMPLE)
    return _Bare("".join([simple[place] for place in places]), places)


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
_DENIES = re.compile(  # first a letter: so a search looks at few places of a text
    r"[NnWwCc](?i:(?:(?<=\bn)(?:o|ot|ever|one|either|or)|(?<=\bw)ithout|(?<=\bc)annot)\b"
    r"|(?<=n)['\u2019]t\b)"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_`]{0,4}\s+")
_CODE = re.compile(r"`([^`\n]+)`")
_ANY_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?!\w)")
"""A number by itself: terms know neither the 3 of `mp3` from a 3 nor 1.5 from 15."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


class _Sentence(NamedTuple):
    terms: frozenset[str]
    """Content terms: without words of asking."""
    denies: bool


def restates(statement: str, question: str) -> bool:
    """Whether a statement has no information that is not in the question itself.

    That is so if all of these hold, which is meant to err on the side of the statement:

    - it has at least three content terms: `terms` without words of asking;
    - all of them are in the question, and they are those of one of its sentences, by a Jaccard
      index of 0.8 or more;
    - its code, in backticks, and every number by itself in it are in the question as they are;
    - the statement and that sentence both deny something, or neither does;
    - that sentence is no yes-or-no question, whose answer has its words.

    Few titles end as sentences do, so every beginning and end of the first sentence, up to 40 words
    into it, counts as a sentence as well.
    """
    # Most statements have a term of their own, and end there: sentences are cut for few questions.
    if not _question_terms(question).issuperset(_each_term(statement)):
        return False
    stated = _content(statement)
    if len(stated) < FEWEST_TERMS:
        return False
    denied = denies(statement)
    return (
        any(
            denied == sentence.denies and jaccard(stated, sentence.terms) >= RESTATED
            for sentence in _question_sentences(question)
        )
        and all(find_quotation(code, question) for code in _CODE.findall(statement))
        and set(_NUMBER.findall(statement)) <= set(_NUMBER.findall(question))
    )


@functools.lru_cache(maxsize=64)
def _question_terms(question: str) -> frozenset[str]:
    return frozenset(terms(question)) | _WORDS_OF_ASKING


@functools.lru_cache(maxsize=64)
def _question_sentences(question: str) -> tuple[_Sentence, ...]:
    """Every sentence, once as its paragraph and once as its line has it; some lines are broken."""
    paragraphs = [" ".join(part.split()) for part in _PARAGRAPH_END.split(question)]
    first = _SENTENCE_END.split(paragraphs[0])[0].split()
    unique: dict[_Sentence, None] = {}
    if len(first) <= _LONGEST_SENTENCE:
        unique.update(dict.fromkeys(_beginnings_and_ends(first)))
    texts = {
        sentence
        for text in [*paragraphs, *question.splitlines()]
        for sentence in _SENTENCE_END.split(text)
    }
    unique.update((_sentence(text), None) for text in texts if not _is_yes_or_no(text))
    return tuple(sentence for sentence in unique if len(sentence.terms) >= FEWEST_TERMS - 1)


def _sentence(text: str) -> _Sentence:
    return _Sentence(_content(text), denies(text))


def _content(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _WORDS_OF_ASKING


_NEW_PART = re.compile(r"\n[ \t]*\n\s*|\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t])")
"""Where a paragraph or an entry of a list begins."""
_ITEM_MARK = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s*")
_CODE_BLOCK = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)


def sentences(markdown: str, language: str | None = None) -> list[str]:
    """Cut a text into sentences, each with the citations `[1]` and the code block that follow it.

    A paragraph or an entry of a list ends a sentence, too.

    Args:
        markdown: The text.
        language: Its code of ISO 639, for abbreviations; None: English.
    """
    from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

    matches = _CODE_BLOCK.finditer(markdown)
    blocks = [(len(markdown[: block.start()].rstrip()), block.end()) for block in matches]
    ends = {match.end() for match in _NEW_PART.finditer(markdown)} | {end for _, end in blocks}
    ends.update(accumulate(map(len, segment(language or "en", markdown))))
    outside = [end for end in sorted(ends) if not any(a <= end < b for a, b in blocks)]
    cut, start = [], 0
    for end in [*outside, len(markdown)]:
        if end == len(markdown) or not _ITEM_MARK.fullmatch(markdown, start, end):
            cut.append(markdown[start:end].strip())
            start = end
    return [sentence for sentence in cut if sentence]


def denies(text: str) -> bool:
    """Whether an English text denies something."""
    return bool(_DENIES.search(text))


def numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text, also those within words, in order."""
    return tuple(_ANY_NUMBER.findall(text))


def denials(text: str) -> tuple[str, ...]:
    """The words of an English text that deny something, in order."""
    return tuple(word.lower() for word in _DENIES.findall(text))


def _is_yes_or_no(sentence: str) -> bool:
    return sentence.rstrip("\"')]*_` ").endswith("?") and not _ASKS_OPENLY.search(sentence)


def _beginnings_and_ends(words: list[str]) -> Iterator[_Sentence]:
    """What is before and after each of the first words; no term has white space in it."""
    cut = [_sentence(word) for word in words]
    for place in range(1, min(len(words), _LONGEST_TITLE + 1)):
        for part, sentences in ((words[:place], cut[:place]), (words[place:], cut[place:])):
            if not _is_yes_or_no(" ".join(part)):
                yield _Sentence(
                    frozenset().union(*(sentence.terms for sentence in sentences)),
                    any(sentence.denies for sentence in sentences),
                )


_WRITTEN_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_PROPER_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w+")
"""A capitalised word that begins no sentence."""
_MOST_NEW = 0.25
"""The share of a passage's terms that may be new in it."""


def unsupported_words(passage: str, source: str) -> list[str]:
    """List what a passage says that the text it was written from does not, by its words.

    Returns:
        Numbers and capitalised words that the source lacks, in the order of the passage; and, where
        more than a quarter of the passage's terms are not in the source, these. Wording of its own
        below that is no fault, so a passage that was reworded and says the contrary is not found.
    """
    held, written = set(terms(source)), set(_WRITTEN_NUMBER.findall(source))
    new = [number for number in _WRITTEN_NUMBER.findall(passage) if number not in written]
    new += [
        name
        for name in _PROPER_NAME.findall(passage)
        if terms(name) and not held.intersection(terms(name))
    ]
    own = dict.fromkeys(terms(passage))
    unknown = [term for term in own if term not in held]
    if len(unknown) > _MOST_NEW * len(own):
        new += unknown
    return list(dict.fromkeys(new))


# Ids that are nearly right

_COMPARED = 100
"""How many ids, before and after the wrong one, are compared: of a corpus, all would take long."""


def named_nearest(wrong: str, ids: Collection[str], elsewhere: str) -> str:
    """Say which ids are the nearest to a wrong one, or where they are listed if none is like it."""
    ordered = sorted(ids)
    place = bisect(ordered, wrong)
    around = ordered[max(0, place - _COMPARED) : place + _COMPARED]
    holding = [each for each in ordered if wrong in each][:3]
    if near := holding or difflib.get_close_matches(wrong, around):
        return f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(map(repr, near))}"
    return f"none is like it; {elsewhere} lists them"
