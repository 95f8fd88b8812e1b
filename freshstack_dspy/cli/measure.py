"""`freshstack evaluate` and `compare`: means of runs with intervals, and which differences hold."""

import math
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from freshstack_dspy.cli.correction import LabelsOption, show_correction
from freshstack_dspy.cli.options import (
    ConventionsOption,
    FormatOption,
    JsonOption,
    NuggetsOption,
    SlicesOption,
)
from freshstack_dspy.cli.printing import (
    Cell,
    PageFormat,
    Table,
    complain,
    counted,
    cut,
    labels_by,
    say_wrapped,
    show,
    show_json,
)
from freshstack_dspy.errors import CollectionError, ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.cli.options import NuggetsName, SlicesName
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.compare import Comparison, RunDifference
    from freshstack_dspy.measures.evaluation import Evaluation, PassageNotes
    from freshstack_dspy.measures.groups import GroupedEvaluation, QueryGroups
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.measures.statistics import Interval

JudgmentsArgument = Annotated[
    Path, typer.Argument(help="Folder of a collection, or a file of TREC or BEIR qrels.")
]
RunsArgument = Annotated[
    list[Path],
    typer.Argument(help="Run files, in TREC's format, or passages as JSON Lines."),
]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "-m",
        help="As alpha_nDCG@10, Coverage@20, AP, Recall@2000tok; may be repeated.",
    ),
]
CoveredOption = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Of runs of passages: the share of the evidence for a nugget that a passage must hold "
        "to support it; above 0.",
    ),
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

FailUnderOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MEASURE=BOUND",
        help="Exit with 1 where a run's mean is below, as alpha_nDCG@10=.45; may be repeated.",
    ),
]

_FEW_QUERIES = 30
"""Of fewer, a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_LISTED = 20
_EXTENDED = 20
"""How many results of each ranking `extend` judges by default."""
_RUN = 24
"""How many characters of a run's name are in one line of a table."""


class _Judgments(NamedTuple):
    """What runs are measured on, and its name."""

    name: str
    qrels: "NuggetQrels"
    query_ids: tuple[str, ...]
    """Of all queries, measured or not."""
    slices: "SlicesName | None"
    nuggets: "NuggetsName" = "supported"
    excluded: tuple[str, ...] = ()
    """Queries left out as contaminated."""
    collection: "Collection | None" = None
    """None of a file of qrels."""
    path: Path | None = None
    """Of the collection."""

    @property
    def title(self) -> str:
        note = f" ({self.slices})" if self.slices not in (None, "supported") else ""
        excluded = f", without {len(self.excluded)} contaminated" if self.excluded else ""
        note += ", on all nuggets" if self.nuggets == "all" else ""
        queries = _queries(len(self.qrels.nuggets))
        return f"{self.dry_run}{self.name}: {queries}{note}{excluded}"

    @property
    def dry_run(self) -> str:
        """What stands above a table where a word counter made the labels."""
        from freshstack_dspy.records import DRY_RUN

        return f"{DRY_RUN}. " if self.qrels.dry_run else ""

    @property
    def gate(self) -> str:
        """What stands behind the option that a run failed by."""
        return f"; {self.dry_run[:-2]}" if self.dry_run else ""

    @property
    def identity(self) -> dict[str, Any]:
        """What JSON has of it."""
        if self.collection is None:
            return {"qrels": self.name}
        identity = {
            "collection": self.name,
            "content_hash": self.collection.manifest.content_hash,
        }
        chosen = {"slices": self.slices, "nuggets": self.nuggets, "excluded": self.excluded}
        return {**identity, **chosen, "dry_run": self.qrels.dry_run}

    def corrected(
        self,
        labels: Sequence[Path] | None,
        runs: Mapping[str, Path],
        measures: Sequence[str] | None,
        form: str | None,
        **rules: Any,
    ) -> "dict[str, Correction]":
        """Estimate what the values would be by people's labels, where there are some."""
        from freshstack_dspy.calibration.correction import correct
        from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES

        if not labels:
            return {}
        if self.collection is None:
            raise ConfigError(f"--labels needs a collection, and {self.name} is a file of qrels")
        if form == "csv" or rules.pop("conventions", "ours") != "ours":
            raise ConfigError("--labels is for the conventions ours, and not for csv: take --json")
        rules |= {"slices": self.slices, "nuggets": self.nuggets, "excluded": self.excluded}
        measures = measures or FRESHSTACK_MEASURES
        return {"corrected": correct(self.collection, labels, runs, measures, **rules)}

    def say_origin(self) -> None:
        """Say below a table which queries were left out, and who made the labels."""
        from freshstack_dspy.stored.slices import left_out

        if self.collection is not None:
            if line := left_out(self.collection, self.slices, self.nuggets):
                say_wrapped(f"measured on {line}")
            say_wrapped(labels_by(self.collection))


