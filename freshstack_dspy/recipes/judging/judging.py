"""Judging: what is asked about the pools of many queries, and what comes of it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judging.comparing import single_calls
from freshstack_dspy.recipes.judging.judge_calls import JudgeCall, ToJudge, judge_calls
from freshstack_dspy.recipes.judging.voting import JudgedBatch, merged
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Failure, Judgment


class Judged(NamedTuple):
    """What came of it: a judgment for every pair, and what failed."""

    judgments: tuple[Judgment, ...]
    failures: tuple[Failure, ...]
    single_judgments: tuple[Judgment, ...] = ()
    """Of the sample that was also judged alone, where a build draws one."""


def judge(
    config: BuildConfig, recipe: FreshStack, session: Session, pairs: Sequence[ToJudge]
) -> Judged:
    """Judge every pair as `[judge]` says, in the step `support`.

    Args:
        config: Of the build.
        recipe: With the judge.
        session: Asks, with progress and account.
        pairs: What is to be judged; a query may stand in several.

    Raises:
        BudgetError: The budget is used up.
        ConfigError: The longest reply leaves no room for a prompt.
    """
    calls = judge_calls(config, recipe.support_judge, pairs)
    return _judged(session.each("support", recipe.judged, calls), config.judge.votes)


def judge_alone(
    config: BuildConfig,
    recipe: FreshStack,
    session: Session,
    pairs: Sequence[ToJudge],
    asked: Sequence[ToJudge],
    standing: Sequence[Judgment] = (),
    alone: Collection[tuple[str, str]] = (),
) -> Judged:
    """Judge the sample of `[judge] compare` chunks alone, in the step `single_support`.

    Args:
        config: Of the build.
        recipe: With the judge.
        session: Asks, with progress and account.
        pairs: All that is judged; the sample is drawn from it.
        asked: What of it is judged now; for the rest, judgments stand.
        standing: Judgments of single chunks that need not be made again.
        alone: Query and chunk id of the chunks that were alone in the call that judged them before.

    Raises:
        BudgetError: The budget is used up.
    """
    if not config.judge.compare:
        return Judged((), ())
    calls = judge_calls(config, recipe.support_judge, asked)
    single = single_calls(config, recipe.support_judge, pairs, calls, alone)
    known = {(one.nugget_id, one.chunk_id): one for one in standing}
    stands = [_standing(call, known) for call in single]
    to_ask = [call for call, found in zip(single, stands, strict=True) if not found]
    judged = _judged(session.each("single_support", recipe.judged, to_ask), 1)
    kept = {(one.nugget_id, one.chunk_id): one for found in stands for one in found}
    return Judged((*kept.values(), *judged.judgments), judged.failures)


def _standing(call: JudgeCall, known: Mapping[tuple[str, str], Judgment]) -> list[Judgment]:
    """The judgments that a call would bring, where all of them stand; else none."""
    pairs = [
        (nugget.nugget_id, passage.chunk.chunk_id)
        for passage in call.passages
        for nugget in call.nuggets
    ]
    return [known[pair] for pair in pairs] if all(pair in known for pair in pairs) else []


def _judged(batches: Sequence[JudgedBatch], votes: int) -> Judged:
    return Judged(
        merged(batches, votes),
        tuple(batch.failure for batch in batches if batch.failure is not None),
    )
