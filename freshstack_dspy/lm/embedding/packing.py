"""Which texts are sent together: so many, and no more than a provider takes in one request."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from freshstack_dspy.lm.embedding.asks import EmbeddingAsk
from freshstack_dspy.lm.spending.prices import Price
from freshstack_dspy.lm.spending.spent import Spent

MOST_BYTES = 300_000
"""Of the texts of one request. OpenAI takes 300,000 tokens, and no token is less than a byte."""
ADDED = 8
"""Tokens that a model may put around a text, as its beginning and end."""


class Wanted(NamedTuple):
    """A text whose vector is asked for."""

    ask: EmbeddingAsk
    text: str
    """Exactly as it is sent."""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode())


def packed(wanted: Iterable[Wanted], most_texts: int) -> Iterator[list[Wanted]]:
    """Cut texts into requests, in their order; a text that is too long goes alone."""
    pack: list[Wanted] = []
    size = 0
    for one in wanted:
        if pack and (len(pack) == most_texts or size + one.size > MOST_BYTES):
            yield pack
            pack, size = [], 0
        pack.append(one)
        size += one.size
    if pack:
        yield pack


def worst_of(pack: Iterable[Wanted], price: Price | None) -> Spent:
    """The most that a request can cost: a token for each byte."""
    tokens = sum(one.size + ADDED for one in pack)
    return Spent(calls=1, tokens=tokens, dollars=tokens * price.input if price else 0.0)


def shares(total: int, sizes: Iterable[int]) -> list[int]:
    """Divide a count by sizes into whole numbers that add up to it.

    Args:
        total: What is divided.
        sizes: Of the parts.
    """
    sizes = list(sizes)
    whole = sum(sizes) or 1
    ends, so_far = [0], 0
    for size in sizes:
        so_far += size
        ends.append(total * so_far // whole)
    ends[-1] = total
    return [end - start for start, end in pairwise(ends)]
