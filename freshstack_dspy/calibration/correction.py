"""What a collection's values would be, had people made all labels: estimates from a sample."""

import dataclasses
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

from freshstack_dspy.calibration.following import follow
from freshstack_dspy.calibration.labels import PairId, check_labels, pair_labels, pair_of
from freshstack_dspy.calibration.sampling import WHOLE_QUERIES, strata, weights
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, evaluate
from freshstack_dspy.measures.measure import MeasureSource
from freshstack_dspy.measures.ppi import Corrected, corrected_mean
from freshstack_dspy.measures.run import RunSource
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import SCALES, HumanLabel, Record
from freshstack_dspy.stored.contents import NuggetsName, Slices, slice_queries

ALL_PAIRS = "all judged pairs"


class CorrectedDifference(Record):
    """The mean of a run's values minus another's, by people's labels."""

    measure: str
    run: str
    against: str
    difference: Corrected


class Correction(Record, Shown):
    """What `correct` found."""

    rates: dict[str, Corrected]
    """The share of judged pairs that support their nugget: among all, and among those that the judge
    gave each label."""
    means: dict[str, dict[str, Corrected]]
    """By run and measure."""
    differences: tuple[CorrectedDifference, ...]
    pairs: int
    """Judged pairs that people labelled."""
    whole_queries: int
    """Queries that were drawn and are labelled in full."""
    notes: tuple[str, ...]
    """What was left out, or taken together."""


class _Labelled(NamedTuple):
    """The labels of people, by pair, and how the pairs were drawn."""

    labels: Mapping[PairId, int]
    drawn: Mapping[PairId, str]
    """Labelled pair -> the stratum it was drawn from, or an empty text."""
    strata: Mapping[PairId, str]
    """The strata of all judged pairs."""
    whole: frozenset[str]
    """Queries that were drawn and are labelled in full."""
    weights: Mapping[PairId, float]
    """Labelled pair -> for how many judged pairs it counts."""
    missing: int
    """Pairs that were drawn one by one and are not labelled."""
    same: bool
    """Whether they were drawn from the strata of the collection, and not by another judge's labels,
    or --against them; else the weights are all that is known."""
    notes: tuple[str, ...]

    @property
    def everything(self) -> bool:
        """Whether all judged pairs are labelled, so that none had to be drawn."""
        return len(self.labels) == len(self.strata)


