"""`freshstack evaluate`: what runs are worth on a collection, on all its queries and by group."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.rules import OURS, ConventionsOption, UndefinedOption
from freshstack_dspy.cli.slices import SlicesOption, slices_of

if TYPE_CHECKING:
    from freshstack_dspy.cli.evaluated import Report
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.measures import Evaluation, NuggetQrels, QueryGroups, Run

FormatOption = Literal["table", "json", "csv", "latex", "freshstack-entry"]
_CONTAMINATED = 0.5


def evaluate(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    runs: Annotated[list[Path], typer.Argument(help="TREC run files.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="As alpha_nDCG@10, Coverage@20, AP; may be repeated."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also by group: tag, slice, date, date=2024-06-30, cutoff, contamination, "
            "difficulty, origin; may be repeated."
        ),
    ] = None,
    groups: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also by groups of your own: CSV, TSV or JSON Lines of query_id and group; "
            "may be repeated."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many groups are listed, the largest.")] = 20,
    slices: SlicesOption = "evaluated",
    conventions: ConventionsOption = OURS,
    undefined: UndefinedOption = None,
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds", help="Also what each measure would be if the unjudged chunks were judged."
        ),
    ] = False,
    exclude_contaminated: Annotated[
        bool,
        typer.Option(
            "--exclude-contaminated",
            help="Evaluate also without the queries that the model can answer without the corpus.",
        ),
    ] = False,
    contaminated_from: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="The share of its nuggets known from which on a query is one of them.",
        ),
    ] = _CONTAMINATED,
    per_query: Annotated[
        Path | None,
        typer.Option(help="Write a CSV file of the values by query, with the query's groups."),
    ] = None,
    form: Annotated[
        FormatOption, typer.Option("--format", help="How the means are printed.")
    ] = "table",
    info: Annotated[
        list[str] | None,
        typer.Option(
            help="With freshstack-entry: name, size, type, date or link of the system, as "
            "type=open_source; repeat it."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything as JSON, with the values by query.")
    ] = False,
) -> None:
    """Evaluate runs on a collection."""
    from freshstack_dspy.cli.evaluated import Report, distinct_names, evaluated
    from freshstack_dspy.cli.outputs import refuse_collection, refuse_inputs
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.measures import FRESHSTACK_MEASURES, read_run
    from freshstack_dspy.measures import evaluate as evaluate_run

    _refuse_together(as_json, form, info=bool(info), others=exclude_contaminated or bounds)
    refuse_inputs(per_query, *runs, *(groups or ()))
    refuse_collection(per_query, collection)
    names = distinct_names(runs)
    loaded = Collection.load(collection)
    chosen = slices_of(slices, loaded)
    qrels = loaded.qrels(chosen)
    groupings = _groupings(loaded, by or (), groups or (), contaminated_from)

    def measured(qrels: "NuggetQrels", run: "Run") -> "Evaluation":
        return evaluate_run(
            qrels,
            run,
            measure or FRESHSTACK_MEASURES,
            undefined=undefined,
            conventions=conventions,
            bounds=bounds,
        )

    read = [(name, read_run(path)) for name, path in zip(names, runs, strict=True)]
    found = evaluated(read, lambda run: measured(qrels, run), groupings, top=top)
    report = Report(loaded, chosen, len(qrels.nuggets), found, groupings)
    if exclude_contaminated:
        from freshstack_dspy.cli.contaminated import excluding_contaminated

        others = excluding_contaminated(loaded, qrels, read, measured, contaminated_from)
        report = report._replace(excluding=others)
    _print(report, "json" if as_json else form, info or ())
    if per_query is not None:
        _write_per_query(report, per_query)


def _refuse_together(as_json: bool, form: FormatOption, *, info: bool, others: bool) -> None:
    from freshstack_dspy.errors import ConfigError

    if as_json and form not in ("table", "json"):
        raise ConfigError(f"--json and --format {form} ask for two formats; name one")
    if info and form != "freshstack-entry":
        raise ConfigError("--info is told of the entries of --format freshstack-entry")
    if others and form == "freshstack-entry":
        raise ConfigError(
            "--format freshstack-entry has the means of all queries only; leave out "
            "--exclude-contaminated and --bounds"
        )


def _groupings(
    collection: "Collection", by: Sequence[str], files: Sequence[Path], contaminated_from: float
) -> "tuple[QueryGroups, ...]":
    """Make each grouping once; `date=2024-06-30` names its day."""
    from freshstack_dspy.measures import read_groups

    found = []
    for name in dict.fromkeys(by):
        kind, divided, at = name.partition("=")
        found.append(
            collection.groups(kind, at=at if divided else None, contaminated_from=contaminated_from)
        )
    query_ids = [query.query_id for query in collection.queries]
    found += [read_groups(path, query_ids) for path in dict.fromkeys(files)]
    return tuple(found)


def _print(report: "Report", form: FormatOption, info: Sequence[str]) -> None:
    from freshstack_dspy.cli.evaluation_files import report_csv, report_json, report_latex
    from freshstack_dspy.cli.evaluation_tables import print_report
    from freshstack_dspy.cli.leaderboard_entries import report_entries

    if form == "table":
        print_report(report)
    elif form == "freshstack-entry":
        print(report_entries(report, info), end="")
    else:
        written = {"json": report_json, "csv": report_csv, "latex": report_latex}[form]
        print(written(report), end="")


def _write_per_query(report: "Report", path: Path) -> None:
    from freshstack_dspy.cli.evaluation_files import write_per_query
    from freshstack_dspy.cli.lines import complain

    rows = write_per_query(report, path)
    complain(f"{path}: {rows:,} rows")
