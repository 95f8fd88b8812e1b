"""The judge of a collection against people (FreshStack §4.2, with the negatives it left out)."""

from collections.abc import Callable, Sequence

from freshstack_dspy.collection import Collection
from freshstack_dspy.collection.human_labels import refuse_labels_above
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures import (
    Confusion,
    Interval,
    bootstrap_interval,
    class_precision,
    class_recall,
    cohen_kappa,
    confusion,
    exact_match,
    mean_pairwise_kappa,
    shared_labels,
)
from freshstack_dspy.measures.agreement import LabelPair
from freshstack_dspy.measures.estimate import Estimate
from freshstack_dspy.records import HumanLabel, Record

SUPPORTS, SUPPORTS_NOT = 1, 0
PairId = tuple[str, str, str]
ClassMeasure = Callable[[Sequence[LabelPair], int], Estimate]


class JudgeFigures(Record):
    """Figures of a judge on pairs (judge's label, person's label), with intervals over queries.

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


class AgreementReport(Record):
    """What `agree` found."""

    figures: JudgeFigures
    annotators: tuple[str, ...]
    ceiling: Estimate
    """Mean pairwise kappa of the annotators: what a judge can be expected to reach."""
    failed: int
    """Labels of pairs whose judgment failed; they are in no figure."""
    unjudged: int
    """Labels of pairs that were not in the pool; they are in no figure."""
    first_failed: PairId | None = None
    first_unjudged: PairId | None = None
    """The first of them, in the order of the labels: query_id, nugget_id, chunk_id."""


def agree(
    collection: Collection, labels: Sequence[HumanLabel], *, resamples: int = 1000, seed: int = 0
) -> AgreementReport:
    """Compare the judgments of a collection with labels of people.

    Every label counts as one pair, so a pair that two people labelled counts twice. People label
    on the scale of the collection; both their labels and the judge's are support from its
    threshold on.

    Raises:
        CollectionError: No label is of a judged pair of this collection, or they are on another
            scale.
    """
    _check_scale(collection, labels)
    threshold = collection.threshold
    judged = {
        (judgment.query_id, judgment.nugget_id, judgment.chunk_id): judgment.label
        for judgment in collection.judgments
    }
    pairs: dict[str, list[LabelPair]] = {}
    failed: list[PairId] = []
    unjudged: list[PairId] = []
    for label in labels:
        identity = (label.query_id, label.nugget_id, label.chunk_id)
        verdict = judged.get(identity)
        if identity not in judged:
            unjudged.append(identity)
        elif verdict is None:
            failed.append(identity)
        else:
            pairs.setdefault(label.query_id, []).append(
                (binary(verdict, threshold), binary(label.label, threshold))
            )
    if not pairs:
        raise CollectionError(
            f"none of the {len(labels)} labels is of a pair with a label of {collection.name!r} "
            f"({len(unjudged)} of pairs not in judgments.jsonl, {len(failed)} of pairs whose judgment "
            "failed): query_id, nugget_id and chunk_id must be those of judgments.jsonl"
        )
    return AgreementReport(
        figures=judge_figures(pairs, resamples=resamples, seed=seed),
        annotators=tuple(sorted({label.annotator for label in labels})),
        ceiling=mean_pairwise_kappa(
            shared_labels(
                (
                    (label.query_id, label.nugget_id, label.chunk_id),
                    label.annotator,
                    binary(label.label, threshold),
                )
                for label in labels
            )
        ),
        failed=len(failed),
        unjudged=len(unjudged),
        first_failed=next(iter(failed), None),
        first_unjudged=next(iter(unjudged), None),
    )


def judge_figures(
    pairs: dict[str, list[LabelPair]], *, resamples: int = 1000, seed: int = 0
) -> JudgeFigures:
    """Compute all figures of a judge, from its pairs by query."""

    def interval(statistic: Callable[[Sequence[LabelPair]], float | None]) -> Interval:
        return bootstrap_interval(pairs, statistic, resamples=resamples, seed=seed)

    def by_class(measure: ClassMeasure) -> dict[str, Interval]:
        def of_label(label: int) -> Interval:
            return interval(lambda items: measure(items, label).value)

        return {"support": of_label(SUPPORTS), "no_support": of_label(SUPPORTS_NOT)}

    everything = [pair for _, group in sorted(pairs.items()) for pair in group]
    return JudgeFigures(
        pairs=len(everything),
        kappa=interval(lambda items: cohen_kappa(items).value),
        exact_match=interval(lambda items: exact_match(items).value),
        precision=by_class(class_precision),
        recall=by_class(class_recall),
        confusion=confusion(everything),
    )


def binary(label: int, threshold: int = SUPPORTS) -> int:
    """Read a label of any scale as support or no support."""
    return SUPPORTS if label >= threshold else SUPPORTS_NOT


def _check_scale(collection: Collection, labels: Sequence[HumanLabel]) -> None:
    """Refuse labels that cannot be on the collection's scale.

    None is above its highest. Labels that are all 0 or 1, with a 1 that would not be support, were
    given as yes and no.
    """
    refuse_labels_above(collection, labels)
    scale = collection.manifest.scale
    highest = max((label.label for label in labels), default=0)
    if highest == 1 < scale.threshold:
        raise CollectionError(
            f"no label is above 1, and on the scale {scale.name} of {collection.name!r} support "
            f"begins at {scale.threshold}: if 1 stands for support, write {scale.threshold} or more"
        )
