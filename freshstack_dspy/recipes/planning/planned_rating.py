"""The plan of rating: one request for each query whose nuggets are known, and an estimate of others."""

from collections.abc import Sequence

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.freshstack import FreshStack, Nuggetized
from freshstack_dspy.recipes.planning.dry_run import DryRun, DryStep
from freshstack_dspy.recipes.planning.estimate import ask_tokens, expected_rating
from freshstack_dspy.recipes.planning.expected import reply_tokens
from freshstack_dspy.recipes.planning.expected_judging import Load
from freshstack_dspy.recipes.planning.planned import PlannedStep, planned_step
from freshstack_dspy.recipes.rating import to_rate
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.records import Query


def planned_rating(
    config: BuildConfig,
    recipe: FreshStack,
    dry: DryRun,
    queries: Sequence[Query],
    nuggets: DryStep[Nuggetized],
    progress: Progress,
) -> list[PlannedStep]:
    """Plan the step `importance`.

    Args:
        config: Of the build.
        recipe: With the rater, or without one.
        dry: What is recorded.
        queries: All of them.
        nuggets: Of each query, as far as they are recorded.
        progress: Whom to tell how it goes.

    Returns:
        The one step, or none where a build rates nothing.
    """
    if recipe.importance_rater is None:
        return []
    made = [one for each in nuggets.results if each is not None for one in each.nuggets]
    found = dry.each(
        "importance",
        lambda one: recipe.importance_of(one.query, one.nuggets),
        to_rate(recipe, queries, made),
        progress,
    )
    reply = reply_tokens(config, "importance")
    missing = [Load(1, ask_tokens(ask), reply) for ask in found.missing]
    waiting = sum(each is None for each in nuggets.results)
    if waiting:
        missing.append(expected_rating(config, recipe, queries)._replace(requests=waiting))
    return [planned_step(config, "importance", found.recorded, missing, exact=not waiting)]
