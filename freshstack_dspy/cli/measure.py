"""`freshstack evaluate` and `compare`: means of runs with intervals, and which differences hold."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from freshstack_dspy.cli.options import (
    ConventionsOption,
    FormatOption,
    JsonOption,
    LimitOption,
    OutOption,
    ReplaceOption,
    RunsArgument,
    SlicesOption,
)

if TYPE_CHECKING:
    from freshstack_dspy.cli.options import SlicesName
    from freshstack_dspy.cli.printing import Cell, Table
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.compare import Comparison, RunDifference
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.groups import GroupedEvaluation, QueryGroups
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.statistics import Interval

JudgmentsArgument = Annotated[
    Path, typer.Argument(help="Folder of a collection, or a file of TREC or BEIR qrels.")
]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option("--measure", "-m", help="As alpha_nDCG@10, Coverage@20, AP; may be repeated."),
]
CondensedOption = Annotated[
    bool, typer.Option("--condensed", help="Take chunks without a label out of the rankings.")
]
UnknownIdsOption = Annotated[
    Literal["error", "drop"],
    typer.Option(help="Where a run has chunk ids that the corpus does not have."),
]
ContaminatedOption = Annotated[
    float | None,
    typer.Option(
        "--exclude-contaminated",
        min=0,
        max=1,
        metavar="SHARE",
        help="Leave out queries of which the model knows this share of the nuggets without the "
        "corpus, as 0.5.",
    ),
]

_FEW_QUERIES = 30
"""Of fewer, a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_LISTED = 20
_RUN = 24
"""How many characters of a run's name are in one line of a table."""
_DRAWN = 10_000_000
"""How many queries are drawn at most for an interval: of many, fewer resamples tell as much."""
_CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}


class _Judgments(NamedTuple):
    """What runs are measured on, and its name."""

    name: str
    qrels: "NuggetQrels"
    query_ids: tuple[str, ...]
    """Of all queries, measured or not."""
    slices: "SlicesName | None"
    excluded: tuple[str, ...] = ()
    """Queries left out as contaminated."""
    collection: "Collection | None" = None
    """None of a file of qrels."""

    @property
    def title(self) -> str:
        from freshstack_dspy.cli.printing import counted

        note = f" ({self.slices})" if self.slices not in (None, "supported") else ""
        excluded = f", without {len(self.excluded)} contaminated" if self.excluded else ""
        queries = counted(len(self.qrels.nuggets), "query", "queries")
        return f"{self.name}: {queries}{note}{excluded}"

    @property
    def identity(self) -> dict[str, Any]:
        """What JSON has of it."""
        if self.collection is None:
            return {"qrels": self.name}
        return {
            "collection": self.name,
            "content_hash": self.collection.manifest.content_hash,
            "slices": self.slices,
            "excluded": self.excluded,
        }

    def say_origin(self) -> None:
        """Say below a table which queries were left out, and who made the labels."""
        from freshstack_dspy.cli.printing import labels_by, say_wrapped
        from freshstack_dspy.collection.slices import left_out

        if self.collection is not None:
            if line := left_out(self.collection, self.slices):
                say_wrapped(f"measured on {line}")
            say_wrapped(labels_by(self.collection))


def _judgments(path: Path, slices: "SlicesName", exclude: float | None) -> _Judgments:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import CollectionError, ConfigError
    from freshstack_dspy.measures.qrels import read_qrels

    if path.is_file():
        if slices != "supported" or exclude is not None:
            raise ConfigError(
                f"{path} is a file of qrels; --slices and --exclude-contaminated need a collection"
            )
        qrels = read_qrels(path)
        return _Judgments(path.name, qrels, tuple(qrels.nuggets), None)
    collection = Collection.load(path)
    qrels = collection.qrels(slices)
    excluded: tuple[str, ...] = ()
    if exclude is not None:
        contaminated = set(collection.contaminated(exclude))
        excluded = tuple(query for query in qrels.nuggets if query in contaminated)
        qrels = qrels.without(excluded)
        if not qrels.nuggets:
            raise CollectionError(
                f"all {len(excluded)} queries are contaminated; raise --exclude-contaminated"
            )
    ids = tuple(query.query_id for query in collection.queries)
    return _Judgments(collection.name, qrels, ids, slices, excluded, collection)