def _queries(number: int) -> str:
    return counted(number, "query", "queries")


def _judgments(
    path: Path, slices: "SlicesName", nuggets: "NuggetsName", exclude: float | None = None
) -> _Judgments:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.formats.description import EXPORT_FILE
    from freshstack_dspy.measures.qrels import read_qrels

    if path.is_file():
        if (slices, nuggets, exclude) != ("supported", "supported", None):
            raise ConfigError(
                f"{path} is a file of qrels; --slices, --nuggets and --exclude-contaminated need a "
                "collection"
            )
        qrels = read_qrels(path)
        return _Judgments(path.name, qrels, tuple(qrels.nuggets), None)
    if (path / EXPORT_FILE).is_file():
        raise ConfigError(
            f"{path} is an export, not a collection; name its file of qrels, or make a collection "
            "of it with freshstack import"
        )
    collection = Collection.load(path)
    qrels = collection.qrels(slices, nuggets)
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
    return _Judgments(collection.name, qrels, ids, slices, nuggets, excluded, collection, path)


def _evaluations(
    runs: Sequence[Path], judgments: _Judgments, measures: Sequence[str] | None, **rules: Any
) -> "dict[str, Evaluation]":
    """Evaluate runs, by the name of their file; by its path where two have one name."""
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.passage_labels import read_run_of

    file_names = [path.name for path in runs]
    found: dict[str, Evaluation] = {}
    for path in runs:
        name = path.name if file_names.count(path.name) == 1 else str(path)
        if name in found:
            raise ConfigError(f"{path}: the run is named twice; name each run once")
        run = read_run_of(judgments.qrels, path).without(judgments.excluded)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found[name] = evaluate(
                    judgments.qrels, run, measures or FRESHSTACK_MEASURES, **rules
                )
            except CollectionError as error:
                raise CollectionError(f"{path}: {error}") from None
        for one in warned:
            complain(f"warning: {name}: {one.message}")
    return found


# evaluate


class _Evaluated(NamedTuple):
    """A run, evaluated on all queries and by group."""

    evaluation: "Evaluation"
    means: "dict[str, Interval]"
    groups: "tuple[GroupedEvaluation, ...]" = ()

    @property
    def unjudged(self) -> dict[int | str, float | None]:
        """The mean share of unjudged chunks, by cut-off."""
        return {of.k: of.mean for of in self.evaluation.unjudged}

    @property
    def placed_share(self) -> float | None:
        """Of a run of passages, the share of the results whose place is known."""
        return None if (notes := self.evaluation.passages) is None else notes.placed_share


