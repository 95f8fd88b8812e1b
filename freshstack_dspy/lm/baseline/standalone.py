"""Standalone passages: the paragraphs of a document packed to about 200 words, with their heading."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from freshstack_dspy.lm.baseline.markdown import Block, blocks, plain, sentences
from freshstack_dspy.lm.baseline.nuggets import most_telling, shortened
from freshstack_dspy.lm.workers import packed as join
from freshstack_dspy.text import terms

WORDS = 200
"""About how long a passage is."""

_LONGEST_CONTEXT = 200


def passages(document: str, title: str, limit: int) -> list[str]:
    """Cut a document into at most `limit` passages that can be read by themselves."""
    pieces = [piece for block in blocks(document) for piece in _pieces(block)]
    packed = [_passage(run, title) for run in _runs(pieces)]
    if not packed and document.strip():
        packed = [document.strip()]
    if len(packed) <= limit:
        return packed
    return [packed[place] for place in most_telling(packed, limit)]


def _pieces(block: Block) -> Iterator[Block]:
    """A block as it is or, if it is long, in runs of sentences or lines."""
    code = block.kind == "code"
    parts = block.text.splitlines() if code else sentences(plain(block.text))
    for run in _runs(block._replace(text=part) for part in parts):
        texts = [part.text for part in run]
        text = "```\n" + "\n".join(texts) + "\n```" if code else " ".join(texts)
        yield block._replace(text=text)


def _runs(pieces: Iterable[Block]) -> Iterator[list[Block]]:
    """Join pieces until the next one would make the run longer than `WORDS`."""
    return join(pieces, lambda piece: len(piece.text.split()), most_size=WORDS)


def _passage(run: Sequence[Block], title: str) -> str:
    """The text of a run, after those of its titles whose words it lacks."""
    parts = [run[0].text]
    for before, piece in pairwise(run):
        parts += [piece.text] if piece.heading == before.heading else [piece.heading, piece.text]
    body = "\n\n".join(parts)
    held = set(terms(body))
    lacking = [
        shortened(context, _LONGEST_CONTEXT)
        for context in (title, run[0].heading)
        if set(terms(context)) - held
    ]
    return ": ".join([*dict.fromkeys(lacking), body])
