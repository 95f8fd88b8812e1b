"""The plan of judging: the pools of a build, made without asking, and the calls that judge them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ReplayMissError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.models import Models
from freshstack_dspy.recipes.corpus import cut_corpora
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judging.comparing import single_calls
from freshstack_dspy.recipes.judging.judge_calls import JudgeCall, ToJudge, judge_calls
from freshstack_dspy.recipes.planning.dry_run import DryRun, DryStep
from freshstack_dspy.recipes.planning.estimate import ask_tokens, expected_loads, measure_chunks
from freshstack_dspy.recipes.planning.expected import reply_tokens
from freshstack_dspy.recipes.planning.expected_judging import ChunkSizes, Load
from freshstack_dspy.recipes.planning.planned_search import index_without_asking
from freshstack_dspy.recipes.planning.sample import sample_corpus
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.recipes.synthesis.seeds import with_seeds
from freshstack_dspy.records import Chunk, Expansion, Query, Step


class PlannedJudging(NamedTuple):
    """The requests of a step that judges: those that are known, and those that are expected."""

    recorded: int
    missing: list[Load]
    exact: bool
    unfit: int = 0
    """Queries that do not fit into the model's window, of which some or all calls are not made."""


def planned_support(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    first: dict[Step, DryStep[Any]],
    models: Models,
    progress: Progress,
) -> dict[Step, PlannedJudging]:
    """Pool and judge for the questions whose first replies are all there; estimate the others.

    Returns:
        The steps that judge chunks, in their order.
    """
    replies = zip(*(found.results for found in first.values()), strict=True)
    answered = [pair for pair in zip(queries, replies, strict=True) if None not in pair[1]]
    waiting = len(queries) - len(answered)
    if not answered:
        return _expected(config, recipe, queries, sample_corpus(config, progress))
    corpora = cut_corpora(config, progress)
    sizes = measure_chunks(corpora.chunks)
    try:
        index = index_without_asking(config, corpora, models, progress)
        pairs = _pairs(config, index, answered, progress) if index else None
    except ReplayMissError:  # a text of some question has no recorded vector
        pairs = None
    if pairs is None:
        return _expected(config, recipe, queries, sizes)
    calls = judge_calls(config, recipe.support_judge, pairs)
    planned: dict[Step, PlannedJudging] = {
        "support": _planned(config, recipe, dry, "support", calls, progress)
    }
    if waiting:
        expected = _expected(config, recipe, queries, sizes)
        load = expected["support"].missing[0]
        others = load._replace(requests=round(load.requests * waiting / len(queries)))
        known = planned["support"]
        expected["support"] = known._replace(missing=[*known.missing, others], exact=False)
        return expected
    if config.judge.compare:
        single = single_calls(config, recipe.support_judge, pairs, calls)
        planned["single_support"] = _planned(
            config, recipe, dry, "single_support", single, progress
        )
    return planned


def _expected(
    config: BuildConfig, recipe: FreshStack, queries: Sequence[Query], sizes: ChunkSizes
) -> dict[Step, PlannedJudging]:
    """The steps that judge chunks, as far as can be told before there are pools."""
    loads = expected_loads(config, recipe, queries, sizes)
    names: tuple[Step, ...] = ("support", "single_support")
    return {name: PlannedJudging(0, [loads[name]], exact=False) for name in names if name in loads}


def _planned(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    name: Step,
    calls: Sequence[JudgeCall],
    progress: Progress,
) -> PlannedJudging:
    made = [call for call in calls if call.unfit is None]
    found = dry.each(name, recipe.judged, made, progress)
    count = max(1, len(made))
    chunks = sum(len(call.passages) for call in made) / count
    nuggets = sum(len(call.nuggets) for call in made) / count
    expected = reply_tokens(config, name, chunks, nuggets)
    missing = [Load(1, ask_tokens(ask), expected) for ask in found.missing]
    unfit = {call.query.query_id for call in calls if call.unfit is not None}
    return PlannedJudging(found.recorded, missing, exact=True, unfit=len(unfit))


def _pairs(
    config: BuildConfig,
    index: HybridIndex,
    answered: Iterable[tuple[Query, tuple[Any, ...]]],
    progress: Progress,
) -> list[ToJudge]:
    """What is judged of every question that has nuggets, as a build does it."""
    progress.start("pool", 1)
    with_nuggets = [
        (query, made.nuggets, [one for one in others if isinstance(one, Expansion)])
        for query, (made, *others) in answered
        if made.nuggets
    ]
    texts = {
        query.query_id: technique_texts(query, nuggets, expansions)
        for query, nuggets, expansions in with_nuggets
    }
    pooled: dict[str, list[Chunk]] = {query_id: [] for query_id in texts}
    candidates = with_seeds(
        [query for query, _, _ in with_nuggets], pool(index, texts, config.pool, config.fusion)
    )
    chunk_of = index.chunks_by_id(candidate.chunk_id for candidate in candidates)
    for candidate in candidates:
        pooled[candidate.query_id].append(chunk_of[candidate.chunk_id])
    progress.advance("pool")
    progress.finish("pool", f"{sum(map(len, pooled.values())):,} chunks for {len(texts)} queries")
    return [ToJudge(query, nuggets, pooled[query.query_id]) for query, nuggets, _ in with_nuggets]
