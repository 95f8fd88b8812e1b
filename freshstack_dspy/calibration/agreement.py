"""The judge of a collection against people (FreshStack §4.2, with the negatives it left out).

Everything is computed from one table of weighted pairs of ratings of an item: one by the judge and
one by a person, or both by people. Metrics are functions of the pairs' labels, counted by query.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from pydantic import Field

from freshstack_dspy.calibration.following import follow, with_known
from freshstack_dspy.calibration.labels import (
    ItemId,
    highest_label,
    pair_labels,
    pair_of,
    read_labels,
    seconds_a_label,
)
from freshstack_dspy.calibration.reports import (
    CoverageAgreement,
    RatedReport,
    ReportId,
    coverage_agreement,
    read_reports,
    report_strata,
)
from freshstack_dspy.calibration.sampling import WHOLE_QUERIES, strata, weights
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.grouping import groupings
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import decode_records
from freshstack_dspy.measures.kappa import (
    FEW_DISAGREEMENTS,
    Confusion,
    Level,
    Tables,
    Values,
    Weights,
    alpha,
    coincidences_of,
    confusion,
    disagreement_bound,
    fleiss,
    kappa,
    least_kappa,
    on_support,
    precision,
    recall,
    same_label,
    share_of,
)
from freshstack_dspy.measures.spans import merged, shared, size
from freshstack_dspy.measures.statistics import Interval, bootstrap
from freshstack_dspy.pages.page import counted, interval
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    SCALES,
    Agreement,
    AnswerLabel,
    HumanLabel,
    Judgment,
    ListedNugget,
    NuggetLabel,
    NuggetList,
    Record,
    ReportLabel,
    Scale,
    Spans,
)
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Kappa, Trust
from freshstack_dspy.stored.record_files import records_of, rows

if TYPE_CHECKING:
    from freshstack_dspy.config import TrustConfig

QUALITIES = ("precise", "grounded", "vital")
_CLASSES = {"support": 1, "no support": 0}
_SHORTEST = 64


class Compared(Record):
    """A metric of the judge against people, and of people against each other.

    A side is None if the metric does not apply to it, or if no two people labelled the same item.
    """

    judge: Interval | None = None
    people: Interval | None = None


class SliceAgreement(Record):
    """The judge against people on a part of the labelled pairs."""

    name: str
    pairs: int
    metrics: dict[str, Interval]


class Disagreement(Record):
    """A person's label that differs from the judge's."""

    item: ItemId
    """query_id, nugget_id, chunk_id; for an answer, query_id, run_id; for a report, query_id,
    nugget_id, run_id."""
    question: str = ""
    nugget: str = ""
    passage: str = ""
    """The text of the chunk or report; answers have no texts and no evidence here."""
    judge: int
    reason: str
    evidence: tuple[str, ...] = ()
    """The words that the judge quoted."""
    person: int
    note: str
    marked: tuple[str, ...] = ()
    """The words that the person marked."""
    annotator: str


class AgreementReport(Record, Shown):
    """The result of `agree`."""

    kind: str
    """`support`, `answerability`, `answer` or `report`."""
    pairs: int
    """The number of labelled pairs that are compared."""
    labels: int
    """The number of their labels."""
    annotators: tuple[str, ...]
    shared: int
    """The number of pairs that two or more people labelled."""
    weighted: bool
    """Whether pairs stand for the pairs that they were sampled from; else all count the same."""
    threshold: int
    """The lowest label that is read as support."""
    metrics: dict[str, Compared]
    """By name; `kappa` is that of labels read as support or no support."""
    confusion: Confusion
    """The unweighted confusion matrix of the original labels."""
    slices: tuple[SliceAgreement, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    """All disagreements, largest difference first; among equals, those about support come first."""
    failed: tuple[ItemId, ...] = ()
    """Labelled items whose judgment failed; they are left out."""
    unjudged: tuple[ItemId, ...] = ()
    """Labelled items that were not judged; they are left out."""
    lost: dict[str, tuple[ItemId, ...]] = Field(default_factory=dict)
    """By reason, labelled items that are no longer a pair of the collection; they are left out."""
    labels_by: str = ""
    """A line on who made the labels of the collection; empty for answers and reports."""
    coverage: CoverageAgreement | None = None
    """For reports: Cov(y) by people and by the judge."""
    trust: Trust | None = None
    """What the collection's manifest says about the agreement with people."""

    def __repr__(self) -> str:
        kappa = self.metrics["kappa"].judge
        return (
            f"AgreementReport({self.kind}, kappa {interval(kappa, '.3f')}, "
            f"{counted(self.pairs, 'pair')}, {counted(self.labels, 'label')} by "
            f"{counted(len(self.annotators), 'annotator')})"
        )

    __str__ = __repr__


