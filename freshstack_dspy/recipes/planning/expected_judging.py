"""What judging is expected to ask for before the chunks are pooled."""

import math
from typing import NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.judging.window import LEAST_ROOM, MARGIN, context_of
from freshstack_dspy.recipes.planning.expected import (
    NUGGET_TOKENS,
    NUGGETS,
    most_verdicts,
    pool_sizes,
    reply_tokens,
)


class ChunkSizes(NamedTuple):
    """How many chunks a corpus has, and how long a pooled one is in the judge's prompt."""

    chunks: int
    tokens: float
    """Of the chunk in which the average token stands. Chunks are pooled about in proportion to
    their length: the pooled ones of four collections had 0.89 to 1.03 times as many, and 0.93 to
    1.25 times as many as the average chunk."""


class Load(NamedTuple):
    """Requests of one size; the tokens are those of one request."""

    requests: int
    input_tokens: int
    output_tokens: int


def expected_support(
    config: BuildConfig, queries: int, frame_tokens: float, sizes: ChunkSizes
) -> Load:
    """The requests that judge the pools of so many queries, in the shape of `[judge]`.

    Args:
        config: Of the build.
        queries: How many.
        frame_tokens: Of a prompt without nuggets and chunks.
        sizes: Of the chunks.
    """
    judge, pools = config.judge, pool_sizes(config.pool, sizes.chunks)
    expected = min(NUGGETS, config.nuggets.limit)
    most = {"batch": expected, "windowed": judge.window, "pairwise": 1}[judge.shape]
    windows = math.ceil(expected / most)
    nuggets = expected / windows
    frame = frame_tokens + NUGGET_TOKENS * nuggets
    room = _room(config, frame)
    parts = max(1, math.ceil(sizes.tokens / room))
    tokens = sizes.tokens / parts
    size = 1
    if judge.shape == "batch" and parts == 1:
        fitting = config.judge.batch if room == math.inf else int(room // max(1.0, tokens))
        size = max(1, min(judge.batch, most_verdicts(config, math.ceil(nuggets)), fitting))
    batches = sum(math.ceil(pool / size) if size > 1 else pool for pool in pools) / len(pools)
    if batches == 0:
        return Load(0, 0, 0)
    chunks = sum(pools) / len(pools) / batches
    return Load(
        round(queries * batches * parts * windows * judge.votes),
        round(frame + chunks * tokens),
        reply_tokens(config, "support", chunks, nuggets),
    )


def expected_singles(
    config: BuildConfig, queries: int, frame_tokens: float, sizes: ChunkSizes
) -> Load:
    """The requests that judge the sample of `[judge] compare` chunks alone."""
    pools = pool_sizes(config.pool, sizes.chunks)
    pooled = round(queries * sum(pools) / len(pools))
    nuggets = min(NUGGETS, config.nuggets.limit)
    return Load(
        min(config.judge.compare, pooled),
        round(frame_tokens + NUGGET_TOKENS * nuggets + sizes.tokens),
        reply_tokens(config, "single_support", 1, nuggets),
    )


def _room(config: BuildConfig, frame: float) -> float:
    """Tokens left for chunks in the model's window."""
    context = context_of(config.model)
    if context is None:
        return math.inf
    return max(LEAST_ROOM, (context - config.model.max_tokens) / MARGIN - frame)
