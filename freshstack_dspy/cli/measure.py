"""`freshstack evaluate`, `compare`, `analyze`, `steps` and `report`: what runs are worth, and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    MATTERS,
    AtLeastOne,
    Conventions,
    Form,
    Matters,
    Measures,
    Nuggets,
    Outcome,
    Share,
    SlicesNamed,
    UnknownIds,
    Written,
    check_out,
    command,
    names_of,
    slices_named,
    to_type,
    wrote,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.pages.page import Page, Text

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.measures.decision import Decision
    from freshstack_dspy.measures.evaluation import Evaluation, Grouped, QueryGroups

Covered = Annotated[float, typer.Option(metavar="SHARE")]

_LISTED, _LISTED_QUERIES = 20, 5
"""How many groups and queries are listed, if not said."""


class Measuring(NamedTuple):
    """What runs are measured on, and by which rules."""

    measure: Measures = None
    by: list[str] | None = None
    slices: SlicesNamed = None
    nuggets: Nuggets = "supported"
    unknown_ids: UnknownIds = "error"
    exclude_contaminated: Share | None = None
    covered: Covered = 1.0
    labels: list[Path] | None = None


@dataclass
class _Measured:
    """Runs that were measured, by name; `collection` is None for a file of qrels."""

    how: Measuring
    collection: "fs.Collection | None"
    qrels: "fs.NuggetQrels"
    excluded: tuple[str, ...]
    groupings: "list[QueryGroups]"
    paths: dict[str, Path]
    runs: dict[str, Any]
    evaluations: "dict[str, Evaluation]"
    labels: Sequence[Any]
    rules: dict[str, Any]

    def grouped(self, run: Any, limit: int | None) -> "list[Grouped]":
        """Give the means of a run, or of a difference, by group."""
        from freshstack_dspy.measures.evaluation import grouped

        return [grouped(run, grouping, limit=limit) for grouping in self.groupings]

    def correction(self, decisions: "Sequence[Decision]") -> "Correction | None":
        """Estimate the values by people's labels, and the differences that decide."""
        if self.collection is None or not self.labels:
            return None
        return fs.correct(
            self.collection,
            self.labels,
            self.runs,
            next(iter(self.evaluations.values())).measures,
            pairs=[(each.run, each.against) for each in decisions],
            family=decisions[0].pairs if decisions else None,
            evaluations=self.evaluations,
            slices=slices_named(self.how.slices),
            nuggets=self.how.nuggets,
            excluded=self.excluded,
            **self.rules,
        )


def _shown(
    page: Page, correction: "Correction | None", faults: Sequence[str], notes: Any = ()
) -> Outcome:
    """Add what the values would be by people's labels; end with 1 where there are faults."""
    if correction is not None:
        data = {**page.data, "corrected": correction}
        page = replace(page, parts=(*page.parts, correction.page()), data=data)
    failed = [f"failed: {'; '.join(faults)}"] if faults else []
    return Outcome(page, complaints=[*notes, *failed], code=len(failed))


def _measured(
    judgments: Path, runs: Sequence[Path], how: Measuring, form: Form | None, **rules: Any
) -> _Measured:
    from freshstack_dspy.calibration.labels import read_labels, seconds_a_label
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate, read_run_of

    collection, qrels, excluded = _judgments(judgments, how)
    labels: Sequence[Any] = ()
    if how.labels:
        if collection is None:
            name = qrels.about.name
            raise ConfigError(f"--labels needs a collection, and {name} is a file of qrels")
        if form == "csv" or rules.get("conventions", "ours") != "ours":
            raise ConfigError("--labels needs --conventions ours, and has no csv; use --json")
        labels = read_labels(how.labels)
        qrels = replace(qrels, about=qrels.about.timed(seconds_a_label(labels)))
    groupings = [_grouping(collection, qrels, name) for name in dict.fromkeys(how.by or ())]
    rules |= {"unknown_ids": how.unknown_ids, "covered": how.covered}
    evaluations: dict[str, Evaluation] = {}
    read: dict[str, Any] = {}
    paths = dict(zip(names_of(runs), runs, strict=False))
    if len(paths) < len(runs):
        twice = next(path for path in runs if runs.count(path) > 1)
        raise ConfigError(f"{twice}: the run is named twice; name each run once")
    for name, path in paths.items():
        run = read[name] = read_run_of(qrels, path).without(excluded)
        measures, several = how.measure or FRESHSTACK_MEASURES, len(runs) > 1
        try:
            evaluations[name] = evaluate(qrels, run, measures, judged_only=several, **rules)
        except CollectionError as error:
            raise CollectionError(f"{path}: {error}") from None
    rules.pop("conventions", None)
    return _Measured(
        how, collection, qrels, excluded, groupings, paths, read, evaluations, labels, rules
    )


