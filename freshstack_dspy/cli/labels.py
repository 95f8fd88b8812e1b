"""`freshstack sample`: what people are asked to label."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.options import CollectionArgument
from freshstack_dspy.cli.printing import Table, counted, say, show


def sample(
    collection: CollectionArgument,
    out: Annotated[
        Path, typer.Option(help="JSON Lines of tasks; to those that are in it more are added.")
    ],
    kind: Annotated[
        Literal["support", "answerability", "nuggets", "answer"],
        typer.Option(
            help="What people are asked: how well a passage supports a nugget, whether it answers "
            "it at all (CRUX), which nuggets a query should have, or whether an answer agrees "
            "with the gold one."
        ),
    ] = "support",
    limit: Annotated[int, typer.Option(min=1, help="How many tasks of this kind.")] = 200,
    whole_queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="In place of --limit: how many queries, each with all its judged pairs."
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
) -> None:
    """Draw judgments for people to label, more where the judge is unsure."""
    from freshstack_dspy.calibration.sampling import WHOLE_QUERIES
    from freshstack_dspy.calibration.sampling import sample as draw

    found = draw(
        collection,
        out,
        kind,
        limit,
        seed=seed,
        whole_queries=whole_queries,
        against=against,
        answers=answers,
    )
    drawn = Counter(task.stratum for task in found.tasks)
    probabilities = {task.stratum: task.probability for task in found.tasks}
    whole = len({task.query_id for task in found.tasks}) if whole_queries else 0
    rows = [
        (name, size, whole if name == WHOLE_QUERIES else drawn[name], probabilities.get(name))
        for name, size in found.sizes.items()
    ]
    what = "queries" if whole or kind == "nuggets" else "answers" if kind == "answer" else "pairs"
    title = f"{out}: {counted(len(found.tasks), 'task')} of kind {kind}"
    show(Table(("stratum", what, "drawn", "probability"), rows, title))
    if found.kept:
        say(f"{found.kept:,} of them were there before, and stay")
    if kind in ("support", "answerability") and not whole and len(found.tasks) < limit:
        say(f"there are no more: all {len(found.tasks):,} judged pairs were drawn")
