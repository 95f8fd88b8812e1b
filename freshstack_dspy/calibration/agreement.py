"""The judge of a collection against people (FreshStack §4.2, with the negatives it left out)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import get_args

from freshstack_dspy.calibration.labels import read_labels
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.agreement import (
    Confusion,
    LabelPair,
    Level,
    binarised_kappa,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
    fleiss_kappa,
    krippendorff_alpha,
    mean_pairwise_kappa,
    weighted_kappa,
)
from freshstack_dspy.measures.statistics import Estimate, Interval, bootstrap_interval
from freshstack_dspy.records import SCALES, HumanLabel, Record

PairId = tuple[str, str, str]
"""query_id, nugget_id, chunk_id."""
ByQuery = Mapping[str, Sequence[LabelPair]]
_CLASSES = {"support": 1, "no_support": 0}


class JudgeMetrics(Record):
    """Metrics of a judge on pairs (judge's label, person's label), with intervals over queries.

    Labels are read as support, from the collection's threshold on, and no support.
    """

    pairs: int
    kappa: Interval
    exact_match: Interval
    precision: dict[str, Interval]
    """For `support` and `no_support`: the share of the judge's that are the person's too."""
    recall: dict[str, Interval]
    """For `support` and `no_support`: the share of the person's that are the judge's too."""
    confusion: Confusion


class GradedMetrics(Record):
    """Metrics of a judge on a graded scale, on the labels as they were given."""

    kappa: Interval
    """Plain: any difference is as large as any other."""
    linear_kappa: Interval
    quadratic_kappa: Interval
    """Weighted: a difference counts by its size, or by the square of it."""
    exact_match: Interval
    support_from: dict[int, Interval]
    """Kappa of labels read as support and none, for each label that support could begin at."""
    confusion: Confusion


class Annotators(Record):
    """How well the annotators agree among themselves on the pairs that two or more labelled."""

    pairs: int
    fleiss_kappa: Estimate
    alpha: Estimate
    """Krippendorff's, as Fleiss' kappa of labels read as support and none."""
    graded_alpha: dict[Level, Estimate]
    """Krippendorff's of the labels as they were given, by what they are taken for; empty where
    the scale is yes and no."""


class AgreementReport(Record):
    """What `agree` found."""

    metrics: JudgeMetrics
    graded: GradedMetrics | None = None
    """None where the scale of the collection, or all that people said, is yes and no."""
    annotators: tuple[str, ...]
    ceiling: Estimate
    """Mean pairwise kappa of the annotators: what a judge can be expected to reach."""
    among: Annotators
    failed: int
    """Labels of pairs whose judgment failed; they are left out."""
    unjudged: int
    """Labels of pairs that were not in the pool; they are left out."""
    first_failed: PairId | None = None
    first_unjudged: PairId | None = None
    """The first of them, in the order of the labels."""


def agree(
    collection: Collection | Path | str, labels: Sequence[HumanLabel] | Path | str
) -> AgreementReport:
    """Compare the judgments of a collection with labels of people.

    Every label counts as one pair, so a pair that two people labelled counts twice. People label
    on the scale of the collection; both their labels and the judge's are support from its
    threshold on.

    Raises:
        CollectionError: No label is of a judged pair of this collection, or they are on another
            scale.
    """
    if isinstance(collection, Path | str):
        collection = Collection.load(collection)
    if isinstance(labels, Path | str):
        labels = read_labels(labels)
    _check_scale(collection, labels)
    judged = {
        (judgment.query_id, judgment.nugget_id, judgment.chunk_id): judgment.label
        for judgment in collection.judgments
    }
    pairs: defaultdict[str, list[LabelPair]] = defaultdict(list)
    given: defaultdict[PairId, list[int]] = defaultdict(list)
    failed: list[PairId] = []
    unjudged: list[PairId] = []
    for label in labels:
        pair = _pair(label)
        given[pair].append(label.label)
        verdict = judged.get(pair)
        if verdict is not None:
            pairs[label.query_id].append((verdict, label.label))
        else:
            (failed if pair in judged else unjudged).append(pair)
    if not pairs:
        raise CollectionError(
            f"none of the {len(labels)} labels is of a pair with a label of {collection.name!r} "
            f"({len(unjudged)} of pairs not in judgments.jsonl, {len(failed)} of pairs whose judgment "
            "failed): query_id, nugget_id and chunk_id must be those of judgments.jsonl"
        )
    threshold = collection.threshold
    on_support = {
        query: [(binary(judge, threshold), binary(person, threshold)) for judge, person in of_query]
        for query, of_query in pairs.items()
    }
    highest = SCALES[collection.manifest.scale.name].highest
    is_graded = highest > 1 and any(label.label > 1 for label in labels)  # else yes and no
    return AgreementReport(
        metrics=judge_metrics(on_support),
        graded=_graded_metrics(pairs, highest) if is_graded else None,
        annotators=tuple(sorted({label.annotator for label in labels})),
        ceiling=mean_pairwise_kappa(
            (_pair(label), label.annotator, binary(label.label, threshold)) for label in labels
        ),
        among=_among(given, threshold, graded=is_graded),
        failed=len(failed),
        unjudged=len(unjudged),
        first_failed=next(iter(failed), None),
        first_unjudged=next(iter(unjudged), None),
    )


def judge_metrics(pairs: ByQuery) -> JudgeMetrics:
    """Compute all metrics of a judge, from its pairs of 0 and 1 by query."""
    interval = partial(_interval, pairs)
    return JudgeMetrics(
        pairs=sum(map(len, pairs.values())),
        kappa=interval(cohen_kappa),
        exact_match=interval(exact_match),
        precision={
            name: interval(partial(class_precision, label=label))
            for name, label in _CLASSES.items()
        },
        recall={
            name: interval(partial(class_recall, label=label)) for name, label in _CLASSES.items()
        },
        confusion=confusion(list(chain.from_iterable(pairs.values()))),
    )


def _graded_metrics(pairs: ByQuery, highest: int) -> GradedMetrics:
    interval = partial(_interval, pairs)
    return GradedMetrics(
        kappa=interval(cohen_kappa),
        linear_kappa=interval(partial(weighted_kappa, weights="linear")),
        quadratic_kappa=interval(partial(weighted_kappa, weights="quadratic")),
        exact_match=interval(exact_match),
        support_from={
            label: interval(partial(binarised_kappa, threshold=label))
            for label in range(1, highest + 1)
        },
        confusion=confusion(list(chain.from_iterable(pairs.values()))),
    )


def _among(given: Mapping[PairId, list[int]], threshold: int, *, graded: bool) -> Annotators:
    shared = [given[pair] for pair in sorted(given) if len(given[pair]) > 1]
    on_support = [[binary(label, threshold) for label in labels] for labels in shared]
    levels: tuple[Level, ...] = get_args(Level) if graded else ()
    return Annotators(
        pairs=len(shared),
        fleiss_kappa=fleiss_kappa(on_support),
        alpha=krippendorff_alpha(on_support),
        graded_alpha={level: krippendorff_alpha(shared, level) for level in levels},
    )


def _interval(pairs: ByQuery, metric: Callable[[Sequence[LabelPair]], Estimate]) -> Interval:
    return bootstrap_interval(pairs, lambda items: metric(items).value)


def _pair(label: HumanLabel) -> PairId:
    return label.query_id, label.nugget_id, label.chunk_id


def binary(label: int, threshold: int = 1) -> int:
    """Read a label of any scale as support, 1, or no support, 0."""
    return int(label >= threshold)


def _check_scale(collection: Collection, labels: Sequence[HumanLabel]) -> None:
    """Check that the labels can be on the collection's scale.

    None is above its highest; where that is yes or no, a person's scale may be finer: any label
    from 1 on is support. Labels that are all 0 or 1, with a 1 that would not be support, were given
    as yes and no.
    """
    scale = collection.manifest.scale
    top = SCALES[scale.name].highest
    for label in labels:
        if scale.name != "binary" and label.label > top:
            raise CollectionError(
                f"a label is {label.label} (query {label.query_id!r}, nugget {label.nugget_id!r}, "
                f"chunk {label.chunk_id!r}, of {label.annotator!r}), and the scale {scale.name} of "
                f"{collection.name!r} ends at {top}: label on the scale of the collection"
            )
    highest = max((label.label for label in labels), default=0)
    if highest == 1 < scale.threshold:
        raise CollectionError(
            f"no label is above 1, and on the scale {scale.name} of {collection.name!r} support "
            f"begins at {scale.threshold}: if 1 means support, write {scale.threshold} or more"
        )
