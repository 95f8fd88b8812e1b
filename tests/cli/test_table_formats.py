"""Tables for other programs."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.cli.table_formats import (
    FORMATS,
    Cell,
    PlainTable,
    as_csv,
    as_latex,
    as_markdown,
)

TABLE = PlainTable(
    ("run", "P@5"), (("a_b.run", 0.123456), ("50% & {x}", None)), caption="Topics #1"
)


def test_csv_gives_numbers_in_full_and_nothing_for_none() -> None:
    assert as_csv(TABLE) == "run,P@5\na_b.run,0.123456\n50% & {x},\n"


def test_latex_is_escaped_and_has_the_rules_of_booktabs() -> None:
    assert as_latex(TABLE).splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption{Topics \#1}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"run & P@5 \\",
        r"\midrule",
        r"a\_b.run & 0.1235 \\",
        r"50\% \& \{x\} & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_without_a_caption_latex_is_the_tabular_alone() -> None:
    lines = as_latex(PlainTable(("a",), ((1,),))).splitlines()

    assert lines[:2] == [r"% \usepackage{booktabs}", r"\begin{tabular}{r}"]
    assert lines[-1] == r"\end{tabular}"


def test_figures_that_are_texts_are_flush_right_where_the_table_says_so() -> None:
    table = PlainTable(("run", "p", "none"), (("a", "< 0.001", None),), right=frozenset({1, 2}))

    assert r"\begin{tabular}{lrr}" in as_latex(table)
    assert "| --- | ---: | ---: |" in as_markdown(table)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        ("[b]", "{}[b]"),
        ("*", "{}*"),
        ("~^<>|$", r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}\$"),
        ("a\nb\x1b[2J", "a b [2J"),
    ],
)
def test_no_text_is_a_command_of_latex(text: str, written: str) -> None:
    row = as_latex(PlainTable(("h",), ((text,),))).splitlines()[5]

    assert row == rf"{written} \\"


def test_markdown_keeps_cells_in_their_columns() -> None:
    table = PlainTable(("run", "n"), (("a|b\n<i>", 3),))

    assert as_markdown(table) == "| run | n |\n| --- | ---: |\n| a\\|b \\<i> | 3 |\n"


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "\n-1"]
)
def test_no_text_of_a_csv_is_a_formula(text: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(as_csv_of(text)))

    assert cell.startswith("'")


def as_csv_of(text: Cell) -> str:
    return as_csv(PlainTable(("h",), ((text,),))).removeprefix("h\n")


def test_numbers_of_a_csv_may_be_negative() -> None:
    assert as_csv_of(-0.5) == "-0.5\n"


def test_a_row_has_as_many_cells_as_there_are_columns() -> None:
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        PlainTable(("a",), ((1, 2),))


@given(st.lists(st.tuples(st.text(), st.none() | st.floats(allow_nan=False)), max_size=5))
def test_any_text_stays_in_its_cell(rows: list[tuple[str, float | None]]) -> None:
    table = PlainTable(("name", "value"), tuple(rows), caption="c")

    assert [len(row) for row in csv.reader(io.StringIO(as_csv(table)))] == [2] * (len(rows) + 1)
    for write in FORMATS.values():
        text = write(table)
        assert all(letter.isprintable() or letter == "\n" for letter in text) or write is as_csv
    assert len(as_latex(table).split("\n")) == 12 + len(rows)
    assert len(as_markdown(table).split("\n")) == 5 + len(rows)
