"""The judge against people, on pairs that can be counted by hand."""

import pytest

from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import HumanLabel
from tests.collection.small import A, B, D, write_small

from .people import label

# Of the judged pairs, the judge says 1 of (12_0, A), (12_0, B), (12_1, B), (123_0, A),
# and 0 of (12_1, A), (123_0, B), (5_0, A); (123_0, D) failed.
LABELS = (
    label("12", "12_0", A, 1),
    label("12", "12_0", B, 0),
    label("12", "12_1", A, 0),
    label("12", "12_1", B, 2),
    label("123", "123_0", A, 1),
    label("123", "123_0", B, 0),
    label("123", "123_0", D, 1),
    label("5", "5_0", B, 1),
)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("small") / "collection")


@pytest.fixture(scope="module")
def report(collection: Collection) -> AgreementReport:
    return agree(collection, LABELS)


def test_the_metrics_by_hand(report: AgreementReport) -> None:
    """A failed and an unjudged pair are counted, and in no metric."""
    metrics = report.metrics

    assert metrics.confusion.labels == (0, 1)
    assert metrics.confusion.counts == ((2, 0), (1, 3))
    assert metrics.pairs == 6
    assert metrics.exact_match.value == pytest.approx(5 / 6)
    assert metrics.precision["support"].value == pytest.approx(3 / 4)
    assert metrics.recall["support"].value == 1
    assert metrics.precision["no_support"].value == 1
    assert metrics.recall["no_support"].value == pytest.approx(2 / 3)
    # By chance they agree on (4·3 + 2·3) / 36 = 1/2.
    assert metrics.kappa.value == pytest.approx((5 / 6 - 1 / 2) / (1 - 1 / 2))
    assert metrics.exact_match.groups == 2, "intervals are over queries"
    assert (report.failed, report.unjudged) == (1, 1)
    assert (report.first_failed, report.first_unjudged) == (
        ("123", "123_0", D),
        ("5", "5_0", B),
    )


def test_a_graded_label_is_read_as_support(collection: Collection) -> None:
    report = agree(collection, [label("12", "12_1", B, 5), label("12", "12_1", A, 0)])

    assert report.metrics.exact_match.value == 1


def test_one_annotator_gives_no_ceiling_and_says_so(report: AgreementReport) -> None:
    assert report.annotators == ("ada",)
    assert report.ceiling.value is None
    assert report.ceiling.reason == "no item was labelled by two annotators"


def test_two_annotators_give_a_ceiling_and_each_label_counts(collection: Collection) -> None:
    """Bob says as Ada, but of (12_0, B): exact match 3/4, by chance 8/16 → κ 1/2."""
    pairs = (("12_0", A), ("12_0", B), ("12_1", A), ("12_1", B))
    ada, bob = (1, 0, 0, 1), (1, 1, 0, 1)
    labels = [
        label("12", nugget_id, chunk_id, value, who)
        for who, values in (("ada", ada), ("bob", bob))
        for (nugget_id, chunk_id), value in zip(pairs, values, strict=True)
    ]

    report = agree(collection, labels)

    assert report.annotators == ("ada", "bob")
    assert report.ceiling.value == pytest.approx(1 / 2)
    assert report.metrics.pairs == 8
    assert report.metrics.exact_match.value == pytest.approx(7 / 8)


def test_the_same_labels_give_the_same_report(
    collection: Collection, report: AgreementReport
) -> None:
    assert agree(collection, tuple(reversed(LABELS))) == report
    assert AgreementReport.model_validate_json(report.model_dump_json()) == report
    other = agree(collection, LABELS, seed=1, resamples=50)
    assert other.metrics.kappa.value == report.metrics.kappa.value
    assert other.metrics.kappa.resamples == 50


@pytest.mark.parametrize(
    "labels",
    [
        [],
        [label("12", "12_0", "elsewhere", 1)],
        [label("13", "12_0", A, 1)],
        [label("123", "123_0", D, 1)],
    ],
)
def test_labels_of_nothing_that_was_judged_are_refused(
    collection: Collection, labels: list[HumanLabel]
) -> None:
    with pytest.raises(CollectionError, match="pair with a label of 'small'"):
        agree(collection, labels)
