"""Rankings, and the one order of this program."""

from typing import NamedTuple


class ScoredChunk(NamedTuple):
    """One entry of a ranking."""

    chunk_id: str
    score: float


def ranked(scores: dict[str, float], depth: int | None = None) -> list[ScoredChunk]:
    """Order scored chunks by the one rule of this program: score descending, then id ascending."""
    order = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [ScoredChunk(chunk_id, score) for chunk_id, score in order[:depth]]