def _evaluations(
    runs: Sequence[Path], judgments: _Judgments, measures: Sequence[str] | None, **rules: Any
) -> "dict[str, Evaluation]":
    """Evaluate runs, by the name of their file; by its path where two have one name."""
    import warnings

    from freshstack_dspy.cli.printing import complain
    from freshstack_dspy.errors import CollectionError, ConfigError
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.run import read_run

    file_names = [path.name for path in runs]
    found: dict[str, Evaluation] = {}
    for path in runs:
        name = path.name if file_names.count(path.name) == 1 else str(path)
        if name in found:
            raise ConfigError(f"{path}: the run is named twice; name each run once")
        run = read_run(path).without(judgments.excluded)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found[name] = evaluate(
                    judgments.qrels, run, measures or FRESHSTACK_MEASURES, **rules
                )
            except CollectionError as error:
                raise CollectionError(f"{name}: {error}") from None
        for one in warned:
            complain(f"warning: {name}: {one.message}")
    return found


# evaluate


class _Evaluated(NamedTuple):
    """A run, evaluated on all queries and by group."""

    evaluation: "Evaluation"
    means: "dict[str, Interval]"
    groups: "tuple[GroupedEvaluation, ...]"


def evaluate(
    judgments: JudgmentsArgument,
    runs: RunsArgument,
    measure: MeasureOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also by group: tag, slice, date, date=2024-06-30, cutoff, contamination, "
            "difficulty, origin, or a CSV, TSV or JSON Lines file of query_id and group; may be "
            "repeated."
        ),
    ] = None,
    limit: LimitOption = None,
    slices: SlicesOption = "supported",
    conventions: ConventionsOption = "ours",
    condensed: CondensedOption = False,
    unknown_ids: UnknownIdsOption = "error",
    exclude_contaminated: ContaminatedOption = None,
    out: OutOption = None,
    replace: ReplaceOption = False,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate runs on a collection, or on qrels; --out takes the values by query, as CSV."""
    from freshstack_dspy.cli.options import check_out
    from freshstack_dspy.cli.printing import show, show_json
    from freshstack_dspy.measures.groups import grouped
    from freshstack_dspy.measures.statistics import mean_intervals

    check_out(out, replace=replace)
    measured_on = _judgments(judgments, slices, exclude_contaminated)
    groupings = _groupings(measured_on, by or ())
    evaluations = _evaluations(
        runs,
        measured_on,
        measure,
        conventions=conventions,
        condensed=condensed,
        unknown_ids=unknown_ids,
    )
    resamples = min(10_000, max(1000, _DRAWN // len(measured_on.qrels.nuggets)))
    found = {
        name: _Evaluated(
            evaluation,
            _as_printed(evaluation, mean_intervals(evaluation, resamples=resamples)),
            tuple(
                grouped(evaluation, each, limit=limit or _LISTED, resamples=resamples)
                for each in groupings
            ),
        )
        for name, evaluation in evaluations.items()
    }
    if out is not None:
        _write_values(out, evaluations, groupings)
    if as_json:
        show_json(
            {**measured_on.identity, "evaluations": list(map(_dumped, found, found.values()))}
        )
    elif form == "csv":
        show(_rows(found), "csv")
    elif form is not None:
        for table in _pasted(measured_on, found):
            show(table, form)
    else:
        _show_evaluations(measured_on, found)


def _groupings(judgments: _Judgments, by: Sequence[str]) -> "tuple[QueryGroups, ...]":
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures.groups import read_groups

    found = []
    for name in dict.fromkeys(by):
        if Path(name).suffix in (".csv", ".tsv", ".jsonl"):
            found.append(read_groups(name, judgments.query_ids))
        elif judgments.collection is None:
            raise ConfigError(
                f"--by {name} needs a collection; a file groups the queries of qrels: --by mine.csv"
            )
        else:
            kind, _, at = name.partition("=")
            found.append(judgments.collection.groups(kind, at=at or None))
    return tuple(found)


def _as_printed(evaluation: "Evaluation", means: "dict[str, Interval]") -> "dict[str, Interval]":
    """Put the means of the conventions, some of which round, for the plain ones."""
    return {
        name: mean.model_copy(update={"value": evaluation.means[name]}) if mean.groups else mean
        for name, mean in means.items()
    }


def _dumped(name: str, run: _Evaluated) -> dict[str, Any]:
    return {
        "file": name,
        **run.evaluation.model_dump(mode="json"),
        "intervals": run.means,
        "groups": run.groups,
    }


def _write_values(
    out: Path, evaluations: "Mapping[str, Evaluation]", groupings: "Sequence[QueryGroups]"
) -> None:
    """Write one row for each run, query and measure; groups of a query are separated by `; `."""
    import csv

    from freshstack_dspy.cli.printing import complain

    groups_of = [groups.by_query() for groups in groupings]
    names = [groups.by for groups in groupings]
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "run", "query_id", *names, "measure", "value"])
        for name, evaluation in evaluations.items():
            for query, values in evaluation.per_query.items():
                groups = ["; ".join(of.get(query, ())) for of in groups_of]
                for measure, value in values.items():
                    writer.writerow([name, evaluation.run, query, *groups, measure, value])
    complain(f"{out} written")


_COLUMNS = (
    "file", "run", "by", "group", "average", "queries", "measure", "mean", "low", "high",
    "unjudged_at_k", "absent", "empty",
)  # fmt: skip


def _rows(found: Mapping[str, _Evaluated]) -> "Table":
    """Make one row for each mean: of all queries, of each group, and of all groups."""
    from freshstack_dspy.cli.printing import Table
    from freshstack_dspy.measures.measure import parse_measure

    rows: list[tuple[Cell, ...]] = []
    for name, run in found.items():
        of = run.evaluation
        queries, missing = len(of.per_query), (len(of.absent), len(of.empty))
        parts = [(("", "", "micro", queries), run.means, _shares(of), missing)]
        for groups in run.groups:
            parts += [
                (
                    (groups.by, each.group, "micro", each.queries),
                    each.means,
                    each.unjudged,
                    (each.absent, each.empty),
                )
                for each in groups.groups
            ]
            head = (groups.by, "", "macro", queries - len(groups.ungrouped))
            parts.append((head, groups.macro, {}, (0, 0)))
        for head, means, unjudged, counts in parts:
            for measure, mean in means.items():
                share = unjudged.get(parse_measure(measure).k or 0)
                ends = (mean.value, mean.low, mean.high)
                rows.append((name, of.run, *head, measure, *ends, share, *counts))
    return Table(_COLUMNS, rows)


def _shares(evaluation: "Evaluation") -> dict[int, float | None]:
    return {of.k: of.mean for of in evaluation.unjudged}


def _pasted(judgments: _Judgments, found: Mapping[str, _Evaluated]) -> "list[Table]":
    """Make a table of the runs, and one for each grouping, with the intervals in brackets."""
    from freshstack_dspy.cli.printing import Table

    first = next(iter(found.values()))
    measures = first.evaluation.measures
    unjudged = tuple(f"unjudged@{k}" for k in _shares(first.evaluation))
    rows: list[tuple[Cell, ...]] = [
        (name, *_bracketed(run.means), *_shares(run.evaluation).values())
        for name, run in found.items()
    ]
    title = f"{judgments.title}; 95% bootstrap intervals in brackets"
    tables = [Table(("run", *measures, *unjudged), rows, title, 3)]
    for place, groups in enumerate(first.groups):
        rows = []
        for name, run in found.items():
            of = run.groups[place]
            rows += [
                (name, each.group, each.queries, *_bracketed(each.means)) for each in of.groups
            ]
            number = len(run.evaluation.per_query) - len(of.ungrouped)
            rows.append((name, "macro-average", number, *_bracketed(of.macro)))
            rows.append((name, "all", len(run.evaluation.per_query), *_bracketed(run.means)))
        header = ("run", groups.by, "queries", *measures)
        tables.append(Table(header, rows, f"{title}, by {groups.by}", 3, 2))
    return tables


def _bracketed(means: "Mapping[str, Interval]") -> "list[Cell]":
    return [
        mean.value if mean.low is None else f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
        for mean in means.values()
    ]


def _show_evaluations(judgments: _Judgments, found: Mapping[str, _Evaluated]) -> None:
    from freshstack_dspy.cli.printing import say_wrapped, show

    _show_means(judgments, {name: (run.evaluation, run.means) for name, run in found.items()})
    for name, run in found.items():
        _say_missing(name, run.evaluation, judgments.query_ids)
    judgments.say_origin()
    first = next(iter(found.values()))
    for place, groups in enumerate(first.groups):
        print()
        show(_group_table(judgments, found, place))
        for line in _group_remarks(groups):
            say_wrapped(line)


def _show_means(
    judgments: _Judgments,
    runs: "Mapping[str, tuple[Evaluation, dict[str, Interval]]]",
    letters: Mapping[str, str] | None = None,
) -> None:
    """Print a row for each run: the mean, its interval, and the unjudged share of its top."""
    from freshstack_dspy.cli.printing import Table, percent, say_wrapped, show

    evaluation, means = next(iter(runs.values()))
    rows = [
        (_folded(f"{(letters or {}).get(name, '')} {name}"), *_cells(of_run, _shares(of)))
        for name, (of, of_run) in runs.items()
    ]
    show(Table(("run", *evaluation.measures), rows, judgments.title))
    intervals = [mean for _, of_run in runs.values() for mean in of_run.values()]
    level = percent(next(iter(means.values())).level)
    if any(mean.low is not None for mean in intervals):
        say_wrapped(f"below each mean: its {level} bootstrap interval over queries")
    for reason in sorted({mean.reason for mean in intervals if mean.reason}):
        say_wrapped(f"no interval (–): {reason}")
    queries = len(judgments.qrels.nuggets)
    if queries < _FEW_QUERIES:
        say_wrapped(
            f"{queries} queries are few: intervals of fewer than {_FEW_QUERIES} are too narrow"
        )
    if evaluation.condensed:
        say_wrapped("condensed lists: chunks without a label are taken out of the rankings")
    elif evaluation.unjudged:
        say_wrapped(
            "unjudged: the share of the top k that has no label, and counts as not relevant"
        )
    if evaluation.conventions != "ours":
        say_wrapped(f"ties, rounding and what is missing as in {evaluation.conventions}")
    if evaluation.not_in_program:
        say_wrapped(
            f"{evaluation.conventions} does not have {', '.join(evaluation.not_in_program)}: "
            "computed by its rules"
        )


def _cells(means: "Mapping[str, Interval]", unjudged: Mapping[int, float | None]) -> list[str]:
    from freshstack_dspy.measures.measure import parse_measure

    cells = []
    for name, mean in means.items():
        lines = ["–" if mean.value is None else f"{mean.value:.4f}"]
        lines.append("–" if mean.low is None else f"{mean.low:.3f}–{mean.high:.3f}")
        if (k := parse_measure(name).k) in unjudged and k is not None:
            share = unjudged[k]
            lines.append("unjudged –" if share is None else f"unjudged {share:.3f}")
        cells.append("\n".join(lines))
    return cells


def _folded(text: str) -> str:
    from freshstack_dspy.cli.printing import cut

    return "\n".join(textwrap.wrap(cut(text.strip(), 5 * _RUN), _RUN, break_on_hyphens=False))


def _say_missing(name: str, evaluation: "Evaluation", query_ids: Sequence[str]) -> None:
    """Say which queries of a run could not be measured, and what they count."""
    from freshstack_dspy.cli.printing import counted, cut, say_wrapped
    from freshstack_dspy.measures.conventions import conventions_named

    rules = conventions_named(evaluation.conventions)
    counts = {"zero": "counts as 0", "skip": "left out"}
    relevant = set(evaluation.without_relevant)
    unknown = [query for query in evaluation.unknown if query not in set(query_ids)]
    for ids, what in (
        (evaluation.absent, f"absent from the run ({counts[rules.absent]})"),
        (evaluation.empty, f"without results ({counts[rules.empty]})"),
        (evaluation.without_relevant, "without a relevant chunk (counts as 0)"),
        (unknown, "of the run not in the judgments (passed over)"),
        (evaluation.tied, "all of whose results have one score"),
        (evaluation.partly_tied, "with equal scores in the top"),
        *(
            ([query for query in of if query not in relevant], f"without a value of {measure}")
            for measure, of in evaluation.without_value.items()
        ),
    ):
        if ids:
            number = counted(len(ids), "query", "queries")
            say_wrapped(f"{name}: {number} {what}: {_listed(ids)}")
    if evaluation.unknown_chunks:
        say_wrapped(
            f"{name}: {counted(evaluation.unknown_chunks, 'result')} dropped, not in the corpus"
        )
    failed = sum(evaluation.unjudged[-1].failed.values()) if evaluation.unjudged else 0
    if failed:
        deepest = evaluation.unjudged[-1].k
        say_wrapped(f"{name}: {counted(failed, 'failed judgment')} in the top {deepest}")
    share = evaluation.unjudged[0].mean if evaluation.unjudged else None
    if share is not None and share > 0.5:
        say_wrapped(
            f"{cut(name)}: most of the top {evaluation.unjudged[0].k} is unjudged: the means "
            "depend on the judgments more than on the run; try --condensed, or `freshstack extend`"
        )


def _listed(ids: Sequence[str]) -> str:
    from freshstack_dspy.cli.printing import cut

    return ", ".join(cut(each, 30) for each in ids[:3]) + (", …" if len(ids) > 3 else "")


def _group_table(judgments: _Judgments, found: Mapping[str, _Evaluated], place: int) -> "Table":
    """Make a row for each group and run, and for both averages."""
    from freshstack_dspy.cli.printing import Table, counted

    first = next(iter(found.values()))
    groups = first.groups[place]
    several = len(found) > 1
    rows: list[tuple[Cell, ...]] = []

    def add(label: str, queries: int, cells: Mapping[str, list[str]]) -> None:
        number = counted(queries, "query", "queries")
        for name, of_run in cells.items():
            keys = (f"{_folded(label)}\n{number}", *([_folded(name)] if several else []))
            rows.append((*keys, *of_run))

    for number, group in enumerate(groups.groups):
        own = {name: run.groups[place].groups[number] for name, run in found.items()}
        cells = {name: _cells(of.means, of.unjudged) for name, of in own.items()}
        add(group.group, group.queries, cells)
    macro = {name: _cells(run.groups[place].macro, {}) for name, run in found.items()}
    total = len(groups.groups) + groups.unlisted
    add(f"macro-average of {total} groups", len(first.evaluation.per_query), macro)
    every = {name: _cells(run.means, _shares(run.evaluation)) for name, run in found.items()}
    add("all queries", len(first.evaluation.per_query), every)
    keys = (groups.by, *(["run"] if several else []))
    header = (*keys, *first.evaluation.measures)
    return Table(header, rows, f"{judgments.name}, by {groups.by}: {groups.rule}", keys=len(keys))


def _group_remarks(of: "GroupedEvaluation") -> list[str]:
    from freshstack_dspy.cli.printing import counted

    total = len(of.groups) + of.unlisted
    lines = []
    if of.unlisted:
        lines.append(f"the {len(of.groups)} largest of {total} groups; --limit {total} lists all")
    few = sum(each.queries < _FEW_QUERIES for each in of.groups)
    if few:
        lines.append(
            f"{counted(few, 'group')} of fewer than {_FEW_QUERIES} queries: their intervals are "
            "too narrow"
        )
    if of.several:
        lines.append(
            f"{counted(of.several, 'query', 'queries')} in several groups, counted in each"
        )
    if of.ungrouped:
        number = counted(len(of.ungrouped), "query", "queries")
        lines.append(f"{number} in no group, and not in the macro-average: {_listed(of.ungrouped)}")
    if of.without_queries:
        number = counted(len(of.without_queries), "group")
        lines.append(f"{number} without an evaluated query: {_listed(of.without_queries)}")
    return lines


# compare


def compare(
    judgments: JudgmentsArgument,
    runs: RunsArgument,
    measure: MeasureOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="The run that all others are compared with; by default every two are."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Also list so many queries, of the largest differences."),
    ] = None,
    slices: SlicesOption = "supported",
    conventions: ConventionsOption = "ours",
    unknown_ids: UnknownIdsOption = "error",
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs on a collection, or on qrels: differences, intervals, tests."""
    from freshstack_dspy.cli.printing import show, show_json
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures.compare import compare_evaluations

    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs; name another run file")
    measured_on = _judgments(judgments, slices, None)
    evaluations = _evaluations(
        runs,
        measured_on,
        measure,
        conventions=conventions,
        condensed=False,
        unknown_ids=unknown_ids,
    )
    names = dict(zip(runs, evaluations, strict=True))
    if baseline is not None and baseline not in names:
        raise ConfigError(f"--baseline {baseline} is none of the runs")
    comparison = compare_evaluations(
        evaluations,
        baseline=None if baseline is None else names[baseline],
    )
    if as_json:
        show_json({**measured_on.identity, "comparison": comparison})
    elif form is not None:
        show(_difference_rows(measured_on, comparison, plain=form == "csv"), form)
    else:
        _show_comparison(measured_on, evaluations, comparison)
        for each in comparison.differences if limit else ():
            _show_queries(measured_on, evaluations, each, limit or 0)


