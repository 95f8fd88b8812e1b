"""What `freshstack evaluate` found: runs by name, their means with intervals, and by group."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.cli.lines import counted
from freshstack_dspy.errors import ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.measures import (
        Evaluation,
        GroupedEvaluation,
        Interval,
        QueryGroups,
        Run,
    )
    from freshstack_dspy.records import SliceName

_RESAMPLES = 10_000
_DRAWN = 10_000_000
"""How many queries are drawn at most for an interval: of many, fewer resamples tell as much."""


class Evaluated(NamedTuple):
    """One run, evaluated."""

    name: str
    """Of its file, with as much of its folder as tells it from the others."""
    evaluation: "Evaluation"
    means: "dict[str, Interval]"
    """By measure."""
    groups: "tuple[GroupedEvaluation, ...]"
    """For each of the groupings asked for."""


class Excluding(NamedTuple):
    """Which queries were left out, and what the runs are worth on the others."""

    coverage: float
    """The share of known nuggets from which on a query is left out."""
    left_out: tuple[str, ...]
    """By query_id."""
    runs: list[Evaluated]


class Report(NamedTuple):
    """All that was found."""

    collection: "Collection"
    slices: "tuple[SliceName, ...]"
    queries: int
    """How many were evaluated."""
    runs: list[Evaluated]
    groupings: "tuple[QueryGroups, ...]"
    excluding: Excluding | None = None

    @property
    def title(self) -> str:
        """What was evaluated on: the collection, how many queries, and of which other slices."""
        said = f"{self.collection.name}: {counted(self.queries, 'query', 'queries')}"
        if set(self.slices) == set(self.collection.manifest.evaluated_slices):
            return said
        return f"{said} ({', '.join(self.slices)})"


def evaluated(
    runs: "Sequence[tuple[str, Run]]",
    evaluate: "Callable[[Run], Evaluation]",
    groupings: "Sequence[QueryGroups]" = (),
    *,
    top: int | None = None,
) -> list[Evaluated]:
    """Evaluate runs and say how sure their means are.

    Args:
        runs: By name.
        evaluate: Evaluates one of them.
        groupings: By what the queries are grouped.
        top: How many groups of each grouping are listed; None: all.
    """
    from freshstack_dspy.measures import grouped, mean_intervals

    found = []
    for name, run in runs:
        evaluation = evaluate(run)
        resamples = _resamples(len(evaluation.per_query))
        found.append(
            Evaluated(
                name=name,
                evaluation=evaluation,
                means={
                    # What the conventions print: some round.
                    measure: mean
                    if mean.value is None
                    else mean.model_copy(update={"value": evaluation.means[measure]})
                    for measure, mean in mean_intervals(evaluation, resamples=resamples).items()
                },
                groups=tuple(
                    grouped(evaluation, groups, top=top, resamples=resamples)
                    for groups in groupings
                ),
            )
        )
    return found


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Name files so that no two names are the same: the file's own, or with folders before it.

    Raises:
        ConfigError: A file is named twice.
    """
    whole = [path.absolute() for path in paths]
    found = [path.resolve() for path in paths]
    for place, path in enumerate(found):
        if path in found[:place]:
            raise ConfigError(f"{paths[place]}: the run is named twice; name each run once")
    names = []
    for place, path in enumerate(whole):
        others = [other.parts for other in (*whole[:place], *whole[place + 1 :])]
        length = 1
        while any(other[-length:] == path.parts[-length:] for other in others):
            length += 1
        names.append(str(Path(*path.parts[-length:])))
    return names


def _resamples(queries: int) -> int:
    return min(_RESAMPLES, max(1000, _DRAWN // max(1, queries)))
