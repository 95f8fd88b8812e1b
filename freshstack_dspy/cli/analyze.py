"""`freshstack analyze`: which queries a run fails, and why."""

from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli.command import Form, Outcome, command, to_type
from freshstack_dspy.cli.measure import CoveredOption
from freshstack_dspy.cli.options import (
    CollectionArgument,
    SlicesOption,
    slices_named,
)
from freshstack_dspy.pages.page import Text

_LISTED = 5


@command
def analyze(
    collection: CollectionArgument,
    run: Annotated[Path, typer.Argument(help="Run file, in TREC's format, or passages.")],
    against: Annotated[
        Path | None,
        typer.Option(help="Another run, as the one in use: what RUN lost against it comes first."),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "--measure", "-m", help="What queries are ordered by, and how deep their top is."
        ),
    ] = "alpha_nDCG@10",
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"How many queries are listed; {_LISTED}.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="This query alone, with the evidence in its chunks.")
    ] = None,
    covered: CoveredOption = 1.0,
    form: Form | None = None,
) -> Outcome:
    """Say which queries a run fails, the worst first, and why."""
    from freshstack_dspy.collection.analyze import analyze as analyzed
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.searches import is_searches

    if limit is None and form not in ("csv", "json"):
        limit = _LISTED
    loaded = Collection.load(collection)
    analysis = analyzed(
        loaded, run, against, measure=measure, covered=covered, limit=limit, query_id=query
    )
    if against is not None:
        alike = against.name == run.name
        names = {"run": run, "against": against}
        analysis = analysis.model_copy(
            update={name: str(path) if alike else path.name for name, path in names.items()}
        )
    hints = [Text(loaded.labels_by)]
    if query is None:
        hints.append(to_type("one query", f"freshstack analyze {collection} {run} --query ID"))
    if is_searches(run):
        typed = f"freshstack steps {collection} {run} --query {query or 'ID'}"
        hints.append(to_type("search by search", typed))
    return Outcome(analysis.page(query), hints)


@command
def steps(
    collection: CollectionArgument,
    run: Annotated[
        Path,
        typer.Argument(
            help="Searches of an agent: JSON Lines of query_id, search, results (chunk ids or "
            "passages), step, cost; or OpenTelemetry spans."
        ),
    ],
    query: Annotated[
        str | None, typer.Option(help="The searches of this query, one by one.")
    ] = None,
    slices: SlicesOption = None,
    covered: CoveredOption = 1.0,
) -> Outcome:
    """Say what each search of an agent adds."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.steps import steps as measured

    loaded = Collection.load(collection)
    trajectories = measured(loaded, run, slices=slices_named(slices), covered=covered)
    hints = [Text(loaded.labels_by)]
    if query is None:
        typed = f"freshstack steps {collection} {run} --query ID"
        hints.append(to_type("search by search", typed))
    return Outcome(trajectories.page(query), hints)
