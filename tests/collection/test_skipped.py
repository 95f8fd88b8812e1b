"""Skipped files, counted and said."""

from freshstack_dspy.collection.counts import count_kinds, listed
from freshstack_dspy.records import SkipKind, SkippedFile


def test_kinds_are_counted_and_said_in_the_order_of_their_names() -> None:
    kinds: list[SkipKind] = ["vendored", "vendored"]
    kinds += ["binary"] * 1200
    skipped = [
        SkippedFile(source="s", path=str(number), kind=kind, reason="r")
        for number, kind in enumerate(kinds)
    ]

    counts = count_kinds(skipped)

    assert list(counts.items()) == [("binary", 1200), ("vendored", 2)]
    assert listed(counts) == "1,200 binary, 2 vendored"
    assert listed(count_kinds([])) == ""