class _Rating(NamedTuple):
    """The label of a rater, a person or the judge, for an item; None if the judge failed."""

    item: ItemId
    rater: str
    label: int | None
    why: str = ""
    evidence: Spans = ()
    stratum: str | None = None
    probability: float | None = None


class _Pair(NamedTuple):
    """Two ratings of one item, and how much they count."""

    first: _Rating
    second: _Rating
    weight: float

    @property
    def item(self) -> ItemId:
        return self.first.item

    @property
    def labels(self) -> tuple[int, int]:
        return self.first.label or 0, self.second.label or 0


_Groups = Callable[[ItemId, str], Iterable[str]]
"""From item and annotator to the names of the parts that the rating belongs to."""
_JUDGE = "judge"


def _rating(label: HumanLabel | AnswerLabel | ReportLabel, item: ItemId, value: int) -> _Rating:
    evidence = tuple(merged(getattr(label, "evidence", ())))
    sampled = label.stratum, label.probability
    return _Rating(item, label.annotator, value, label.note, evidence, *sampled)


def agree(
    collection: Collection | Path | str,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str,
    *,
    by: str | None = None,
) -> AgreementReport:
    """Compare the judgments of a collection with labels of people.

    Each labelled pair stands for the judged pairs that it was sampled from, and its labels share
    that weight; if labels name no stratum, every pair counts the same. People label on the scale of
    the collection; both their labels and the judge's are support from its threshold on. Labels of
    answerability are 0 and 1, and the judge's are converted to these. Labels with texts are
    compared with the pair that has these texts now, whatever its ids
    (`freshstack_dspy.calibration.following`).

    Args:
        collection: The collection, or its folder.
        labels: Labels of one kind, `support` or `answerability`; or files of labels of support.
        by: Also compute metrics on parts of the pairs, see `slicing`.

    Raises:
        CollectionError: No label is of a judged pair of this collection, or they are on another
            scale.
    """
    collection = Collection.load(collection)
    manifest = collection.manifest
    followed_labels, lost = follow(pair_labels(labels), collection, collection.corpus)
    groups = {"groups": slicing(collection, by)} if by else {}
    report = compare(
        collection, manifest.scale, collection.name, followed_labels, lost=lost, **groups
    )
    update = {
        "disagreements": _with_texts(report.disagreements, collection, followed_labels),
        "labels_by": collection.labels_by,
        "trust": manifest.trust,
    }
    return report.model_copy(update=update)


def _with_texts(
    disagreements: Sequence[Disagreement], collection: Collection, labels: Sequence[HumanLabel]
) -> tuple[Disagreement, ...]:
    """Add the texts that a reader needs to decide between judge and person."""
    questions = {query.query_id: query.title or query.body for query in collection.queries}
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    quoted: dict[ItemId, Spans] = {
        pair_of(judgment): judgment.evidence
        for query_id in {each.item[0] for each in disagreements}
        for judgment in records_of(collection.judgments, query_id)
    }
    marked: dict[Any, Spans] = {
        (pair_of(label), label.annotator): label.evidence for label in labels
    }
    completed = []
    for each in disagreements:
        query_id, nugget_id, chunk_id = each.item
        chunk = collection.chunk(chunk_id)
        spans = {"evidence": quoted[each.item], "marked": marked[each.item, each.annotator]}
        words = {
            name: tuple(chunk.text_at(*span) for span in places) for name, places in spans.items()
        }
        texts = {"question": questions[query_id], "nugget": nuggets[nugget_id]}
        completed.append(each.model_copy(update={**texts, "passage": chunk.text, **words}))
    return tuple(completed)


def compare(
    contents: Contents,
    scale: Scale,
    name: str,
    labels: Sequence[HumanLabel],
    groups: _Groups = lambda *_: (),
    lost: Mapping[str, Sequence[HumanLabel]] = MappingProxyType({}),
) -> AgreementReport:
    """Compare records that may not be a collection on disk yet; see `agree`.

    `labels` have the ids of these records; `lost` are labels without such a pair, by reason.
    """
    _check_scale(scale, name, labels)
    kind = next((label.kind for group in (labels, *lost.values()) for label in group), "support")
    highest, threshold = SCALES[scale.name].highest, scale.threshold
    names = "query_id", "nugget_id", "chunk_id", "label", "reason", "evidence"
    judge = [
        _Rating((query, nugget, chunk), _JUDGE, label, reason, evidence)
        for query, nugget, chunk, label, reason, evidence in rows(contents.judgments, *names)
    ]
    if kind == "answerability":
        judge = [
            said._replace(label=None if said.label is None else binary(said.label, threshold))
            for said in judge
        ]
        highest = threshold = 1
    people = [_rating(label, pair_of(label), min(label.label, highest)) for label in labels]
    items = {why: tuple(map(pair_of, group)) for why, group in lost.items()}
    return _report(
        kind, name, judge, people, highest, threshold, strata(contents), groups=groups, lost=items
    )