def _difference_rows(judgments: _Judgments, comparison: "Comparison", *, plain: bool) -> "Table":
    """Make a row for each difference: in full for CSV, else with the interval in brackets."""
    from freshstack_dspy.cli.printing import Table

    if plain:
        table = comparison.to_rows()
        return Table(tuple(table[0]), [tuple(row.values()) for row in table])
    rows: list[tuple[Cell, ...]] = []
    for each in comparison.differences:
        mean = each.interval
        shown: Cell = mean.value
        if mean.low is not None:
            shown = f"{mean.value:+.3f} [{mean.low:+.3f}, {mean.high:+.3f}]"
        p_values = (_p(each.significance.p_value), _p(each.adjusted_p))
        rows.append((each.measure, each.run, each.against, shown, *p_values, each.verdict))
    header = ("measure", "run", "against", "difference", "p", "adjusted p", "found")
    title = f"{judgments.title}; {_how(comparison)}"
    return Table(header, rows, title, 3, 3)


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _how(comparison: "Comparison") -> str:
    from freshstack_dspy.cli.printing import counted, percent

    adjusted = "not adjusted"
    if comparison.correction != "none":
        name = _CORRECTIONS[comparison.correction]
        adjusted = f"adjusted by {name} over {counted(comparison.tests, 'test')}"
    return (
        f"p of the paired {comparison.test} test, two-sided, {adjusted}; "
        f"{percent(comparison.level)} bootstrap intervals over queries"
    )