def _judgments(
    path: Path, how: Measuring
) -> "tuple[fs.Collection | None, fs.NuggetQrels, tuple[str, ...]]":
    """Open what runs are measured on; also give the queries left out as contaminated."""
    from freshstack_dspy.collection.evaluating import qrels_of_file, without_contaminated
    from freshstack_dspy.formats.imported import EXPORT_FILE
    from freshstack_dspy.measures.qrels import About

    if path.is_file():
        if how.slices or how.nuggets != "supported" or how.exclude_contaminated is not None:
            raise ConfigError(
                f"{path} is a file of qrels; --slices, --nuggets and --exclude-contaminated need a "
                "collection"
            )
        qrels = qrels_of_file(path)
        about = About(
            name=path.name, query_ids=frozenset(qrels.nuggets), identity={"qrels": path.name}
        )
        return None, replace(qrels, about=about), ()
    if (path / EXPORT_FILE).is_file():
        raise ConfigError(
            f"{path} is an export, not a collection; name its file of qrels, or turn it into a "
            "collection with freshstack import"
        )
    collection = fs.Collection.load(path)
    qrels = collection.qrels(slices_named(how.slices), how.nuggets)
    excluded: tuple[str, ...] = ()
    if how.exclude_contaminated is not None:
        qrels, excluded = without_contaminated(collection, qrels, how.exclude_contaminated)
    identity = {**qrels.about.identity, "excluded": excluded}
    about = qrels.about.model_copy(update={"path": path, "identity": identity})
    return collection, replace(qrels, about=about), excluded


def _grouping(
    collection: "fs.Collection | None", qrels: "fs.NuggetQrels", name: str
) -> "QueryGroups":
    from freshstack_dspy.collection.grouping import groupings
    from freshstack_dspy.measures.evaluation import QueryGroups, read_groups

    if name == "query":
        members = {query: (query,) for query in qrels.nuggets}
        return QueryGroups(by="query", rule="each by itself", members=members)
    if Path(name).suffix in (".csv", ".tsv"):
        return read_groups(name, qrels.about.query_ids)
    if collection is None:
        raise ConfigError(
            f"--by {name} needs a collection; a file groups the queries of qrels: --by mine.csv"
        )
    kind, _, at = name.partition("=")
    if kind not in (kinds := groupings(collection)):
        near = get_close_matches(kind, ["query", *kinds], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"--by {name}: {hint}allowed: {', '.join(kinds)}, date=2024-06-30, query, or a "
            "CSV or TSV file"
        )
    return collection.groups(kind, at=at or None)


