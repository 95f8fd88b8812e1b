import csv
import io
import re

import pytest
from freshstack.datasets.util import nuggets_to_query_qrels
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.formats.freshstack import official_ids
from freshstack_dspy.formats.selection import table_ids, word

IDS = st.text(st.characters(codec="utf-8"), max_size=20)
"""Every text that can be written as UTF-8."""


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("docs/a.md_0_5", "docs/a.md_0_5"),
        ("a b", "a!20b"),
        ('a"b', "a!22b"),
        ("a!20b", "a!2120b"),
        ("é", "~0000E9"),
        ("~", "~00007E"),
        ("a\tb\r\n", "a!09b!0D!0A"),
        ("", "!"),
    ],
)
def test_words_by_hand(id_: str, expected: str) -> None:
    assert expected == word(id_)


@given(IDS, IDS)
def test_words_are_visible_ascii_and_sort_as_their_ids_do(one: str, other: str) -> None:
    assert re.fullmatch("[!#-~]+", word(one))
    assert (one < other) is (word(one) < word(other))
    assert (one == other) is (word(one) == word(other))


@given(st.lists(IDS, unique=True, min_size=1))
def test_names_in_a_table_are_read_back_by_any_reader(ids: list[str]) -> None:
    names = table_ids(ids)
    file = io.StringIO(newline="")
    table = csv.writer(file, delimiter="\t", lineterminator="\n")
    table.writerows((name, "1") for name in names.values())
    read = list(csv.reader(io.StringIO(file.getvalue()), delimiter="\t"))
    lines = [line.split("\t") for line in file.getvalue().split("\n")[:-1]]

    assert list(names) == ids
    assert [[names[id_], "1"] for id_ in ids] == read
    assert read == lines
    assert len(set(names.values())) == len(ids)
    assert set(names.values()) in ({*ids}, {word(id_) for id_ in ids})


@pytest.mark.parametrize(
    ("nuggets", "changed"),
    [
        ({"12": ("12_0",), "34": ("34_0", "34_x_y")}, False),
        ({"12": ("12_0",), "123": ("123_0",)}, True),
        ({"12": ("12-0",)}, True),
        ({"12": ("n1",)}, True),
        ({"1_2": ("1_2_0",)}, True),
        ({"12": ("34_0",), "34": ("12_0",)}, True),
    ],
)
def test_ids_stay_only_if_the_official_loader_reads_all_of_them_rightly(
    nuggets: dict[str, tuple[str, ...]], changed: bool
) -> None:
    queries, names = official_ids(nuggets)
    exported = {names[nugget]: {"chunk": 1} for every in nuggets.values() for nugget in every}
    read, _ = nuggets_to_query_qrels(exported)

    assert any(ours != name for ours, name in (*queries.items(), *names.items())) is changed
    assert {query: tuple(found) for query, found in read.items()} == {
        queries[query]: tuple(names[nugget] for nugget in every) for query, every in nuggets.items()
    }
