"""Plan a build: find what it would send, before anything is sent."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ReplayMissError
from freshstack_dspy.index import HybridIndex, Models
from freshstack_dspy.index.connecting import connected
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.replies.bundle import Bundles
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore, holds_store
from freshstack_dspy.lm.spending.spent import Spent
from freshstack_dspy.recipes.dry_run import DryRun, DryStep
from freshstack_dspy.recipes.estimate import Load, ask_tokens, expected_loads, measure_chunks
from freshstack_dspy.recipes.expected import reply_tokens
from freshstack_dspy.recipes.fetching import with_repositories
from freshstack_dspy.recipes.freshstack import FreshStack, batches
from freshstack_dspy.recipes.indexing import cut_corpora
from freshstack_dspy.recipes.planned import Plan, caps_of, planned_step, total_of
from freshstack_dspy.recipes.planned_search import index_without_asking, planned_embeddings
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.recipes.progress import Progress, Silence
from freshstack_dspy.recipes.questions import read_questions
from freshstack_dspy.recipes.sample import sample_corpus
from freshstack_dspy.records import Chunk, Expansion, Failure, Nugget, Query, Step


class _Support(NamedTuple):
    """The requests of the last step: those that are known, and those that are expected."""

    recorded: int
    missing: list[Load]
    exact: bool


def plan(config: BuildConfig, *, progress: Progress | None = None) -> Plan:
    """Plan what a live build of a configuration would send.

    The first three steps are exact: their requests are made by the programs of the build. Support
    is exact for the questions whose replies to these are recorded (their chunks are pooled as in a
    build, which takes as long, and makes the index if there is none yet), and estimated for the
    others from a sample of the corpus; see `expected.py`. Nothing is asked, and no reply recorded.

    Args:
        config: As `load_config` reads it.
        progress: Whom to tell how it goes.

    Raises:
        FreshstackError: Whatever would stop a build before its first request; see `errors.py`.
    """
    progress = progress or Silence()
    config = with_repositories(config, "live", progress)
    queries = read_questions(config, progress).queries
    recipe = FreshStack(config)
    with contextlib.ExitStack() as opened:
        store = None
        if holds_store(config.cache.path):
            store = ReadOnlyStore(config.cache.path)
            opened.callback(store.close)
        bundles = Bundles(config.cache.bundles)
        opened.callback(bundles.close)
        dry = DryRun(config.model, store, bundles)
        first = _first_round(config, recipe, dry, queries, progress)
        models = opened.enter_context(connected(config, Access("replay", store, bundles)))
        embeddings = planned_embeddings(config, queries, (store, bundles), progress)
        support = _support(config, recipe, dry, queries, first, models, progress)
        spent = store.spent(config.name) if store is not None else Spent()
    steps = [
        planned_step(
            config, name, found.recorded, _loads(found, reply_tokens(config, name)), exact=True
        )
        for name, found in first.items()
    ]
    steps.append(
        planned_step(config, "support", support.recorded, support.missing, exact=support.exact)
    )
    total = total_of(steps)
    return Plan(
        name=config.name,
        model=config.model.name,
        queries=len(queries),
        longest_reply=config.model.max_tokens,
        steps=tuple(steps),
        total=total,
        embeddings=embeddings,
        budget=tuple(caps_of(config, total, embeddings, spent)),
    )


def _first_round(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    progress: Progress,
) -> dict[Step, DryStep[Any]]:
    """The steps that need no chunks."""
    steps: dict[Step, Callable[[Query], Any]] = {"nuggets": recipe.nuggets_of}
    if "sub_questions" in config.pool.techniques:
        steps["sub_questions"] = recipe.sub_questions_of
    if "closed_book_answer" in config.pool.techniques:
        steps["closed_book_answer"] = recipe.closed_book_answer_of
    return {name: dry.each(name, ask, queries, progress) for name, ask in steps.items()}


def _support(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    first: dict[Step, DryStep[Any]],
    models: Models,
    progress: Progress,
) -> _Support:
    """Pool and judge for the questions whose first replies are all there; estimate the others."""
    replies = zip(*(found.results for found in first.values()), strict=True)
    answered = [pair for pair in zip(queries, replies, strict=True) if None not in pair[1]]
    waiting = len(queries) - len(answered)
    if not answered:
        load = expected_loads(config, recipe, queries, sample_corpus(config, progress))["support"]
        return _Support(0, [load], exact=False)
    corpora = cut_corpora(config, progress)
    chunks = corpora.chunks
    try:
        index = index_without_asking(config, corpora, models, progress)
        tasks = _judging_tasks(config, index, answered, progress) if index else None
    except ReplayMissError:  # a text of some question has no recorded vector
        tasks = None
    if tasks is None:
        load = expected_loads(config, recipe, queries, measure_chunks(chunks))["support"]
        return _Support(0, [load], exact=False)
    judged = dry.each("support", lambda task: recipe.judgments_of(*task), tasks, progress)
    batch = sum(len(task[2]) for task in tasks) / max(1, len(tasks))
    missing = _loads(judged, reply_tokens(config, "support", batch))
    if waiting:
        load = expected_loads(config, recipe, queries, measure_chunks(chunks))["support"]
        missing.append(load._replace(requests=round(load.requests * waiting / len(queries))))
    return _Support(judged.recorded, missing, exact=not waiting)


def _judging_tasks(
    config: BuildConfig,
    index: HybridIndex,
    answered: Iterable[tuple[Query, tuple[Any, ...]]],
    progress: Progress,
) -> list[tuple[Query, Sequence[Nugget], Sequence[Chunk]]]:
    """What the judge is asked of every question that has nuggets, as a build does it."""
    progress.start("pool", 1)
    with_nuggets = [
        (query, nuggets, [one for one in others if isinstance(one, Expansion)])
        for query, (nuggets, *others) in answered
        if not isinstance(nuggets, Failure)
    ]
    texts = {
        query.query_id: technique_texts(query, nuggets, expansions)
        for query, nuggets, expansions in with_nuggets
    }
    pooled: dict[str, list[Chunk]] = {query_id: [] for query_id in texts}
    candidates = pool(index, texts, config.pool, config.fusion)
    chunk_of = index.chunks_by_id(candidate.chunk_id for candidate in candidates)
    for candidate in candidates:
        pooled[candidate.query_id].append(chunk_of[candidate.chunk_id])
    progress.advance("pool")
    progress.finish("pool", f"{sum(map(len, pooled.values())):,} chunks for {len(texts)} queries")
    return [
        (query, nuggets, batch)
        for query, nuggets, _ in with_nuggets
        for batch in batches(pooled[query.query_id], config.judge.batch)
    ]


def _loads(found: DryStep[Any], expected: int) -> list[Load]:
    """The missing requests of a step, and the reply that is expected of each."""
    return [Load(1, ask_tokens(ask), expected) for ask in found.missing]
