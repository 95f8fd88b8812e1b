"""A collection's values by people's labels: exact where all are given, refused where they are few."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from freshstack_dspy import Collection, HumanLabel, Judgment, Nugget, agree, compare, correct
from freshstack_dspy.calibration.agreement import measured_trust
from freshstack_dspy.calibration.correction import ALL_PAIRS
from freshstack_dspy.calibration.sampling import draw
from freshstack_dspy.config import TrustConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.ppi import FEWEST_ITEMS
from freshstack_dspy.records import LabelTask
from freshstack_dspy.stored.contents import Contents, slice_queries
from tests.collection.small import A, B, D, judgment, query, write_small

QUERIES = tuple(f"q{number:02}" for number in range(30))
MEASURES = ("alpha_nDCG@10", "Recall@2", "P@1")
RUNS = {
    "first": {of: {A: 3.0, B: 2.0, D: 1.0} for of in QUERIES},
    "second": {of: {D: 3.0, A: 2.0, B: 1.0} for of in QUERIES},
}


def by_judge(*pair: object) -> int:
    return int(Random(f"judge {pair}").random() < 0.3)


def by_people(*pair: object) -> int:
    """They change a label in five."""
    return by_judge(*pair) ^ int(Random(f"people {pair}").random() < 0.2)


def contents(label: Callable[..., int]) -> Contents:
    queries = tuple(map(query, QUERIES))
    nuggets = tuple(
        Nugget(nugget_id=f"{of}_{place}", query_id=of, text="a fact", call_id=None)
        for of in QUERIES
        for place in (0, 1)
    )
    judgments = tuple(
        judgment(f"{of}_{place}", chunk, label(number, place, chunk))
        for number, of in enumerate(QUERIES)
        for place in (0, 1)
        for chunk in (A, B, D)
    )
    slices = tuple(slice_queries(queries, nuggets, judgments))
    return Contents(queries=queries, nuggets=nuggets, judgments=judgments, slices=slices)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("judged") / "judge", contents(by_judge))


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("judged") / "people", contents(by_people))


def labels_of(tasks: Sequence[Judgment | LabelTask], truth: Collection) -> list[HumanLabel]:
    """What people say of pairs."""
    labels = {(one.nugget_id, one.chunk_id): one.label for one in truth.judgments}
    return [
        HumanLabel(
            query_id=of.query_id,
            nugget_id=of.nugget_id or "",
            chunk_id=of.chunk_id or "",
            label=labels[of.nugget_id or "", of.chunk_id or ""] or 0,
            annotator="ada",
            stratum=getattr(of, "stratum", None),
            probability=getattr(of, "probability", None),
        )
        for of in tasks
    ]


@pytest.mark.parametrize("asked", [None, (1.0, 7.0, 2.0)])
def test_with_all_labels_it_is_what_evaluate_gives_on_them(
    collection: Collection, truth: Collection, asked: tuple[float, ...] | None
) -> None:
    """People decide which nuggets are supported, and which queries count."""
    if asked:
        weighted = tuple(
            query.model_copy(update={"weight": weight})
            for query, weight in zip(collection.queries, cycle(asked), strict=False)
        )
        collection, truth = (replace(each, queries=weighted) for each in (collection, truth))
    found = correct(
        collection,
        labels_of(collection.judgments, truth),
        RUNS,
        MEASURES,
        pairs=[("first", "second")],
    )

    means = {name: evaluate(truth, run, MEASURES).means for name, run in RUNS.items()}
    judged = {name: evaluate(collection, run, MEASURES).means for name, run in RUNS.items()}
    assert truth.query_ids() != collection.query_ids()
    for name, of in found.means.items():
        for measure, one in of.items():
            assert (one.judge, one.value) == pytest.approx(
                (judged[name][measure], means[name][measure])
            )
            assert one.low == pytest.approx(one.high)
    for each in found.differences:
        difference = means["first"][each.measure] - means["second"][each.measure]
        assert each.difference.value == pytest.approx(difference)
    assert found.rates[ALL_PAIRS].value == pytest.approx(
        sum(one.label or 0 for one in truth.judgments) / len(truth.judgments)
    )


def test_the_unit_of_weights_does_not_matter(collection: Collection) -> None:
    """Nor where changes are too rare to be seen, as people agree with the judge here."""
    labels = labels_of(draw(collection, limit=15, purpose="runs").tasks, collection)
    small, large = (
        correct(
            replace(
                collection,
                queries=tuple(
                    query.model_copy(update={"weight": unit * weight})
                    for query, weight in zip(collection.queries, cycle((1, 7, 2)), strict=False)
                ),
            ),
            labels,
            RUNS,
            ["P@1"],
        )
        for unit in (0.01, 100)
    )
    first, second = (each.means["first"]["P@1"] for each in (small, large))
    assert first.low is not None
    assert not small.notes
    for end in ("value", "low", "high", "wide_low", "wide_high"):
        assert getattr(first, end) == pytest.approx(getattr(second, end))


def test_corrected_differences_decide(collection: Collection, truth: Collection) -> None:
    labels, pairs = labels_of(collection.judgments, truth), [("second", "first")]
    measured = {name: evaluate(collection, run, MEASURES) for name, run in RUNS.items()}
    found = correct(collection, labels, RUNS, MEASURES, pairs=pairs, family=3)
    assert found == correct(
        collection, labels, RUNS, MEASURES, pairs=pairs, family=3, evaluations=measured
    )

    before = compare(collection, RUNS, MEASURES)
    (decision,) = found.decide(before).decisions

    corrected = found.differences[0].for_all_pairs
    assert (before.decisions[0].basis, decision.basis) == ("judge", "people")
    assert (decision.difference, decision.low) == (corrected.value, corrected.wide_low)
    assert corrected.wide_low is not None
    assert found.differences[0].difference.wide_low is not None
    assert corrected.wide_low < found.differences[0].difference.wide_low  # for three pairs
    few = correct(collection, labels[:50], RUNS, MEASURES, pairs=pairs)
    assert few.decide(before) == before
    with pytest.raises(ConfigError, match=r"pairs=.*second.*first"):
        correct(collection, labels, RUNS, MEASURES, pairs=[("first", "second")]).decide(before)


def test_a_sample_of_pairs_tells_rates_and_no_measure(
    collection: Collection, truth: Collection
) -> None:
    labels = labels_of(draw(collection, limit=80).tasks, truth)

    found = correct(collection, labels, RUNS, MEASURES)

    real = sum(one.label or 0 for one in truth.judgments) / len(truth.judgments)
    rate = found.rates[ALL_PAIRS]
    assert rate.low < real < rate.high  # type: ignore[operator]
    assert found.rates["label 1"].judge == 1
    assert "as a sample for runs has them" in (found.means["first"]["P@1"].reason or "")
    assert found.means["first"]["P@1"].value is None


def test_of_a_sample_that_is_labelled_in_part_intervals_are_by_query(
    collection: Collection, truth: Collection
) -> None:
    """People label query by query, so that those without a label are missing together."""
    labels = labels_of(draw(collection, limit=80).tasks, truth)

    found = correct(collection, labels[:50])

    rate = found.rates[ALL_PAIRS]
    assert found.notes == ("30 drawn pairs not labelled yet",)
    assert (rate.low, rate.high) == (rate.wide_low, rate.wide_high)
    assert rate.low is not None


def test_whole_queries_tell_means_differences_and_rates(
    collection: Collection, truth: Collection
) -> None:
    """A query that is not labelled in full yet is left out."""
    tasks = draw(collection, limit=20, purpose="runs").tasks
    labels = labels_of(tasks, truth)
    found = correct(collection, labels, RUNS, MEASURES, pairs=[("first", "second")])
    fewer = correct(collection, labels[1:], RUNS, MEASURES)
    few = correct(collection, labels[: 6 * (FEWEST_ITEMS - 1)], RUNS, MEASURES)

    real = evaluate(truth, RUNS["first"], MEASURES).means["alpha_nDCG@10"]
    mean = found.means["first"]["alpha_nDCG@10"]
    assert found.whole_queries == mean.labelled == 20
    assert mean.low < real < mean.high  # type: ignore[operator]
    assert mean.wide_high - mean.wide_low > mean.high - mean.low  # type: ignore[operator]
    assert found.differences[0].difference.low is not None
    assert found.means["first"]["P@1"].low is not None, "people change 4 of the 20"
    assert found.rates[ALL_PAIRS].low is not None
    assert (fewer.whole_queries, *fewer.notes) == (
        19,
        "1 drawn queries not labelled in full yet, left out",
    )
    assert f"{FEWEST_ITEMS} are needed" in (few.means["first"]["alpha_nDCG@10"].reason or "")


def test_labels_of_which_nothing_says_how_they_were_drawn_are_refused(
    collection: Collection, truth: Collection
) -> None:
    found = correct(collection, labels_of(collection.judgments[:60], truth))

    assert found.notes == ("60 labelled pairs that no sample drew, left out",)
    assert "do not say how their pairs were drawn" in (found.rates[ALL_PAIRS].reason or "")


def test_a_sample_drawn_by_another_judge_tells_the_share_of_all_pairs(
    collection: Collection, truth: Collection
) -> None:
    """Each pair counts by the probability with which it was drawn."""
    tasks = draw(truth, limit=80).tasks

    found = correct(collection, labels_of(tasks, truth))

    rate, of_label = found.rates[ALL_PAIRS], found.rates["label 1"]
    real = sum(one.label or 0 for one in truth.judgments) / len(truth.judgments)
    assert rate.low < real < rate.high  # type: ignore[operator]
    assert "drawn by other labels" in (of_label.reason or "")


def test_of_several_people_the_lower_median_counts(
    collection: Collection, truth: Collection
) -> None:
    labels = labels_of(collection.judgments, truth)
    more = labels[0].model_copy(update={"annotator": "ben", "label": 1 - labels[0].label})

    one, both = (correct(collection, of) for of in (labels, [*labels, more]))

    changed = (one.rates[ALL_PAIRS].value or 0) - (both.rates[ALL_PAIRS].value or 0)
    assert changed == pytest.approx(labels[0].label / len(labels))
    assert both.notes == ("1 pairs labelled by several people",)


@pytest.mark.parametrize("whole", [False, True])
def test_a_judge_that_agrees_on_all_has_an_exact_interval_and_can_be_calibrated(
    collection: Collection, tmp_path: Path, *, whole: bool
) -> None:
    """Of pairs drawn singly, or of whole queries, which tell much less."""
    tasks = (
        draw(collection, limit=25, purpose="runs") if whole else draw(collection, limit=150)
    ).tasks
    labels = labels_of(tasks, collection)
    (tmp_path / "ada.jsonl").write_bytes(encode_records(labels))

    found = agree(collection, labels).metrics
    settings = TrustConfig(labels=(tmp_path / "ada.jsonl",), min_kappa=0.9)
    trust = measured_trust(
        collection, collection.corpus, collection.manifest.scale, collection.name, settings
    )

    share, kappa = found["share agreed"].judge, found["kappa"].judge
    assert share is not None
    assert kappa is not None
    assert trust is not None
    units = 25 if whole else 150
    assert (share.value, share.high) == (kappa.value, kappa.high) == (1, 1)
    assert share.low == pytest.approx(0.025 ** (1 / units), abs=0.004)
    assert kappa.low == pytest.approx(0.63 if whole else 0.94, abs=0.02)
    assert trust.calibrated is not whole


def test_few_disagreements_bound_the_interval_from_below(collection: Collection) -> None:
    """Resamples of three pairs that disagree would have it end higher."""
    labels = labels_of(draw(collection, limit=150).tasks, collection)
    some = [
        one.model_copy(update={"label": 1 - one.label}) if place % 50 == 0 else one
        for place, one in enumerate(labels)
    ]
    unsampled = [one.model_copy(update={"stratum": None, "probability": None}) for one in some]

    found, by_resamples = (agree(collection, of).metrics for of in (some, unsampled))

    for metric in ("share agreed", "kappa"):
        one, other = found[metric].judge, by_resamples[metric].judge
        assert one is not None
        assert other is not None
        assert one.low < other.low - 0.005  # type: ignore[operator]
        assert one.high == pytest.approx(other.high, abs=0.02)
