"""What is expected of questions and models that nobody has asked yet: the constants of an estimate."""

import math

from freshstack_dspy.config import BuildConfig, PoolConfig
from freshstack_dspy.records import Step

# Each constant was measured on two collections: one of 100 questions of a Stack Exchange site over
# six packages (63,536 chunks, the embedded baseline, top_k 20), and the quickstart's 18 questions
# (216 chunks, replies written by hand, top_k 8).

NUGGETS = 5
"""Nuggets of an answer, where `limit` allows it: 6.0 and 4.8; FreshStack's GPT-4o gave 3.0 to 3.5
(arXiv 2504.13128, Table 2)."""
NUGGET_TOKENS = 46
"""Of one nugget in the judge's prompt: 44.0 and 49.3."""
NUGGET_REPLY_TOKENS = 73
"""Of one nugget with its quote in the nuggetizer's reply: 70.2 (238 questions of that site, with
the embedded baseline) and 75.9."""
RATING_TOKENS = 17
"""Of the rating of one nugget: 16.5 (the same) and 16.8."""
SUB_QUESTIONS = 4
"""Sub-questions of a question, where `limit` allows it: 3.5 and 3.9."""
SUB_QUESTION_TOKENS = 21
"""Of one in the reply: 23.6 and 18.3."""
CLOSED_BOOK_TOKENS = 300
"""Of a closed-book answer: 143 and 185; an allowance is made, for models write longer ones."""
VERDICT_TOKENS = 49
"""Of the verdict on one chunk: 48.5 and 49.0."""
GRADE_TOKENS = 14
"""Of the grade of one nugget, on the scales where each nugget has one."""
_ALLOWANCE = 1.25
"""How much longer than expected a reply may well be."""
GROWTH = 0.34
GROWTH_WITH_SIZE = 0.046
"""`t` techniques pool `t ** (0.34 + 0.046 * ln(chunks / top_k))` times as many chunks as one: the
larger the corpus, the less they overlap. The exponent with five techniques: 0.75 on 63,536 chunks,
0.67, 0.61, 0.62 and 0.58 on 11,342, 2,257, 815 and 544 of them; 0.64 in an official FreshStack
record with a pool of 56 out of 49,514 chunks; 0.37 in the quickstart. The line runs between."""
SPREAD = 0.3
"""Pools of single queries lie evenly up to this share above and below the mean, which makes a
standard deviation of 0.17: 0.15 and 0.20."""

_STEPS = 6


def verdict_tokens(config: BuildConfig, nuggets: float) -> float:
    """Tokens of the verdict on one chunk; on the binary scale it only names what is supported."""
    return VERDICT_TOKENS + (0 if config.judge.scale == "binary" else GRADE_TOKENS * nuggets)


def most_verdicts(config: BuildConfig, nuggets: int) -> int:
    """On how many chunks, at least one, the verdicts fit into a reply of `max_tokens`.

    On the binary scale as many as one likes: a verdict is as long as its reason.
    """
    if config.judge.scale == "binary":
        return config.judge.batch
    fitting = config.model.max_tokens / (_ALLOWANCE * verdict_tokens(config, nuggets))
    return max(1, int(fitting))


def reply_tokens(
    config: BuildConfig, step: Step, chunks: float = 0, nuggets: float = NUGGETS
) -> int:
    """Tokens that a reply of a step is expected to have; reasoning is not in it.

    Args:
        config: With the limits.
        step: Which.
        chunks: How many a support request asks about.
        nuggets: About how many nuggets it asks.
    """
    expected = {
        "nuggets": NUGGET_REPLY_TOKENS * min(NUGGETS, config.nuggets.limit),
        "sub_questions": SUB_QUESTION_TOKENS * min(SUB_QUESTIONS, config.sub_questions.limit),
        "closed_book_answer": CLOSED_BOOK_TOKENS,
        "support": verdict_tokens(config, nuggets) * chunks,
        "single_support": verdict_tokens(config, nuggets),
        "contamination": verdict_tokens(config, nuggets),
        "importance": RATING_TOKENS * min(nuggets, config.nuggets.limit),
    }
    return min(round(expected[step]), config.model.max_tokens)


def pool_sizes(config: PoolConfig, chunks: int) -> list[float]:
    """Pool sizes that queries are expected to have, evenly spread around the mean."""
    techniques = len(config.techniques)
    least, most = min(config.top_k, chunks), min(config.top_k * techniques, chunks)
    growth = GROWTH + GROWTH_WITH_SIZE * math.log(max(1, chunks / config.top_k))
    mean = least * techniques**growth
    shares = [SPREAD * step / _STEPS for step in range(-_STEPS, _STEPS + 1)]
    return [min(max(mean * (1 + share), least), most) for share in shares]
