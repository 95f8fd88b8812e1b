"""`freshstack agree`: a collection's judge compared with people, and people with each other."""

from pathlib import Path
from typing import Annotated, Any

import typer

from freshstack_dspy.cli.command import command
from freshstack_dspy.cli.options import CollectionArgument
from freshstack_dspy.pages.page import Page


@command
def agree(
    collection: CollectionArgument,
    labels: Annotated[
        list[Path], typer.Argument(help="JSON Lines of labels, of one or several people.")
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Also on parts of the pairs: kind (code or prose), length, position in the "
            "judge's call, duplicate, languages (of question and chunk), or tag, slice, date and "
            "the like, as evaluate --by."
        ),
    ] = None,
    disagreements: Annotated[
        int, typer.Option(min=0, help="Show so many of the worst disagreements, with both reasons.")
    ] = 0,
    answers: Annotated[
        Path | None,
        typer.Option(help="Folder of `freshstack answer`, for labels of its answers."),
    ] = None,
) -> Page:
    """Compare a collection's judge with people, and people with each other."""
    from freshstack_dspy.calibration.agreement import agree as compare
    from freshstack_dspy.calibration.agreement import agree_on_answers, nugget_ratings
    from freshstack_dspy.calibration.labels import all_labels
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.views.calibration import pages_together

    loaded = Collection.load(collection)
    given: dict[str, Any] = {}
    for _, label in all_labels(labels):
        given.setdefault(label.kind, []).append(label)
    reports: dict[str, Any] = {
        kind: compare(loaded, given[kind], by=by)
        for kind in ("support", "answerability")
        if kind in given
    }
    if answers and "answer" in given:
        reports["answer"] = agree_on_answers(answers, given["answer"])
    if "nugget" in given:
        lists = given.get("nugget_list", ())
        reports["nugget"] = nugget_ratings(loaded, given["nugget"], lists)
    if not reports:
        found = ", ".join(f"{len(of)} of kind {kind}" for kind, of in sorted(given.items()))
        what = f"the labels are {found}" if found else f"no label in {', '.join(map(str, labels))}"
        hint = "; name the folder of the answers with --answers" if "answer" in given else ""
        raise CollectionError(f"nothing to compare: {what}{hint}")
    pages = {
        kind: report.page() if kind == "nugget" else report.page(disagreements)
        for kind, report in reports.items()
    }
    return pages_together(f"{loaded.name}: agreement with people", pages)
