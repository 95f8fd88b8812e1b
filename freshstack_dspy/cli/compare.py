"""`freshstack compare`: whether runs differ, by how much, and on which queries."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.judgments import JudgmentsArgument, SubtopicsOption
from freshstack_dspy.cli.rules import (
    CONTAMINATED,
    OURS,
    ContaminatedOption,
    ConventionsOption,
    MeasureOption,
    UndefinedOption,
)
from freshstack_dspy.cli.slices import SlicesOption

if TYPE_CHECKING:
    from freshstack_dspy.cli.compared import Compared
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.run import Run

FormatOption = Literal["table", "json", "csv", "latex", "markdown"]
TestOption = Literal["permutation", "t"]
CorrectionOption = Literal["holm", "bonferroni", "bh", "none"]


def compare(
    collection: JudgmentsArgument,
    runs: Annotated[list[Path], typer.Argument(help="TREC run files, two or more.")],
    measure: MeasureOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="The run that all others are held against; by default every two are."),
    ] = None,
    test: Annotated[TestOption, typer.Option(help="The paired test.")] = "permutation",
    correction: Annotated[
        CorrectionOption,
        typer.Option(help="Of the p-values, for all runs and measures together."),
    ] = "holm",
    level: Annotated[
        float,
        typer.Option(help="Of the intervals; a difference is found where p is at most 1 - level."),
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    queries: Annotated[
        int, typer.Option(min=0, help="How many queries are listed, of the largest differences.")
    ] = 0,
    slices: SlicesOption = "supported",
    subtopics: SubtopicsOption = None,
    conventions: ConventionsOption = OURS,
    undefined: UndefinedOption = None,
    exclude_contaminated: Annotated[
        bool,
        typer.Option(
            "--exclude-contaminated",
            help="Leave out the queries that the model can answer without the corpus.",
        ),
    ] = False,
    contaminated_from: ContaminatedOption = CONTAMINATED,
    form: Annotated[
        FormatOption, typer.Option("--format", help="How the comparison is printed.")
    ] = "table",
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything as JSON, with the differences by query.")
    ] = False,
) -> None:
    """Compare runs on a collection, or on qrels: differences, intervals, tests."""
    from freshstack_dspy.cli.compared import Compared
    from freshstack_dspy.cli.evaluated import distinct_names, named_evaluation
    from freshstack_dspy.cli.judgments import judgments_at
    from freshstack_dspy.measures.compare import ComparisonRules
    from freshstack_dspy.measures.compare import compare as compare_runs
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.run import read_run

    names = distinct_names(runs)
    _check(runs, level)
    held_against = None if baseline is None else _baseline(baseline, runs, names)
    rules = ComparisonRules(test=test, correction=correction, level=level, seed=seed)
    judgments = judgments_at(
        collection,
        slices,
        subtopics=subtopics,
        needing={"--exclude-contaminated": exclude_contaminated},
    )

    def measured(qrels: "NuggetQrels", run: "Run") -> "Evaluation":
        chosen_measures = measure or FRESHSTACK_MEASURES
        return evaluate(qrels, run, chosen_measures, undefined=undefined, conventions=conventions)

    read = [(name, read_run(path)) for name, path in zip(names, runs, strict=True)]
    qrels = judgments.qrels
    left_out: tuple[str, ...] = ()
    if exclude_contaminated and judgments.collection is not None:
        from freshstack_dspy.cli.contaminated import excluding_contaminated

        others = excluding_contaminated(
            judgments.collection, qrels, read, measured, contaminated_from
        )
        left_out = others.left_out
        evaluations = {run.name: run.evaluation for run in others.runs}
    else:
        evaluations = {
            name: named_evaluation(name, run, lambda run: measured(qrels, run))
            for name, run in read
        }
    compared = Compared(
        judgments,
        evaluations,
        compare_runs(evaluations, baseline=held_against, rules=rules),
        contaminated_from if exclude_contaminated else None,
        left_out,
    )
    _print(compared, "json" if as_json else form, queries)


def _check(runs: Sequence[Path], level: float) -> None:
    from freshstack_dspy.errors import ConfigError

    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs; name another run file")
    if not 0 < level < 1:
        raise ConfigError(f"--level is between 0 and 1, not {level!r}; type --level 0.95")


def _baseline(given: Path, runs: Sequence[Path], names: Sequence[str]) -> str:
    """Find the run that is the baseline, by its file or its name in the tables.

    Raises:
        ConfigError: It is none of the runs.
    """
    from freshstack_dspy.cli.outputs import resolved
    from freshstack_dspy.errors import ConfigError

    for path, name in zip(runs, names, strict=True):
        if str(given) == name or resolved(given) == resolved(path):
            return name
    raise ConfigError(
        f"--baseline {given} is none of the runs; it is one of {', '.join(map(str, runs))}"
    )


def _print(compared: "Compared", form: FormatOption, queries: int) -> None:
    from freshstack_dspy.cli.comparison_files import (
        comparison_csv,
        comparison_json,
        comparison_table,
    )
    from freshstack_dspy.cli.comparison_tables import print_comparison
    from freshstack_dspy.cli.table_formats import FORMATS

    if form == "table":
        print_comparison(compared, queries)
    elif form == "json":
        print(comparison_json(compared), end="")
    elif form == "csv":
        print(comparison_csv(compared), end="")
    else:
        print(FORMATS[form](comparison_table(compared)), end="")
