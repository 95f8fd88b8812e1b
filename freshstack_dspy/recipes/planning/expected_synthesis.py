"""What synthesis is expected to ask for before any question is made."""

import math
from collections.abc import Sequence

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.planning.expected import NUGGET_TOKENS, NUGGETS, reply_tokens
from freshstack_dspy.recipes.planning.expected_judging import ChunkSizes, Load
from freshstack_dspy.recipes.planning.prompt_tokens import prompt_tokens
from freshstack_dspy.recipes.synthesis.style import SHOWN
from freshstack_dspy.recipes.synthesis.synthesis import EXPECTED_KEPT
from freshstack_dspy.records import Query

_QUESTION_TOKENS = 30
_ANSWER_TOKENS = 70
_SYNTAX_TOKENS = 10
"""Of the keys and marks around a question and its answer in a reply."""


def expected_synthesis(config: BuildConfig, recipe: FreshStack, sizes: ChunkSizes) -> list[Load]:
    """The requests for questions, for their nuggets, and for the support of these by the seeds.

    Args:
        config: Of the build, whose questions are synthetic.
        recipe: With the prompts that it uses.
        sizes: Of the chunks.
    """
    assert recipe.query_synthesizer is not None
    queries, (query,) = config.queries, stand_ins(1)
    wanted = queries.count or 0
    seeds = math.ceil(wanted / (EXPECTED_KEPT * queries.per_seed))
    made, passages = seeds * queries.per_seed, queries.chunks * sizes.tokens
    examples = ["word " * _QUESTION_TOKENS] * (SHOWN if queries.style else 0)
    asked = prompt_tokens(
        config.model,
        recipe.query_synthesizer.predict,
        {"passages": [], "style_examples": examples, "limit": queries.per_seed},
    )
    cut = prompt_tokens(
        config.model,
        recipe.nuggetizer.predict,
        {"question": query.text, "answer": query.answer, "limit": recipe.nuggetizer.limit},
    )
    frame = prompt_tokens(
        config.model,
        recipe.support_judge.predict,
        {"question": query.text, "nuggets": [], "chunks": []},
    )
    nuggets = min(NUGGETS, config.nuggets.limit)
    calls = _calls(config, nuggets)
    each = queries.per_seed * (_QUESTION_TOKENS + _ANSWER_TOKENS + _SYNTAX_TOKENS)
    return [
        Load(seeds, round(asked + passages), min(each, config.model.max_tokens)),
        Load(made, cut, reply_tokens(config, "nuggets")),
        Load(
            made * calls * config.judge.votes,
            round(frame + (NUGGET_TOKENS * nuggets * queries.chunks + passages) / calls),
            reply_tokens(config, "support", queries.chunks / calls, nuggets),
        ),
    ]


def stand_ins(count: int) -> Sequence[Query]:
    """Queries as long as synthetic ones are expected to be, to count the prompts of later steps."""
    query = Query(
        query_id="expected",
        title="word " * _QUESTION_TOKENS,
        body="",
        answer="word " * _ANSWER_TOKENS,
        origin="synthetic",
    )
    return [query] * count


def _calls(config: BuildConfig, nuggets: int) -> int:
    """Calls that judge the seeds of one question."""
    judge, chunks = config.judge, config.queries.chunks
    if judge.shape == "batch":
        return math.ceil(chunks / judge.batch)
    return chunks * math.ceil(nuggets / (judge.window if judge.shape == "windowed" else 1))