def evaluate(
    judgments: JudgmentsArgument,
    runs: RunsArgument,
    measure: MeasureOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also by group: tag, slice, date, date=2024-06-30, cutoff, contamination, "
            "difficulty, origin, query, a column of the questions' table, or a CSV or TSV file of "
            "query_id and group; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="With --by: list at most so many groups, the largest; 20."),
    ] = None,
    slices: SlicesOption = "supported",
    nuggets: NuggetsOption = "supported",
    conventions: ConventionsOption = "ours",
    unknown_ids: UnknownIdsOption = "error",
    exclude_contaminated: ContaminatedOption = None,
    covered: CoveredOption = 1.0,
    labels: LabelsOption = None,
    fail_under: FailUnderOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate runs on a collection, or on qrels."""
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.measures.groups import grouped
    from freshstack_dspy.measures.statistics import mean_intervals

    bounds = [_bound(each) for each in fail_under or ()]
    measure = [*(measure or FRESHSTACK_MEASURES), *(name for name, _ in bounds)]
    measured_on = _judgments(judgments, slices, nuggets, exclude_contaminated)
    groupings = [_grouping(measured_on, name) for name in dict.fromkeys(by or ())]
    rules = {"conventions": conventions, "unknown_ids": unknown_ids, "covered": covered}
    if limit is None and form != "csv" and not as_json:
        limit = _LISTED
    found = {}
    for name, of in _evaluations(runs, measured_on, measure, **rules).items():
        means = {
            # Some conventions round the mean.
            name: mean.model_copy(update={"value": of.means[name]}) if mean.groups else mean
            for name, mean in mean_intervals(of).items()
        }
        groups = (grouped(of, each, limit=limit) for each in groupings)
        found[name] = _Evaluated(of, means, tuple(groups))
    by_name = dict(zip(found, runs, strict=True))
    correction = measured_on.corrected(labels, by_name, measure, form, **rules)
    if as_json:
        dumped = [
            {"file": name, **dict(run.evaluation), "intervals": run.means, "groups": run.groups}
            for name, run in found.items()
        ]
        show_json({**measured_on.identity, "evaluations": dumped, **correction})
    elif form == "csv":
        show(_rows(found), "csv")
    else:
        _show_evaluated(measured_on, found, by_name, form)
        show_correction(correction.get("corrected"), form)
    _fail_if(
        f"{name}: {measure} is {mean:.6g}, below {bound:.6g} (--fail-under{measured_on.gate})"
        for name, run in found.items()
        for measure, bound in bounds
        if (mean := run.evaluation.means[measure]) < bound
    )


def _bound(given: str) -> tuple[str, float]:
    """Read the name of a measure and the lowest mean that is good enough."""
    from freshstack_dspy.measures.measure import parse_measure

    measure, _, least = given.rpartition("=")  # parameters of a measure have an = too
    try:
        bound = float(least)
        if not 0 < bound < math.inf:
            raise ValueError  # noqa: TRY301 - nan too
    except ValueError:
        raise ConfigError(
            f"--fail-under {given}: allowed: MEASURE=BOUND with a bound above 0, as alpha_nDCG@10=.45"
        ) from None
    return parse_measure(measure).name, bound


def _fail_if(faults: Iterable[str]) -> None:
    """Exit with 1, and name the faults in one line, where there are any."""
    if line := "; ".join(faults):
        complain(f"failed: {line}")
        raise typer.Exit(1)


def _show_evaluated(
    measured_on: _Judgments,
    found: Mapping[str, _Evaluated],
    by_name: Mapping[str, Path],
    form: PageFormat | None,
) -> None:
    _show_means(measured_on, found, form)
    if form is None:
        for name, run in found.items():
            _say_missing(name, run.evaluation, measured_on, by_name[name])
        measured_on.say_origin()
    for place, groups_of_one in enumerate(next(iter(found.values())).groups):
        if form is None:
            print()
        show(_group_table(measured_on, found, place, pasted=form is not None), form)
        for line in _group_remarks(groups_of_one) if form is None else ():
            say_wrapped(line)


def _grouping(judgments: _Judgments, name: str) -> "QueryGroups":
    from freshstack_dspy.collection.grouping import groupings
    from freshstack_dspy.measures.groups import QueryGroups, read_groups

    if name == "query":
        members = {query: (query,) for query in judgments.qrels.nuggets}
        return QueryGroups(by="query", rule="each by itself", members=members)
    if Path(name).suffix in (".csv", ".tsv"):
        return read_groups(name, judgments.query_ids)
    if judgments.collection is None:
        raise ConfigError(
            f"--by {name} needs a collection; a file groups the queries of qrels: --by mine.csv"
        )
    kind, _, at = name.partition("=")
    if kind not in (kinds := groupings(judgments.collection)):
        near = get_close_matches(kind, ["query", *kinds], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"--by {name}: {hint}allowed: {', '.join(kinds)}, date=2024-06-30, query, or a "
            "CSV or TSV file"
        )
    return judgments.collection.groups(kind, at=at or None)


_COLUMNS = (
    *("file", "run", "by", "group", "average", "queries", "measure", "mean", "low", "high"),
    *("unjudged_at_k", "absent", "empty", "placed"),
)


def _rows(found: Mapping[str, _Evaluated]) -> Table:
    """Make one row for each mean: of all queries, of each group, and of all groups."""
    from freshstack_dspy.measures.measure import parse_measure

    rows: list[tuple[Cell, ...]] = []

    def add(
        head: Sequence[Cell],
        means: "Mapping[str, Interval]",
        unjudged: Mapping[int | str, float | None],
        *missing: int,
    ) -> None:
        for measure, mean in means.items():
            share = unjudged.get(parse_measure(measure).cutoff or 0)
            values = (mean.value, mean.low, mean.high, share, *missing, run.placed_share)
            rows.append((*head, measure, *values))

    for name, run in found.items():
        of = run.evaluation
        queries = len(of.per_query)
        head = (name, of.run, "", "", "micro", queries)
        add(head, run.means, run.unjudged, len(of.absent), len(of.empty))
        for groups in run.groups:
            for each in groups.groups:
                head = (name, of.run, groups.by, each.group, "micro", each.queries)
                add(head, each.means, each.unjudged, each.absent, each.empty)
            number = queries - len(groups.ungrouped)
            add((name, of.run, groups.by, "", "macro", number), groups.macro, {}, 0, 0)
    return Table(_COLUMNS, rows)


_Row = tuple[tuple[str, ...], "Mapping[str, Interval]", Mapping[int | str, float | None]]
"""What a row is of, its means, and the unjudged share by cut-off."""


def _mean_table(keys: Sequence[str], rows: Sequence[_Row], title: str, *, pasted: bool) -> Table:
    """Make a table of means, intervals and unjudged shares: below each other on a screen."""
    measures = next(means for _, means, _ in rows)
    if not pasted:
        cells = [(*map(_folded, of), *_cells(means, shares)) for of, means, shares in rows]
        return Table((*keys, *measures), cells, title, keys=len(keys))
    cutoffs = next(shares for _, _, shares in rows)
    header = (*keys, *measures, *(f"unjudged@{k}" for k in cutoffs))
    table: list[tuple[Cell, ...]] = []
    for of, means, shares in rows:
        bracketed = (
            mean.value
            if mean.low is None
            else f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
            for mean in means.values()
        )
        table.append((*of, *bracketed, *map(shares.get, cutoffs)))
    return Table(header, table, title, 3, len(keys))


def _cells(
    means: "Mapping[str, Interval]", unjudged: Mapping[int | str, float | None]
) -> Iterable[str]:
    from freshstack_dspy.measures.measure import parse_measure

    for name, mean in means.items():
        lines = [_or_dash(mean.value, ".4f")]
        lines.append("–" if mean.low is None else f"{mean.low:.3f}–{mean.high:.3f}")
        if (k := parse_measure(name).cutoff) in unjudged and k is not None:
            lines.append(f"unjudged {_or_dash(unjudged[k], '.3f')}")
        yield "\n".join(lines)


def _folded(text: str) -> str:
    lines = (textwrap.wrap(cut(line, 5 * _RUN), _RUN)
             for line in text.split("\n"))  # fmt: skip
    return "\n".join(part for line in lines for part in line)


def _or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _show_means(
    judgments: _Judgments,
    runs: Mapping[str, _Evaluated],
    form: PageFormat | None = None,
) -> None:
    """Print a row for each run, and what has to be known to read it."""
    rows = []
    for name, run in runs.items():
        placed = "" if run.placed_share is None else f"\n{run.placed_share:.1%} placed"
        rows.append(((name + placed,), run.means, run.unjudged))
    title = f"{judgments.title}; 95% bootstrap intervals in brackets" if form else judgments.title
    show(_mean_table(["run"], rows, title, pasted=form is not None), form)
    if form is not None:
        return
    evaluation = next(iter(runs.values())).evaluation
    intervals = [mean for run in runs.values() for mean in run.means.values()]
    if any(mean.low is not None for mean in intervals):
        say_wrapped("below each mean: its 95% bootstrap interval over queries")
    for reason in sorted({mean.reason for mean in intervals if mean.reason}):
        say_wrapped(f"no interval (–): {reason}")
    queries = len(judgments.qrels.nuggets)
    if queries < _FEW_QUERIES:
        say_wrapped(
            f"{queries} queries are few: intervals of fewer than {_FEW_QUERIES} are too narrow"
        )
    if evaluation.unjudged:
        say_wrapped(
            "unjudged: the share of the top k that has no label, and counts as not relevant"
            + (
                ", of passages in bytes"
                if any(run.evaluation.passages for run in runs.values())
                else ""
            )
        )
    if evaluation.conventions != "ours":
        say_wrapped(f"ties, rounding and what is missing as in {evaluation.conventions}")


def _say_missing(name: str, evaluation: "Evaluation", judgments: _Judgments, path: Path) -> None:
    """Say which queries of a run could not be measured, and what they count."""
    from freshstack_dspy.measures.conventions import conventions_named

    rules = conventions_named(evaluation.conventions)
    counts = {"zero": "counts as 0", "skip": "left out"}
    relevant = set(evaluation.without_relevant)
    unknown = [query for query in evaluation.unknown if query not in set(judgments.query_ids)]
    for ids, what in (
        (evaluation.absent, f"absent from the run ({counts[rules.absent]})"),
        (evaluation.empty, f"without results ({counts[rules.empty]})"),
        (evaluation.without_relevant, "without a relevant chunk (counts as 0)"),
        (unknown, "of the run not in the judgments (passed over)"),
        (evaluation.tied, "all of whose results have one score"),
        *(
            ([query for query in of if query not in relevant], f"without a value of {measure}")
            for measure, of in evaluation.without_value.items()
        ),
    ):
        if ids:
            say_wrapped(f"{name}: {_queries(len(ids))} {what}: {_listed(ids)}")
    if evaluation.passages is not None:
        for line in _passage_notes(evaluation.passages):
            say_wrapped(f"{name}: {line}")
    if evaluation.unknown_chunks:
        say_wrapped(
            f"{name}: {counted(evaluation.unknown_chunks, 'result')} dropped, not in the corpus"
        )
    looked = [of.k for of in evaluation.unjudged if isinstance(of.k, int)]
    if looked and 0 < evaluation.most_results < max(looked):
        say_wrapped(
            f"{name}: at most {counted(evaluation.most_results, 'result')} for a query, and a measure "
            f"looks at {max(looked)}"
        )
    if not evaluation.unjudged:
        return
    deepest = evaluation.unjudged[-1]
    if failed := sum(deepest.failed.values()):
        say_wrapped(f"{name}: {counted(failed, 'failed judgment')} in the top {deepest.k}")
    if cutoffs := evaluation.mostly_unjudged:
        *others, last = map(str, cutoffs)
        tops = f"{', '.join(others)} and {last}" if others else last
        lowest = max((k for k in cutoffs if isinstance(k, int)), default=0)
        depth = f" --k {lowest}" if lowest > _EXTENDED else ""
        judge = f"; to judge it: freshstack extend {judgments.path} {path} --config FILE{depth}"
        say_wrapped(
            f"{cut(name)}: most of the top {tops} is unjudged: these means depend on the judgments "
            f"more than on the run{judge if judgments.path else ''}"
        )


def _passage_notes(notes: "PassageNotes") -> Iterable[str]:
    found = counted(notes.passages, "passage")
    if notes.unplaced:
        found += f", {counted(notes.unplaced, 'result')} without a place, which support nothing"
    if notes.repeated:
        found += f", {notes.repeated:,} at the place of another (the better score counts)"
    yield f"{found}; one supports a nugget if it holds {notes.covered:.0%} of its evidence"
    if notes.half:
        means = ", ".join(f"{measure} {mean:.4f}" for measure, mean in notes.half.items())
        yield f"if half of the evidence were enough: {means}"
    if notes.without_evidence:
        yield (
            f"{notes.without_evidence:,} of {counted(notes.labels, 'label')} of support have no "
            "evidence and count by their whole chunk"
        )


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(cut(each, 30) for each in ids[:3]) + (", …" if len(ids) > 3 else "")


def _group_table(
    judgments: _Judgments, found: Mapping[str, _Evaluated], place: int, *, pasted: bool
) -> Table:
    """Make a row for each group and run, and for both averages."""
    first = next(iter(found.values()))
    groups = first.groups[place]
    rows: list[_Row] = []

    def add(label: str, queries: int, run: str, *values: Any) -> None:
        names = (run,) if len(found) > 1 else ()
        rows.append(((f"{label}\n{_queries(queries)}", *names), *values))

    for number, group in enumerate(groups.groups):
        for name, run in found.items():
            own = run.groups[place].groups[number]
            add(group.group, group.queries, name, own.means, own.unjudged)
    queries = len(first.evaluation.per_query)
    total = len(groups.groups) + groups.unlisted
    for name, run in found.items():
        label = f"macro-average of {total} groups"
        add(label, queries - len(groups.ungrouped), name, run.groups[place].macro, {})
    for name, run in found.items():
        add("all queries", queries, name, run.means, run.unjudged)
    keys = (groups.by, *(["run"] if len(found) > 1 else []))
    title = f"{judgments.dry_run}{judgments.name}, by {groups.by}: {groups.rule}"
    return _mean_table(keys, rows, title, pasted=pasted)


def _group_remarks(of: "GroupedEvaluation") -> Iterable[str]:
    total = len(of.groups) + of.unlisted
    few = sum(each.queries < _FEW_QUERIES for each in of.groups)
    if of.unlisted:
        yield f"the {len(of.groups)} largest of {total} groups; --limit {total} lists all"
    if few:
        number = counted(few, "group")
        yield f"{number} of fewer than {_FEW_QUERIES} queries: their intervals are too narrow"
    if of.ungrouped:
        number = _queries(len(of.ungrouped))
        yield f"{number} in no group, and not in the macro-average: {_listed(of.ungrouped)}"


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
    nuggets: NuggetsOption = "supported",
    unknown_ids: UnknownIdsOption = "error",
    covered: CoveredOption = 1.0,
    labels: LabelsOption = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 where a run is found to be worse than --baseline.",
        ),
    ] = False,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs on a collection, or on qrels: differences, intervals, tests."""
    from freshstack_dspy.measures.compare import compare_evaluations

    if fail_on_regression and baseline is None:
        raise ConfigError("--fail-on-regression needs the run to compare with: --baseline RUN")
    if baseline is not None and baseline not in runs:
        runs = [baseline, *runs]
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs; name another run file")
    measured_on = _judgments(judgments, slices, nuggets)
    rules = {"unknown_ids": unknown_ids, "covered": covered}
    evaluations = _evaluations(runs, measured_on, measure, **rules)
    names = dict(zip(runs, evaluations, strict=True))
    comparison = compare_evaluations(
        evaluations, baseline=None if baseline is None else names[baseline]
    )
    pairs = dict.fromkeys((each.run, each.against) for each in comparison.differences)
    by_name = {name: path for path, name in names.items()}
    correction = measured_on.corrected(labels, by_name, measure, form, pairs=pairs, **rules)
    if as_json:
        show_json({**measured_on.identity, "comparison": comparison, **correction})
    elif form is not None:
        rows = comparison.to_rows()
        show(Table(tuple(rows[0]), [tuple(row.values()) for row in rows], keys=3), form)
        show_correction(correction.get("corrected"), form)
    else:
        _show_comparison(measured_on, evaluations, comparison, by_name)
        for each in comparison.differences if limit else ():
            _show_queries(measured_on, evaluations, each, limit or 0)
        show_correction(correction.get("corrected"))
    if fail_on_regression:
        _fail_if(
            f"{each.run}: {each.measure} is {comparison.means[each.run][each.measure]:.6g}, below "
            f"{comparison.means[each.against][each.measure]:.6g} of {each.against} "
            f"(adjusted p {_p(each.adjusted_p)}{measured_on.gate})"
            for each in comparison.differences
            if each.is_worse
        )


