"""Plan a build: find what it would send, before anything is sent."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.models import Models, connected
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.bundle import Bundles
from freshstack_dspy.lm.store import ReplyStore, holds_store
from freshstack_dspy.lm.vectors import Access
from freshstack_dspy.recipes.contamination import score_calls, to_score
from freshstack_dspy.recipes.corpus import with_repositories
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.planning.dry_run import DryRun, DryStep
from freshstack_dspy.recipes.planning.estimate import ask_tokens, expected_loads
from freshstack_dspy.recipes.planning.expected import reply_tokens
from freshstack_dspy.recipes.planning.expected_judging import ChunkSizes, Load
from freshstack_dspy.recipes.planning.planned import (
    Plan,
    PlannedStep,
    caps_of,
    planned_step,
    total_of,
)
from freshstack_dspy.recipes.planning.planned_judging import PlannedJudging, planned_support
from freshstack_dspy.recipes.planning.planned_rating import planned_rating
from freshstack_dspy.recipes.planning.planned_search import planned_embeddings
from freshstack_dspy.recipes.planning.planned_synthesis import planned_questions
from freshstack_dspy.recipes.questions import read_questions
from freshstack_dspy.recipes.session import Progress, Silence
from freshstack_dspy.records import Expansion, Query, Step


def plan(config: BuildConfig, *, progress: Progress | None = None) -> Plan:
    """Plan what a live build of a configuration would send.

    The first three steps are exact: their requests are made by the programs of the build. Support
    and contamination are exact for the questions whose replies to these are recorded (their chunks
    are pooled as in a build, which takes as long, and makes the index if there is none yet), and
    estimated for the others from a sample of the corpus; see `expected.py`. Nothing is asked, and
    no reply recorded. Of synthetic questions all is estimated until every reply that makes them is
    recorded, for nobody knows how many will be refused.

    Args:
        config: As `load_config` reads it.
        progress: Whom to tell how it goes.

    Raises:
        FreshstackError: Whatever would stop a build before its first request; see `errors.py`.
    """
    progress = progress or Silence()
    config = with_repositories(config, "live", progress)
    synthetic = config.queries.is_synthetic
    queries = [] if synthetic else read_questions(config, progress).queries
    recipe = FreshStack(config)
    with contextlib.ExitStack() as opened:
        store = None
        if holds_store(config.cache.path):
            store = ReplyStore(config.cache.path, read_only=True)
            opened.callback(store.close)
        bundles = Bundles(config.cache.bundles)
        opened.callback(bundles.close)
        dry = DryRun(config.model, store, bundles)
        models = opened.enter_context(connected(config, Access("replay", store, bundles)))
        steps: list[PlannedStep] = []
        are_known = True
        if synthetic:
            made = planned_questions(config, recipe, dry, models, progress)
            queries, steps, are_known = made.queries, [*made.steps], made.are_known
        if are_known:
            steps += _steps(config, recipe, dry, queries, models, progress)
        embeddings = planned_embeddings(config, queries, (store, bundles), progress)
        spent = store.spent(config.name) if store is not None else Spent()
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


def _steps(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    models: Models,
    progress: Progress,
) -> list[PlannedStep]:
    """Every step that is asked of questions that are known."""
    first = _first_round(config, recipe, dry, queries, progress)
    support = planned_support(config, recipe, dry, queries, first, models, progress)
    scoring = _scoring(config, recipe, dry, queries, first, progress)
    steps = [
        planned_step(
            config, name, found.recorded, _loads(found, reply_tokens(config, name)), exact=True
        )
        for name, found in first.items()
    ]
    steps += [
        planned_step(
            config,
            name,
            judged.recorded,
            judged.missing,
            exact=judged.exact,
            unfit=judged.unfit,
        )
        for name, judged in support.items()
    ]
    if scoring is not None:
        steps.append(
            planned_step(
                config, "contamination", scoring.recorded, scoring.missing, exact=scoring.exact
            )
        )
    return steps + planned_rating(config, recipe, dry, queries, first["nuggets"], progress)


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


def _scoring(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    first: dict[Step, DryStep[Any]],
    progress: Progress,
) -> PlannedJudging | None:
    """Score the closed-book answers whose nuggets are there too; estimate the others.

    Returns:
        None where a build scores none.
    """
    answers = first.get("closed_book_answer")
    if answers is None or not config.contamination.score:
        return None
    pairs = list(zip(first["nuggets"].results, answers.results, strict=True))
    asked = to_score(
        config,
        queries,
        [one for each, _ in pairs if each is not None for one in each.nuggets],
        [answer for _, answer in pairs if isinstance(answer, Expansion)],
    )
    calls = score_calls(config, recipe, asked)
    found = dry.each("contamination", recipe.judged, calls, progress)
    missing = _loads(found, reply_tokens(config, "contamination"))
    waiting = sum(None in pair for pair in pairs)
    if waiting:
        loads = expected_loads(config, recipe, queries, ChunkSizes(0, 0))
        missing.append(loads["contamination"]._replace(requests=waiting))
    return PlannedJudging(found.recorded, missing, exact=not waiting)


def _loads(found: DryStep[Any], expected: int) -> list[Load]:
    """The missing requests of a step, and the reply that is expected of each."""
    return [Load(1, ask_tokens(ask), expected) for ask in found.missing]
