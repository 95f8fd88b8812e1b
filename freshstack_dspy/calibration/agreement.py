"""The judge of a collection against people (FreshStack §4.2, with the negatives it left out)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, permutations
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from pydantic import Field

from freshstack_dspy.calibration.following import follow, with_known
from freshstack_dspy.calibration.labels import (
    ItemId,
    highest_label,
    pair_labels,
    pair_of,
    read_labels,
)
from freshstack_dspy.calibration.sampling import WHOLE_QUERIES, strata, weights
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.grouping import groupings
from freshstack_dspy.config import TrustConfig
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
    confusion,
    disagreement_bound,
    fleiss,
    kappa,
    kappa_interval,
    least_kappa,
    on_support,
    precision,
    recall,
    same_label,
    share_of,
)
from freshstack_dspy.measures.spans import shared, size
from freshstack_dspy.measures.statistics import Interval, bootstrap
from freshstack_dspy.pages.page import counted, interval
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    SCALES,
    Agreement,
    AnswerLabel,
    HumanLabel,
    Judgment,
    NuggetLabel,
    NuggetList,
    Record,
    Scale,
    Spans,
)
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Kappa, Trust
from freshstack_dspy.stored.record_files import records_of, rows

_CLASSES = {"support": 1, "no support": 0}
_SHORTEST = 64
_FEWEST = 10
"""Pairs that two must have labelled for their agreement to tell anything."""


class Compared(Record):
    """A metric of the judge against people, and the same of people against each other.

    None where it is not taken of the one or the other, or no item was labelled by two people.
    """

    judge: Interval | None = None
    people: Interval | None = None


class SliceAgreement(Record):
    """The judge against people on a part of the labelled pairs."""

    name: str
    pairs: int
    metrics: dict[str, Interval]


class Disagreement(Record):
    """A label of a person that is not the judge's."""

    item: ItemId
    """query_id, nugget_id, chunk_id; of an answer query_id, run_id."""
    question: str = ""
    nugget: str = ""
    passage: str = ""
    """The chunk's text; it, the question and both evidences are there where `agree` read them."""
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
    """What `agree` found."""

    kind: str
    """`support`, `answerability` or `answer`."""
    pairs: int
    """Labelled ones that are compared."""
    labels: int
    """How many labels these pairs have."""
    annotators: tuple[str, ...]
    shared: int
    """Pairs that two people or more labelled."""
    weighted: bool
    """Whether pairs count for those that they were sampled from; else each counts the same."""
    threshold: int
    """The lowest label that is read as support."""
    random: dict[str, str] = Field(default_factory=dict)
    """Annotators whose labels say no more than chance, with the reason; they are counted."""
    metrics: dict[str, Compared]
    """By name; `kappa` is that of labels read as support and none."""
    confusion: Confusion
    """The confusion matrix of the labels as they were given, unweighted."""
    slices: tuple[SliceAgreement, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    """All, the largest difference first; at one difference those about support or none."""
    failed: tuple[ItemId, ...] = ()
    """What labels are of whose judgment failed; they are left out."""
    unjudged: tuple[ItemId, ...] = ()
    """What labels are of that was not judged; they are left out."""
    lost: dict[str, tuple[ItemId, ...]] = Field(default_factory=dict)
    """What labels are of that is no pair of the collection any more, by the reason; left out."""
    labels_by: str = ""
    """Who made the labels of the collection, in a line; of answers nothing."""

    def __repr__(self) -> str:
        kappa = self.metrics["kappa"].judge
        return (
            f"AgreementReport({self.kind}, kappa {interval(kappa, '.3f')}, "
            f"{counted(self.pairs, 'pair')}, {counted(self.labels, 'label')} by "
            f"{counted(len(self.annotators), 'annotator')})"
        )

    __str__ = __repr__


class _Rating(NamedTuple):
    """What a rater, a person or the judge, says of an item; no label where the judge failed."""

    item: ItemId
    rater: str
    label: int | None
    why: str = ""
    evidence: Spans = ()


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


Judge = Mapping[Any, _Rating]
"""The ratings of the judge by item."""


def _no_groups(_: ItemId) -> Iterable[str]:
    return ()


def agree(
    collection: Collection | Path | str,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str,
    *,
    by: str | None = None,
) -> AgreementReport:
    """Compare the judgments of a collection with labels of people.

    Each labelled pair counts for the judged pairs that it was sampled from, shared by the labels
    that it has; where labels name no stratum, every pair counts the same. People label on the
    scale of the collection; both their labels and the judge's are support from its threshold on.
    Labels of answerability are 0 and 1, and the judge's are read as these. Labels with texts are
    compared with what says the same now, under whatever ids (`freshstack_dspy.calibration.following`).

    Args:
        collection: Or its folder.
        labels: Of one kind, `support` or `answerability`; or files of labels of support.
        by: Also take metrics on parts of the pairs, as `slicing` divides them.

    Raises:
        CollectionError: No label is of a judged pair of this collection, or they are on another
            scale.
    """
    collection = Collection.load(collection)
    given, lost = follow(pair_labels(labels), collection, collection.corpus)
    groups = _no_groups if by is None else slicing(collection, by)
    report = compare(collection, collection.manifest.scale, collection.name, given, groups, lost)
    in_words = _in_words(collection, given, report)
    return report.model_copy(update={"disagreements": in_words, "labels_by": collection.labels_by})


def _in_words(
    collection: Collection, labels: Sequence[HumanLabel], report: AgreementReport
) -> tuple[Disagreement, ...]:
    """Give the disagreements with the texts that a reader needs to decide between the two."""
    questions = {one.query_id: one.title or one.body for one in collection.queries}
    judged: dict[ItemId, Judgment] = {
        pair_of(one): one
        for query_id in {one.item[0] for one in report.disagreements}
        for one in records_of(collection.judgments, query_id)
    }
    marked: dict[tuple[ItemId, str], Spans] = {
        (pair_of(one), one.annotator): one.evidence for one in labels
    }

    def in_words(one: Disagreement) -> Disagreement:
        chunk = collection.chunk(one.item[2])
        judgment = judged[one.item]
        return one.model_copy(
            update={
                "question": questions.get(one.item[0], ""),
                "passage": chunk.text,
                "evidence": tuple(chunk.text_at(*span) for span in judgment.evidence),
                "marked": tuple(chunk.text_at(*of) for of in marked[one.item, one.annotator]),
            }
        )

    return tuple(map(in_words, report.disagreements))


def compare(
    contents: Contents,
    scale: Scale,
    name: str,
    labels: Sequence[HumanLabel],
    groups: Callable[[ItemId], Iterable[str]] = _no_groups,
    lost: Mapping[str, Sequence[HumanLabel]] = MappingProxyType({}),
) -> AgreementReport:
    """Compare records that may not be a collection on disk yet; see `agree`.

    `labels` are under the ids of these records; `lost` are those that are of none, by the reason.
    """
    _check_scale(scale, name, labels)
    kind = next((one.kind for one in chain(labels, *lost.values())), "support")
    highest, threshold = SCALES[scale.name].highest, scale.threshold
    yes_no = kind == "answerability"

    def read(label: int) -> int:
        return binary(label, threshold) if yes_no else label

    fields = "query_id", "nugget_id", "chunk_id", "label", "reason", "evidence"
    judge: Judge = {
        pair: _Rating(pair, _JUDGE, None if label is None else read(label), reason, evidence)
        for *ids, label, reason, evidence in rows(contents.judgments, *fields)
        for pair in [tuple(ids)]
    }
    if yes_no:
        highest = threshold = 1
    people = [
        _Rating(pair_of(one), one.annotator, min(one.label, highest), one.note, one.evidence)
        for one in labels
    ]
    judged = {pair: one.label for pair, one in judge.items() if one.label is not None}
    compared = [one for one in labels if pair_of(one) in judged]
    report = _report(
        kind,
        name,
        judge,
        people,
        highest,
        threshold,
        weights=weights(compared, strata(contents), pair_of),
        singly=_drawn_singly(compared),
        groups=groups,
        lost={why: tuple(map(pair_of, of)) for why, of in lost.items()},
        weighted=any(one.stratum for one in compared),
    )
    texts = {nugget.nugget_id: nugget.text for nugget in contents.nuggets}
    named = (
        one.model_copy(update={"nugget": texts.get(one.item[1], "")})
        for one in report.disagreements
    )
    return report.model_copy(update={"disagreements": tuple(named)})


def measured_trust(
    contents: Contents,
    corpus: ChunkFile,
    scale: Scale,
    name: str,
    settings: TrustConfig,
    *,
    before: Collection | None = None,
) -> Trust | None:
    """Measure how far labels agree with people, for the manifest; None without labels of people.

    Labels with ids alone, which may be those of the collection `before`, get its texts.

    Labels that cannot be compared with these records make a collection that is not calibrated, and
    stop no build.
    """
    if not settings.labels:
        return None
    given = read_labels(settings.labels)
    labels, lost = follow(given if before is None else with_known(given, before), contents, corpus)
    try:
        report = compare(contents, scale, name, labels, lost=lost)
    except CollectionError as error:
        return Trust(calibrated=False, min_kappa=settings.min_kappa, reason=str(error))
    kappas = report.metrics["kappa"]
    judge, people = (
        Kappa(value=one.value, low=one.low, high=one.high) if one else None
        for one in (kappas.judge, kappas.people)
    )
    low = judge.low if judge else None
    return Trust(
        calibrated=low is not None and low >= settings.min_kappa,
        min_kappa=settings.min_kappa,
        kappa=judge,
        ceiling=people,
        labels=report.labels,
        annotators=len(report.annotators),
    )


def agree_on_answers(folder: Path, labels: Sequence[AnswerLabel]) -> AgreementReport:
    """Compare whether answers agree with gold ones, as `freshstack answer` and as people say.

    Args:
        folder: That `freshstack answer` wrote.
        labels: Of its answers; those of further samples of an answer are left out, as
            `agreement.jsonl` is of the first.

    Raises:
        CollectionError: The folder has no verdicts, or no label is of them.
    """
    path = folder / "agreement.jsonl"
    try:
        found = decode_records(path.read_bytes(), Agreement, path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read: {error.strerror}") from None

    def item(label: AnswerLabel | Agreement) -> ItemId:
        return label.query_id, label.run_id

    judge: Judge = {
        item(one): _Rating(
            item(one), _JUDGE, None if one.agrees is None else int(one.agrees), one.reason
        )
        for one in found
    }
    labels = [one for one in labels if one.sample == 1]
    agrees = {
        of: "agrees" if one.label else "disagrees"
        for of, one in judge.items()
        if one.label is not None
    }
    compared = [one for one in labels if item(one) in agrees]
    return _report(
        "answer",
        folder.name,
        judge,
        [_Rating(item(one), one.annotator, int(one.agrees), one.note) for one in labels],
        highest=1,
        threshold=1,
        weights=weights(compared, agrees, item),
        singly=_drawn_singly(compared),
        weighted=any(one.stratum for one in labels),
    )


def agree_with_judge(
    judgments: Sequence[Judgment], scale: Scale, before: Sequence[Judgment], before_scale: Scale
) -> AgreementReport | None:
    """Compare a judge with another, the labels before in the place of a person's.

    On two scales labels are read as support or none, each by the threshold of its own; on one, by
    the threshold of now. None where no pair has both labels.
    """
    differ = scale.name != before_scale.name

    def read(label: int, of: Scale) -> int:
        return binary(label, of.threshold) if differ else label

    judge: Judge = {
        pair_of(one): _Rating(pair_of(one), _JUDGE, read(one.label, scale), one.reason)
        for one in judgments
        if one.label is not None
    }
    labels = [
        _Rating(pair_of(one), "before", read(one.label, before_scale))
        for one in before
        if one.label is not None and pair_of(one) in judge
    ]
    if not labels:
        return None
    highest, threshold = (1, 1) if differ else (SCALES[scale.name].highest, scale.threshold)
    report = _report("support", "", judge, labels, highest, threshold)
    return report.model_copy(update={"disagreements": ()})


_JUDGE = "judge"
_NONE = _Rating((), _JUDGE, None)


def _by_item(
    name: str, judge: Judge, people: Sequence[_Rating], lost: Mapping[str, Sequence[ItemId]]
) -> tuple[dict[ItemId, list[_Rating]], list[ItemId], list[ItemId]]:
    """People's ratings by item; and the items left out: failed, and not judged."""
    given: dict[ItemId, dict[str, _Rating]] = {}
    failed: list[ItemId] = []
    unjudged: list[ItemId] = []
    for rating in people:
        if judge.get(rating.item, _NONE).label is None:
            (failed if rating.item in judge else unjudged).append(rating.item)
        elif given.setdefault(rating.item, {}).setdefault(rating.rater, rating) is not rating:
            raise CollectionError(
                f"{rating.rater!r} labelled {rating.item} twice; keep one of the two"
            )
    if not given:
        reasons = {
            **lost,
            "of pairs whose judgment failed": failed,
            "of pairs not judged": unjudged,
        }
        said = ", ".join(f"{len(items):,} {why}" for why, items in reasons.items() if items)
        raise CollectionError(
            f"none of the {sum(map(len, reasons.values()))} labels is of a pair with a label of "
            f"{name!r}{': ' * bool(said)}{said}; ids must be those of judgments.jsonl"
        )
    ordered = {item: [of for _, of in sorted(given[item].items())] for item in sorted(given)}
    return ordered, failed, unjudged


def _report(  # noqa: PLR0913 - what is compared, and how it was drawn
    kind: str,
    name: str,
    judge: Judge,
    people: Sequence[_Rating],
    highest: int,
    threshold: int,
    *,
    weights: Mapping[Any, float] = MappingProxyType({}),
    singly: bool = False,
    groups: Callable[[ItemId], Iterable[str]] = _no_groups,
    **about: Any,
) -> AgreementReport:
    """Compare the judge with people: pairs of ratings, in tables by query.

    `weights` are those of items, `singly` whether each item was drawn by itself, and not with all of
    its query, or nobody knows how; `about` are further fields of the report.
    """
    given, failed, unjudged = _by_item(name, judge, people, about.get("lost", {}))
    mean = fmean(weights.get(item, 1.0) for item in given)
    weight = {item: weights.get(item, 1.0) / mean for item in given}
    pairs = [
        _Pair(judge[item], rating, weight[item] / len(ratings))
        for item, ratings in given.items()
        for rating in ratings
    ]
    among = [
        _Pair(*two, weight[item])
        for item, ratings in given.items()
        for two in permutations(ratings, 2)
    ]
    graded = highest > 1 and any((pair.second.label or 0) > 1 for pair in pairs)  # else yes and no

    def of_pairs(pairs: Sequence[_Pair], *, apart: bool = False) -> dict[str, Interval]:
        """The metrics; `apart`, as the mean of those of each two raters."""
        return bootstrap(
            _tables(pairs, highest, apart=apart),
            lambda sums: {
                metric: _mean(values, sums.sum((-1, -2)))
                for metric, values in _metrics(sums, threshold, graded=graded).items()
            },
        )

    by_judge = of_pairs(pairs)
    for metric, (low, exact) in _lower_ends(pairs, weight, threshold, singly=singly).items():
        one = by_judge[metric]
        if one.value is not None and exact:
            ends: dict[str, Any] = {"low": low, "high": one.value, "reason": None}
            by_judge[metric] = one.model_copy(update=ends)
        elif one.low is not None:
            by_judge[metric] = one.model_copy(update={"low": min(low, one.low)})
    by_people = {}
    if among:
        by_people = of_pairs(among, apart=True) | _of_many(
            among, {item: len(of) for item, of in given.items()}, highest, threshold, graded=graded
        )
    by_judge |= _evidence(pairs, weight)
    by_people |= _evidence(among, weight)
    slices: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        for group in groups(pair.item):
            slices[group].append(pair)
    return AgreementReport(
        kind=kind,
        pairs=len(given),
        labels=len(pairs),
        annotators=tuple(sorted({pair.second.rater for pair in pairs})),
        shared=sum(len(ratings) > 1 for ratings in given.values()),
        threshold=threshold,
        random=_at_random(pairs, among, threshold),
        metrics={
            metric: Compared(judge=by_judge.get(metric), people=by_people.get(metric))
            for metric in by_judge | by_people
        },
        confusion=confusion([pair.labels for pair in pairs]),
        slices=tuple(
            SliceAgreement(
                name=group,
                pairs=len({pair.item for pair in slices[group]}),
                metrics=of_pairs(slices[group]),
            )
            for group in sorted(slices, key=_number_first)
        ),
        disagreements=_disagreements(pairs, threshold),
        failed=tuple(failed),
        unjudged=tuple(unjudged),
        **{"weighted": False, **about},
    )


def _drawn_singly(labels: Iterable[HumanLabel | AnswerLabel]) -> bool:
    return all(label.stratum not in (None, "", WHOLE_QUERIES) for label in labels)


def _lower_ends(
    pairs: Sequence[_Pair], weight: Mapping[ItemId, float], threshold: int, *, singly: bool
) -> dict[str, tuple[float, bool]]:
    """Bound kappa and the share agreed where few disagree; and say whether nobody does."""
    support: dict[ItemId, int] = {}
    differs: defaultdict[ItemId, float] = defaultdict(float)
    for pair in pairs:
        support[pair.item], person = (binary(label, threshold) for label in pair.labels)
        if person != support[pair.item]:
            differs[pair.item] += pair.weight
    if differs and (not singly or len(differs) >= FEW_DISAGREEMENTS):
        return {}
    units: defaultdict[Any, float] = defaultdict(float)
    for item, one in weight.items():
        units[item if singly else item[0]] += one
    bound = disagreement_bound([*units.values()], [*differs.values()])
    share = sum(weight[item] for item, one in support.items() if one) / sum(weight.values())
    if not 0 < share < 1:
        return {}
    part = None
    if differs:
        only_judge = sum(one for item, one in differs.items() if support[item])
        part = only_judge / sum(differs.values())
    ends = {"share agreed": 1 - bound, "kappa": least_kappa(share, bound, part)}
    return {name: (end, not differs) for name, end in ends.items()}


def _at_random(by_judge: Sequence[_Pair], among: Sequence[_Pair], threshold: int) -> dict[str, str]:
    """Find annotators whose labels say no more than chance, with the reason, by name.

    An annotator is compared with the judge and with the other annotators. Named is one whose kappa's
    interval begins at 0 or below and ends below the kappa that the others reach, in each comparison
    in which the others' interval begins above 0. So a bad judge, or too few labels, make no one
    suspect.
    """
    found = {}
    for name in sorted({pair.second.rater for pair in by_judge}):
        with_judge = _kappa_of([one for one in by_judge if one.second.rater != name], threshold)
        others = [one for one in among if name not in (one.first.rater, one.second.rater)]
        reasons: list[str] = []
        for what, pairs, reached in (
            ("the judge", by_judge, with_judge),
            ("the other annotators", among, _kappa_of(others, threshold) or with_judge),
        ):
            own = _kappa_of([one for one in pairs if one.second.rater == name], threshold)
            if own is None or reached is None or reached[1] <= 0:
                continue  # it cannot be known
            by_chance = own[1] <= 0 and own[2] < reached[0]
            said = f"kappa with {what} {own[0]:.2f}, the others' {reached[0]:.2f}"
            reasons.append(said if by_chance else "")
        if reasons and all(reasons):
            found[name] = "; ".join(reasons)
    return found


def _kappa_of(pairs: Sequence[_Pair], threshold: int) -> tuple[float, float, float] | None:
    """Kappa and its ends, of support or none; None where so few pairs do not tell it."""
    by_query: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for pair in pairs:
        judge, person = (binary(label, threshold) for label in pair.labels)
        by_query[pair.item[0]].append((judge, person))
    if len(pairs) < _FEWEST or len(by_query) < 2:
        return None
    one = kappa_interval(by_query)
    if one.value is None:
        return None
    if one.low is None or one.high is None:  # it does not vary: all or none agree
        return one.value, one.value, one.value
    return one.value, one.low, one.high


def _number_first(group: str) -> tuple[int, str]:
    """Order slices by the number that a name begins with, and the name."""
    number = group.partition(" ")[0]
    return int(number) if number.isdecimal() else 0, group


def _metrics(tables: Tables, threshold: int, *, graded: bool) -> dict[str, Values]:
    """All metrics of two raters, by their names."""
    two = on_support(tables, threshold)
    found = {"kappa": kappa(two), "share agreed": same_label(two)}
    for name, label in _CLASSES.items():
        found[f"precision of {name}"] = precision(two, label)
        found[f"recall of {name}"] = recall(two, label)
    if not graded:
        return found
    found["same grade"] = same_label(tables)
    found["kappa of grades"] = kappa(tables)
    for weights_ in get_args(Weights):
        found[f"{weights_} kappa of grades"] = kappa(tables, weights_)
    for label in range(tables.shape[-1]):
        if label not in (0, threshold):
            found[f"kappa from {label} on"] = kappa(on_support(tables, label))
    for label in range(int(threshold == 1), tables.shape[-1]):  # grade 0 is no support
        found[f"precision of grade {label}"] = precision(tables, label)
        found[f"recall of grade {label}"] = recall(tables, label)
    return found


def _sums(parts: Iterable[tuple[ItemId, Any]]) -> Any:
    """Sum what each item adds within its query: queries, by their ids, x …."""
    import numpy as np

    sums: dict[str, Any] = {}
    for item, part in parts:
        sums[item[0]] = sums.get(item[0], 0) + part
    return np.stack([sums[query] for query in sorted(sums)])


def _tables(pairs: Sequence[_Pair], highest: int, *, apart: bool = False) -> Tables:
    """Count the pairs of labels of each query: queries x two raters x first x second label."""
    import numpy as np

    def raters(pair: _Pair) -> tuple[str, ...]:
        return (pair.first.rater, pair.second.rater) if apart else ()

    places = {two: place for place, two in enumerate(sorted(set(map(raters, pairs))))}

    def table(pair: _Pair) -> Tables:
        cells = np.zeros((len(places), highest + 1, highest + 1))
        cells[places[raters(pair)], *pair.labels] = pair.weight
        return cells

    return _sums((pair.item, table(pair)) for pair in pairs)


def _of_many(
    among: Sequence[_Pair],
    raters: Mapping[ItemId, int],
    highest: int,
    threshold: int,
    *,
    graded: bool,
) -> dict[str, Interval]:
    """The metrics of any number of raters, from coincidences: pairs of labels of one item."""

    def coincidences(*, shares: bool) -> Tables:
        weighted = [
            pair._replace(weight=pair.weight / (number - 1) / (number if shares else 1))
            for pair in among
            for number in [raters[pair.item]]
        ]
        return _tables(weighted, highest)[:, 0]

    def alphas(sums: Tables) -> dict[str, Values]:
        levels: tuple[Level, ...] = get_args(Level) if graded else ()
        return {
            "Krippendorff's alpha": alpha(on_support(sums, threshold)),
            **{f"{level} alpha of grades": alpha(sums, level) for level in levels},
        }

    return bootstrap(coincidences(shares=False), alphas) | bootstrap(
        coincidences(shares=True),
        lambda sums: {"Fleiss' kappa": fleiss(on_support(sums, threshold))},
    )


def _mean(values: Values, weights: Values) -> Values:
    """The weighted mean over the last axis, without `nan`."""
    import numpy as np

    weights = np.where(np.isnan(values), 0, weights)
    return share_of((np.nan_to_num(values) * weights).sum(-1), weights.sum(-1))


def _evidence(pairs: Sequence[_Pair], weight: Mapping[ItemId, float]) -> dict[str, Interval]:
    """How the spans of two raters overlap, where both marked some; each item counts once."""
    import numpy as np

    marked = [pair for pair in pairs if pair.first.evidence and pair.second.evidence]
    if not marked:
        return {}
    number = Counter(pair.item for pair in marked)

    def overlap(pair: _Pair) -> Any:
        one, other = pair.first.evidence, pair.second.evidence
        common = shared(one, other)
        f1 = 2 * common / (size(one) + size(other))
        return weight[pair.item] / number[pair.item] * np.array([1, common > 0, f1])

    return bootstrap(
        _sums((pair.item, overlap(pair)) for pair in marked),
        lambda of: {
            "evidence: spans overlap": share_of(of[:, 1], of[:, 0]),
            "evidence: F1 of bytes": share_of(of[:, 2], of[:, 0]),
        },
    )


def _disagreements(pairs: Iterable[_Pair], threshold: int) -> tuple[Disagreement, ...]:
    def worst_first(one: Disagreement) -> tuple[Any, ...]:
        about_support = binary(one.judge, threshold) != binary(one.person, threshold)
        return -abs(one.judge - one.person), not about_support, one.item, one.annotator

    found = (
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
    return tuple(sorted(found, key=worst_first))


# By slice


def _kind(collection: Collection) -> Callable[[Judgment], Iterable[str]]:
    from freshstack_dspy.corpus.outlines import file_kind, is_language

    def kind(one: Judgment) -> Iterable[str]:
        return ["code" if is_language(file_kind(collection.chunk(one.chunk_id).path)) else "prose"]

    return kind


def _length(collection: Collection) -> Callable[[Judgment], Iterable[str]]:
    def length(one: Judgment) -> Iterable[str]:
        tokens = collection.chunk(one.chunk_id).tokens
        from_ = 0 if tokens < _SHORTEST else 2 ** (tokens.bit_length() - 1)
        return [f"{from_} to {max(2 * from_, _SHORTEST) - 1} tokens"]

    return length


def _position(collection: Collection) -> Callable[[Judgment], Iterable[str]]:
    """The place of a chunk among those of its call, which are in the order of their ids unless shuffled."""
    judge: Any = collection.manifest.config.get("judge") or {}
    if judge.get("shuffle") is not None or judge.get("votes", 1) > 1:
        raise CollectionError(
            "chunks were shuffled before they were judged, so that their position in a call is not "
            "known; divide them by something else"
        )
    calls: defaultdict[str, set[str]] = defaultdict(set)
    for one in collection.judgments:
        if one.same_as is None:
            calls[one.call_id or ""].add(one.chunk_id)
    places = {
        (call, chunk): place
        for call, chunks in calls.items()
        for place, chunk in enumerate(sorted(chunks))
    }

    def position(one: Judgment) -> Iterable[str]:
        place = places.get((one.call_id or "", one.chunk_id))
        if one.call_id and one.same_as is None and place is not None:
            yield f"{place // 5 * 5 + 1} to {place // 5 * 5 + 5} of its call"

    return position


def _duplicate(_: Collection) -> Callable[[Judgment], Iterable[str]]:
    return lambda one: ["judged itself" if one.same_as is None else "by a near-duplicate"]


def _languages(collection: Collection) -> Callable[[Judgment], Iterable[str]]:
    of_question = {one.query_id: one.language for one in collection.queries}
    if not any(of_question.values()):
        raise CollectionError("the collection says of no query what its language is")

    def languages(one: Judgment) -> Iterable[str]:
        question, chunk = of_question[one.query_id], collection.chunk(one.chunk_id).language
        return [f"question {question}, chunk {chunk}"] if question and chunk else []

    return languages


_OF_PAIRS = {
    "languages": _languages,
    "kind": _kind,
    "length": _length,
    "position": _position,
    "duplicate": _duplicate,
}


def slicing(collection: Collection, by: str) -> Callable[[ItemId], Iterable[str]]:
    """Give the function that names the slices of a labelled pair.

    Pairs are divided as their queries are grouped (`groupings`); or by the languages of question
    and chunk, code and prose, the length of the chunk, its place in the call that judged it,
    whether it has a near-duplicate's label.

    Raises:
        CollectionError: The kind is unknown, or the collection does not say it.
    """
    if by in (of_queries := groupings(collection)):
        groups = collection.groups(by).by_query()
        return lambda item: groups.get(item[0], ())
    if by not in _OF_PAIRS:
        raise CollectionError(
            f"pairs are divided by {', '.join((*of_queries, *_OF_PAIRS))}, not by {by!r}"
        )
    judged: dict[ItemId, Judgment] = {pair_of(one): one for one in collection.judgments}
    name = _OF_PAIRS[by](collection)
    return lambda item: name(judged[item])


# Nuggets


class NuggetRatings(Record, Shown):
    """What people say of nuggets (FreshStack, Table 5)."""

    nuggets: int
    labels: int
    annotators: tuple[str, ...]
    shares: dict[str, Interval]
    """`precise`, `grounded`, `vital`: of the nuggets; `recall`: of the nuggets that people list
    for a query, those that it had. Intervals are over queries."""
    left_out: int
    """Labels of nuggets that the collection does not have."""

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {interval(one, '.3f')}" for name, one in self.shares.items())
        return f"NuggetRatings({counted(self.nuggets, 'nugget')}, {shares})"

    __str__ = __repr__


QUALITIES = ("precise", "grounded", "vital")


def nugget_ratings(
    collection: Collection, labels: Sequence[NuggetLabel], lists: Sequence[NuggetList] = ()
) -> NuggetRatings:
    """Sum up what people say of the nuggets of a collection; queries count as they were sampled.

    Raises:
        CollectionError: No label is of a nugget of the collection.
    """
    import numpy as np

    known = {(nugget.query_id, nugget.nugget_id) for nugget in collection.nuggets}
    given: defaultdict[ItemId, dict[str, NuggetLabel]] = defaultdict(dict)
    for label in labels:
        if (label.query_id, label.nugget_id) in known:
            given[label.query_id, label.nugget_id][label.annotator] = label
    number = sum(map(len, given.values()))
    if not number:
        raise CollectionError(
            f"none of the {len(labels)} labels is of a nugget of {collection.name!r}: query_id and "
            "nugget_id must be those of nuggets.jsonl"
        )

    slices: dict[ItemId, str] = {(part.query_id,): part.slice for part in collection.slices}
    design = weights([*labels, *lists], slices, lambda label: (label.query_id,))

    def shares(item: ItemId) -> Any:
        means = [fmean(getattr(one, name) for one in given[item].values()) for name in QUALITIES]
        return design[item[:1]] * np.array([1, *means])

    found = bootstrap(
        _sums((item, shares(item)) for item in sorted(given)),
        lambda of: {
            name: share_of(of[:, place], of[:, 0]) for place, name in enumerate(QUALITIES, 1)
        },
    )
    if lists:
        listed: Counter[ItemId] = Counter()
        kept: Counter[ItemId] = Counter()
        for one in lists:
            listed[one.query_id,] += len(one.nuggets)
            kept[one.query_id,] += sum(
                bool(each.nugget_id or each.made_from) for each in one.nuggets
            )
        sums = _sums(
            (item, design[item] * np.array([kept[item], number]))
            for item, number in sorted(listed.items())
        )
        found |= bootstrap(sums, lambda of: {"recall": share_of(of[:, 0], of[:, 1])})
    return NuggetRatings(
        nuggets=len(given),
        labels=number,
        annotators=tuple(sorted({who for of_item in given.values() for who in of_item})),
        shares=found,
        left_out=len(labels) - number,
    )


def binary(label: int, threshold: int = 1) -> int:
    """Read a label of any scale as support, 1, or no support, 0."""
    return int(label >= threshold)


def _check_scale(scale: Scale, name: str, labels: Sequence[HumanLabel]) -> None:
    """Check that labels are on the scale, and not yes and no where 1 is no support."""
    yes_no = bool(labels) and labels[0].kind == "answerability"
    for label in labels:
        top = highest_label(label.kind, scale.name)
        if top is not None and label.label > top:
            ends = "labels of answerability are 0 and 1"
            if not yes_no:
                ends = f"the scale {scale.name} of {name!r} ends at {top}"
            raise CollectionError(
                f"a label is {label.label} (query {label.query_id!r}, nugget {label.nugget_id!r}, "
                f"chunk {label.chunk_id!r}, of {label.annotator!r}), and {ends}: label on the scale "
                "of the collection"
            )
    highest = max((label.label for label in labels), default=0)
    if highest == 1 < scale.threshold and not yes_no:
        raise CollectionError(
            f"no label is above 1, and on the scale {scale.name} of {name!r} support "
            f"begins at {scale.threshold}: if 1 means support, write {scale.threshold} or more"
        )
