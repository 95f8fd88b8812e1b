"""A sample of judgments: strata, probabilities, and what a larger one keeps."""

import dataclasses

import pytest

from freshstack_dspy.calibration.sampling import WHOLE_QUERIES, strata, weights
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.records import HumanLabel, Judgment, Vote
from tests.collection.small import A, B, write_small

from .people import label


def voted(*labels: tuple[int, int, int]) -> tuple[Vote, ...]:
    """Votes of vote, part and label."""
    return tuple(
        Vote(vote=vote, part=part, label=given, status="ok", reason="", call_id=None)
        for vote, part, given in labels
    )


def changed(judgment: Judgment, **fields: object) -> Judgment:
    return judgment.model_copy(update=fields)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("small") / "collection")


def test_the_stratum_is_the_label_and_whether_the_judge_is_unsure(small: Collection) -> None:
    """Parts of one vote may differ; failed pairs are in none; without quotes none is missed."""
    first, second, third, fourth, *others = small.judgments
    assert set(strata(small).values()) == {"label 0", "label 1"}
    unsure = dataclasses.replace(
        small,
        judgments=(
            changed(first, evidence=((0, 2),), votes=voted((1, 1, 0), (1, 2, 1), (2, 1, 1))),
            changed(second, evidence=((0, 2),), votes=voted((1, 1, 0), (2, 1, 1), (3, 1, 1))),
            third,
            fourth,
            *others,
        ),
    )
    other = dataclasses.replace(small, judgments=(changed(first, label=0), *small.judgments[1:]))

    found = strata(unsure, against=other)

    assert found == {
        ("12", "12_0", A): "label 1, judges differ",
        ("12", "12_0", B): "label 1, unsure",
        ("12", "12_1", A): "label 0",
        ("12", "12_1", B): "label 1, unsure",
        ("123", "123_0", A): "label 1, unsure",
        ("123", "123_0", B): "label 0",
        ("5", "5_0", A): "label 0",
    }
    assert strata(unsure)["12", "12_0", A] == "label 1"


def sampled(query: str, nugget: str, chunk: str, stratum: str, probability: float) -> HumanLabel:
    update = {"stratum": stratum, "probability": probability}
    return label(query, nugget, chunk, 1).model_copy(update=update)


def test_a_labelled_pair_counts_for_those_of_its_stratum(small: Collection) -> None:
    found = strata(small)  # three pairs of label 0, four of label 1
    one = sampled("12", "12_0", A, "label 1", 0.25)
    two = sampled("12", "12_0", B, "label 1", 0.5)

    assert weights([one, two, label("5", "5_0", A, 1)], found) == {
        ("12", "12_0", A): 2,
        ("12", "12_0", B): 2,
        ("5", "5_0", A): 1,
    }
    rejudged = dict.fromkeys(found, "label 0")
    assert set(weights([one, two], rejudged).values()) == {2}, "1 / .5"
    whole = sampled("5", "5_0", A, WHOLE_QUERIES, 1 / 3)
    assert weights([whole], found) == {("5", "5_0", A): 3}
