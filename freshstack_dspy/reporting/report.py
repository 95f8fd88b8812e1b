"""The report on a collection and its runs: all that is known, put together for one page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.calibration.correction import Correction, correct
from freshstack_dspy.calibration.labels import pair_labels
from freshstack_dspy.collection.analysis import Analysis
from freshstack_dspy.collection.analyze import analyze
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.evaluating import runs_of, without_contaminated
from freshstack_dspy.collection.grouping import GROUPINGS, groupings, query_groups
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import write_file
from freshstack_dspy.measures.compare import (
    Comparison,
    best_of,
    compare_evaluations,
    is_one_run,
    named_runs,
)
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, evaluate
from freshstack_dspy.measures.groups import GroupedEvaluation, grouped
from freshstack_dspy.measures.measure import MeasureSource, parse_measures
from freshstack_dspy.measures.passage_labels import read_run_of
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.pages.html import html_document
from freshstack_dspy.pages.page import Page
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import HumanLabel
from freshstack_dspy.stored.diagnose import Diagnosis, diagnose
from freshstack_dspy.stored.manifest import is_dry_run
from freshstack_dspy.stored.slices import SUPPORTED

if TYPE_CHECKING:
    from freshstack_dspy.answering.metrics import AnswerMetrics

_WORST = 10
"""How many queries are shown with their evidence."""
_GROUPS = 10
"""How many groups of each kind are shown at most, the largest."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What a report puts together; each is the result of the function of its name.

    Attributes:
        collection: The collection.
        evaluations: Of the runs, by name.
        comparison: None with fewer than two runs.
        analyses: By run; of the best one, by the first measure, the worst queries are listed.
        groups: By run, its means by slice, by tag and by column of the questions' table.
        diagnosis: None where no query has a supported nugget.
        agreement: None without labels of people.
        correction: None without labels of people.
        answers: What answers from runs are worth; None where none were given.
    """

    collection: Collection
    evaluations: Mapping[str, Evaluation]
    comparison: Comparison | None
    analyses: Mapping[str, Analysis]
    groups: Mapping[str, Sequence[GroupedEvaluation]]
    diagnosis: Diagnosis | None
    agreement: AgreementReport | None
    correction: Correction | None
    answers: "AnswerMetrics | None"

    @property
    def dry_run(self) -> bool:
        """Whether a word counter made labels, so that nothing is concluded."""
        return is_dry_run(self.collection.manifest)

    @property
    def best(self) -> str | None:
        """The run with the highest mean of the first measure; None without runs."""
        return best_of(self.evaluations)

    def page(self) -> Page:
        """Give the page: a summary, and a section for each decision."""
        from freshstack_dspy.reporting.report_page import report_page

        return report_page(self)

    def save(self, path: Path | str) -> None:
        """Write it as one HTML file, which needs no script and no network."""
        write_file(path, html_document(self.page()))

    def __repr__(self) -> str:
        return f"Report({self.collection.name!r}; {', '.join(self.evaluations) or 'no runs'})"

    __str__ = __repr__


def report(
    collection: Collection | Path | str,
    runs: Any = (),
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str = (),
    answers: Path | str | None = None,
    exclude_contaminated: float | None = None,
) -> Report:
    """Put together what is known of a collection and of runs on it, for one page.

    Args:
        collection: The collection, or its folder.
        runs: A run or several, also by name, each as for `evaluate`; none: of the collection alone.
        measures: As in `evaluate`; by the first, runs are ordered and queries are the worst.
        labels: Labels of support by people, or files of them.
        answers: The folder that `freshstack answer` wrote of these runs.
        exclude_contaminated: Leave out of means and comparisons the queries of whose nuggets the
            model knows this share without the corpus.

    Raises:
        CollectionError: As for `evaluate`, `agree` and `correct`; or the answers cannot be read, or
            are of another collection.
        ConfigError: A measure is unknown.
    """
    collection = Collection.load(collection)
    given = _read(collection, runs)
    evaluations: dict[str, Evaluation] = {}
    excluded: tuple[str, ...] = ()
    if given:
        qrels, excluded = without_contaminated(collection, collection.qrels(), exclude_contaminated)
        several = len(given) > 1
        evaluations = {
            name: evaluate(qrels, run.without(excluded), measures, judged_only=several)
            for name, run in given.items()
        }
    comparison = compare_evaluations(evaluations) if len(evaluations) > 1 else None
    agreement = correction = None
    if labels:
        people = pair_labels(labels)
        agreement = agree(collection, people)
        pairs = comparison.differences if comparison else ()
        ids = dict.fromkeys((each.run, each.against) for each in pairs)
        correction = correct(collection, people, given, measures, pairs=ids, excluded=excluded)
    return Report(
        collection=collection,
        evaluations=evaluations,
        comparison=comparison,
        analyses={
            name: analyze(
                collection,
                run,
                measure=parse_measures(measures)[0],
                limit=_WORST if name == best_of(evaluations) else 0,
            ).model_copy(update={"run": name})
            for name, run in given.items()
        },
        groups=_grouped(collection, evaluations),
        diagnosis=diagnose(collection) if collection.queries_in(SUPPORTED) else None,
        agreement=agreement,
        correction=correction,
        answers=None if answers is None else _scored(collection, Path(answers), given.values()),
    )


def _read(collection: Collection, runs: Any) -> dict[str, Run | PassageRun]:
    """Read runs once, by name."""
    given = runs_of(collection, runs)
    several = [given] if is_one_run(given) else given
    if not several:
        return {}
    qrels = collection.qrels("all")
    return {name: read_run_of(qrels, run) for name, run in named_runs(qrels, several).items()}


def _scored(
    collection: Collection, folder: Path, runs: Iterable[Run | PassageRun]
) -> "AnswerMetrics":
    """Say what answers are worth, next to the rankings of their runs."""
    from freshstack_dspy.answering.metrics import answer_metrics, read_answers
    from freshstack_dspy.answering.reteval import at_depths

    found, account = read_answers(folder)
    if account.content_hash != collection.manifest.content_hash:
        raise CollectionError(
            f"{folder}: the answers are over {account.collection!r} with the content hash "
            f"{account.content_hash}, which is not that of this collection; answer again"
        )
    ranked = [
        run
        for run in runs
        if isinstance(run, Run)
        if {depth.run.name for depth in at_depths([run], account.k)} <= {*account.runs}
    ]
    return answer_metrics(found, account, collection, ranked)


def _grouped(
    collection: Collection, evaluations: Mapping[str, Evaluation]
) -> dict[str, list[GroupedEvaluation]]:
    """Group by slices, tags and own columns; a group of one query is none."""
    own = [name for name in groupings(collection) if name not in GROUPINGS]
    tags = ["tag"] if any(query.tags for query in collection.queries) else []
    found: dict[str, list[GroupedEvaluation]] = {name: [] for name in evaluations}
    said = any(query.language or query.fields.get("language") for query in collection.queries)
    languages = ["language"] * said
    for by in ("slice", *tags, *languages, *own) if evaluations else ():
        groups = query_groups(collection, by)
        measured = next(iter(evaluations.values())).per_query
        sizes = [len(measured.keys() & ids) for ids in groups.members.values()]
        several = min(sum(size > 1 for size in sizes), _GROUPS)
        for name, of in evaluations.items() if several > 1 else ():
            found[name].append(grouped(of, groups, limit=several))
    return found
