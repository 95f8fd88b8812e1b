"""Which pooled chunks are also judged alone, to say how far batches agree with that."""

from collections.abc import Collection, Iterator, Sequence
from random import Random

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.recipes.judging.judge_calls import JudgeCall, ToJudge, judge_calls
from freshstack_dspy.records import Chunk


def single_calls(
    config: BuildConfig,
    judge: SupportJudge,
    pairs: Sequence[ToJudge],
    calls: Sequence[JudgeCall],
    alone: Collection[tuple[str, str]] = (),
) -> list[JudgeCall]:
    """List the calls that judge a sample of `[judge] compare` chunks alone, once each.

    The sample is drawn by the seed of `[judge] shuffle` and spread over the queries: each gives
    one chunk before any gives a second. A chunk that was alone with all nuggets anyway is not
    drawn: the call would be the same, and agree with itself. Nor is one of a query that does not
    fit into the model's window.

    Args:
        config: Of the build.
        judge: Whose prompts they are.
        pairs: All that is judged.
        calls: The calls that judge it now; for the rest, judgments stand.
        alone: Query and chunk id where the judgments that stand are known to be of one chunk.
    """
    if not config.judge.compare:
        return []
    nuggets = {pair.query.query_id: len(pair.nuggets) for pair in pairs}
    single = config.judge.model_copy(update={"shape": "batch", "votes": 1})
    once = config.model_copy(update={"judge": single})
    left_out = {*alone} | {
        (call.query.query_id, call.passages[0].chunk.chunk_id)
        for call in calls
        if len(call.passages) == 1 and len(call.nuggets) == nuggets[call.query.query_id]
    }
    fitting = _fitting(once, judge, pairs)
    sample = [
        one
        for one in _spread(fitting, config.judge.shuffle or 0)
        if (one.query.query_id, one.chunks[0].chunk_id) not in left_out
    ][: config.judge.compare]
    return judge_calls(once, judge, sample, step="single_support")


def _fitting(once: BuildConfig, judge: SupportJudge, pairs: Sequence[ToJudge]) -> list[ToJudge]:
    """Those whose question, with all nuggets, leaves room for a chunk; one says it of all."""
    firsts = judge_calls(once, judge, [pair._replace(chunks=pair.chunks[:1]) for pair in pairs])
    unfit = {call.query.query_id for call in firsts if call.unfit is not None}
    return [pair for pair in pairs if pair.query.query_id not in unfit]


def _spread(pairs: Sequence[ToJudge], seed: int) -> Iterator[ToJudge]:
    """Give single chunks in turn from all queries, both in an order drawn by the seed."""
    left: list[tuple[ToJudge, list[Chunk]]] = []
    for pair in sorted(pairs, key=lambda pair: pair.query.query_id):
        chunks = sorted(pair.chunks, key=lambda chunk: chunk.chunk_id)
        _seeded(f"{seed}:{pair.query.query_id}:compare").shuffle(chunks)
        left.append((pair, chunks))
    _seeded(f"{seed}:compare").shuffle(left)
    for turn in range(max((len(chunks) for _, chunks in left), default=0)):
        for pair, chunks in left:
            if turn < len(chunks) and pair.nuggets:
                yield pair._replace(chunks=[chunks[turn]])


def _seeded(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - it keeps no secret
