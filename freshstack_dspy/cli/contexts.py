"""`freshstack contexts`: contexts and the reports written from them, next to CRUX's bounds."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.build import plan_asking
from freshstack_dspy.cli.options import (
    CollectionArgument,
    ModeOption,
    OutOption,
    PlanOption,
    ReplaceOption,
    RunsArgument,
    check_out,
    judging,
)
from freshstack_dspy.cli.printing import Table, counted, say, show

if TYPE_CHECKING:
    from freshstack_dspy.answering.contexts import ContextTable


def contexts(
    collection: CollectionArgument,
    runs: RunsArgument,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file; its [model] writes a report from each context, its [judge] rates it. "
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
    plan: PlanOption = False,
) -> None:
    """Measure contexts and the reports from them, next to the bounds of CRUX."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.files import encode_records, write_file
    from freshstack_dspy.measures.run import read_run

    check_out(out, replace=replace)
    if k is not None and tokens is not None:
        raise typer.BadParameter("a context has --k chunks or --tokens tokens, not both")
    loaded = Collection.load(collection)
    read = [read_run(path) for path in runs]
    if plan:
        if config is None:
            raise typer.BadParameter("without --config nothing is asked, so there is no plan")
        from freshstack_dspy.answering.contexts import evaluate_contexts

        plan_asking(
            config,
            loaded,
            lambda session: evaluate_contexts(session, loaded, read, k=k, tokens=tokens),
        )
        return
    with judging(config, mode, out=out) if config else nullcontext() as session:
        from freshstack_dspy.answering.contexts import evaluate_contexts

        found = evaluate_contexts(session, loaded, read, k=k, tokens=tokens)
        model = session.config.model.name if session else None
    if out is not None:
        write_file(out, encode_records(found.reports))
    size = f"{tokens} tokens" if tokens else f"{k} chunks" if k else "the oracle context's size"
    _show(found, size)
    if model:
        say(f"reports written and rated by {model}")
    say(loaded.labels_by)
    raise typer.Exit(int(any(one.coverage is None for one in found.reports)))


def _show(found: "ContextTable", size: str) -> None:
    from freshstack_dspy.answering.contexts import COLUMNS

    means = {row: found.means(row) for row in found.values}
    columns = [name for name in COLUMNS if any(name in of for of in means.values())]
    rows = [[row, *map(of.get, columns), found.unjudged.get(row)] for row, of in means.items()]
    title = f"contexts Z of {size}" + (", reports y" if found.reports else "")
    show(Table(("context", *columns, "unjudged"), rows, title))
    for one in found.agreements:
        tau = one.kendall.value
        shown = one.kendall.reason if tau is None else f"{tau:.3f}"
        say(f"Kendall's τ of {one.first} and {one.second} over the runs: {shown}")
    if omitted := sum(len(one.omitted) for one in found.reports):
        say(
            f"{counted(omitted, 'chunk')} not shown to the writer, for there was no room or no text"
        )
    if failed := sum(one.coverage is None for one in found.reports):
        say(f"{counted(failed, 'report')} without a rating, left out of Cov(y) and Den(y)")
    say("unjudged: the share of a context's chunks that has no label, and answers nothing")
