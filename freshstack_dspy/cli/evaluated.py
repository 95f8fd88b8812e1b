"""What `freshstack evaluate` found: runs by name, their means with intervals, and by group."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.cli.lines import shown_name
from freshstack_dspy.cli.outputs import resolved
from freshstack_dspy.errors import CollectionError, ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.cli.judgments import Judgments
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.groups import GroupedEvaluation, QueryGroups
    from freshstack_dspy.measures.run import Run
    from freshstack_dspy.measures.statistics import Interval

BY_QUERY = ("file", "run", "query_id", "measure", "value")
"""The columns of a table of values by query, the groupings' left out."""
_RESAMPLES = 10_000
_LISTED = 20
"""How many groups are listed at most, where nobody says."""
_SMALL_TABLE = 10
"""So many groups are listed even where they are of one query."""
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

    judgments: "Judgments"
    queries: int
    """How many were evaluated."""
    runs: list[Evaluated]
    groupings: "tuple[QueryGroups, ...]"
    excluding: Excluding | None = None

    @property
    def title(self) -> str:
        """What was evaluated on, how many queries, and of which other slices."""
        return self.judgments.title(self.queries)


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
        top: How many groups of each grouping are listed, the largest; None: 20, and of these
            only groups of two queries or more where there are more than ten.

    Raises:
        CollectionError: A run cannot be evaluated; with its name.
    """
    from freshstack_dspy.measures.statistics import mean_intervals

    found = []
    for name, run in runs:
        evaluation = named_evaluation(name, run, evaluate)
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
                groups=tuple(_grouped(evaluation, each, top, resamples) for each in groupings),
            )
        )
    return found


def named_evaluation(
    name: str, run: "Run", evaluate: "Callable[[Run], Evaluation]"
) -> "Evaluation":
    """Evaluate a run; what is wrong with it is told with its name.

    Raises:
        CollectionError: It cannot be evaluated.
    """
    try:
        return evaluate(run)
    except CollectionError as error:
        raise CollectionError(f"{name}: {error}") from None


def _grouped(
    evaluation: "Evaluation", groups: "QueryGroups", top: int | None, resamples: int
) -> "GroupedEvaluation":
    from freshstack_dspy.measures.groups import grouped

    if top is not None:
        return grouped(evaluation, groups, top=top, resamples=resamples)
    found = grouped(evaluation, groups, top=_LISTED, resamples=resamples)
    if len(found.groups) + found.unlisted <= _SMALL_TABLE:
        return found
    listed = tuple(group for group in found.groups if group.queries > 1)
    unlisted = found.unlisted + len(found.groups) - len(listed)
    return found.model_copy(update={"groups": listed, "unlisted": unlisted})


def check_groupings(groupings: "Sequence[QueryGroups]") -> None:
    """Refuse groupings of one name, and names of other columns of a table by query.

    Raises:
        ConfigError: There is one.
    """
    names = [*BY_QUERY, *(groups.by for groups in groupings)]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise ConfigError(
                f"two columns would be called {name!r:.200}; rename the column or the file of a "
                "grouping"
            )


def distinct_names(paths: Sequence[Path]) -> list[str]:
    r"""Name files so that no two names are the same: the file's own, or with folders before it.

    A byte of a name that is no UTF-8 is written as `\xff`.

    Raises:
        ConfigError: A file is named twice, or two would have one name.
    """
    whole = [path.absolute() for path in paths]
    found = [resolved(path) for path in paths]
    for place, path in enumerate(found):
        if path in found[:place]:
            raise ConfigError(f"{paths[place]}: the run is named twice; name each run once")
    names: list[str] = []
    for place, path in enumerate(whole):
        others = [other.parts for other in (*whole[:place], *whole[place + 1 :])]
        length = 1
        while any(other[-length:] == path.parts[-length:] for other in others):
            length += 1
        name = shown_name(path, length)
        if name in names:
            raise ConfigError(f"{name}: two runs would have this name; rename a file")
        names.append(name)
    return names


def _resamples(queries: int) -> int:
    return min(_RESAMPLES, max(1000, _DRAWN // max(1, queries)))