def correct(
    collection: Collection | Path | str,
    labels: Sequence[HumanLabel] | Sequence[Path | str] | Path | str,
    runs: Mapping[str, RunSource] | None = None,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    pairs: Iterable[tuple[str, str]] = (),
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    excluded: Ids[str] = (),
    **rules: Any,
) -> Correction:
    """Estimate what rates, means and differences would be, had people labelled every judged pair.

    Rates are estimated from single pairs that `freshstack sample` drew. Means need queries that are
    labelled in full, as `sample` draws them for runs; people's labels then decide, as the
    judge's do, which nuggets are supported and which queries count. Of several people's labels of a
    pair the lower median counts.

    Args:
        collection: Or its folder.
        labels: Of support; or files of labels.
        runs: By name.
        measures: As in `evaluate`.
        pairs: Names of two runs, whose difference is estimated.
        slices: As in `Collection.qrels`.
        nuggets: As in `Collection.qrels`.
        excluded: Queries that are left out.
        **rules: Further arguments of `evaluate`, but not `conventions`.

    Raises:
        CollectionError: A label is not of this collection or off its scale, or none is of a judged
            pair; or as `evaluate`.
    """
    collection = Collection.load(collection)
    given, lost = follow(pair_labels(labels), collection, collection.corpus)
    found = _labelled(collection, given, lost)
    by_people = _by_people(collection, found.labels)
    queries = sorted({query for query, _, _ in found.strata} - set(excluded))
    evaluated: dict[str, tuple[Evaluation, Evaluation]] = {}
    if runs:
        of = [each.qrels(slices, nuggets).without(excluded) for each in (collection, by_people)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # evaluating the runs has warned
            for name, run in runs.items():
                judge, people = (evaluate(each, run, measures, **rules) for each in of)
                evaluated[name] = judge, people
    names = next(iter(evaluated.values()))[0].measures if evaluated else ()
    return Correction(
        rates=_rates(collection, found),
        means={
            run: {measure: _mean(found, queries, measure, of) for measure in names}
            for run, of in evaluated.items()
        },
        differences=tuple(
            CorrectedDifference(
                measure=measure,
                run=run,
                against=against,
                difference=_mean(found, queries, measure, evaluated[run], evaluated[against]),
            )
            for measure in names
            for run, against in pairs
        ),
        pairs=len(found.labels),
        whole_queries=len(found.whole & set(queries)),
        notes=found.notes,
    )


def _labelled(
    collection: Collection,
    labels: Sequence[HumanLabel],
    lost: Mapping[str, Sequence[HumanLabel]],
) -> _Labelled:
    # Where none is of this collection, the fault of the first of them says why.
    of_any = labels or [label for of in lost.values() for label in of]
    check_labels(((f"label {n}", label) for n, label in enumerate(of_any, 1)), collection)
    of_judged = strata(collection)
    highest = SCALES[collection.manifest.scale.name].highest
    by_pair: defaultdict[PairId, list[HumanLabel]] = defaultdict(list)
    for label in labels:
        by_pair[pair_of(label)].append(label)
    judged = {pair: by_pair[pair] for pair in sorted(by_pair) if pair in of_judged}
    if not judged:
        reasons = "".join(f"; {len(of)} {why}" for why, of in lost.items())
        raise CollectionError(
            f"none of the {len(of_any)} labels is of a judged pair of {collection.name!r}{reasons}"
        )
    drawn = {
        pair: next((one.stratum for one in of if one.stratum and one.probability), "")
        for pair, of in judged.items()
    }
    queries = {pair[0] for pair, stratum in drawn.items() if stratum == WHOLE_QUERIES}
    if len(judged) == len(of_judged):
        queries = {query for query, _, _ in of_judged}
    whole = queries - {pair[0] for pair in of_judged if pair not in judged}
    undrawn = sum(not stratum for stratum in drawn.values())
    sizes, missing = Counter(of_judged.values()), 0
    single = {pair: name for pair, name in drawn.items() if name not in ("", WHOLE_QUERIES)}
    same = all(of_judged[pair] == name for pair, name in single.items())
    for name, labelled in Counter(single.values()).items():
        shares = [label.probability or 0 for label in labels if label.stratum == name]
        missing += max(0, round(max(shares) * sizes[name]) - labelled) if same else 0
    counts = {
        "drawn pairs not labelled yet": missing,
        "drawn queries not labelled in full yet, left out": len(queries - whole),
        "pairs labelled by several people": sum(len(of) > 1 for of in judged.values()),
        **{f"labels {why}, left out": len(of) for why, of in lost.items()},
        "labelled pairs not judged, left out": len(by_pair) - len(judged),
        "labelled pairs that no sample drew, left out": undrawn * (len(judged) < len(of_judged)),
    }
    return _Labelled(
        labels={
            pair: min(median_low(one.label for one in of), highest) for pair, of in judged.items()
        },
        drawn=drawn,
        strata=of_judged,
        whole=frozenset(whole),
        weights=weights([one for of in judged.values() for one in of], of_judged, pair_of),
        missing=missing,
        same=same,
        notes=tuple(f"{number:,} {what}" for what, number in counts.items() if number),
    )


def _by_people(collection: Collection, labels: Mapping[PairId, int]) -> Collection:
    """Give the collection with people's labels where they differ from the judge's."""
    judgments = tuple(
        one
        if (label := labels.get(pair_of(one), one.label)) == one.label
        else one.model_copy(update={"label": label, "evidence": ()})
        for one in collection.judgments
    )
    of = collection.queries, collection.nuggets, judgments, collection.threshold, collection.pool
    return dataclasses.replace(collection, judgments=judgments, slices=tuple(slice_queries(*of)))


def _mean(
    given: _Labelled,
    queries: Sequence[str],
    measure: str,
    run: tuple[Evaluation, Evaluation],
    against: tuple[Evaluation, Evaluation] | None = None,
) -> Corrected:
    """Estimate a run's mean, or that of its values minus another's; each by judge and by people."""

    def values(side: int) -> tuple[list[float], list[float]]:
        own = run[side].values(measure)
        other = against[side].values(measure) if against else {}
        differences = [own.get(query, 0) - other.get(query, 0) for query in queries]
        return differences, [float(query in own) for query in queries]

    (judge, judge_counts), (people, people_counts) = values(0), values(1)
    known = [
        one if query in given.whole else None for query, one in zip(queries, people, strict=True)
    ]
    found = corrected_mean(
        judge,
        known,
        judge_counts=judge_counts,
        people_counts=people_counts,
        bounds=(-1, 1) if against else (0, 1),
    )
    if any(query in given.whole for query in queries):
        return found
    return found.because(
        "no query was drawn and labelled in full, as a sample for runs has them: single pairs do not "
        "tell a run's value"
    )


def _rates(collection: Collection, given: _Labelled) -> dict[str, Corrected]:
    """Estimate the share of pairs that support: of all, and by the judge's label."""
    judged = {
        pair_of(one): one.label for one in collection.judgments if pair_of(one) in given.strata
    }
    single = [pair for pair, stratum in given.drawn.items() if stratum not in ("", WHOLE_QUERIES)]
    by_query = not single and not given.everything
    known = set(given.labels) if given.everything else set(single)
    reason = ""
    if by_query:
        known = {pair for pair in given.labels if pair[0] in given.whole}
        if not known:
            reason = (
                "the labels do not say how their pairs were drawn, as those of `freshstack sample`"
            )

    others = not (given.everything or given.same)

    def rate(label: int | None) -> Corrected:
        pairs = [pair for pair in sorted(judged) if label in (None, judged[pair])]
        judge = [int((judged[pair] or 0) >= collection.threshold) for pair in pairs]
        people = [
            int(given.labels[pair] >= collection.threshold) if pair in known else None
            for pair in pairs
        ]
        queries = [query for query, _, _ in pairs]
        by_other = "the pairs were drawn by other labels, so that they tell the share of all only"
        if why := reason or by_other * (others and label is not None):
            share = sum(judge) / len(pairs)
            return Corrected(judge=share, labelled=0, items=len(pairs), reason=why)
        if by_query:  # a ratio of two sums over queries
            sizes = Counter(queries)
            sums = {of: [0, 0] for of in sizes}
            for query, verdict, other in zip(queries, judge, people, strict=True):
                sums[query][0] += verdict
                sums[query][1] += other or 0
            labelled = {query for query, _, _ in known}
            return corrected_mean(
                [sums[query][0] for query in sizes],
                [sums[query][1] if query in labelled else None for query in sizes],
                judge_counts=[*sizes.values()],
                people_counts=[*sizes.values()],
            )
        drawn_from = [judged[pair] if others else given.strata[pair] for pair in pairs]
        weight = [given.weights.get(pair, 1) for pair in pairs] if others else None
        found = corrected_mean(judge, people, strata=drawn_from, queries=queries, weights=weight)
        if given.missing:  # tasks are in the order of their queries, so whole ones are missing
            found = found.model_copy(update={"low": found.wide_low, "high": found.wide_high})
        return found

    labels = sorted(set(judged.values()), key=lambda label: -(label or 0))
    return {ALL_PAIRS: rate(None)} | {f"label {label}": rate(label) for label in labels}
