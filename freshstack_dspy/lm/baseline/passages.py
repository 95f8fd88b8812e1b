"""Standalone passages: the paragraphs of a document packed to about 200 words, with their heading."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from freshstack_dspy.lm.baseline.markdown import Block, blocks, plain, sentences
from freshstack_dspy.lm.baseline.nuggets import most_telling, shortened
from freshstack_dspy.text import terms

WORDS = 200
"""About how long a passage is."""

_LONGEST_CONTEXT = 200


def passages(document: str, title: str, limit: int) -> list[str]:
    """Cut a document into passages that can be read by themselves.

    Returns:
        1 to `limit` passages in the document's order; none if the document is blank.
    """
    packed = [_with_context(passage, title) for passage in _packed(blocks(document))]
    if not packed and document.strip():
        packed = [document.strip()]
    if len(packed) <= limit:
        return packed
    return [packed[place] for place in most_telling(packed, limit)]


class _Passage(NamedTuple):
    heading: str
    parts: list[str]


def _packed(found: Sequence[Block]) -> Iterator[_Passage]:
    """Join pieces until the next one would make the passage too long."""
    begun = _Passage("", [])
    heading = ""
    length = 0
    for block in found:
        for piece in _pieces(block):
            words = len(piece.split())
            if begun.parts and length + words > WORDS:
                yield begun
                begun, length = _Passage("", []), 0
            if not begun.parts:
                begun = _Passage(block.heading, [piece])
            else:
                begun.parts.extend([piece] if block.heading == heading else [block.heading, piece])
            heading = block.heading
            length += words
    if begun.parts:
        yield begun


def _pieces(block: Block) -> Iterator[str]:
    """A block as it is or, if it is long, in runs of sentences or lines of about that length."""
    code = block.kind == "code"
    parts = block.text.splitlines() if code else sentences(plain(block.text))
    begun: list[str] = []
    length = 0
    for part in parts:
        words = len(part.split())
        if begun and length + words > WORDS:
            yield _joined(begun, code=code)
            begun, length = [], 0
        begun.append(part)
        length += words
    if begun:
        yield _joined(begun, code=code)


def _joined(parts: Sequence[str], *, code: bool) -> str:
    return "```\n" + "\n".join(parts) + "\n```" if code else " ".join(parts)


def _with_context(passage: _Passage, title: str) -> str:
    """The text of a passage, after those of its titles whose words it lacks."""
    body = "\n\n".join(passage.parts)
    said = set(terms(body))
    lacking = [
        shortened(context, _LONGEST_CONTEXT)
        for context in (title, passage.heading)
        if set(terms(context)) - said
    ]
    return ": ".join([*dict.fromkeys(lacking), body])
