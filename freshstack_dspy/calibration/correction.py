"""Estimates, from a sample, of a collection's values had people made all labels."""

import dataclasses
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

from freshstack_dspy.calibration.following import follow
from freshstack_dspy.calibration.labels import PairId, check_labels, pair_labels, pair_of
from freshstack_dspy.calibration.sampling import WHOLE_QUERIES, strata, weights
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.compare import Comparison, decide_by_people
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, evaluate
from freshstack_dspy.measures.measure import MeasureSource
from freshstack_dspy.measures.ppi import Corrected, corrected_mean
from freshstack_dspy.measures.run import RunSource
from freshstack_dspy.measures.statistics import LEVEL, in_order
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import SCALES, HumanLabel, Record
from freshstack_dspy.stored.contents import NuggetsName, Slices, slice_queries

ALL_PAIRS = "all judged pairs"


class CorrectedDifference(Record):
    """The mean of a run's values minus another's, corrected by people's labels."""

    measure: str
    run: str
    against: str
    difference: Corrected
    for_all_pairs: Corrected
    """The same, with intervals that hold for all pairs of runs at once, 19 times in 20."""


class Correction(Record, Shown):
    """The result of `correct`."""

    rates: dict[str, Corrected]
    """The share of judged pairs that support their nugget: among all pairs, and by the judge's label."""
    means: dict[str, dict[str, Corrected]]
    """By run and measure."""
    differences: tuple[CorrectedDifference, ...]
    pairs: int
    """The number of judged pairs that people labelled."""
    whole_queries: int
    """The number of queries that were drawn and are labelled in full."""
    notes: tuple[str, ...]
    """What was left out or combined."""

    def decide(self, comparison: Comparison) -> Comparison:
        """Give a comparison of these runs whose decisions are by the corrected differences.

        A pair whose difference has no corrected interval keeps its decision.

        Raises:
            ConfigError: The difference of a pair was not asked for.
        """
        by_pair = {
            (each.run, each.against): each.for_all_pairs
            for each in self.differences
            if each.measure == comparison.measures[0]
        }
        for each in comparison.decisions:
            if (pair := (each.run, each.against)) not in by_pair:
                raise ConfigError(f"this difference was not corrected: correct(…, pairs=[{pair}])")
        return decide_by_people(comparison, by_pair)


class _People(NamedTuple):
    """People's labels of the judged pairs, and how the pairs were drawn."""

    labels: Mapping[PairId, int]
    judged: Mapping[PairId, int]
    """The judge's labels of all pairs that have one."""
    strata: Mapping[PairId, str]
    """The strata of all judged pairs."""
    weights: Mapping[PairId, float]
    """Labelled pair -> how many judged pairs it stands for."""
    single: frozenset[PairId]
    """Labelled pairs that were drawn one by one; or all, if every judged pair is labelled."""
    whole: frozenset[str]
    """Queries that were drawn and are labelled in full."""
    by_others: bool
    """Whether pairs were drawn by another judge's labels, or --against them; then only the weights
    are known."""
    missing: int
    """The number of pairs that were drawn one by one and are not labelled."""
    notes: tuple[str, ...]


