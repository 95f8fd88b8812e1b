"""Chunks to index: made by hand, or many at once from a seed."""

import random

from freshstack_dspy.records import Chunk


def piece(path: str, text: str, *, start: int = 0, revision: str | None = None) -> Chunk:
    end = start + max(1, len(text.encode()))
    return Chunk(
        chunk_id=f"repo/{path}_{start}_{end}",
        source="repo",
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


GUIDE = piece("guide.md", "Install the package, then connect to the server.")
CAMEL = piece("src/account.js", "function getUserName(id) { return cache[id] }")
SNAKE = piece("src/account.py", "def read_config_file(where): return open(where)")
GREEK = piece("docs/größe.md", "Die Größe λ der naïven Schätzung: 日本語 bleibt lesbar.")
TWIN_A = piece("a/license.txt", "Permission is hereby granted free of charge")
TWIN_B = piece("b/license.txt", "Permission is hereby granted free of charge")
SMALL = [GUIDE, CAMEL, SNAKE, GREEK, TWIN_A, TWIN_B]
