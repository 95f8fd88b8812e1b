"""The plan of synthesis: what is recorded of it, and what it is expected to take."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import DeferredError, ReplayMissError
from freshstack_dspy.index.models import Models
from freshstack_dspy.recipes.corpus import cut_corpora
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.planning.dry_run import DryRun
from freshstack_dspy.recipes.planning.estimate import expected_loads, measure_chunks
from freshstack_dspy.recipes.planning.expected_judging import ChunkSizes
from freshstack_dspy.recipes.planning.expected_synthesis import expected_synthesis, stand_ins
from freshstack_dspy.recipes.planning.planned import PlannedStep, planned_step
from freshstack_dspy.recipes.planning.planned_search import index_without_asking
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.recipes.synthesis.synthesis import Synthesis
from freshstack_dspy.records import Query


class PlannedQuestions(NamedTuple):
    """The questions that a build would make."""

    queries: Sequence[Query]
    """Stand-ins of the expected length where replies are missing."""
    steps: tuple[PlannedStep, ...]
    """Synthesis and, where replies are missing, all steps after it."""
    are_known: bool


def planned_questions(
    config: BuildConfig, recipe: FreshStack, dry: DryRun, models: Models, progress: Progress
) -> PlannedQuestions:
    """Make the questions from recorded replies, as a build does; estimate where one is missing.

    How many questions will be refused is not known before they are made, so a plan with any reply
    missing is an estimate from there on.

    Raises:
        SourceError: The corpus cannot give so many questions.
    """
    corpus = cut_corpora(config, progress)
    found = _Recorded(dry, progress)
    try:
        index = None
        if config.queries.chunks > 1:
            index = index_without_asking(config, corpus, models, progress)
        synthesis = Synthesis(config, recipe, corpus.chunks, index)
        queries = synthesis.run(found.ask).queries
    except (DeferredError, ReplayMissError):
        return _expected(config, recipe, measure_chunks(corpus.chunks), found.count)
    step = planned_step(config, "synthesis", found.count, [], exact=True)
    return PlannedQuestions(queries, (step,), are_known=True)


class _Recorded:
    """Answers from what is recorded, and counts it."""

    def __init__(self, dry: DryRun, progress: Progress) -> None:
        self._dry, self._progress = dry, progress
        self.count = 0

    def ask(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to all items.

        Raises:
            DeferredError: A reply is missing.
        """
        found = self._dry.each("synthesis", function, items, self._progress)
        self.count = found.recorded
        if found.missing:
            raise DeferredError(f"{len(found.missing)} replies are missing")
        return found.results


def _expected(
    config: BuildConfig, recipe: FreshStack, sizes: ChunkSizes, recorded: int
) -> PlannedQuestions:
    """All steps, as far as can be told before the questions are there."""
    expected = expected_synthesis(config, recipe, sizes)
    whole = sum(load.requests for load in expected)
    left = max(0.0, 1 - recorded / whole)
    # However much is recorded, something is missing, or this would not be asked.
    missing = [load._replace(requests=max(1, round(load.requests * left))) for load in expected]
    queries = stand_ins(config.queries.count or 0)
    steps = [planned_step(config, "synthesis", recorded, missing, exact=False)]
    for name, load in expected_loads(config, recipe, queries, sizes).items():
        # The nuggets of a question that is kept were asked for while it was made.
        made = name == "nuggets"
        steps.append(
            planned_step(
                config,
                name,
                load.requests if made else 0,
                [] if made else [load],
                exact=False,
            )
        )
    return PlannedQuestions(queries, tuple(steps), are_known=False)