def measured_trust(
    contents: Contents,
    corpus: ChunkFile,
    scale: Scale,
    name: str,
    settings: "TrustConfig",
    *,
    before: Collection | None = None,
) -> Trust | None:
    """Measure agreement with people for the manifest; None without labels of people.

    Labels that have only ids get the texts of the collection `before`, if it has these ids.

    If the labels cannot be compared with these records, the collection is not calibrated, but the
    build goes on.
    """
    if not settings.labels:
        return None
    read = read_labels(settings.labels)
    labels, lost = follow(read if before is None else with_known(read, before), contents, corpus)
    try:
        report = compare(contents, scale, name, labels, lost=lost)
    except CollectionError as error:
        return Trust(calibrated=False, min_kappa=settings.min_kappa, reason=str(error))
    kappas = report.metrics["kappa"]
    judge, people = (
        Kappa(value=mean.value, low=mean.low, high=mean.high) if mean else None
        for mean in (kappas.judge, kappas.people)
    )
    low = judge.low if judge else None
    return Trust(
        calibrated=low is not None and low >= settings.min_kappa,
        min_kappa=settings.min_kappa,
        kappa=judge,
        ceiling=people,
        labels=report.labels,
        annotators=len(report.annotators),
        seconds=seconds_a_label(read),
    )