def _show_comparison(
    judgments: _Judgments, evaluations: "Mapping[str, Evaluation]", comparison: "Comparison"
) -> None:
    from freshstack_dspy.cli.printing import Table, say_wrapped, show
    from freshstack_dspy.measures.statistics import mean_intervals

    letters = {
        run: chr(ord("A") + place) if place < 26 else f"R{place + 1}"
        for place, run in enumerate(comparison.runs)
    }
    means = {name: (of, mean_intervals(of)) for name, of in evaluations.items()}
    _show_means(judgments, means, letters)
    for name, evaluation in evaluations.items():
        _say_missing(letters[name], evaluation, judgments.query_ids)
    judgments.say_origin()
    for measure in comparison.measures:
        print()
        rows = [_row(each, letters) for each in comparison.differences if each.measure == measure]
        header = ("pair", "difference", "p\nadjusted", "+/=/−\nd", "detectable", "found")
        show(Table(header, rows, measure))
    print()
    say_wrapped(f"{_how(comparison)}. Not found does not mean equal.")
    say_wrapped(
        "d: mean difference over its standard deviation. detectable: the smallest true difference "
        "that so many queries show four times in five."
    )
    for line in _exceptions(comparison, letters):
        say_wrapped(line)
    if comparison.agreements:
        rows = []
        for each in comparison.agreements:
            found = (each.kendall, each.top, each.spearman, each.within_queries)
            rows.append((f"{each.first}, {each.second}", *(of.value for of in found)))
        print()
        title = f"how alike the measures order the {len(comparison.runs)} runs"
        show(Table(("measures", "tau", "tau-ap", "rho", "in queries"), rows, title, 3))
        say_wrapped(
            "Kendall's tau-b, tau-ap and Spearman's rho of the means; in queries: the mean of tau-b "
            "within each query; –: undefined, as runs are tied. Of few runs, any can be chance."
        )