@command
def evaluate(
    judgments: Path,
    runs: list[Path],
    *,
    how: Measuring,
    limit: AtLeastOne | None = None,
    conventions: Conventions = "ours",
    fail_under: Annotated[list[str] | None, typer.Option(metavar="MEASURE=BOUND")] = None,
    matters: Matters = MATTERS,
    form: Form | None = None,
) -> Outcome:
    """Evaluate runs on a collection, or on qrels.

    Args:
        limit: With --by: the most groups listed, the largest first; 20 by default.
        conventions: Whose rules for ties, absent and empty queries, and rounding.
        fail_under: Exit with 1 if a run's mean is below a bound, e.g. alpha_nDCG@10=.45; may be repeated.
    """
    from freshstack_dspy.measures.compare import apart, best_of, compare_evaluations
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.records import DRY_RUN
    from freshstack_dspy.views.measures import decision_parts, evaluation_page, unjudged_parts

    bounds = [_bound(each) for each in fail_under or ()]
    measures = [*(how.measure or FRESHSTACK_MEASURES), *(name for name, _ in bounds)]
    how = how._replace(measure=measures)
    measured = _measured(judgments, runs, how, form, conventions=conventions)
    if limit is None and form not in ("csv", "json"):
        limit = _LISTED
    evaluations, paths = measured.evaluations, measured.paths
    groups = {name: measured.grouped(run, limit) for name, run in evaluations.items()}
    page = evaluation_page(evaluations, groups, paths)
    ordinary, _ = apart(evaluations)
    comparison = None
    if len(ordinary) > 1:
        comparison = compare_evaluations(
            ordinary,
            baseline=best_of(ordinary),
            matters=matters,
            family=math.comb(len(ordinary), 2),
        )
    correction = measured.correction(comparison.decisions if comparison else ())
    if comparison is not None:
        comparison = correction.decide(comparison) if correction else comparison
        led = (*decision_parts(comparison), *unjudged_parts(comparison, paths))
        data = {**page.data, "decisions": comparison.decisions}
        page = replace(page, parts=(*led, *page.parts), data=data)
    gate = f"--fail-under; {DRY_RUN}" if measured.qrels.dry_run else "--fail-under"
    faults = [
        f"{name}: {measure} is {mean:.6g}, below {bound:.6g} ({gate})"
        for name, run in evaluations.items()
        for measure, bound in bounds
        if (mean := run.means[measure]) < bound
    ]
    return _shown(page, correction, faults)


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
            f"--fail-under {given}: allowed: MEASURE=BOUND with a bound above 0, such as alpha_nDCG@10=.45"
        ) from None
    return parse_measure(measure).name, bound


@command
def compare(
    judgments: Path,
    runs: list[Path],
    *,
    how: Measuring,
    baseline: Path | None = None,
    matters: Matters = MATTERS,
    limit: AtLeastOne | None = None,
    fail_on_regression: bool = False,
    form: Form | None = None,
) -> Outcome:
    """Compare runs on a collection, or on qrels: differences, intervals, tests.

    It begins with a decision. "Cannot tell yet": the values count, and the interval is too wide. "No
    decision": the labels or questions cannot carry one, however large the difference.

    Args:
        baseline: The run that all others are compared with, a file or the name of one of these; by
            default every two are.
        limit: Also list this many queries, those with the largest differences.
        fail_on_regression: Exit with 1 if a run is found to be worse than --baseline.
    """
    from freshstack_dspy.measures.compare import compare_evaluations
    from freshstack_dspy.pages.page import p_value
    from freshstack_dspy.records import DEPENDS
    from freshstack_dspy.views.measures import comparison_page

    if fail_on_regression and baseline is None:
        raise ConfigError("--fail-on-regression needs the run to compare with: --baseline RUN")
    if baseline is not None:
        named = [run for run in runs if str(baseline) in (str(run), run.name, run.stem)]
        baseline = named[0] if len(named) == 1 else baseline
        runs = runs if baseline in runs else [baseline, *runs]
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs; name another run file")
    measured = _measured(judgments, runs, how, form)
    names = {path: name for name, path in measured.paths.items()}
    comparison = compare_evaluations(
        measured.evaluations,
        baseline=None if baseline is None else names[baseline],
        matters=matters,
    )
    if correction := measured.correction(comparison.decisions):
        comparison = correction.decide(comparison)
    listed = None if form == "json" else _LISTED
    groups = {
        pair: measured.grouped(differences, listed)
        for pair, differences in (comparison.by_pair() if how.by else {}).items()
    }
    gated = comparison.differences if fail_on_regression else ()
    undecided = [
        f"not decided: {each.run}, {each.measure}: {each.conclusion}"
        for each in gated
        if each.verdict in ("dry run", DEPENDS) and (each.interval.value or 0) < 0
    ]
    worse = [
        f"{each.run}: {each.measure} is {comparison.means[each.run][each.measure]:.6g}, below "
        f"{comparison.means[each.against][each.measure]:.6g} of {each.against} "
        f"(adjusted p {p_value(each.adjusted_p)})"
        for each in gated
        if each.verdict == "lower"
    ]
    page = comparison_page(comparison, limit or 0, measured.paths, groups)
    return _shown(page, correction, worse, undecided)


