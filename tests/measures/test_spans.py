"""Spans of bytes, against sets of bytes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.passage_labels import byte_iou, byte_precision, byte_recall
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.spans import Place, Span, merged, shared, size

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


class Files:
    """The places of documents named FILE START END."""

    def place(self, document: str) -> Place:
        file, start, end = document.split()
        return Place("s", file, int(start), int(end))


def scores(evidence: list[Span], *retrieved: str) -> tuple[float | None, ...]:
    files: Any = Files()
    judged = Judged({}, spans=lambda: files)
    judged.__dict__["evidence"] = {"s/a": evidence}
    measures = (byte_precision, byte_recall, byte_iou)
    return tuple(measure(retrieved, judged, None) for measure in measures)


@given(SPANS, SPANS)
def test_byte_scores_are_those_of_sets(one: list[Span], other: list[Span]) -> None:
    evidence, retrieved = bytes_of(one), bytes_of(other)
    both, either = len(evidence & retrieved), len(evidence | retrieved)

    assert scores(one, *(f"a {start} {end}" for start, end in other)) == (
        both / len(retrieved) if retrieved else 0.0,
        both / len(evidence) if evidence else None,
        both / either if either else None,
    )


def test_the_same_offsets_of_another_file_are_other_bytes() -> None:
    assert scores([(0, 10)], "b 0 10", "a 5 10") == (5 / 15, 0.5, 0.25)
