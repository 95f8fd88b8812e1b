"""`freshstack evaluate` and `compare`: means of runs with intervals, and which differences hold."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from freshstack_dspy.cli.command import Form, Outcome, command, complain
from freshstack_dspy.cli.options import (
    ConventionsOption,
    NuggetsOption,
    SlicesOption,
    slices_named,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.pages.page import Page

if TYPE_CHECKING:
    from freshstack_dspy.calibration.correction import Correction
    from freshstack_dspy.cli.options import NuggetsName
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.evaluation import Evaluation
    from freshstack_dspy.measures.groups import QueryGroups
    from freshstack_dspy.measures.qrels import NuggetQrels
    from freshstack_dspy.stored.slices import Slices

JudgmentsArgument = Annotated[
    Path, typer.Argument(help="Folder of a collection, or a file of TREC or BEIR qrels.")
]
RunsArgument = Annotated[
    list[Path],
    typer.Argument(help="Run files, in TREC's format, or passages or searches as JSON Lines."),
]
MeasureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "-m",
        help="As alpha_nDCG@10, Coverage@20, AP, Recall@2000tok; may be repeated.",
    ),
]
ByOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Also by group: tag, slice, date, date=2024-06-30, cutoff, contamination, "
        "difficulty, origin, language, cross_language, query, a column of the questions' table, or "
        "a CSV or TSV file of query_id and group; may be repeated."
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
LabelsOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Labels of people: also print what it would be, had people made all; may be repeated."
    ),
]
FailUnderOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MEASURE=BOUND",
        help="Exit with 1 where a run's mean is below, as alpha_nDCG@10=.45; may be repeated.",
    ),
]

_LISTED = 20


class _Judgments(NamedTuple):
    """What runs are measured on."""

    qrels: "NuggetQrels"
    slices: "Slices"
    nuggets: "NuggetsName" = "supported"
    excluded: tuple[str, ...] = ()
    """Queries left out as contaminated."""
    collection: "Collection | None" = None
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
        from freshstack_dspy.calibration.correction import correct
        from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES

        if not labels:
            return None
        if self.collection is None:
            name = self.qrels.about.name
            raise ConfigError(f"--labels needs a collection, and {name} is a file of qrels")
        if form == "csv" or rules.pop("conventions", "ours") != "ours":
            raise ConfigError("--labels is for the conventions ours, and not for csv: take --json")
        rules |= {"slices": self.slices, "nuggets": self.nuggets, "excluded": self.excluded}
        measures = measures or FRESHSTACK_MEASURES
        return correct(self.collection, labels, runs, measures, **rules)


def _judgments(
    path: Path, slices: "Slices", nuggets: "NuggetsName", exclude: float | None = None
) -> _Judgments:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.evaluating import qrels_of_file, without_contaminated
    from freshstack_dspy.formats.description import EXPORT_FILE
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
    collection = Collection.load(path)
    qrels = collection.qrels(slices, nuggets)
    qrels, excluded = without_contaminated(collection, qrels, exclude)
    about = qrels.about.model_copy(update={"path": path})
    return _Judgments(replace(qrels, about=about), slices, nuggets, excluded, collection)


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
                    judgments.qrels,
                    run,
                    measures or FRESHSTACK_MEASURES,
                    judged_only=len(runs) > 1,
                    **rules,
                )
            except CollectionError as error:
                raise CollectionError(f"{path}: {error}") from None
        for one in warned:
            complain(f"warning: {name}: {one.message}")
    return found


# evaluate


@command
def evaluate(
    judgments: JudgmentsArgument,
    runs: RunsArgument,
    measure: MeasureOption = None,
    by: ByOption = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="With --by: list at most so many groups, the largest; 20."),
    ] = None,
    slices: SlicesOption = None,
    nuggets: NuggetsOption = "supported",
    conventions: ConventionsOption = "ours",
    unknown_ids: UnknownIdsOption = "error",
    exclude_contaminated: ContaminatedOption = None,
    covered: CoveredOption = 1.0,
    labels: LabelsOption = None,
    fail_under: FailUnderOption = None,
    form: Form | None = None,
) -> Outcome:
    """Evaluate runs on a collection, or on qrels."""
    from freshstack_dspy.measures.compare import best_of, compare_evaluations
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES
    from freshstack_dspy.measures.groups import grouped
    from freshstack_dspy.views.measures import evaluation_page, unjudged_parts

    bounds = [_bound(each) for each in fail_under or ()]
    measure = [*(measure or FRESHSTACK_MEASURES), *(name for name, _ in bounds)]
    measured_on = _judgments(judgments, slices_named(slices), nuggets, exclude_contaminated)
    groupings = [_grouping(measured_on, name) for name in dict.fromkeys(by or ())]
    rules = {"conventions": conventions, "unknown_ids": unknown_ids, "covered": covered}
    if limit is None and form not in ("csv", "json"):
        limit = _LISTED
    found = _evaluations(runs, measured_on, measure, **rules)
    groups = {
        name: [grouped(of, each, limit=limit) for each in groupings] for name, of in found.items()
    }
    by_name = dict(zip(found, runs, strict=True))
    correction = measured_on.corrected(labels, by_name, measure, form, **rules)
    page = evaluation_page(found, groups, by_name)
    if len(found) > 1:
        comparison = compare_evaluations(found, baseline=best_of(found))
        page = replace(page, parts=(*unjudged_parts(comparison, by_name), *page.parts))
    faults = [
        f"{name}: {measure} is {mean:.6g}, below {bound:.6g} (--fail-under{measured_on.gate})"
        for name, run in found.items()
        for measure, bound in bounds
        if (mean := run.means[measure]) < bound
    ]
    return _gated(_with_correction(page, correction), faults)


def _with_correction(page: Page, correction: "Correction | None") -> Page:
    """Add what the values would be by people's labels, where there are some."""
    if correction is None:
        return page
    data = {**page.data, "corrected": correction}
    return replace(page, parts=(*page.parts, correction.page()), data=data)


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


