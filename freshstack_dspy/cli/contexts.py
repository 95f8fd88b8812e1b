"""`freshstack contexts`: contexts and the reports written from them, next to CRUX's bounds."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli.build import plan_asking
from freshstack_dspy.cli.command import Outcome, command
from freshstack_dspy.cli.options import (
    CollectionArgument,
    FailedOption,
    LogOption,
    ModeOption,
    OutOption,
    PlanOption,
    ReplaceOption,
    RunsArgument,
    check_out,
    judging,
)
from freshstack_dspy.pages.shown import Shown


@command
def contexts(
    collection: CollectionArgument,
    runs: RunsArgument,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file; its [generator] writes a report from each context, its [judge] rates it. "
            "Without one no model is asked."
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, help="Chunks of a context. By default as many as the oracle context has."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Or the most tokens that its chunks have.")
    ] = None,
    out: OutOption = None,
    replace: ReplaceOption = False,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    log: LogOption = None,
    plan: PlanOption = False,
) -> Outcome | Shown:
    """Measure contexts and the reports from them, next to the bounds of CRUX."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.files import encode_records, write_file
    from freshstack_dspy.measures.searches import read_chunk_run

    check_out(out, replace=replace)
    if k is not None and tokens is not None:
        raise typer.BadParameter("a context has --k chunks or --tokens tokens, not both")
    loaded = Collection.load(collection)
    read = [read_chunk_run(path) for path in runs]
    if plan:
        if config is None:
            raise typer.BadParameter("without --config nothing is asked, so there is no plan")
        from freshstack_dspy.answering.contexts import evaluate_contexts

        return plan_asking(
            config,
            loaded,
            lambda session: evaluate_contexts(session, loaded, read, k=k, tokens=tokens),
        )
    with (
        judging(config, mode, failed=failed, log=log, out=out)
        if config
        else nullcontext() as session
    ):
        from freshstack_dspy.answering.contexts import evaluate_contexts

        table = evaluate_contexts(session, loaded, read, k=k, tokens=tokens)
    if out is not None:
        write_file(out, encode_records(table.reports))
    unrated = any(report.coverage is None for report in table.reports)
    return Outcome(table, code=int(unrated))
