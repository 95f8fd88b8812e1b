"""What a build will ask for, estimated from its questions and its chunks before anything is sent.

The first three steps are counted in the very prompts that a build sends. How much support costs is
known only once the chunks are pooled; until then it follows from the constants of `expected.py`.
Nothing here depends on what is recorded, so a build and its replay estimate the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from freshstack_dspy.collection.manifest import StepEstimate
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.programs.support_judge import whole
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.planning.expected import (
    CLOSED_BOOK_TOKENS,
    NUGGET_TOKENS,
    NUGGETS,
    reply_tokens,
)
from freshstack_dspy.recipes.planning.expected_judging import (
    ChunkSizes,
    Load,
    expected_singles,
    expected_support,
)
from freshstack_dspy.recipes.planning.expected_synthesis import expected_synthesis
from freshstack_dspy.recipes.planning.prompt_tokens import counted, passage_tokens, prompt_tokens
from freshstack_dspy.records import Chunk, Query, Step

_SAMPLED_QUERIES = 100
_SAMPLED_CHUNKS = 128

Item = TypeVar("Item")


def measure_chunks(chunks: Sequence[Chunk], count: int | None = None) -> ChunkSizes:
    """Measure a corpus by some of its chunks, evenly spread.

    Args:
        chunks: All of them, or a sample.
        count: How many the corpus has, where these are a sample.
    """
    lengths = [_judged_tokens(chunk) for chunk in spread(chunks, _SAMPLED_CHUNKS)]
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
        tokens = [prompt_tokens(config.model, predictor, inputs_of(query)) for query in sample]
        loads[name] = Load(len(queries), round(_mean(tokens)), reply_tokens(config, name))
    frames = [
        prompt_tokens(
            config.model,
            recipe.support_judge.predict,
            {"question": query.text, "nuggets": [], "chunks": []},
        )
        for query in sample
    ]
    loads["support"] = expected_support(config, len(queries), _mean(frames), sizes)
    if config.judge.compare:
        loads["single_support"] = expected_singles(config, len(queries), _mean(frames), sizes)
    if config.contamination.score and "closed_book_answer" in config.pool.techniques:
        loads["contamination"] = _expected_scoring(config, len(queries), _mean(frames))
    if recipe.importance_rater is not None:
        loads["importance"] = expected_rating(config, recipe, queries)
    return loads


def expected_rating(config: BuildConfig, recipe: FreshStack, queries: Sequence[Query]) -> Load:
    """The requests that rate the nuggets of all queries; none without a rater."""
    if recipe.importance_rater is None:
        return Load(0, 0, 0)
    predictor = recipe.importance_rater.predict
    tokens = [
        prompt_tokens(config.model, predictor, {"question": query.text, "nuggets": []})
        for query in spread(queries, _SAMPLED_QUERIES)
    ]
    nuggets = NUGGET_TOKENS * min(NUGGETS, config.nuggets.limit)
    return Load(len(queries), round(_mean(tokens) + nuggets), reply_tokens(config, "importance"))


def estimate(
    config: BuildConfig, recipe: FreshStack, queries: Sequence[Query], chunks: Sequence[Chunk]
) -> dict[str, StepEstimate]:
    """Estimate a build, by step, for its manifest; what is recorded makes no difference."""
    price = price_of(config.model.name, config.prices)
    sizes = measure_chunks(chunks)
    steps: dict[str, list[Load]] = {}
    if config.queries.is_synthetic:
        steps["synthesis"] = expected_synthesis(config, recipe, sizes)
    expected = expected_loads(config, recipe, queries, sizes)
    steps |= {name: [load] for name, load in expected.items()}
    return {
        name: StepEstimate(
            requests=sum(load.requests for load in loads),
            input_tokens=sum(load.requests * load.input_tokens for load in loads),
            output_tokens=sum(load.requests * load.output_tokens for load in loads),
            cost=dollars(loads, price),
        )
        for name, loads in steps.items()
    }


def ask_tokens(ask: ChatRequest) -> int:
    """Count the input tokens of a request.

    The schema of the reply counts too: providers put it before the model.
    """
    response_format = ask.parameters.get("response_format") or {}
    schema = response_format.get("schema")
    return sum(counted(message.content) for message in ask.messages) + (
        counted(canonical_json(schema)) if schema else 0
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


def _expected_scoring(config: BuildConfig, queries: int, frame_tokens: float) -> Load:
    """The requests that judge the closed-book answers of so many queries."""
    nuggets = NUGGET_TOKENS * min(NUGGETS, config.nuggets.limit)
    answer = min(CLOSED_BOOK_TOKENS, config.model.max_tokens)
    return Load(
        queries,
        round(frame_tokens + nuggets + answer),
        reply_tokens(config, "contamination"),
    )


def _judged_tokens(chunk: Chunk) -> int:
    shown = whole(chunk)
    return passage_tokens(shown.path, shown.text)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
