"""What a judge is shown of a chunk: all of it, or a part."""

from typing import NamedTuple
from freshstack_dspy.records import Chunk

class Passage(NamedTuple):
    """The text of a chunk, or one of the parts that a chunk too long for a call is split into."""

    chunk: Chunk
    text: str
    part: int = 1
    """Which part, from 1."""
    parts: int = 1
    """Of how many."""

    @property
    def path(self) -> str:
        """Where the judge is told that it stands."""
        return f"{self.chunk.source}/{self.chunk.path}"


def whole(chunk: Chunk) -> Passage:
    """All of a chunk."""
    return Passage(chunk, chunk.passage)
