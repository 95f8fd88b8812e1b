"""`freshstack evaluate`, `compare`, `analyze`, `steps` and `report`: what runs are worth, and why."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import Form, Outcome, command, complain, say, to_type
from freshstack_dspy.cli.options import (
    AtLeastOne,
    Conventions,
    Measures,
    Nuggets,
    Share,
    SlicesNamed,
    UnknownIds,
    check_out,
    slices_named,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.pages.page import Page, Text

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.values import QueryGroups
    from freshstack_dspy.stored.contents import Slices

Covered = Annotated[float, typer.Option(metavar="SHARE")]

_LISTED, _LISTED_QUERIES = 20, 5
"""How many groups and queries are listed, if not said."""


class _Judgments(NamedTuple):
    """What runs are measured on."""

    qrels: "fs.NuggetQrels"
    slices: "Slices"
    nuggets: Nuggets = "supported"
    excluded: tuple[str, ...] = ()
    """Queries left out as contaminated."""
    collection: "fs.Collection | None" = None
    """None of a file of qrels."""

    @property
    def gate(self) -> str:
        """What stands behind the option that a run failed by."""
        from freshstack_dspy.records import DRY_RUN

        return f"; {DRY_RUN}" if self.qrels.dry_run else ""

    def corrected(
        self,
        labels: Sequence[Path] | None,
        runs: Mapping[str, Path],
        measures: Sequence[str] | None,
        form: str | None,
        **rules: Any,
    ) -> "Correction | None":
        """Estimate what the values would be by people's labels, where there are some."""
        from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES

        if not labels:
            return None
        if self.collection is None:
            name = self.qrels.about.name
            raise ConfigError(f"--labels needs a collection, and {name} is a file of qrels")
        if form == "csv" or rules.pop("conventions", "ours") != "ours":
            raise ConfigError("--labels is for the conventions ours, and not for csv: take --json")
        rules |= {"slices": self.slices, "nuggets": self.nuggets, "excluded": self.excluded}
        return fs.correct(self.collection, labels, runs, measures or FRESHSTACK_MEASURES, **rules)


def _judgments(
    path: Path, slices: "Slices", nuggets: Nuggets, exclude: float | None = None
) -> _Judgments:
    from freshstack_dspy.collection.evaluating import qrels_of_file, without_contaminated
    from freshstack_dspy.formats.imported import EXPORT_FILE
    from freshstack_dspy.measures.qrels import About

    if path.is_file():
        if (slices or "supported", nuggets, exclude) != ("supported", "supported", None):
            raise ConfigError(
                f"{path} is a file of qrels; --slices, --nuggets and --exclude-contaminated need a "
                "collection"
            )
        qrels = qrels_of_file(path)
        about = About(
            name=path.name, query_ids=frozenset(qrels.nuggets), identity={"qrels": path.name}
        )
        return _Judgments(replace(qrels, about=about), slices)
    if (path / EXPORT_FILE).is_file():
        raise ConfigError(
            f"{path} is an export, not a collection; name its file of qrels, or make a collection "
            "of it with freshstack import"
        )
    collection = fs.Collection.load(path)
    qrels = collection.qrels(slices, nuggets)
    qrels, excluded = without_contaminated(collection, qrels, exclude)
    about = qrels.about.model_copy(update={"path": path})
    return _Judgments(replace(qrels, about=about), slices, nuggets, excluded, collection)


def _names(runs: Sequence[Path]) -> list[str]:
    """Name runs by their files; those of one name by their paths."""
    names = [path.name for path in runs]
    return [path.name if names.count(path.name) == 1 else str(path) for path in runs]


@contextmanager
def _warnings_printed(of: str = "") -> Iterator[None]:
    """Print each warning in a line."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    for line in dict.fromkeys(str(each.message) for each in warned):
        complain(f"warning: {of}{line}")


def _evaluations(
    runs: Sequence[Path], judgments: _Judgments, measures: Sequence[str] | None, **rules: Any
) -> "dict[str, Evaluation]":
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.passage_labels import read_run_of

    evaluations: dict[str, Evaluation] = {}
    for path, name in zip(runs, _names(runs), strict=True):
        if name in evaluations:
            raise ConfigError(f"{path}: the run is named twice; name each run once")
        run = read_run_of(judgments.qrels, path).without(judgments.excluded)
        rules |= {"judged_only": len(runs) > 1}
        try:
            with _warnings_printed(f"{name}: "):
                evaluations[name] = evaluate(
                    judgments.qrels, run, measures or FRESHSTACK_MEASURES, **rules
                )
        except CollectionError as error:
            raise CollectionError(f"{path}: {error}") from None
    return evaluations


def _grouping(judgments: _Judgments, name: str) -> "QueryGroups":
    from freshstack_dspy.collection.grouping import groupings
    from freshstack_dspy.measures.values import QueryGroups, read_groups

    if name == "query":
        members = {query: (query,) for query in judgments.qrels.nuggets}
        return QueryGroups(by="query", rule="each by itself", members=members)
    if Path(name).suffix in (".csv", ".tsv"):
        return read_groups(name, judgments.qrels.about.query_ids)
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


def _gated(
    page: Page,
    correction: "Correction | None",
    faults: Sequence[str],
    notes: Sequence[str] = (),
) -> Outcome:
    """Add what the values would be by people's labels; end with 1 where there are faults."""
    if correction is not None:
        data = {**page.data, "corrected": correction}
        page = replace(page, parts=(*page.parts, correction.page()), data=data)
    failed = [f"failed: {'; '.join(faults)}"] if faults else []
    return Outcome(page, complaints=[*notes, *failed], code=len(failed))