def correct(  # noqa: PLR0913 - what is corrected, by whose labels, and what is known of it
    collection: Collection | Path | str,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str,
    runs: Mapping[str, RunSource] | None = None,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    pairs: Iterable[tuple[str, str]] = (),
    family: int | None = None,
    evaluations: Mapping[str, Evaluation] | None = None,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    excluded: Ids[str] = (),
    **rules: Any,
) -> Correction:
    """Estimate what rates, means and differences would be, had people labelled every judged pair.

    Rates are estimated from single pairs that `freshstack sample` drew. Means need queries that are
    labelled in full, as `sample` draws them for runs; people's labels then decide, like the judge's,
    which nuggets are supported and which queries count. If several people labelled a pair, the
    lower median counts.

    Args:
        collection: The collection, or its folder.
        labels: Labels of support, or files of labels.
        runs: The runs by name.
        measures: As in `evaluate`.
        pairs: Names of two runs, whose difference is estimated.
        family: How many pairs there are together; by default these.
        evaluations: The runs by name as they are by the judge's labels, if that is known.
        slices: As in `Collection.qrels`.
        nuggets: As in `Collection.qrels`.
        excluded: Queries that are left out.
        **rules: Further arguments of `evaluate`, except `conventions`.

    Raises:
        CollectionError: A label is not of this collection or off its scale, or no label is of a
            judged pair; or as in `evaluate`.
    """
    collection, pairs = Collection.load(collection), list(pairs)
    followed_labels, lost = follow(pair_labels(labels), collection, collection.corpus)
    people = _people(collection, followed_labels, lost)
    by_people = _by_people(collection, people.labels)
    queries = sorted({query for query, _, _ in people.judged} - set(excluded))
    evaluated: dict[str, tuple[Evaluation, Evaluation]] = {}
    if runs:
        qrels = [each.qrels(slices, nuggets).without(excluded) for each in (collection, by_people)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # evaluating the runs has warned
            for name, run in runs.items():
                by_judge = (evaluations or {}).get(name) or evaluate(
                    qrels[0], run, measures, **rules
                )
                evaluated[name] = by_judge, evaluate(qrels[1], run, measures, **rules)
    names = next(iter(evaluated.values()))[0].measures if evaluated else ()
    mean = partial(_mean, people, queries)
    return Correction(
        rates=_rates(people, collection.threshold),
        means={run: {name: mean(name, both) for name in names} for run, both in evaluated.items()},
        differences=tuple(
            CorrectedDifference(
                measure=name,
                run=run,
                against=against,
                difference=mean(name, evaluated[run], evaluated[against]),
                for_all_pairs=mean(
                    name, evaluated[run], evaluated[against], pairs=family or len(pairs)
                ),
            )
            for name in names
            for run, against in pairs
        ),
        pairs=len(people.labels),
        whole_queries=len(people.whole & set(queries)),
        notes=people.notes,
    )


def _people(
    collection: Collection,
    labels: Sequence[HumanLabel],
    lost: Mapping[str, Sequence[HumanLabel]],
) -> _People:
    # If no label is of this collection, the first label's fault says why.
    all_labels = labels or [label for group in lost.values() for label in group]
    check_labels(((f"label {n}", label) for n, label in enumerate(all_labels, 1)), collection)
    of_judged = strata(collection)
    judged = {
        pair_of(judgment): judgment.label or 0
        for judgment in collection.judgments
        if judgment.label is not None
    }
    by_pair: defaultdict[PairId, list[HumanLabel]] = defaultdict(list)
    for label in labels:
        by_pair[pair_of(label)].append(label)
    labelled = {pair: by_pair[pair] for pair in sorted(by_pair) if pair in judged}
    if not labelled:
        reasons = "".join(f"; {len(group)} {why}" for why, group in lost.items())
        raise CollectionError(
            f"none of the {len(all_labels)} labels is of a judged pair of {collection.name!r}"
            f"{reasons}"
        )
    drawn = {
        pair: next((label.stratum for label in group if label.stratum and label.probability), "")
        for pair, group in labelled.items()
    }
    everything = len(labelled) == len(judged)
    single = {pair: name for pair, name in drawn.items() if name not in ("", WHOLE_QUERIES)}
    by_others = any(of_judged[pair] != name for pair, name in single.items())
    queries = {pair[0] for pair, name in drawn.items() if everything or name == WHOLE_QUERIES}
    whole = queries - {pair[0] for pair in judged if pair not in labelled}
    sizes, missing = Counter(of_judged.values()), 0
    for name, number in Counter(single.values()).items() if not by_others else ():
        share = max(label.probability or 0 for label in labels if label.stratum == name)
        missing += max(0, round(share * sizes[name]) - number)
    undrawn = 0 if everything else sum(not name for name in drawn.values())
    counts = {
        "drawn pairs not labelled yet": missing,
        "drawn queries not labelled in full yet, left out": len(queries - whole),
        "pairs labelled by several people": sum(len(group) > 1 for group in labelled.values()),
        **{f"labels {why}, left out": len(group) for why, group in lost.items()},
        "labelled pairs not judged, left out": len(by_pair) - len(labelled),
        "labelled pairs that no sample drew, left out": undrawn,
    }
    highest = SCALES[collection.manifest.scale.name].highest
    return _People(
        labels={
            pair: min(median_low(label.label for label in group), highest)
            for pair, group in labelled.items()
        },
        judged=judged,
        strata=of_judged,
        weights=weights(
            [label for group in labelled.values() for label in group], of_judged, pair_of
        ),
        single=frozenset(labelled if everything else single),
        whole=frozenset(whole),
        by_others=by_others and not everything,
        missing=missing,
        notes=tuple(f"{number:,} {what}" for what, number in counts.items() if number),
    )


def _by_people(collection: Collection, labels: Mapping[PairId, int]) -> Collection:
    """Give the collection with people's labels where they differ from the judge's."""
    judgments = tuple(
        judgment
        if (label := labels.get(pair_of(judgment), judgment.label)) == judgment.label
        else judgment.model_copy(update={"label": label, "evidence": ()})
        for judgment in collection.judgments
    )
    contents = (
        collection.queries,
        collection.nuggets,
        judgments,
        collection.threshold,
        collection.pool,
    )
    return dataclasses.replace(
        collection, judgments=judgments, slices=tuple(slice_queries(*contents))
    )


def _mean(
    people: _People,
    queries: Sequence[str],
    measure: str,
    run: tuple[Evaluation, Evaluation],
    against: tuple[Evaluation, Evaluation] | None = None,
    pairs: int = 1,
) -> Corrected:
    """Estimate a run's mean, or that of its values minus another's; a run is (by judge, by people)."""
    weights = in_order(run[0].weights, queries) or [1.0] * len(queries)

    def values(side: int) -> tuple[list[float], list[float]]:
        own = run[side].values(measure)
        other = against[side].values(measure) if against else {}
        weighted = [*zip(weights, queries, strict=True)]
        differences = [w * (own.get(query, 0) - other.get(query, 0)) for w, query in weighted]
        return differences, [w * (query in own) for w, query in weighted]

    (by_judge, judge_counts), (by_people, people_counts) = values(0), values(1)
    labelled = zip(queries, by_people, strict=True)
    corrected = corrected_mean(
        by_judge,
        [value if query in people.whole else None for query, value in labelled],
        judge_counts=judge_counts,
        people_counts=people_counts,
        largest_counts=weights,
        bounds=(-1, 1) if against else (0, 1),
        tail=(1 - LEVEL) / 2 / pairs,
    )
    if people.whole.isdisjoint(queries):
        return corrected.because(
            "no query was drawn and labelled in full, as a sample for runs has them: single pairs "
            "do not tell a run's value"
        )
    return corrected


def _rates(people: _People, threshold: int) -> dict[str, Corrected]:
    """Estimate the share of pairs that support, among all pairs and by the judge's label."""
    by_query = not people.single
    usable = people.single or {pair for pair in people.labels if pair[0] in people.whole}

    def rate(label: int | None) -> Corrected:
        pairs = [pair for pair, judge in sorted(people.judged.items()) if label in (None, judge)]
        judge = [int(people.judged[pair] >= threshold) for pair in pairs]
        said = [int(people.labels[pair] >= threshold) if pair in usable else None for pair in pairs]
        why = ""
        if not usable:
            why = (
                "the labels do not say how their pairs were drawn, as those of `freshstack sample`"
            )
        elif people.by_others and label is not None:
            why = "the pairs were drawn by other labels, so that they tell the share of all only"
        if why:
            share = sum(judge) / len(pairs)
            return Corrected(judge=share, labelled=0, items=len(pairs), reason=why)
        queries = [query for query, _, _ in pairs]
        if by_query:  # a ratio of two sums over queries
            sizes, by_judge, by_people = Counter(queries), Counter[str](), Counter[str]()
            for query, verdict, other in zip(queries, judge, said, strict=True):
                by_judge[query] += verdict
                by_people[query] += other or 0
            return corrected_mean(
                [by_judge[query] for query in sizes],
                [by_people[query] if query in people.whole else None for query in sizes],
                judge_counts=[*sizes.values()],
                people_counts=[*sizes.values()],
            )
        drawn_from: list[Any] = [people.strata[pair] for pair in pairs]
        weight = None
        if people.by_others:
            drawn_from = [people.judged[pair] for pair in pairs]
            weight = [people.weights.get(pair, 1) for pair in pairs]
        estimate = corrected_mean(judge, said, strata=drawn_from, queries=queries, weights=weight)
        if people.missing:  # tasks are in the order of their queries, so whole ones are missing
            estimate = estimate.model_copy(
                update={"low": estimate.wide_low, "high": estimate.wide_high}
            )
        return estimate

    labels = sorted(set(people.judged.values()), reverse=True)
    return {ALL_PAIRS: rate(None)} | {f"label {label}": rate(label) for label in labels}
