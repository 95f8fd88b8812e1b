"""Chunks to index: made by hand, or many at once from a seed; and an embedder to do it with."""

import random
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy import Chunk, HybridIndex
from freshstack_dspy.records import ScoredChunk


def piece(
    path: str, text: str, *, start: int = 0, revision: str | None = None, source: str = "repo"
) -> Chunk:
    end = start + max(1, len(text.encode()))
    return Chunk(
        chunk_id=f"{source}/{path}_{start}_{end}",
        source=source,
        path=path,
        start_byte=start,
        end_byte=end,
        text=text,
        tokens=len(text.split()),
        revision=revision,
    )


def many(count: int, seed: int = 0) -> list[Chunk]:
    """Chunks with words of a skewed distribution, as in any real text."""
    rng = random.Random(seed)
    words = [f"word{letter}{number}" for letter in "abcdefgh" for number in range(50)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [
        piece(f"file{number}.py", " ".join(rng.choices(words, weights, k=rng.randrange(3, 60))))
        for number in range(count)
    ]


def rankings(
    index: HybridIndex, texts: Sequence[str], depth: int = 30
) -> dict[str, list[list[ScoredChunk]]]:
    """What every retriever of an index finds."""
    return {name: index.search(name, texts, depth) for name in index.retrievers}


class Letters:
    """An embedder: how often each of some letters is in a text."""

    def __init__(self, name: str = "letters", letters: str = "abcde12345") -> None:
        self.name, self.letters = name, letters
        self.embedded: list[str] = []

    @property
    def identity(self) -> str:
        return f"letters {self.letters}"

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        self.embedded += texts
        progress(1)
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = [[text.count(letter) for letter in self.letters] for text in texts]
        return np.array(counts, np.float32).reshape(len(texts), len(self.letters))


class Shortest:
    """A reranker that prefers short passages."""

    identity = "shortest"
    at_once = 2

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        return [-float(len(passage)) for passage in passages]


GUIDE = piece("guide.md", "Install the package, then connect to the server.")
CAMEL = piece("src/account.js", "function getUserName(id) { return cache[id] }")
SNAKE = piece("src/account.py", "def read_config_file(where): return open(where)")
GREEK = piece("docs/größe.md", "Die Größe λ der naïven Schätzung: 日本語 bleibt lesbar.")
TWIN_A = piece("a/license.txt", "Permission is hereby granted free of charge")
TWIN_B = piece("b/license.txt", "Permission is hereby granted free of charge")
SMALL = [GUIDE, CAMEL, SNAKE, GREEK, TWIN_A, TWIN_B]
