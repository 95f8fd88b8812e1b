"""`freshstack sample` and `import-labels`: what people are asked to label, and what they said."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from freshstack_dspy.cli.command import Outcome, command, complain, say, to_type
from freshstack_dspy.cli.options import (
    CollectionArgument,
    ReplaceOption,
    check_out,
    one_of,
)
from freshstack_dspy.pages.page import counted

Purpose = Literal["agreement", "share", "runs"]


@command
def sample(
    collection: CollectionArgument,
    out: Annotated[
        Path, typer.Option(help="File of tasks; to those that are in it more are added.")
    ],
    kind: Annotated[
        Literal["support", "answerability", "nuggets", "answer"],
        typer.Option(
            help="What people are asked: how well a passage supports a nugget, whether it answers "
            "it at all (CRUX), which nuggets a query should have, or whether an answer agrees "
            "with the gold one."
        ),
    ] = "support",
    purpose: Annotated[
        Purpose,
        typer.Option(
            "--for",
            help="What labels of pairs are for: agreement of judge and people, the share of pairs "
            "that support, or the values of runs, which takes whole queries.",
        ),
    ] = "agreement",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many tasks of this kind, 200 by default; for runs queries, 20."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="The collection as another judge judged it: more where they differ."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Of kind answer: folder of `freshstack answer`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random order.")] = 0,
    format: Annotated[  # noqa: A002
        Literal["freshstack", "csv", "label-studio"],
        typer.Option(help="The others have the texts, and are new files."),
    ] = "freshstack",
) -> Outcome:
    """Draw judgments for people to label, and say what so many labels will tell."""
    from freshstack_dspy.calibration.label_files import tasks_as
    from freshstack_dspy.calibration.sampling import draw
    from freshstack_dspy.calibration.sampling import sample as add_sample
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.files import write_file

    loaded = Collection.load(collection)
    options: Any = {"purpose": purpose, "seed": seed, "answers": answers}
    options["against"] = Collection.load(against) if against else None
    if format == "freshstack":
        found = add_sample(collection, out, kind, limit, **options)
    else:
        check_out(out)
        found = draw(loaded, kind, limit, **options)
        write_file(out, tasks_as(format, found.tasks, loaded))
    label = [to_type("label them", f"freshstack label {out} --annotator NAME")]
    return Outcome(found.page(str(out)), label if format == "freshstack" else [])


def _label_formats() -> tuple[str, ...]:
    from freshstack_dspy.calibration.label_files import label_formats

    return label_formats()


def import_labels(
    files: Annotated[list[Path], typer.Argument(help="Files of labels, of one format.")],
    collection: Annotated[Path, typer.Option(help="Folder of the collection that was labelled.")],
    format: Annotated[  # noqa: A002
        str,
        typer.Option(
            metavar="NAME",
            callback=one_of(_label_formats),
            help="Of which tool they are: freshstack, csv, json, label-studio, argilla, "
            "autojudge-annotate, nuggetizer, trec-support, or one of an installed package (a wrong "
            "name lists all).",
        ),
    ] = "freshstack",
    out: Annotated[
        Path | None, typer.Option(help="JSON Lines of labels; without it they are only checked.")
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(help="File of `freshstack sample`, to count what is labelled.")
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Who labelled, where the files do not say.")
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Read labels of other tools, and check them against the collection."""
    from freshstack_dspy.calibration.label_files import import_labels as read
    from freshstack_dspy.calibration.labels import labelled
    from freshstack_dspy.calibration.sampling import read_tasks
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.files import encode_records, write_file

    check_out(out, replace=replace)
    loaded = Collection.load(collection)
    asked = read_tasks(tasks, loaded)[1] if tasks else ()
    found = read(files, format, loaded, annotator=annotator, tasks=asked)
    if out is not None:
        write_file(out, encode_records(found.labels))
    say(f"{out or loaded.name}: {counted(len(found.labels), 'label')}")
    kinds = Counter((label.annotator, label.kind) for label in found.labels)
    for (name, kind), number in sorted(kinds.items()):
        say(f"  {name}: {number:,} of kind {kind}")
    if tasks is not None:
        for name, number in labelled(found.labels, asked).items():
            say(f"{number:,} of {counted(len(asked), 'task')} labelled by {name}")
    for what, number in found.left_out.items():
        complain(f"left out: {number:,} {what}")
