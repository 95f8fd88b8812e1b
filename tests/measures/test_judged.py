"""The judgments of one query as its measures see them."""

import pytest
from hypothesis import given

from freshstack_dspy.measures.qrels import Judged

from .five import LABELS
from .retrieval.graded import graded, rels
from .strategies import NuggetLabels, untimed


def test_what_supports_what_by_hand() -> None:
    judged = Judged(LABELS)

    assert judged.nuggets == 3
    assert judged.supported == {"a": (0, 1), "b": (0,), "d": (1,)}
    assert judged.answerable == {0, 1}
    assert judged.chunks == set("abcd")
    assert judged.kinds == {(1,): (0,), (0,): (1,), (0, 1): (2,)}
    assert judged.grades() == {"a": 2, "b": 1, "d": 1}


def test_a_query_without_nuggets_or_labels_has_nothing() -> None:
    for judged in (Judged({}), Judged({"n": {}})):
        assert not judged.supported
        assert not judged.answerable
        assert not judged.chunks
        assert not judged.kinds
        assert not judged.grades("max")


@pytest.mark.parametrize("rel", [0, -1])
def test_a_label_of_nothing_never_supports(rel: int) -> None:
    with pytest.raises(ValueError, match=f"rel is at least 1, not {rel}"):
        Judged(LABELS, rel)


@untimed
@given(graded, rels)
def test_its_views_agree_with_the_labels(labels: NuggetLabels, rel: int) -> None:
    judged = Judged(labels, rel)
    pairs = {
        (chunk, place)
        for place, mine in enumerate(labels.values())
        for chunk, label in mine.items()
        if label >= rel
    }

    assert pairs == {
        (chunk, place) for chunk in judged.supported for place in judged.supported[chunk]
    }
    assert all(list(places) == sorted(places) for places in judged.supported.values())
    assert judged.answerable == {place for _, place in pairs}
    assert judged.chunks == {chunk for mine in labels.values() for chunk in mine}
    by_id = sorted(judged.supported, reverse=True)
    assert {
        by_id[place]: told for told, places in judged.kinds.items() for place in places
    } == dict(judged.supported)
    assert all(list(places) == sorted(places) for places in judged.kinds.values())
    for rule, make in (("sum", sum), ("count", len), ("max", max)):
        assert judged.grades(rule) == {  # type: ignore[arg-type]
            chunk: make([mine[chunk] for mine in labels.values() if mine.get(chunk, 0) >= rel])
            for chunk in judged.supported
        }
