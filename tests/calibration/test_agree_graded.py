"""The judge of a graded collection against people: both are read by its threshold."""

import dataclasses
from pathlib import Path

import pytest

from freshstack_dspy.calibration.agreement import agree
from freshstack_dspy.calibration.optimization import optimize
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.client import connect
from freshstack_dspy.measures.agreement import fleiss_kappa, krippendorff_alpha
from freshstack_dspy.records import Scale
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, judgment, write_small

from .people import label

GRADES = (
    label("12", "12_0", A, 2),
    label("12", "12_0", B, 1),
    label("12", "12_1", A, 1),
    label("12", "12_1", B, 0),
)


def graded(folder: Path) -> Collection:
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
    return write_collection(folder / "collection", contents, CHUNKS, provenance)


def test_labels_of_another_scale_are_refused(tmp_path: Path) -> None:
    collection = graded(tmp_path)

    with pytest.raises(CollectionError, match=r"a label is 5 .*, and the scale graded_3"):
        agree(collection, [label("12", "12_0", A, 5)])
    with pytest.raises(CollectionError, match="support begins at 2: if 1 stands for support"):
        agree(collection, [label("12", "12_0", A, 1), label("12", "12_0", B, 0)])


def test_labels_of_a_graded_collection_are_not_optimized_on(tmp_path: Path) -> None:
    labels = [label("12", "12_0", A, 3), label("123", "123_0", A, 0)]

    with pytest.raises(ConfigError, match="on the scale graded_3"):
        optimize(labels, connect(ModelConfig()), collection=graded(tmp_path))


def test_the_grades_themselves_by_hand(tmp_path: Path) -> None:
    """The judge's 3, 1, 2, 0 against 2, 1, 1, 0: 1 + 1 apart, by chance 18/4 and 32/4 squared."""
    report = agree(graded(tmp_path), GRADES)

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


def test_yes_and_no_have_no_grades(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "small")

    report = agree(collection, [label("12", "12_0", A, 5), label("12", "12_1", A, 0)])

    assert report.graded is None
    assert report.among.graded_alpha == {}


def test_several_annotators_among_themselves(tmp_path: Path) -> None:
    """Ada and bob, of four pairs: grades (2, 3), (1, 1), (1, 2), (0, 0); support 1-1, 0-0, 0-1, 0-0."""
    bob = [
        label(each.query_id, each.nugget_id, each.chunk_id, value, "bob")
        for each, value in zip(GRADES, (3, 1, 2, 0), strict=True)
    ]
    alone = label("123", "123_0", A, 3)

    among = agree(graded(tmp_path), [*GRADES, *bob, alone]).among

    assert among.pairs == 4
    assert among.fleiss_kappa == fleiss_kappa([(1, 1), (0, 0), (0, 1), (0, 0)])
    assert among.alpha == krippendorff_alpha([(1, 1), (0, 0), (0, 1), (0, 0)])
    grades = [(2, 3), (1, 1), (1, 2), (0, 0)]
    assert among.graded_alpha == {
        level: krippendorff_alpha(grades, level) for level in ("nominal", "ordinal", "interval")
    }


def test_a_failed_judgment_is_no_zero(tmp_path: Path) -> None:
    """UMBRELA reads a reply that it cannot parse as 0, and so agrees with every 0 of a person."""
    collection = graded(tmp_path)
    labels = [*GRADES, label("123", "123_0", A, 0)]

    report = agree(collection, labels)

    assert report.graded is not None
    assert report.graded.confusion == agree(collection, GRADES).graded.confusion  # type: ignore[union-attr]
    assert (report.metrics.pairs, report.unjudged + report.failed) == (4, 1)
