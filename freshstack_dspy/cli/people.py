"""`freshstack optimize`: a program tuned on people's labels."""

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.options import JsonOption, ReplaceOption, check_out, judging
from freshstack_dspy.cli.printing import Table, counted, say, show, show_json

if TYPE_CHECKING:
    from freshstack_dspy.calibration.optimization import OptimizationReport
    from freshstack_dspy.measures.statistics import Interval

ProgramName = Literal["support_judge", "nuggetizer", "comparer"]
_KINDS = {"support_judge": "support", "nuggetizer": "nugget_list", "comparer": "answer"}


def optimize(
    config: Annotated[
        Path,
        typer.Argument(help="TOML file; its [model], [judge] scale, [nuggets], [budget], [cache]."),
    ],
    labels: Annotated[Path, typer.Argument(help="JSON Lines of people's labels.")],
    out: Annotated[Path, typer.Option(help="Program file to write.")],
    program: Annotated[
        ProgramName,
        typer.Option(help="Tuned on labels of kind support, nugget_list or answer."),
    ] = "support_judge",
    optimizer: Annotated[
        Literal["labeled", "bootstrap", "bootstrap_random", "mipro", "gepa", "simba"],
        typer.Option(
            help="DSPy's LabeledFewShot, BootstrapFewShot, BootstrapFewShotWithRandomSearch, "
            "MIPROv2, GEPA or SIMBA; the last three let the model write instructions."
        ),
    ] = "bootstrap",
    metric: Annotated[
        Literal["kappa", "agreement", "f1", "balanced_accuracy", "expected_cost"] | None,
        typer.Option(help="By which a program is chosen; default kappa, f1 for nuggetizer."),
    ] = None,
    miss_cost: Annotated[
        float, typer.Option(min=0, help="Of expected_cost: a miss, where a false one costs 1.")
    ] = 1.0,
    collection: Annotated[
        Path | None, typer.Option(help="Where the labels' texts are, if not in the labels.")
    ] = None,
    mode: Annotated[
        Literal["live", "replay", "rerecord"],
        typer.Option(help="live: ask for what is not recorded. replay: no network."),
    ] = "live",
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a program against people's labels, tested on queries it never saw."""
    import dspy

    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.calibration.optimization import optimize as compile_program
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.programs.saved import save_program

    check_out(out, replace=replace)
    given = read_labels(labels, _KINDS[program])
    texts = Collection.load(collection) if collection else None
    dspy.disable_logging()
    # DSPy's optimizers print what they do; what they found is in the report.
    with judging(config, mode, out=out) as session, redirect_stdout(io.StringIO()):
        optimized = compile_program(
            given,
            session.lm,
            optimizer=optimizer,
            metric=metric,
            miss_cost=miss_cost,
            collection=texts,
            scale=session.config.judge.graded,
            limit=session.config.nuggets.limit,
            progress=session.progress,
        )
    save_program(optimized.program, out, optimized.report)
    if as_json:
        show_json(optimized.report)
    else:
        _show(optimized.report, program, out)


def _show(report: "OptimizationReport", program: ProgramName, path: Path) -> None:
    queries = report.queries
    title = (
        f"{report.optimizer} for {report.model}: {queries['train']} queries to train, "
        f"{queries['dev']} to choose by, {queries['test']} to test ({report.pairs} pairs)"
    )
    header = ("on the test split", "before", "after", "difference", "its 95 % interval")
    values = [
        (name, of.before.value, of.after.value, *cells(of.difference))
        for name, of in report.test.items()
    ]
    show(Table(header, values, title, digits=3))
    if report.unchanged is not None:
        say(f"the plain program stays: {report.unchanged}")
    if any(report.failed):
        say("failed examples: {} before, {} after".format(*report.failed))
    tokens = f", {report.tokens:,} tokens of replies" if report.tokens else ""
    cost = f", ${report.cost:.4f}" if report.cost else ""
    instructions = "new" if report.new_instructions else "the plain"
    say(
        f"{path} written, with {instructions} instructions and "
        f"{counted(report.demonstrations, 'demonstration')}{tokens}{cost}; "
        f'name it in a build as [programs] {program} = "{path}"'
    )


def cells(interval: "Interval | None") -> tuple[float | None, str]:
    """Write a value and the ends of its interval."""
    if interval is None:
        return None, ""
    if interval.low is None or interval.high is None:
        return interval.value, "–"
    dash = " to " if interval.low < 0 else "–"
    return interval.value, f"{interval.low:.3f}{dash}{interval.high:.3f}"
