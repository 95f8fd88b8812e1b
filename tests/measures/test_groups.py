"""Groups of queries."""

from pathlib import Path

import pytest

from freshstack_dspy.measures.evaluation import QueryGroups, Values, grouped, read_groups


def groups(**members: tuple[str, ...]) -> QueryGroups:
    return QueryGroups(by="topic", rule="by hand", members=members)


def values(**given: float | None) -> Values:
    """Those of the only measure; None: the query is skipped."""
    per_query = {query: {} if value is None else {"AP": value} for query, value in given.items()}
    return Values(run="r", measures=("AP",), per_query=per_query)


def test_each_group_weighs_the_same_in_the_macro_average() -> None:
    """Four queries of one topic do not outvote the one of the other."""
    found = grouped(
        values(a=1.0, b=1.0, c=1.0, d=1.0, e=0.0),
        groups(large=("a", "b", "c", "d"), small=("e",)),
    )

    assert found.macro["AP"].value == 0.5
    large, small = found.groups["large"], found.groups["small"]
    assert (len(large.per_query), len(small.per_query)) == (4, 1)
    assert (large.means, small.means) == ({"AP": 1.0}, {"AP": 0.0})
    assert small.intervals["AP"].reason is not None, "one query has no interval, and says so"


def test_only_the_largest_groups_are_listed_and_all_are_averaged() -> None:
    members = {"z": ("a", "b"), "y": ("c",), "x": ("d", "z"), "gone": ("z",)}
    measured = values(a=1.0, b=1.0, c=0.0, d=0.0, e=1.0)
    found = grouped(measured, groups(**members), limit=2)

    assert [*found.groups] == ["z", "x"], "ties by name"
    assert (found.unlisted, found.ungrouped) == (1, ("e",))
    assert found.macro["AP"].value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", "query_id,group\n1,x\n2,x\n2,y\n"),
        ("g.csv", "\ufeffgroup,note,query_id\r\nx,,1\r\nx,,2\r\n\r\ny,,2\r\n"),
        ("g.tsv", "query_id\tgroup\n1\tx\n2\tx\n2\ty\n"),
    ],
)
def test_groups_are_read_from_tables(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")

    found = read_groups(tmp_path / name, ["1", "2", "3"])

    assert found.by == "g"
    assert found.members == {"x": ("1", "2"), "y": ("2",)}
    assert found.by_query() == {"1": ("x",), "2": ("x", "y")}
    (tmp_path / "own.tsv").write_text("topic\tquery_id\nx\t1\n")
    assert read_groups(tmp_path / "own.tsv", ["1"]).by == "topic"