@command
def evaluate(
    judgments: Path,
    runs: list[Path],
    *,
    measure: Measures = None,
    by: list[str] | None = None,
    limit: AtLeastOne | None = None,
    slices: SlicesNamed = None,
    nuggets: Nuggets = "supported",
    conventions: Conventions = "ours",
    unknown_ids: UnknownIds = "error",
    exclude_contaminated: Share | None = None,
    covered: Covered = 1.0,
    labels: list[Path] | None = None,
    fail_under: Annotated[list[str] | None, typer.Option(metavar="MEASURE=BOUND")] = None,
    form: Form | None = None,
) -> Outcome:
    """Evaluate runs on a collection, or on qrels.

    Args:
        judgments: Folder of a collection, or a file of TREC or BEIR qrels.
        limit: With --by: list at most so many groups, the largest; 20.
        conventions: Whose rules for ties, absent and empty queries, and rounding.
        fail_under: Exit with 1 where a run's mean is below, as alpha_nDCG@10=.45; may be repeated.
    """
    from freshstack_dspy.measures.compare import best_of, compare_evaluations
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.measures.values import grouped
    from freshstack_dspy.views.measures import evaluation_page, unjudged_parts

    bounds = [_bound(each) for each in fail_under or ()]
    measure = [*(measure or FRESHSTACK_MEASURES), *(name for name, _ in bounds)]
    measured_on = _judgments(judgments, slices_named(slices), nuggets, exclude_contaminated)
    groupings = [_grouping(measured_on, name) for name in dict.fromkeys(by or ())]
    rules = {"conventions": conventions, "unknown_ids": unknown_ids, "covered": covered}
    if limit is None and form not in ("csv", "json"):
        limit = _LISTED
    evaluations = _evaluations(runs, measured_on, measure, **rules)
    groups = {
        name: [grouped(evaluation, each, limit=limit) for each in groupings]
        for name, evaluation in evaluations.items()
    }
    by_name = dict(zip(evaluations, runs, strict=True))
    correction = measured_on.corrected(labels, by_name, measure, form, **rules)
    page = evaluation_page(evaluations, groups, by_name)
    if len(evaluations) > 1:
        comparison = compare_evaluations(evaluations, baseline=best_of(evaluations))
        page = replace(page, parts=(*unjudged_parts(comparison, by_name), *page.parts))
    faults = [
        f"{name}: {measure} is {mean:.6g}, below {bound:.6g} (--fail-under{measured_on.gate})"
        for name, run in evaluations.items()
        for measure, bound in bounds
        if (mean := run.means[measure]) < bound
    ]
    return _gated(page, correction, faults)


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


@command
def compare(
    judgments: Path,
    runs: list[Path],
    *,
    measure: Measures = None,
    baseline: Path | None = None,
    by: list[str] | None = None,
    limit: AtLeastOne | None = None,
    slices: SlicesNamed = None,
    nuggets: Nuggets = "supported",
    unknown_ids: UnknownIds = "error",
    exclude_contaminated: Share | None = None,
    covered: Covered = 1.0,
    labels: list[Path] | None = None,
    fail_on_regression: bool = False,
    form: Form | None = None,
) -> Outcome:
    """Compare runs on a collection, or on qrels: differences, intervals, tests.

    Args:
        judgments: Folder of a collection, or a file of TREC or BEIR qrels.
        baseline: The run that all others are compared with, a file or the name of one of these; by
            default every two are.
        limit: Also list so many queries, of the largest differences.
        fail_on_regression: Exit with 1 where a run is found to be worse than --baseline.
    """
    from freshstack_dspy.measures.compare import compare_evaluations
    from freshstack_dspy.measures.values import grouped
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
    measured_on = _judgments(judgments, slices_named(slices), nuggets, exclude_contaminated)
    rules = {"unknown_ids": unknown_ids, "covered": covered}
    evaluations = _evaluations(runs, measured_on, measure, **rules)
    by_name = dict(zip(evaluations, runs, strict=True))
    names = {path: name for name, path in by_name.items()}
    comparison = compare_evaluations(
        evaluations, baseline=None if baseline is None else names[baseline]
    )
    groupings = [_grouping(measured_on, name) for name in dict.fromkeys(by or ())]
    listed = None if form == "json" else _LISTED
    groups = {
        pair: [grouped(differences, each, limit=listed) for each in groupings]
        for pair, differences in (comparison.by_pair() if groupings else {}).items()
    }
    pairs = dict.fromkeys((each.run, each.against) for each in comparison.differences)
    correction = measured_on.corrected(labels, by_name, measure, form, pairs=pairs, **rules)
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
    page = comparison_page(comparison, limit or 0, by_name, groups)
    return _gated(page, correction, worse, undecided)


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
        against: Another run, as the one in use: what RUN lost against it comes first.
        measure: What queries are ordered by, and how deep their top is.
        limit: How many queries are listed; 5.
        query: This query alone, with the evidence in its chunks.
    """
    from freshstack_dspy.measures.searches import is_searches

    if limit is None and form not in ("csv", "json"):
        limit = _LISTED_QUERIES
    loaded = fs.Collection.load(collection)
    analysis = fs.analyze(
        loaded, run, against, measure=measure, covered=covered, limit=limit, query_id=query
    )
    if against is not None:
        names = dict(zip(("run", "against"), _names([run, against]), strict=True))
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
    replace: bool = False,
) -> None:
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
    with _warnings_printed():
        found = fs.report(
            collection,
            dict(zip(_names(paths), paths, strict=True)),
            measure or FRESHSTACK_MEASURES,
            labels=labels or (),
            answers=answers,
            exclude_contaminated=exclude_contaminated,
        )
    found.save(out)
    say(str(out))
