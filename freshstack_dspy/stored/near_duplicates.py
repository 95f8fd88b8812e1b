"""Near-duplicates: which questions ask nearly the same, and which chunks say nearly the same."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from freshstack_dspy.records import Chunk, Nugget
from freshstack_dspy.text import alike_pairs, denials, jaccard, numbers, terms

MOST_LISTED = 20
"""The most ids listed for each text: a thousand equal texts would each list a thousand."""
LEAST_TERMS = 10
"""The fewest terms of a body that is compared without its title: "Please help, thanks" is common."""
NEARLY_THE_SAME = 0.9
"""From which Jaccard index of their runs of three words on two chunks say nearly the same."""


class Asked(Protocol):
    """A question: a `Query`, or what a model is shown of one."""

    @property
    def body(self) -> str:
        """The question without its title."""
        ...

    @property
    def text(self) -> str:
        """Title and body."""
        ...


def near_duplicates(
    questions: Mapping[str, Asked], similarity: float
) -> dict[str, tuple[str, ...]]:
    """Find the questions that ask nearly the same; the arguments are those of `alike_questions`.

    Returns:
        For each id the others that are alike, ascending, at most the first 20; ids without any
        are left out.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for first, second in alike_questions(questions, similarity):
        alike[first].append(second)
        alike[second].append(first)
    return {id_: tuple(sorted(alike[id_])[:MOST_LISTED]) for id_ in sorted(alike)}


def alike_questions(questions: Mapping[str, Asked], similarity: float) -> set[tuple[str, str]]:
    """Give the pairs of questions that are alike as a whole, or by their bodies under other titles.

    Args:
        questions: By id; a body of fewer than 10 terms is not compared without its title.
        similarity: As for `alike_pairs`.
    """
    whole = {id_: question.text for id_, question in questions.items()}
    bodies = {
        id_: question.body
        for id_, question in questions.items()
        if len(set(terms(question.body))) >= LEAST_TERMS
    }
    pairs = (*alike_pairs(whole, similarity), *alike_pairs(bodies, similarity))
    return {(min(pair), max(pair)) for pair in pairs}


def same_texts(chunks: Iterable[Chunk], nuggets: Iterable[Nugget]) -> dict[str, Chunk]:
    """Find the chunks that say the same as an earlier one, as far as these nuggets can tell.

    Two chunks do if they are below the same headings and their texts are the same except for white
    space, or nearly the same: the Jaccard index of their runs of three words is 0.9 or more, they
    have the same numbers and words of denial in the same order, and no nugget has a term that only
    one of them has.

    Returns:
        The earlier chunk, itself like no chunk before it, by the id of each such chunk.
    """
    wanted = frozenset(term for nugget in nuggets for term in terms(nugget.text))
    firsts: dict[tuple[tuple[str, ...], _Marks], list[Chunk]] = {}
    earlier: dict[str, Chunk] = {}
    for chunk in chunks:
        alike = firsts.setdefault((chunk.headings, _marks(chunk.passage)), [])
        same = next((first for first in alike if _say_the_same(first, chunk, wanted)), None)
        if same is None:
            alike.append(chunk)
        else:
            earlier[chunk.chunk_id] = same
    return earlier


_Marks = tuple[tuple[str, ...], tuple[str, ...]]


@functools.lru_cache(maxsize=4096)  # a chunk is pooled for many questions
def _marks(text: str) -> _Marks:
    """The numbers and the words of denial of a text."""
    return numbers(text), denials(text)


def _say_the_same(first: Chunk, second: Chunk, wanted: frozenset[str]) -> bool:
    if jaccard(_runs(first.passage), _runs(second.passage)) < NEARLY_THE_SAME:
        return False
    return wanted.isdisjoint(set(terms(first.passage)) ^ set(terms(second.passage)))


@functools.lru_cache(maxsize=1024)  # for the chunks of a query, each compared with several
def _runs(text: str) -> frozenset[str]:
    """The runs of three words of a text; a shorter text is one."""
    words = text.split()
    starts = range(max(1, len(words) - 2))
    return frozenset(" ".join(words[start : start + 3]) for start in starts)
