import pytest

from freshstack_dspy.collection.card import collection_statistics, holds_code
from freshstack_dspy.collection.contents import Contents

from .small import CONTENTS


@pytest.mark.parametrize(
    ("markdown", "code"),
    [
        ("plain words", False),
        ("call `run()`", True),
        ("call ``a ` b``", True),
        ("```\nx\n```", True),
        ("text\n~~~py\nx\n~~~", True),
        ("text\n\n    x = 1", True),
        ("    x = 1", True),
        ("text\n\n\tx = 1", True),
        ("text\n    goes on", False),
        ("one ` alone", False),
        ("one ` here\nand ` there", False),
        ("one ` and two ``", False),
        ("a" + "a".join("`" * length for length in range(3, 1400)), False),  # 1 MB, in one pass
        ("    ", False),
        ("", False),
    ],
)
def test_code_is_a_block_or_a_span(markdown: str, code: bool) -> None:
    assert holds_code(markdown) is code


def test_a_mean_over_nothing_is_none_and_not_zero() -> None:
    found = collection_statistics(Contents(), ("answerable",), chunks=0, sources=0)

    assert found.queries == 0
    assert found.nuggets_per_query is None
    assert found.relevant_per_nugget is None


def test_statistics_of_one_slice_are_of_its_queries_only() -> None:
    found = collection_statistics(CONTENTS, ("unanswerable",), chunks=3, sources=2)

    assert found.queries == 1
    assert found.relevant_per_nugget == 0
    assert found.queries_with_code == 0
    assert found.answers_with_code == 1