def agree_on_answers(folder: Path, labels: Sequence[AnswerLabel]) -> AgreementReport:
    """Compare the verdicts of `freshstack answer`, whether answers agree with gold, with people's.

    Args:
        folder: The folder that `freshstack answer` wrote.
        labels: Labels of its answers; labels of further samples of an answer are left out, because
            `agreement.jsonl` is about the first.

    Raises:
        CollectionError: The folder has no verdicts, or no label is about one.
    """
    path = folder / "agreement.jsonl"
    try:
        verdicts = decode_records(path.read_bytes(), Agreement, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None
    judge = [
        _Rating(
            (verdict.query_id, verdict.run_id),
            _JUDGE,
            None if verdict.agrees is None else int(verdict.agrees),
            verdict.reason,
        )
        for verdict in verdicts
    ]
    people = [
        _rating(label, (label.query_id, label.run_id), int(label.agrees))
        for label in labels
        if label.sample == 1
    ]
    agrees = {
        said.item: "agrees" if said.label else "disagrees"
        for said in judge
        if said.label is not None
    }
    return _report("answer", folder.name, judge, people, 1, 1, agrees)


def agree_on_reports(
    collection: Collection | Path | str, reports: Path, labels: Sequence[ReportLabel]
) -> AgreementReport:
    """Compare the judge's ratings of reports with people's: the labels, and Cov(y) (CRUX, §4.3).

    Args:
        collection: The collection, or its folder.
        reports: The rated reports, as in `read_reports`.
        labels: Labels of sub-questions of these reports.

    Raises:
        SourceError: The reports cannot be read.
        CollectionError: No label is about one of the reports.
    """
    rated = read_reports(reports, Collection.load(collection))
    lost: defaultdict[str, list[ItemId]] = defaultdict(list)
    current: list[ReportLabel] = []
    for label in labels:
        report = rated.get((label.query_id, label.run_id))
        rating = report and report.ratings.get(label.nugget_id)
        if report is None:
            lost[f"of reports that are not in {reports}"].append(_report_item(label))
        elif report.text != label.report:
            lost["of reports that have another text now"].append(_report_item(label))
        elif rating is None or label.nugget not in (None, rating.text):
            lost["of sub-questions that are not asked now, or are worded differently"].append(
                _report_item(label)
            )
        else:
            current.append(label)
    judge = [
        _Rating(
            (query_id, nugget_id, run_id),
            _JUDGE,
            report.answers(nugget_id),
            rating.reason,
            report.evidence(nugget_id),
        )
        for (query_id, run_id), report in rated.items()
        for nugget_id, rating in report.ratings.items()
    ]
    people = [_rating(label, _report_item(label), label.label) for label in current]
    by_report = report_strata(rated)
    drawn_from = {
        said.item: by_report[said.item[0], said.item[2]] for said in judge if said.label is not None
    }
    items = {why: tuple(group) for why, group in lost.items()}
    compared = _report("report", reports.name, judge, people, 1, 1, drawn_from, lost=items)
    disagreements = _in_reports(compared.disagreements, rated, current)
    coverage = coverage_agreement(rated, current)
    return compared.model_copy(update={"disagreements": disagreements, "coverage": coverage})


def _report_item(label: ReportLabel) -> ItemId:
    return label.query_id, label.nugget_id, label.run_id


def _in_reports(
    disagreements: Sequence[Disagreement],
    reports: Mapping[ReportId, RatedReport],
    labels: Sequence[ReportLabel],
) -> tuple[Disagreement, ...]:
    """Add the report, the sub-question and the words that judge and person marked."""
    by_rater = {(_report_item(label), label.annotator): label for label in labels}
    completed = []
    for each in disagreements:
        query_id, nugget_id, run_id = each.item
        report, label = reports[query_id, run_id], by_rater[each.item, each.annotator]
        update = {
            "question": label.question or "",
            "nugget": report.ratings[nugget_id].text,
            "passage": report.text,
            "evidence": tuple(report.text[slice(*span)] for span in report.evidence(nugget_id)),
            "marked": label.marked,
        }
        completed.append(each.model_copy(update=update))
    return tuple(completed)


def agree_with_judge(
    judgments: Sequence[Judgment], scale: Scale, before: Sequence[Judgment], before_scale: Scale
) -> AgreementReport | None:
    """Compare a judge with an earlier one, whose labels take the place of a person's.

    If the scales differ, labels are read as support or no support, each with its own threshold;
    otherwise the current threshold holds for both. None if no pair has both labels.
    """
    differ = scale.name != before_scale.name
    highest, threshold = (1, 1) if differ else (SCALES[scale.name].highest, scale.threshold)

    def ratings(rater: str, judged: Sequence[Judgment], on: Scale) -> list[_Rating]:
        return [
            _Rating(pair_of(each), rater, binary(label, on.threshold) if differ else label)
            for each in judged
            for label in [each.label]
            if label is not None
        ]

    judge = ratings(_JUDGE, judgments, scale)
    both = {said.item for said in judge}
    people = [said for said in ratings("before", before, before_scale) if said.item in both]
    if not people:
        return None
    report = _report("support", "", judge, people, highest, threshold)
    return report.model_copy(update={"disagreements": ()})


# The table of pairs


def _report(  # noqa: PLR0913 - what is compared, on which scale, and how it was drawn
    kind: str,
    name: str,
    judge: Iterable[_Rating],
    people: Sequence[_Rating],
    highest: int,
    threshold: int,
    strata: Mapping[Any, str] = MappingProxyType({}),
    *,
    groups: _Groups = lambda *_: (),
    lost: Mapping[str, tuple[ItemId, ...]] = MappingProxyType({}),
) -> AgreementReport:
    said = {rating.item: rating for rating in judge}
    by_item, failed, unjudged = _by_item(name, said, people, lost)
    compared = [rating for ratings in by_item.values() for rating in ratings]
    counts = weights(compared, strata, lambda rating: rating.item)
    mean = fmean(counts.values())
    weight = {item: counts[item] / mean for item in by_item}
    pairs = [
        _Pair(said[item], rating, weight[item] / len(ratings))
        for item, ratings in by_item.items()
        for rating in ratings
    ]
    among = [
        _Pair(*two, weight[item])
        for item, ratings in by_item.items()
        for two in permutations(ratings, 2)
    ]
    graded = highest > 1 and any((rating.label or 0) > 1 for rating in compared)  # else yes and no
    measured = partial(_measured, highest=highest, threshold=threshold, graded=graded)
    singly = kind != "report" and all(
        rating.stratum not in (None, "", WHOLE_QUERIES) for rating in compared
    )
    unit = "characters" if kind == "report" else "bytes"
    by_judge = _bounded(measured(pairs), pairs, weight, threshold, singly=singly)
    by_judge |= _evidence(pairs, weight, unit)
    by_people: dict[str, Interval] = {}
    if among:
        by_people = measured(among, apart=True) | _evidence(among, weight, unit)
        by_people |= _of_many(by_item, weight, highest, threshold, graded=graded)
    parts: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        for group in groups(pair.item, pair.second.rater):
            parts[group].append(pair)
    return AgreementReport(
        kind=kind,
        pairs=len(by_item),
        labels=len(pairs),
        annotators=tuple(sorted({rating.rater for rating in compared})),
        shared=sum(len(ratings) > 1 for ratings in by_item.values()),
        weighted=any(rating.stratum for rating in compared),
        threshold=threshold,
        metrics={
            metric: Compared(judge=by_judge.get(metric), people=by_people.get(metric))
            for metric in by_judge | by_people
        },
        confusion=confusion([pair.labels for pair in pairs]),
        slices=tuple(
            SliceAgreement(
                name=group,
                pairs=len({pair.item for pair in parts[group]}),
                metrics=measured(parts[group]),
            )
            for group in sorted(parts, key=_number_first)
        ),
        disagreements=_disagreements(pairs, threshold),
        failed=tuple(failed),
        unjudged=tuple(unjudged),
        lost=dict(lost),
    )


def _by_item(
    name: str,
    judge: Mapping[ItemId, _Rating],
    people: Sequence[_Rating],
    lost: Mapping[str, Sequence[ItemId]],
) -> tuple[dict[ItemId, list[_Rating]], list[ItemId], list[ItemId]]:
    """People's ratings by item; and the items left out: failed, and not judged."""
    by_item: dict[ItemId, dict[str, _Rating]] = {}
    failed: list[ItemId] = []
    unjudged: list[ItemId] = []
    for rating in people:
        item, rater = rating.item, rating.rater
        if item not in judge:
            unjudged.append(item)
        elif judge[item].label is None:
            failed.append(item)
        elif by_item.setdefault(item, {}).setdefault(rater, rating) is not rating:
            raise CollectionError(f"{rater!r} labelled {item} twice; keep one of the two")
    if not by_item:
        reasons = {
            **lost,
            "of pairs whose judgment failed": failed,
            "of pairs not judged": unjudged,
        }
        said = ", ".join(f"{len(items):,} {why}" for why, items in reasons.items() if items)
        raise CollectionError(
            f"none of the {sum(map(len, reasons.values()))} labels is of a pair with a label of "
            f"{name!r}{': ' * bool(said)}{said}"
            f"{'; ids must be those of judgments.jsonl' * (not lost)}"
        )
    ordered = {
        item: [rating for _, rating in sorted(by_item[item].items())] for item in sorted(by_item)
    }
    return ordered, failed, unjudged


def _sums(parts: Iterable[tuple[ItemId, Any]]) -> Any:
    """Sum what each item adds within its query: queries, by their ids, x …."""
    import numpy as np

    sums: dict[str, Any] = {}
    for item, part in parts:
        sums[item[0]] = sums.get(item[0], 0) + part
    return np.stack([sums[query] for query in sorted(sums)])


def _measured(
    pairs: Sequence[_Pair], *, highest: int, threshold: int, graded: bool, apart: bool = False
) -> dict[str, Interval]:
    """Compute all metrics of pairs of ratings; with `apart`, the means over each two raters."""
    import numpy as np

    def raters(pair: _Pair) -> tuple[str, ...]:
        return (pair.first.rater, pair.second.rater) if apart else ()

    places = {two: place for place, two in enumerate(sorted(set(map(raters, pairs))))}

    def table(pair: _Pair) -> Tables:
        cells = np.zeros((len(places), highest + 1, highest + 1))
        cells[places[raters(pair)], *pair.labels] = pair.weight
        return cells

    def means(sums: Tables) -> dict[str, Values]:
        counts = sums.sum((-1, -2))
        return {
            metric: share_of(
                (np.nan_to_num(values) * counts).sum(-1),
                np.where(np.isnan(values), 0, counts).sum(-1),
            )
            for metric, values in _metrics(sums, threshold, graded=graded).items()
        }

    return bootstrap(_sums((pair.item, table(pair)) for pair in pairs), means)


def _metrics(tables: Tables, threshold: int, *, graded: bool) -> dict[str, Values]:
    """All metrics of two raters, by their names."""
    two = on_support(tables, threshold)
    metrics = {"kappa": kappa(two), "share agreed": same_label(two)}
    for name, label in _CLASSES.items():
        metrics[f"precision of {name}"] = precision(two, label)
        metrics[f"recall of {name}"] = recall(two, label)
    if not graded:
        return metrics
    metrics["same grade"] = same_label(tables)
    metrics["kappa of grades"] = kappa(tables)
    for weights_ in get_args(Weights):
        metrics[f"{weights_} kappa of grades"] = kappa(tables, weights_)
    for label in range(tables.shape[-1]):
        if label not in (0, threshold):
            metrics[f"kappa from {label} on"] = kappa(on_support(tables, label))
    for label in range(int(threshold == 1), tables.shape[-1]):  # grade 0 is no support
        metrics[f"precision of grade {label}"] = precision(tables, label)
        metrics[f"recall of grade {label}"] = recall(tables, label)
    return metrics


def _of_many(
    by_item: Mapping[ItemId, Sequence[_Rating]],
    weight: Mapping[ItemId, float],
    highest: int,
    threshold: int,
    *,
    graded: bool,
) -> dict[str, Interval]:
    """Compute metrics of any number of raters, from the coincidences of each item's labels."""
    import numpy as np

    def coincidences(item: ItemId) -> Tables:
        labels = [rating.label or 0 for rating in by_item[item]]
        table = weight[item] * coincidences_of(labels, highest)
        return np.stack([table, table / len(labels)])

    def metrics(sums: Tables) -> dict[str, Values]:
        tables = sums[:, 0]
        levels: tuple[Level, ...] = get_args(Level) if graded else ()
        return {
            "Krippendorff's alpha": alpha(on_support(tables, threshold)),
            **{f"{level} alpha of grades": alpha(tables, level) for level in levels},
            "Fleiss' kappa": fleiss(on_support(sums[:, 1], threshold)),
        }

    several = [item for item, ratings in by_item.items() if len(ratings) > 1]
    return bootstrap(_sums((item, coincidences(item)) for item in several), metrics)


def _evidence(
    pairs: Sequence[_Pair], weight: Mapping[ItemId, float], unit: str
) -> dict[str, Interval]:
    """Measure the overlap of two raters' spans, if both marked some; each item counts once."""
    import numpy as np

    marked = [pair for pair in pairs if pair.first.evidence and pair.second.evidence]
    if not marked:
        return {}
    number = Counter(pair.item for pair in marked)

    def overlap(pair: _Pair) -> Any:
        spans = pair.first.evidence, pair.second.evidence
        common = shared(*spans)
        f1 = 2 * common / sum(map(size, spans))
        return weight[pair.item] / number[pair.item] * np.array([1, common > 0, f1])

    return bootstrap(
        _sums((pair.item, overlap(pair)) for pair in marked),
        lambda sums: {
            "evidence: spans overlap": share_of(sums[:, 1], sums[:, 0]),
            f"evidence: F1 of {unit}": share_of(sums[:, 2], sums[:, 0]),
        },
    )


def _bounded(
    metrics: dict[str, Interval],
    pairs: Sequence[_Pair],
    weight: Mapping[ItemId, float],
    threshold: int,
    *,
    singly: bool,
) -> dict[str, Interval]:
    """Lower the ends of kappa and of the share agreed to a bound, if few or no pairs disagree.

    `singly`: whether each item was drawn on its own, rather than with its whole query or in an
    unknown way.
    """
    support: dict[ItemId, int] = {}
    differs: defaultdict[ItemId, float] = defaultdict(float)
    for pair in pairs:
        support[pair.item], person = (binary(label, threshold) for label in pair.labels)
        if person != support[pair.item]:
            differs[pair.item] += pair.weight
    share = sum(weight[item] for item, yes in support.items() if yes) / sum(weight.values())
    many = differs and (not singly or len(differs) >= FEW_DISAGREEMENTS)
    if many or not 0 < share < 1:
        return metrics
    units: defaultdict[Any, float] = defaultdict(float)
    for item, counts in weight.items():
        units[item if singly else item[0]] += counts
    bound = disagreement_bound([*units.values()], [*differs.values()])
    by_judge = sum(counts for item, counts in differs.items() if support[item])
    part = by_judge / sum(differs.values()) if differs else None
    lows = {"share agreed": 1 - bound, "kappa": least_kappa(share, bound, part)}
    for metric, low in lows.items():
        estimate, ends = metrics[metric], dict[str, Any]()
        if estimate.value is not None and not differs:
            ends = {"low": low, "high": estimate.value, "reason": None}
        elif estimate.low is not None:
            ends = {"low": min(low, estimate.low)}
        metrics[metric] = estimate.model_copy(update=ends)
    return metrics


def _disagreements(pairs: Iterable[_Pair], threshold: int) -> tuple[Disagreement, ...]:
    def worst_first(each: Disagreement) -> tuple[Any, ...]:
        about_support = binary(each.judge, threshold) != binary(each.person, threshold)
        return -abs(each.judge - each.person), not about_support, each.item, each.annotator

    disagreements = (
        Disagreement(
            item=pair.item,
            judge=pair.labels[0],
            reason=pair.first.why,
            person=pair.labels[1],
            note=pair.second.why,
            annotator=pair.second.rater,
        )
        for pair in pairs
        if pair.first.label != pair.second.label
    )
    return tuple(sorted(disagreements, key=worst_first))


def binary(label: int, threshold: int = 1) -> int:
    """Read a label of any scale as support, 1, or no support, 0."""
    return int(label >= threshold)


def _check_scale(scale: Scale, name: str, labels: Sequence[HumanLabel]) -> None:
    """Check that labels are on the scale, and not just 0 and 1 if 1 does not mean support."""
    for label in labels:
        top = highest_label(label.kind, scale.name)
        if top is not None and label.label > top:
            ends = f"the scale {scale.name} of {name!r} ends at {top}"
            if label.kind == "answerability":
                ends = "labels of answerability are 0 and 1"
            raise CollectionError(
                f"a label is {label.label} (query {label.query_id!r}, nugget {label.nugget_id!r}, "
                f"chunk {label.chunk_id!r}, of {label.annotator!r}), and {ends}: label on the scale "
                "of the collection"
            )
    highest = max((label.label for label in labels if label.kind == "support"), default=0)
    if highest == 1 < scale.threshold:
        raise CollectionError(
            f"no label is above 1, and on the scale {scale.name} of {name!r} support "
            f"begins at {scale.threshold}: if 1 means support, write {scale.threshold} or more"
        )


# Parts of the pairs

_NameOfPart = Callable[[Judgment], str]
"""Names the part that a judgment belongs to; empty if it belongs to none."""


def _number_first(group: str) -> tuple[int, str]:
    """Order slices by the number that a name begins with, and the name."""
    number = group.partition(" ")[0]
    return int(number) if number.isdecimal() else 0, group


def _code_or_prose(path: str) -> str:
    from freshstack_dspy.corpus.outlines import file_kind, is_language

    return "code" if is_language(file_kind(path)) else "prose"


def _lengths(tokens: int) -> str:
    least = 0 if tokens < _SHORTEST else 2 ** (tokens.bit_length() - 1)
    return f"{least} to {max(2 * least, _SHORTEST) - 1} tokens"


def _position(collection: Collection) -> _NameOfPart:
    """Name the place of a chunk in its call, where chunks are in the order of their ids."""
    judge: Any = collection.manifest.config.get("judge") or {}
    if judge.get("shuffle") is not None or judge.get("votes", 1) > 1:
        raise CollectionError(
            "chunks were shuffled before they were judged, so that their position in a call is not "
            "known; divide them by something else"
        )
    calls: defaultdict[str | None, set[str]] = defaultdict(set)
    for judgment in collection.judgments:
        if judgment.same_as is None and judgment.call_id:
            calls[judgment.call_id].add(judgment.chunk_id)
    ordered = {call: sorted(chunks) for call, chunks in calls.items()}

    def position(judgment: Judgment) -> str:
        if judgment.same_as is not None or judgment.call_id not in ordered:
            return ""
        place = ordered[judgment.call_id].index(judgment.chunk_id) // 5 * 5
        return f"{place + 1} to {place + 5} of its call"

    return position


def _languages(collection: Collection) -> _NameOfPart:
    of_question = {query.query_id: query.language for query in collection.queries}
    if not any(of_question.values()):
        raise CollectionError("the collection says of no query what its language is")

    def languages(judgment: Judgment) -> str:
        question = of_question[judgment.query_id]
        chunk = collection.chunk(judgment.chunk_id).language
        return f"question {question}, chunk {chunk}" if question and chunk else ""

    return languages


_OF_PAIRS: dict[str, Callable[[Collection], _NameOfPart]] = {
    "languages": _languages,
    "kind": lambda collection: (
        lambda judgment: _code_or_prose(collection.chunk(judgment.chunk_id).path)
    ),
    "length": lambda collection: (
        lambda judgment: _lengths(collection.chunk(judgment.chunk_id).tokens)
    ),
    "position": _position,
    "duplicate": lambda _: (
        lambda judgment: "by a near-duplicate" if judgment.same_as else "judged itself"
    ),
}


def slicing(collection: Collection, by: str) -> _Groups:
    """Give the function that names the slices of a person's rating of a pair.

    Ratings are divided by annotator, by a grouping of their queries (`groupings`), by the languages
    of question and chunk, code or prose, the length of the chunk, its place in the call that judged
    it, or whether it has a near-duplicate's label.

    Raises:
        CollectionError: The kind is unknown, or the collection lacks the information.
    """
    if by == "annotator":
        return lambda _, annotator: [annotator]
    if by in (of_queries := groupings(collection)):
        groups = collection.groups(by).by_query()
        return lambda item, _: groups.get(item[0], ())
    if by not in _OF_PAIRS:
        allowed = ", ".join(("annotator", *of_queries, *_OF_PAIRS))
        raise CollectionError(f"pairs are divided by {allowed}, not by {by!r}")
    judged: dict[ItemId, Judgment] = {
        pair_of(judgment): judgment for judgment in collection.judgments
    }
    name = _OF_PAIRS[by](collection)
    return lambda item, _: filter(None, [name(judged[item])])


# Nuggets


Place = Literal["first", "second", "between", "last"]
"""In the list of a query's nuggets; one that is alone, or the second of two, is the last."""


class NuggetErrors(Record):
    """The errors among the nuggets at one place of their lists."""

    place: Place
    nuggets: int
    """How many of these people labelled."""
    imprecise: float
    """How many of them are not precise, each as the share of its annotators who say so."""
    ungrounded: float


class NuggetRatings(Record, Shown):
    """What people say about nuggets (FreshStack, Table 5)."""

    nuggets: int
    labels: int
    annotators: tuple[str, ...]
    shares: dict[str, Interval]
    """`precise`, `grounded`, `vital`: shares of the nuggets. `recall`: the share of the nuggets that
    people list for a query which the query already had. Intervals are over queries."""
    by_place: tuple[NuggetErrors, ...]
    """The errors by the place of the nugget in its list (FreshStack, §5.2.1)."""
    left_out: int
    """The number of labels of nuggets that the collection does not have."""

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{name} {interval(share, '.3f')}" for name, share in self.shares.items()
        )
        return f"NuggetRatings({counted(self.nuggets, 'nugget')}, {shares})"

    __str__ = __repr__


