import pytest

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.agreement import (
    SharedLabel,
    cohen_kappa,
    mean_pairwise_kappa,
    pairwise_kappa,
    shared_labels,
)

# eve and ann share four items, bob and ann two, bob and eve two; item 5 is bob's alone.
LABELS = [
    (1, "eve", 1), (1, "ann", 1),
    (2, "eve", 0), (2, "ann", 0), (2, "bob", 1),
    (3, "eve", 1), (3, "ann", 0),
    (4, "eve", 0), (4, "ann", 0), (4, "bob", 0),
    (5, "bob", 1),
]  # fmt: skip


def test_only_items_with_two_annotators_are_shared() -> None:
    shared = shared_labels(LABELS)

    assert len(shared) == 8
    assert SharedLabel(1, "ann", "eve", 1, 1) == shared[0]
    assert SharedLabel(2, "ann", "bob", 0, 1) == shared[1]
    assert 5 not in {entry.item for entry in shared}


def test_each_two_annotators_have_a_kappa() -> None:
    kappas = {
        (pair.first, pair.second): (pair.items, pair.kappa.value)
        for pair in pairwise_kappa(shared_labels(LABELS))
    }

    assert {
        ("ann", "bob"): (2, 0.0),
        ("ann", "eve"): (4, cohen_kappa([(1, 1), (0, 0), (0, 1), (0, 0)]).value),
        ("bob", "eve"): (2, 0.0),
    } == kappas


def test_the_ceiling_is_the_mean_of_the_kappas() -> None:
    # ann and eve: agreement 3/4, chance (1/4 * 2/4 + 3/4 * 2/4) = 1/2, so kappa 1/2.
    assert pytest.approx(mean_pairwise_kappa(shared_labels(LABELS)).value) == 0.5 / 3


def test_an_undefined_kappa_is_left_out_of_the_mean() -> None:
    labels = [
        (1, "ann", 1), (1, "eve", 1), (2, "ann", 0), (2, "eve", 0),
        (3, "ann", 1), (3, "bob", 1),
    ]  # fmt: skip

    assert mean_pairwise_kappa(shared_labels(labels)).value == 1.0


def test_a_ceiling_that_is_undefined_says_why() -> None:
    alone = mean_pairwise_kappa(shared_labels([(1, "ann", 1), (2, "eve", 1)]))
    one_label = mean_pairwise_kappa(shared_labels([(1, "ann", 1), (1, "eve", 1)]))

    assert alone.reason == "no item was labelled by two annotators"
    assert one_label.value is None
    assert "each two gave one label" in (one_label.reason or "")


def test_an_item_labelled_twice_by_one_annotator_is_refused() -> None:
    with pytest.raises(CollectionError, match="annotator 'ann' labelled item 1 twice"):
        shared_labels([(1, "ann", 1), (1, "ann", 1)])
