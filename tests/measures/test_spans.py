"""Spans of bytes, against sets of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.spans import Span, byte_scores, merged, shared, size

SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9)).map(lambda one: (one[0], sum(one)))
)


def bytes_of(spans: list[Span]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


@given(SPANS, SPANS)
def test_spans_hold_the_bytes_that_they_name(one: list[Span], other: list[Span]) -> None:
    assert bytes_of(merged(one)) == bytes_of(one)
    assert size(merged(one)) == len(bytes_of(one))
    assert shared(one, other) == len(bytes_of(one) & bytes_of(other))


@given(SPANS, SPANS)
def test_byte_scores_are_those_of_sets(one: list[Span], other: list[Span]) -> None:
    evidence, retrieved = bytes_of(one), bytes_of(other)
    scores = byte_scores({"a": one}, {"a": other})

    both = len(evidence & retrieved)
    assert scores.precision == (both / len(retrieved) if retrieved else None)
    assert scores.recall == (both / len(evidence) if evidence else None)
    assert scores.iou == (both / len(evidence | retrieved) if evidence | retrieved else None)


def test_the_same_offsets_of_another_file_are_other_bytes() -> None:
    assert byte_scores({"a": [(0, 10)]}, {"b": [(0, 10)], "a": [(5, 10)]}) == (5 / 15, 0.5, 0.25)