def nugget_ratings(
    collection: Collection, labels: Sequence[NuggetLabel], lists: Sequence[NuggetList] = ()
) -> NuggetRatings:
    """Sum up people's labels of a collection's nuggets; queries count by how they were sampled.

    Raises:
        CollectionError: No label is of a nugget of the collection.
    """
    import numpy as np

    existing = {(nugget.query_id, nugget.nugget_id) for nugget in collection.nuggets}
    by_nugget: defaultdict[ItemId, dict[str, NuggetLabel]] = defaultdict(dict)
    for label in labels:
        if (label.query_id, label.nugget_id) in existing:
            by_nugget[label.query_id, label.nugget_id][label.annotator] = label
    number = sum(map(len, by_nugget.values()))
    if not number:
        raise CollectionError(
            f"none of the {len(labels)} labels is of a nugget of {collection.name!r}: query_id and "
            "nugget_id must be those of nuggets.jsonl"
        )
    slices: dict[ItemId, str] = {(part.query_id,): part.slice for part in collection.slices}
    design = weights([*labels, *lists], slices, lambda label: (label.query_id,))

    def means(item: ItemId) -> list[float]:
        said = by_nugget[item].values()
        return [1.0, *(fmean(getattr(label, name) for label in said) for name in QUALITIES)]

    def shares(names: Sequence[str], counts: Iterable[tuple[ItemId, Any]]) -> dict[str, Interval]:
        """Compute shares of the first count, over queries."""
        return bootstrap(
            _sums(
                (item, design[item[:1]] * np.array(counted_parts)) for item, counted_parts in counts
            ),
            lambda sums: {
                name: share_of(sums[:, place], sums[:, 0]) for place, name in enumerate(names, 1)
            },
        )

    results = shares(QUALITIES, ((item, means(item)) for item in sorted(by_nugget)))
    if lists:
        listed = [
            ((entry.query_id,), [len(entry.nuggets), sum(map(_was_there, entry.nuggets))])
            for entry in lists
        ]
        results |= shares(["recall"], listed)
    return NuggetRatings(
        nuggets=len(by_nugget),
        labels=number,
        annotators=tuple(sorted({who for of_item in by_nugget.values() for who in of_item})),
        shares=results,
        by_place=_errors_by_place(collection, by_nugget),
        left_out=len(labels) - number,
    )


