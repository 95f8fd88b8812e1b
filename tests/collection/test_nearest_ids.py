"""The ids that a message names for a wrong one."""

from freshstack_dspy.collection.collection import named_nearest, nearest_ids


def test_the_most_alike_come_first() -> None:
    ids = ["docs/a.md_0_50", "docs/b.md_0_50", "src/x.py_0_9"]

    assert nearest_ids("docs/a.md_0_5", ids) == ["docs/a.md_0_50", "docs/b.md_0_50"]


def test_a_letter_wrong_at_either_end_is_no_hindrance_among_many() -> None:
    ids = [f"docs/{number}.md_0_{number}" for number in range(5_000)]

    assert nearest_ids("docs/4321.md_0_432", ids)[0] == "docs/4321.md_0_4321"
    assert nearest_ids("docz/4321.md_0_4321", ids)[0] == "docs/4321.md_0_4321"


def test_where_nothing_is_alike_some_are_named_in_order() -> None:
    assert named_nearest("zzz", ["c", "b"], "q.jsonl") == "none is like it; q.jsonl lists them all"
    assert named_nearest("12", ["123", "5"], "q.jsonl") == "the nearest are '123'"
