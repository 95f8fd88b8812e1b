"""The judge of a graded collection against people: both are read by its threshold."""

import dataclasses
from pathlib import Path

import pytest

from freshstack_dspy.calibration import agree, optimize
from freshstack_dspy.collection import Collection, Contents, write_collection
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.connect import connect
from freshstack_dspy.records import Scale
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, judgment

from .people import label


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
        single_judgments=(),
        threshold=2,
    )
    provenance = PROVENANCE.model_copy(update={"scale": scale})
    return write_collection(folder / "collection", contents, CHUNKS, provenance)


def test_labels_are_support_from_the_threshold_on(tmp_path: Path) -> None:
    labels = (
        label("12", "12_0", A, 2),
        label("12", "12_0", B, 1),
        label("12", "12_1", A, 1),
        label("12", "12_1", B, 0),
    )
    report = agree(graded(tmp_path), labels)

    assert report.figures.confusion.counts == ((2, 0), (1, 1))
    assert report.figures.exact_match.value == 3 / 4


def test_labels_of_another_scale_are_refused(tmp_path: Path) -> None:
    collection = graded(tmp_path)

    with pytest.raises(CollectionError, match=r"a label is 5 .*, and the scale graded_3"):
        agree(collection, [label("12", "12_0", A, 5)])
    with pytest.raises(CollectionError, match="support begins at 2: if 1 stands for support"):
        agree(collection, [label("12", "12_0", A, 1), label("12", "12_0", B, 0)])


def test_labels_of_a_graded_collection_are_not_optimized_on(tmp_path: Path) -> None:
    labels = [label("12", "12_0", A, 3), label("123", "123_0", A, 0)]

    with pytest.raises(ConfigError, match="on the scale graded_3"):
        optimize("support_judge", labels, connect(ModelConfig()), collection=graded(tmp_path))
