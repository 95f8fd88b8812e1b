"""`freshstack evaluate`: what runs are worth on a collection, on all its queries and by group."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.judgments import JudgmentsArgument, SubtopicsOption
from freshstack_dspy.cli.rules import (
    CONTAMINATED,
    OURS,
    ContaminatedOption,
    ConventionsOption,
    MeasureOption,
    UndefinedOption,
)
from freshstack_dspy.cli.slices import SlicesOption

if TYPE_CHECKING:
    from freshstack_dspy.cli.evaluated import Report
    from freshstack_dspy.cli.judgments import Judgments
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.groups import QueryGroups
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.run import Run

FormatOption = Literal["table", "json", "csv", "latex", "markdown", "freshstack-entry"]


def evaluate(
    collection: JudgmentsArgument,
    runs: Annotated[list[Path], typer.Argument(help="TREC run files.")],
    measure: MeasureOption = None,
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
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many groups are listed, the largest; by default 20, and where there are more "
            "than ten only those of two queries or more.",
        ),
    ] = None,
    slices: SlicesOption = "supported",
    subtopics: SubtopicsOption = None,
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
    contaminated_from: ContaminatedOption = CONTAMINATED,
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
    """Evaluate runs on a collection, or on qrels."""
    from freshstack_dspy.cli.evaluated import Report, distinct_names, evaluated
    from freshstack_dspy.cli.evaluation_files import BY_QUERY_STARTS
    from freshstack_dspy.cli.judgments import judgments_at
    from freshstack_dspy.cli.outputs import check_inputs, check_other_file
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.measures.evaluation import evaluate as evaluate_run
    from freshstack_dspy.measures.run import read_run

    _check_together(as_json, form, info=bool(info), others=exclude_contaminated or bounds)
    check_inputs(per_query, *runs, *(groups or ()))
    check_other_file(per_query, BY_QUERY_STARTS)
    names = distinct_names(runs)
    judgments = judgments_at(
        collection,
        slices,
        subtopics=subtopics,
        needing={
            "--by": by,
            "--exclude-contaminated": exclude_contaminated,
            "--format freshstack-entry": form == "freshstack-entry",
        },
        out=per_query,
    )
    qrels = judgments.qrels
    groupings = _groupings(judgments, by or (), groups or (), contaminated_from)

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
    report = Report(judgments, len(qrels.nuggets), found, groupings)
    if exclude_contaminated and judgments.collection is not None:
        from freshstack_dspy.cli.contaminated import excluding_contaminated

        others = excluding_contaminated(
            judgments.collection, qrels, read, measured, contaminated_from
        )
        report = report._replace(excluding=others)
    _print(report, "json" if as_json else form, info or ())
    if per_query is not None:
        _write_per_query(report, per_query)


def _check_together(as_json: bool, form: FormatOption, *, info: bool, others: bool) -> None:
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
    judgments: "Judgments", by: Sequence[str], files: Sequence[Path], contaminated_from: float
) -> "tuple[QueryGroups, ...]":
    """Make each grouping once; `date=2024-06-30` names its day."""
    from freshstack_dspy.cli.evaluated import check_groupings
    from freshstack_dspy.measures.groups import read_groups

    found = []
    collection = judgments.collection
    for name in dict.fromkeys(by):
        if collection is None:
            break
        kind, divided, at = name.partition("=")
        found.append(
            collection.groups(kind, at=at if divided else None, contaminated_from=contaminated_from)
        )
    found += [read_groups(path, judgments.query_ids) for path in dict.fromkeys(files)]
    check_groupings(found)
    return tuple(found)


def _print(report: "Report", form: FormatOption, info: Sequence[str]) -> None:
    from freshstack_dspy.cli.evaluation_files import report_csv, report_json, report_tables
    from freshstack_dspy.cli.evaluation_tables import print_report
    from freshstack_dspy.cli.leaderboard_entries import report_entries
    from freshstack_dspy.cli.table_formats import FORMATS

    if form == "table":
        print_report(report)
    elif form == "freshstack-entry":
        print(report_entries(report, info), end="")
    elif form == "json":
        print(report_json(report), end="")
    elif form == "csv":
        print(report_csv(report), end="")
    else:
        print("\n".join(map(FORMATS[form], report_tables(report))), end="")


def _write_per_query(report: "Report", path: Path) -> None:
    from freshstack_dspy.cli.evaluation_files import write_per_query
    from freshstack_dspy.cli.lines import complain

    rows = write_per_query(report, path)
    complain(f"{path}: {rows:,} rows")