@command
def analyze(
    collection: Path,
    run: Path,
    *,
    against: Path | None = None,
    measure: Annotated[str, typer.Option("--measure", "-m")] = "alpha_nDCG@10",
    limit: AtLeastOne | None = None,
    query: str | None = None,
    covered: Covered = 1.0,
    form: Form | None = None,
) -> Outcome:
    """Say which queries a run fails, the worst first, and why.

    Args:
        run: Run file, in TREC's format, or passages.
        against: Another run, e.g. of the retriever in use: what RUN lost against it comes first.
        measure: What queries are ordered by, and how deep their top is.
        limit: How many queries are listed; 5 by default.
        query: This query alone, with the evidence in its chunks.
    """
    from freshstack_dspy.measures.run import is_searches

    if limit is None and form not in ("csv", "json"):
        limit = _LISTED_QUERIES
    loaded = fs.Collection.load(collection)
    analysis = fs.analyze(
        loaded, run, against, measure=measure, covered=covered, limit=limit, query_id=query
    )
    if against is not None:
        names: dict[str, str] = dict(zip(("run", "against"), names_of([run, against]), strict=True))
        analysis = analysis.model_copy(update=names)
    hints = [Text(loaded.labels_by)]
    if query is None:
        hints.append(to_type("one query", f"freshstack analyze {collection} {run} --query ID"))
    if is_searches(run):
        typed = f"freshstack steps {collection} {run} --query {query or 'ID'}"
        hints.append(to_type("search by search", typed))
    return Outcome(analysis.page(query), hints)


@command
def steps(
    collection: Path,
    run: Path,
    *,
    query: str | None = None,
    slices: SlicesNamed = None,
    covered: Covered = 1.0,
) -> Outcome:
    """Say what each search of an agent adds.

    Args:
        run: Searches of an agent: JSON Lines of query_id, search, results (chunk ids or passages),
            step, cost; or OpenTelemetry spans.
        query: The searches of this query, one by one.
    """
    loaded = fs.Collection.load(collection)
    trajectories = fs.steps(loaded, run, slices=slices_named(slices), covered=covered)
    hints = [Text(loaded.labels_by)]
    if query is None:
        typed = f"freshstack steps {collection} {run} --query ID"
        hints.append(to_type("search by search", typed))
    return Outcome(trajectories.page(query), hints)


@command
def report(
    collection: Path,
    runs: list[Path] | None = None,
    *,
    out: Path = Path("report.html"),
    labels: list[Path] | None = None,
    answers: Path | None = None,
    measure: Measures = None,
    exclude_contaminated: Share | None = None,
    matters: Matters = MATTERS,
    replace: bool = False,
) -> Written:
    """Write a report: may I trust it, which retriever, where does it lose, what next.

    Args:
        runs: Run files, in TREC's format, or passages; none: the collection alone.
        out: HTML file to write.
        labels: Labels of support by people; may be repeated.
        answers: Folder that freshstack answer wrote, of these runs.
    """
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES

    check_out(out, replace=replace)
    paths = list(dict.fromkeys(runs or ()))
    found = fs.report(
        collection,
        dict(zip(names_of(paths), paths, strict=True)),
        measure or FRESHSTACK_MEASURES,
        labels=labels or (),
        answers=answers,
        exclude_contaminated=exclude_contaminated,
        matters=matters,
    )
    found.save(out)
    decisions = found.comparison.decisions if found.comparison else ()
    return wrote(out, str(out), best=found.best, decisions=decisions)
