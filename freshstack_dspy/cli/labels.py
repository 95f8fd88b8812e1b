"""`freshstack agree` and `optimize`: the judge and people."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.models import ConfigOption, ModelOption

LabelsHelp = "JSON Lines of labels: query_id, nugget_id, chunk_id, label, annotator, time."


def agree(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    labels: Annotated[Path, typer.Argument(help=LabelsHelp)],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Compare a collection's judge with people."""
    from freshstack_dspy.calibration.agreement import agree as compare
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.cli.agreement_tables import agreement_table
    from freshstack_dspy.collection.collection import Collection

    loaded = Collection.load(collection)
    report = compare(loaded, read_labels(labels))
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        agreement_table(report, loaded.threshold)


def optimize(
    program: Annotated[str, typer.Argument(help="support_judge.")],
    labels: Annotated[Path, typer.Option(help=LabelsHelp)],
    out: Annotated[Path, typer.Option(help="Program file to write.")],
    optimizer: Annotated[
        Literal["labeled", "bootstrap", "mipro"],
        typer.Option(help="DSPy's LabeledFewShot, BootstrapFewShot or MIPROv2."),
    ] = "bootstrap",
    collection: Annotated[
        Path | None, typer.Option(help="Where the labels' texts are, if not in the labels.")
    ] = None,
    config: ConfigOption = None,
    model: ModelOption = None,
    test_share: Annotated[
        float, typer.Option(min=0.05, max=0.95, help="Share of the queries kept for the test.")
    ] = 0.4,
    seed: Annotated[int, typer.Option(help="Of the split and the optimizer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Tune a program against people's labels.

    It is tested on queries that the optimizer never saw, before and after.
    """
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.calibration.optimization import optimize as compile_program
    from freshstack_dspy.cli.agreement_tables import optimization_table
    from freshstack_dspy.cli.models import opened_model
    from freshstack_dspy.cli.outputs import check_inputs
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.programs.saved import save_program

    check_inputs(out, labels, collection, config)
    given = read_labels(labels)
    texts = Collection.load(collection) if collection else None
    with opened_model(config, model) as lm:
        optimized = compile_program(
            program,
            given,
            lm,
            optimizer=optimizer,
            collection=texts,
            test_share=test_share,
            seed=seed,
        )
    save_program(optimized.program, out)
    if as_json:
        typer.echo(optimized.report.model_dump_json(indent=2))
    else:
        optimization_table(optimized.report, out)