def _errors_by_place(
    collection: Collection, by_nugget: Mapping[ItemId, Mapping[str, NuggetLabel]]
) -> tuple[NuggetErrors, ...]:
    lists: defaultdict[str, list[str]] = defaultdict(list)
    for nugget in collection.nuggets:
        lists[nugget.query_id].append(nugget.nugget_id)
    errors: dict[Place, list[tuple[float, float]]] = {place: [] for place in get_args(Place)}
    for (query_id, nugget_id), by_annotator in by_nugget.items():
        in_order = sorted(lists[query_id], key=lambda each: (len(each), each))  # 12_9 before 12_10
        number, labels = in_order.index(nugget_id), by_annotator.values()
        at: Place = "first" if number == 0 else "second" if number == 1 else "between"
        errors["last" if number == len(in_order) - 1 else at].append(
            (
                fmean(not each.precise for each in labels),
                fmean(not each.grounded for each in labels),
            )
        )
    return tuple(
        NuggetErrors(place=place, nuggets=len(wrong), imprecise=imprecise, ungrounded=ungrounded)
        for place, wrong in errors.items()
        if wrong
        for imprecise, ungrounded in [map(sum, zip(*wrong, strict=True))]
    )


def _was_there(nugget: ListedNugget) -> bool:
    return bool(nugget.nugget_id or nugget.made_from)