def _p(value: float | None) -> str:
    return "<0.0001" if value is not None and value < 0.0001 else _or_dash(value, ".4f")


_COMPARED = ("pair", "difference", "p\nadjusted", "+/=/−\nd", "detectable", "found")


def _show_comparison(
    judgments: _Judgments,
    evaluations: "Mapping[str, Evaluation]",
    comparison: "Comparison",
    by_name: Mapping[str, Path],
) -> None:
    from freshstack_dspy.measures.statistics import mean_intervals

    letters = {
        run: chr(ord("A") + place) if place < 26 else f"R{place + 1}"
        for place, run in enumerate(comparison.runs)
    }
    means = {
        f"{letters[name]} {name}": _Evaluated(of, mean_intervals(of))
        for name, of in evaluations.items()
    }
    _show_means(judgments, means)
    for name, evaluation in evaluations.items():
        _say_missing(letters[name], evaluation, judgments, by_name[name])
    judgments.say_origin()
    for measure in comparison.measures:
        print()
        rows = [_row(each, letters) for each in comparison.differences if each.measure == measure]
        columns = (0, 1, 3) if comparison.dry_run else range(len(_COMPARED))
        cells = [[row[at] for at in columns] for row in rows]
        show(Table([_COMPARED[at] for at in columns], cells, f"{judgments.dry_run}{measure}"))
    print()
    for line in _comparison_notes(comparison, letters):
        say_wrapped(line)
    if comparison.agreements:
        agreements = []
        for each in comparison.agreements:
            found = (each.kendall, each.spearman, each.within_queries)
            agreements.append((f"{each.first}, {each.second}", *(of.value for of in found)))
        print()
        title = f"how alike the measures order the {len(comparison.runs)} runs"
        show(Table(("measures", "tau", "rho", "in queries"), agreements, title, 3))
        say_wrapped(
            "Kendall's tau-b and Spearman's rho of the means; in queries: the mean of tau-b within "
            "each query; –: undefined, as runs are tied. Of few runs, any can be chance."
        )