def _row(each: "RunDifference", letters: Mapping[str, str]) -> "tuple[Cell, ...]":
    mean = each.interval
    ends = "–" if mean.low is None else f"[{mean.low:+.3f}, {mean.high:+.3f}]"
    run = letters[each.run]
    found = {"higher": f"{run} higher", "lower": f"{run} lower"}.get(each.verdict, each.verdict)
    return (
        f"{run} − {letters[each.against]}",
        f"{_or_dash(mean.value, '+.4f')}\n{ends}",
        f"{_p(each.significance.p_value)}\n{_p(each.adjusted_p)}",
        f"{each.wins}/{each.ties}/{each.losses}\n{_or_dash(each.effect_size, '+.2f')}",
        _or_dash(each.detectable, ".4f"),
        found,
    )


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _exceptions(comparison: "Comparison", letters: Mapping[str, str]) -> list[str]:
    """Say what the tables cannot: what was left out, and why there is no value."""
    from freshstack_dspy.cli.printing import counted

    found: dict[str, list[str]] = {}
    for each in comparison.differences:
        name = f"{each.measure} {letters[each.run]} − {letters[each.against]}"
        if each.left_out:
            number = counted(each.left_out, "query", "queries")
            found.setdefault(f"{number} left out, with a value in only one run", []).append(name)
        if each.detectable is None and each.verdict in {"untested", "not found"}:
            found.setdefault(each.conclusion, []).append(name)
    lines = [f"{reason}: {', '.join(names)}" for reason, names in found.items()]
    errors = [each.significance.standard_error or 0.0 for each in comparison.differences]
    if largest := max(errors, default=0.0):
        lines.append(f"standard error of p, as permutations were sampled: up to {largest:.2g}")
    return lines


def _show_queries(
    judgments: _Judgments,
    evaluations: "Mapping[str, Evaluation]",
    each: "RunDifference",
    limit: int,
) -> None:
    """Print the queries with the largest differences, whichever way."""
    from freshstack_dspy.cli.printing import Table, cut, say, show

    ordered = sorted(each.per_query.items(), key=lambda item: (-abs(item[1]), item[0]))
    largest = [query for query, difference in ordered if difference][:limit]
    print()
    title = f"{each.measure}, {each.run} − {each.against}: the largest differences"
    if not largest:
        say(f"{title}: none, the two have the same value on all queries")
        return
    values, against = (evaluations[run].values(each.measure) for run in (each.run, each.against))
    queries = () if judgments.collection is None else judgments.collection.queries
    texts = {query.query_id: query.title or query.body for query in queries}
    rows = [
        (query, each.per_query[query], values[query], against[query], cut(texts.get(query, ""), 34))
        for query in largest
    ]
    show(Table(("query", "difference", "run", "against", "text"), rows, title))
