"""`freshstack report`: a collection and its runs as one HTML file."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli.command import complain, say
from freshstack_dspy.cli.measure import ContaminatedOption, MeasureOption
from freshstack_dspy.cli.options import CollectionArgument, ReplaceOption, check_out


def report(
    collection: CollectionArgument,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run files, in TREC's format, or passages; none: the collection alone."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    labels: Annotated[
        list[Path] | None, typer.Option(help="Labels of support by people; may be repeated.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Folder that freshstack answer wrote, of these runs.")
    ] = None,
    measure: MeasureOption = None,
    exclude_contaminated: ContaminatedOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Write a report: may I trust it, which retriever, where does it lose, what next."""
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.views.report import report as reported

    check_out(out, replace=replace)
    paths = list(dict.fromkeys(runs or ()))
    names = [path.name for path in paths]
    by_name = {path.name if names.count(path.name) == 1 else str(path): path for path in paths}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = reported(
            collection,
            by_name,
            measure or FRESHSTACK_MEASURES,
            labels=labels or (),
            answers=answers,
            exclude_contaminated=exclude_contaminated,
        )
    for line in dict.fromkeys(str(one.message) for one in warned):
        complain(f"warning: {line}")
    found.save(out)
    say(str(out))
