"""The judge against people, on pairs that can be counted by hand."""

import dataclasses

import pytest

from freshstack_dspy.calibration.agreement import AgreementReport, agree
from freshstack_dspy.calibration.optimization import optimize
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.client import connect
from freshstack_dspy.measures.agreement import fleiss_kappa, krippendorff_alpha
from freshstack_dspy.records import HumanLabel, Scale
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, D, judgment, write_small

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
    assert (report.graded, report.among.graded_alpha) == (None, {})


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


# --- a graded collection: people and judge are read by its threshold


GRADES = (
    label("12", "12_0", A, 2),
    label("12", "12_0", B, 1),
    label("12", "12_1", A, 1),
    label("12", "12_1", B, 0),
)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """12_0 has grade 3 in A and 1 in B, 12_1 has 2 in A and 0 in B; support begins at 2."""
    scale = Scale(name="graded_3", threshold=2)
    contents: Contents = dataclasses.replace(
        CONTENTS,
        judgments=(
            judgment("12_0", A, 3),
            judgment("12_0", B, 1),
            judgment("12_1", A, 2),
            judgment("12_1", B, 0),
        ),
        threshold=2,
    )
    provenance = PROVENANCE.model_copy(update={"scale": scale})
    folder = tmp_path_factory.mktemp("graded") / "collection"
    return write_collection(folder, contents, CHUNKS, provenance)


def test_labels_of_another_scale_are_refused(graded: Collection) -> None:
    with pytest.raises(CollectionError, match=r"a label is 5 .*, and the scale graded_3"):
        agree(graded, [label("12", "12_0", A, 5)])
    with pytest.raises(CollectionError, match="if 1 means support, write 2 or more"):
        agree(graded, [label("12", "12_0", A, 1), label("12", "12_0", B, 0)])


def test_labels_of_a_graded_collection_are_not_optimized_on(graded: Collection) -> None:
    labels = [label("12", "12_0", A, 3), label("123", "123_0", A, 0)]

    with pytest.raises(ConfigError, match="on the scale graded_3"):
        optimize(labels, connect(ModelConfig()), collection=graded)


def test_the_grades_themselves_by_hand(graded: Collection) -> None:
    """The judge's 3, 1, 2, 0 against 2, 1, 1, 0: 1 + 1 apart, by chance 18/4 and 32/4 squared."""
    report = agree(graded, GRADES)

    assert report.metrics.confusion.counts == ((2, 0), (1, 1)), "support from 2 on"
    found = report.graded
    assert found is not None
    assert found.confusion.labels == (0, 1, 2, 3)
    assert found.exact_match.value == 2 / 4
    assert found.kappa.value == pytest.approx((2 / 4 - 4 / 16) / (1 - 4 / 16))
    assert found.linear_kappa.value == pytest.approx(1 - 2 * 4 / 18)
    assert found.quadratic_kappa.value == pytest.approx(1 - 2 * 4 / 32)
    assert found.support_from[2] == report.metrics.kappa
    assert (found.support_from[1].value, found.support_from[3].value) == (1.0, 0.0)


def test_several_annotators_among_themselves(graded: Collection) -> None:
    """Ada and bob, of four pairs: grades (2, 3), (1, 1), (1, 2), (0, 0); support 1-1, 0-0, 0-1, 0-0."""
    bob = [
        label(each.query_id, each.nugget_id, each.chunk_id, value, "bob")
        for each, value in zip(GRADES, (3, 1, 2, 0), strict=True)
    ]
    alone = label("123", "123_0", A, 3)

    among = agree(graded, [*GRADES, *bob, alone]).among

    assert among.pairs == 4
    assert among.fleiss_kappa == fleiss_kappa([(1, 1), (0, 0), (0, 1), (0, 0)])
    assert among.alpha == krippendorff_alpha([(1, 1), (0, 0), (0, 1), (0, 0)])
    grades = [(2, 3), (1, 1), (1, 2), (0, 0)]
    assert among.graded_alpha == {
        level: krippendorff_alpha(grades, level) for level in ("nominal", "ordinal", "interval")
    }


def test_a_failed_judgment_is_no_zero(graded: Collection) -> None:
    """UMBRELA reads a reply that it cannot parse as 0, and so agrees with every 0 of a person."""
    labels = [*GRADES, label("123", "123_0", A, 0)]

    report = agree(graded, labels)

    assert report.graded is not None
    assert report.graded.confusion == agree(graded, GRADES).graded.confusion  # type: ignore[union-attr]
    assert (report.metrics.pairs, report.unjudged + report.failed) == (4, 1)