def _comparison_notes(comparison: "Comparison", letters: Mapping[str, str]) -> Iterable[str]:
    from freshstack_dspy.records import DRY_RUN

    yield (
        "difference: the first run of the pair minus the second; below 0 the second is better. "
        "+/=/−: queries on which the first is better, equal, worse; below them the effect size d: "
        "mean difference over its standard deviation."
    )
    if comparison.dry_run:
        yield (f"{DRY_RUN}. So no run is called better. 95% bootstrap intervals over queries.")
        return
    yield (
        "p of the paired permutation test, two-sided, adjusted by Holm over "
        f"{counted(comparison.tests, 'test')}; 95% bootstrap intervals over queries. Not found "
        "does not mean equal."
    )
    yield ("detectable: the smallest true difference that so many queries show four times in five.")
    yield from _exceptions(comparison, letters)


def _row(each: "RunDifference", letters: Mapping[str, str]) -> tuple[Cell, ...]:
    mean, run = each.interval, letters[each.run]
    ends = "–" if mean.low is None else f"[{mean.low:+.3f}, {mean.high:+.3f}]"
    return (
        f"{run} − {letters[each.against]}",
        f"{_or_dash(mean.value, '+.4f')}\n{ends}",
        f"{_p(each.significance.p_value)}\n{_p(each.adjusted_p)}",
        f"{each.wins}/{each.ties}/{each.losses}\n{_or_dash(each.effect_size, '+.2f')}",
        _or_dash(each.detectable, ".4f"),
        f"{run} {each.verdict}" if each.verdict in ("higher", "lower") else each.verdict,
    )


def _exceptions(comparison: "Comparison", letters: Mapping[str, str]) -> list[str]:
    """Say what the tables cannot: what was left out, and why there is no value."""
    found: dict[str, list[str]] = {}
    for each in comparison.differences:
        name = f"{each.measure} {letters[each.run]} − {letters[each.against]}"
        if each.left_out:
            line = f"{_queries(each.left_out)} left out, with a value in only one run"
            found.setdefault(line, []).append(name)
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
    ordered = sorted(each.per_query.items(), key=lambda item: (-abs(item[1]), item[0]))
    largest = [query for query, difference in ordered if difference][:limit]
    print()
    title = f"{each.measure}, {each.run} − {each.against}: the largest differences"
    if not largest:
        say_wrapped(f"{title}: none, the two have the same value on all queries")
        return
    values, against = (evaluations[run].values(each.measure) for run in (each.run, each.against))
    queries = () if judgments.collection is None else judgments.collection.queries
    texts = {query.query_id: query.title or query.body for query in queries}
    rows = [
        (query, each.per_query[query], values[query], against[query], cut(texts.get(query, ""), 34))
        for query in largest
    ]
    show(Table(("query", "difference", "run", "against", "text"), rows, title))
