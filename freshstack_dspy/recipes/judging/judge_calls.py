"""The calls that judge chunks: which nuggets and which chunks each holds, and in which order."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar

from freshstack_dspy.config import BuildConfig, JudgeConfig
from freshstack_dspy.programs.support_judge import Passage, SupportJudge, whole
from freshstack_dspy.recipes.judging.window import LEAST_ROOM, Window
from freshstack_dspy.recipes.planning.expected import most_verdicts
from freshstack_dspy.records import Chunk, Nugget, Query, Step

Item = TypeVar("Item")


class ToJudge(NamedTuple):
    """Nuggets of a query, and the chunks that each of them is to be judged against."""

    query: Query
    nuggets: Sequence[Nugget]
    chunks: Sequence[Chunk]


class JudgeCall(NamedTuple):
    """One call of the judge."""

    query: Query
    nuggets: Sequence[Nugget]
    passages: Sequence[Passage]
    vote: int = 1
    step: Step = "support"
    unfit: str | None = None
    """Why it cannot be made: not even its question fits into the model's window."""


def judge_calls(
    config: BuildConfig, judge: SupportJudge, pairs: Sequence[ToJudge], *, step: Step = "support"
) -> list[JudgeCall]:
    """List the calls that judge every pair as `[judge]` says, packed for the model's window.

    Args:
        config: Of the build.
        judge: Whose prompts they are.
        pairs: What is to be judged; a query may stand in several.
        step: What they are a part of.

    Raises:
        ConfigError: The longest reply leaves no room for a prompt.
    """
    window = Window(config.model, judge.predict)
    return [
        call._replace(step=step)
        for pair in pairs
        if pair.nuggets and pair.chunks
        for vote in range(1, config.judge.votes + 1)
        for call in _calls(config, window, pair, vote)
    ]


def even(items: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """Cut items into so many runs, as even as can be."""
    bounds = [len(items) * number // count for number in range(count + 1)] if count else [0]
    return [items[start:end] for start, end in pairwise(bounds)]


def in_order(judge: JudgeConfig, pair: ToJudge, vote: int = 1) -> list[Chunk]:
    """The chunks of a query in the order in which a vote shows them.

    By their ids: the prompts then depend on which chunks were pooled and not on their ranks, in
    which the last digit of a score can make a difference. Shuffled where a seed is given, and in
    every vote but the first.
    """
    ordered = sorted(pair.chunks, key=lambda chunk: chunk.chunk_id)
    if judge.shuffle is not None or vote > 1:
        seeded = Random(f"{judge.shuffle or 0}:{pair.query.query_id}:{vote}")  # noqa: S311 - no secret
        seeded.shuffle(ordered)
    return ordered


def _calls(config: BuildConfig, window: Window, pair: ToJudge, vote: int) -> Iterator[JudgeCall]:
    judge = config.judge
    most = {"batch": len(pair.nuggets), "windowed": judge.window, "pairwise": 1}[judge.shape]
    passages = [whole(chunk) for chunk in in_order(judge, pair, vote)]
    for nuggets in even(pair.nuggets, -(-len(pair.nuggets) // most)):
        room = window.room(pair.query, nuggets)
        if room is not None and room < LEAST_ROOM:
            if vote == 1:
                yield JudgeCall(pair.query, nuggets, passages, vote, unfit=_too_long(nuggets))
            continue
        size = min(judge.batch, most_verdicts(config, len(nuggets)))
        if judge.shape != "batch":
            size = 1
        for batch in _packed(window, passages, size, room):
            yield JudgeCall(pair.query, nuggets, batch, vote)


def _packed(
    window: Window, passages: Sequence[Passage], size: int, room: int | None
) -> list[Sequence[Passage]]:
    """Pack passages into the fewest even batches of at most `size` that fit.

    One that is too long for a call of its own is split, and each part has one.
    """
    if room is None:
        return even(passages, -(-len(passages) // size))
    fitting = [passage for passage in passages if window.size(passage) <= room]
    too_long = [passage for passage in passages if window.size(passage) > room]
    count = -(-len(fitting) // size)
    while any(sum(map(window.size, batch)) > room for batch in even(fitting, count)):
        count += 1
    parts = [[part] for passage in too_long for part in window.split(passage, room)]
    return [*even(fitting, count), *parts]


def _too_long(nuggets: Sequence[Nugget]) -> str:
    return (
        f"the question with {len(nuggets)} nuggets leaves no room for a chunk in the model's "
        "window: take a model with a larger one, say with [model] context what really fits, lower "
        "[model] max_tokens, or judge fewer nuggets in a call with [judge] shape = 'windowed'"
    )
