"""What a build will ask for, estimated from its questions and its chunks before anything is sent.

The first three steps are counted in the very prompts that a build sends. How much support costs is
known only once the chunks are pooled; until then it follows from the constants of `expected.py`.
Nothing here depends on what is recorded, so a build and its replay estimate the same.
"""

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from freshstack_dspy.collection.estimates import StepEstimate
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.lm.cl100k import count_tokens
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.spending.prices import Price, price_of
from freshstack_dspy.lm.typed.answer_model import answer_schema
from freshstack_dspy.lm.typed.prompt import turns
from freshstack_dspy.recipes.expected import (
    NUGGET_TOKENS,
    NUGGETS,
    pool_sizes,
    reply_tokens,
)
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.records import Chunk, Query, Step
from freshstack_dspy.signatures.judge_support import NumberedChunk

_SAMPLED_QUERIES = 100
_SAMPLED_CHUNKS = 128

Item = TypeVar("Item")


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


def measure_chunks(chunks: Sequence[Chunk], count: int | None = None) -> ChunkSizes:
    """Measure a corpus by some of its chunks, evenly spread.

    Args:
        chunks: All of them, or a sample.
        count: How many the corpus has, where these are a sample.
    """
    lengths = [count_tokens(_as_judged(chunk)) for chunk in spread(chunks, _SAMPLED_CHUNKS)]
    tokens = sum(length * length for length in lengths) / max(1, sum(lengths))
    return ChunkSizes(len(chunks) if count is None else count, tokens)


def expected_loads(
    config: BuildConfig, recipe: FreshStack, queries: Sequence[Query], sizes: ChunkSizes
) -> dict[Step, Load]:
    """What every step of a build is expected to ask for, re-asks left out.

    Args:
        config: Of the build.
        recipe: With the prompts that it uses.
        queries: All questions.
        sizes: Of the chunks.
    """
    sample = spread(queries, _SAMPLED_QUERIES)
    loads: dict[Step, Load] = {}
    for name, (predictor, inputs_of) in _first_questions(recipe).items():
        if name != "nuggets" and name not in config.pool.techniques:
            continue
        tokens = [_prompt_tokens(config, predictor, inputs_of(query)) for query in sample]
        loads[name] = Load(len(queries), round(_mean(tokens)), reply_tokens(config, name))
    frames = [
        _prompt_tokens(
            config,
            recipe.support_judge.predict,
            {"question": query.text, "nuggets": [], "chunks": []},
        )
        for query in sample
    ]
    loads["support"] = _expected_support(config, len(queries), _mean(frames), sizes)
    return loads


def estimate(
    config: BuildConfig, recipe: FreshStack, queries: Sequence[Query], chunks: Sequence[Chunk]
) -> dict[str, StepEstimate]:
    """Estimate a build, by step, for its manifest; what is recorded makes no difference."""
    price = price_of(config.model.name, config.prices)
    loads = expected_loads(config, recipe, queries, measure_chunks(chunks))
    return {
        name: StepEstimate(
            requests=load.requests,
            input_tokens=load.requests * load.input_tokens,
            output_tokens=load.requests * load.output_tokens,
            cost=dollars([load], price),
        )
        for name, load in loads.items()
    }


def ask_tokens(ask: Ask) -> int:
    """Count the input tokens of a request.

    The schema of the reply counts too: providers put it before the model.
    """
    response_format = ask.parameters.get("response_format") or {}
    schema = response_format.get("schema")
    return sum(_counted(message.content) for message in ask.messages) + (
        _counted(canonical_json(schema)) if schema else 0
    )


def dollars(loads: Sequence[Load], price: Price | None, *, batch: bool = False) -> float | None:
    """What requests cost, or None where there is no such price."""
    if not loads:
        return 0.0
    if price is None or (batch and None in (price.batch_input, price.batch_output)):
        return None
    return sum(
        load.requests * (price.cost(load.input_tokens, load.output_tokens, batch=batch) or 0.0)
        for load in loads
    )


def spread(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Take every n-th item, so that there are at most so many."""
    every = -(-len(items) // most) or 1
    return items[(every - 1) // 2 :: every]


def _first_questions(
    recipe: FreshStack,
) -> dict[Step, tuple[Any, Callable[[Query], dict[str, Any]]]]:
    """The predictors that see no chunks, with the inputs that their programs give them."""
    cut, parts = recipe.nuggetizer.limit, recipe.question_decomposer.limit
    return {
        "nuggets": (
            recipe.nuggetizer.predict,
            lambda query: {"question": query.text, "answer": query.answer, "limit": cut},
        ),
        "sub_questions": (
            recipe.question_decomposer.predict,
            lambda query: {"question": query.text, "limit": parts},
        ),
        "closed_book_answer": (
            recipe.closed_book_answerer.predict,
            lambda query: {"question": query.text},
        ),
    }


def _prompt_tokens(config: BuildConfig, predictor: Any, inputs: dict[str, Any]) -> int:
    messages = turns(predictor.signature, predictor.demos, inputs)
    schema = (
        canonical_json(answer_schema(predictor.signature))
        if config.model.structured == "json_schema"
        else ""
    )
    return sum(_counted(message["content"]) for message in messages) + _counted(schema)


def _expected_support(
    config: BuildConfig, queries: int, frame_tokens: float, sizes: ChunkSizes
) -> Load:
    """The requests that judge the pools of so many queries."""
    pools = pool_sizes(config.pool, sizes.chunks)
    batches = sum(math.ceil(pool / config.judge.batch) for pool in pools) / len(pools)
    if batches == 0:
        return Load(0, 0, 0)
    chunks = _mean(pools) / batches
    nuggets = NUGGET_TOKENS * min(NUGGETS, config.nuggets.limit)
    input_tokens = frame_tokens + nuggets + chunks * sizes.tokens
    return Load(
        round(queries * batches), round(input_tokens), reply_tokens(config, "support", chunks)
    )


def _as_judged(chunk: Chunk) -> str:
    """A chunk as it stands in the judge's prompt; its number is any of two digits."""
    numbered = NumberedChunk(number=10, path=f"{chunk.source}/{chunk.path}", text=chunk.passage)
    return json.dumps([numbered.model_dump()], ensure_ascii=False, indent=1)


# The instructions and the schema of a step are in each of its prompts.
_counted = functools.lru_cache(maxsize=32)(count_tokens)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
