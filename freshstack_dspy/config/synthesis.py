"""The keys of `[queries]` that say how questions are made from the documents."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from freshstack_dspy.config.section import Section


class SynthesisConfig(Section):
    """How synthetic queries are made: from which chunks, how many, and what is refused."""

    count: int | None = Field(default=None, ge=1, le=100_000)
    """How many queries to make: exactly so many."""
    per_seed: int = Field(default=2, ge=1, le=20)
    """Questions asked for in one request."""
    seed: int = 0
    """Decides in which order chunks are sampled."""
    sampling: Literal["even", "proportional"] = "even"
    """Whether every source gives the same number of seeds, or one in proportion to its chunks."""
    chunks: int = Field(default=1, ge=1, le=10)
    """Chunks that each question is made from: related ones, of which it needs more than one."""
    min_tokens: int = Field(default=64, ge=1)
    """Tokens of the shortest chunk that is sampled."""
    sources: tuple[str, ...] = ()
    """Names of the `[[corpus]]` to sample from; empty: all."""
    include: tuple[str, ...] = ()
    """Globs of paths to sample from; empty: all."""
    exclude: tuple[str, ...] = ()
    """Globs of paths not to sample from."""
    style: Path | None = None
    """A file with questions whose style and length to follow: one a line, or JSON Lines."""
    near_duplicate: float = Field(default=0.7, gt=0, le=1)
    """From which similarity to an earlier question on one is refused: Jaccard of their terms."""
    copied: float = Field(default=0.5, gt=0, le=1)
    """The share of a question's runs of four words from which on it copies its chunk, and is
    refused."""