def _gated(page: Page, faults: Sequence[str], notes: Sequence[str] = ()) -> Outcome:
    """End with 1, and name the faults in one line, where there are any."""
    failed = [f"failed: {'; '.join(faults)}"] if faults else []
    return Outcome(page, complaints=[*notes, *failed], code=len(failed))


def _grouping(judgments: _Judgments, name: str) -> "QueryGroups":
    from freshstack_dspy.collection.grouping import groupings
    from freshstack_dspy.measures.groups import QueryGroups, read_groups

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


# compare


@command
def compare(
    judgments: JudgmentsArgument,
    runs: RunsArgument,
    measure: MeasureOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="The run that all others are compared with, a file or the name of one of these; by "
            "default every two are."
        ),
    ] = None,
    by: ByOption = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Also list so many queries, of the largest differences."),
    ] = None,
    slices: SlicesOption = None,
    nuggets: NuggetsOption = "supported",
    unknown_ids: UnknownIdsOption = "error",
    exclude_contaminated: ContaminatedOption = None,
    covered: CoveredOption = 1.0,
    labels: LabelsOption = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 where a run is found to be worse than --baseline.",
        ),
    ] = False,
    form: Form | None = None,
) -> Outcome:
    """Compare runs on a collection, or on qrels: differences, intervals, tests."""
    from freshstack_dspy.measures.compare import compare_evaluations
    from freshstack_dspy.measures.groups import grouped
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
    names = dict(zip(runs, evaluations, strict=True))
    comparison = compare_evaluations(
        evaluations, baseline=None if baseline is None else names[baseline]
    )
    pairs = dict.fromkeys((each.run, each.against) for each in comparison.differences)
    by_name = {name: path for path, name in names.items()}
    groupings = [_grouping(measured_on, name) for name in dict.fromkeys(by or ())]
    groups = (
        {
            pair: [
                grouped(of, each, limit=None if form == "json" else _LISTED) for each in groupings
            ]
            for pair, of in comparison.by_pair().items()
        }
        if groupings
        else {}
    )
    correction = measured_on.corrected(labels, by_name, measure, form, pairs=pairs, **rules)
    page = _with_correction(comparison_page(comparison, limit or 0, by_name, groups), correction)
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
    return _gated(page, worse, undecided)
