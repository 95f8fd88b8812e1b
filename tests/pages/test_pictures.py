"""Pictures: what they draw is within them, their numbers are in a table, and texts are harmless."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from freshstack_dspy.pages.page import Picture, Value
from freshstack_dspy.pages.pictures import Dot, bars_picture, columns_picture, dots_picture

VALUES = st.floats(-1e6, 1e6)
EVIL = '</text><script>alert("1")</script> & "x"\x1b[31m\u202e'


def drawn(picture: Picture) -> "etree._Element":
    """The picture, which is XML by itself."""
    return etree.fromstring(picture.svg)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=6), st.booleans())
@example([(0.0, 0.0, 5e-324)], False)
@example([(1e6, 1e6, 999999.9999999999)], False)
def test_dots_lie_within_the_picture_and_on_their_intervals(
    rows: list[tuple[float, float, float]], zero: bool
) -> None:
    dots = [Dot("run", Value(sorted(row)[1], min(row), max(row))) for row in rows]

    svg = drawn(dots_picture("means", dots, ("run", "mean"), zero=zero))

    circles = [float(one.get("cx", "")) for one in svg.iterfind("{*}circle")]
    lines = [one.get("d", "") for one in svg.iterfind("{*}path[@stroke-width]")]
    ends = [[float(x) for x in re.findall(r"[MH](-?[\d.]+)", line)] for line in lines]
    assert len(circles) == len(ends) == len(rows)
    for middle, (low, high) in zip(circles, ends, strict=True):
        assert 0 <= low <= middle + 0.1 <= high + 0.2 <= 420.3


def test_a_value_without_an_interval_is_a_dot_and_one_that_is_not_there_is_a_dash() -> None:
    dots = [Dot("a", Value(1.0), "5% unjudged"), Dot("b", Value(None), hollow=True)]

    picture = dots_picture("means", dots, ("run", "mean", "of its top"))

    assert len(list(drawn(picture).iterfind("{*}circle"))) == 1
    assert picture.table.texts() == [
        [["a"], ["1.0000"], ["5% unjudged"]],
        [["b"], ["–"], [""]],
    ]


def test_bars_are_as_long_as_their_share() -> None:
    groups = {"bm25": {"found": 30, "missed": 10}, "hybrid": {"found": 40}}

    picture = bars_picture("nuggets", groups, ("run", "nuggets", "number"), 40)

    lengths = [float(one.get("width", "")) for one in drawn(picture).iterfind("{*}rect")][1::2]
    assert [length / max(lengths) for length in lengths] == [0.75, 0.25, 1.0]
    assert picture.table.texts()[0] == [["bm25"], ["found"], ["30 (75.0%)"]]


def test_columns_have_a_part_that_counts() -> None:
    picture = columns_picture("new", [(1, 10, 8), (3, 5, 0)], ("rank", "new", "good", "share"))

    heights = [float(one.get("height", "")) for one in drawn(picture).iterfind("{*}rect")]
    assert heights == [120, 96, 60, 0]
    assert picture.table.texts()[0] == [["1"], ["10"], ["8"], ["80.0%"]]


@pytest.mark.parametrize(
    "picture",
    [
        dots_picture(EVIL, [Dot(EVIL, Value(0.5), EVIL)], ("run", "mean", "note")),
        bars_picture(EVIL, {EVIL: {EVIL: 1}}, ("run", "nuggets", "number"), 1),
        columns_picture(EVIL, [], ("rank", "new", "good", "share")),
    ],
)
def test_a_picture_has_a_title_takes_the_pages_colours_and_obeys_no_text(picture: Picture) -> None:
    svg = drawn(picture)

    assert {etree.QName(one).localname for one in svg.iter()} <= {
        *("svg", "title", "desc", "text", "path", "circle", "rect")
    }
    assert svg.get("role") == "img"
    assert svg.findtext("{*}title")
    assert svg.findtext("{*}desc")
    paints = {one.get(name) for one in svg.iter() for name in ("fill", "stroke")} - {None, "none"}
    assert all(re.match(r"currentColor|var\(", paint or "") for paint in paints)
