"""One page, written in five ways: nothing of others' texts is obeyed, nothing is lost."""

import csv
import io
import json
import re

import lxml.html
import pytest

from freshstack_dspy.pages.data import page_csv, page_json, page_latex
from freshstack_dspy.pages.html import html_document, html_fragment
from freshstack_dspy.pages.markdown import page_markdown
from freshstack_dspy.pages.page import (
    Page,
    Span,
    Table,
    Text,
    Value,
    counted,
    interval,
    located,
    marked,
    p_value,
    part,
    percent,
    prose,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.pages.terminal import page_text

EVIL = "<script>alert(1)</script> | *x* \x1b[31m\u202e `y` [a](javascript:b)"
PAGE = Page(
    "Runs",
    (
        Table(
            ("run", "alpha_nDCG@10"),
            [("bm25", Value(0.5, 0.4, 0.625)), (("hybrid", "5 queries"), None)],
            "means",
        ),
        Text(("look at ", Span("freshstack show x", "code"), "."), "note"),
        Text("first", "item"),
        Text("second", "item", 1),
        Page(
            "Evidence", (Text(("def x():\n    ", Span("return 1", "mark")), "excerpt"),), anchor="e"
        ),
    ),
    data={"mean": 0.5},
)


def test_on_a_terminal_words_wrap_and_evidence_is_between_brackets() -> None:
    assert page_text(PAGE, 60) == (
        "Runs\n"
        "means\n"
        "┏━━━━━━━━━━━┳━━━━━━━━━━━━━━━━┓\n"
        "┃ run       ┃  alpha_nDCG@10 ┃\n"
        "┡━━━━━━━━━━━╇━━━━━━━━━━━━━━━━┩\n"
        "│ bm25      │         0.5000 │\n"
        "│           │ [0.400, 0.625] │\n"
        "│ hybrid    │              – │\n"
        "│ 5 queries │                │\n"
        "└───────────┴────────────────┘\n"
        "look at freshstack show x.\n"
        "  first\n"
        "    second\n"
        "\n"
        "Evidence\n"
        "  | def x():\n"
        "  |     ⟦return 1⟧\n"
    )


def test_what_is_typed_is_not_parted_by_a_line_break() -> None:
    command = "freshstack retrieve a/folder/with/a/long/name --retriever bm25"

    text = page_text(Page("", (Text(("search it: ", Span(command, "code"), ".")),)), 40)

    assert text == f"search it:\n  {command}.\n"


def test_markdown_has_headings_tables_lists_and_quotes() -> None:
    assert page_markdown(PAGE) == (
        "# Runs\n\n"
        "means\n\n"
        "| run | alpha\\_nDCG@10 |\n"
        "| --- | ---: |\n"
        "| bm25 | 0.5000 \\[0.400, 0.625\\] |\n"
        "| hybrid 5 queries | – |\n\n"
        "look at `freshstack show x`.\n\n"
        "- first\n"
        "  - second\n\n"
        '<a id="e"></a>\n\n'
        "## Evidence\n\n"
        "> def x():  \n"
        ">  **return 1**  \n"
    )


def test_html_is_whole_and_marks_the_evidence() -> None:
    tree = lxml.html.fromstring(html_document(PAGE))
    assert [one.text for one in tree.iter("h1", "h2")] == ["Runs", "Evidence"]
    assert tree.xpath("//h2/@id") == ["e"]
    assert [" ".join(one.itertext()) for one in tree.iter("td")] == ["0.5000 [0.400, 0.625]", "–"]
    assert tree.xpath("//blockquote/mark/text()") == ["return 1"]
    assert len(tree.xpath("//ul/li/ul/li")) == 1
    assert not tree.xpath("//script | //link | //img")


def test_data_is_json_csv_with_all_digits_and_latex() -> None:
    assert json.loads(page_json(PAGE)) == {"mean": 0.5}
    exact = Page("", (Table(("run", "mean"), [("a,b", Value(1 / 3, 0.2, 0.4))]),))
    assert list(csv.reader(io.StringIO(page_csv(exact)))) == [["run", "mean"], ["a,b", str(1 / 3)]]
    assert r"bm25 & 0.5000 [0.400, 0.625] \\" in page_latex(PAGE)


@pytest.mark.parametrize("write", [page_markdown, html_document, html_fragment, page_text])
def test_texts_of_others_are_shown_and_never_obeyed(write) -> None:  # type: ignore[no-untyped-def]
    page = Page(
        EVIL,
        (
            Text(EVIL),
            Text((Span(EVIL, "code", href="javascript:alert(1)"),)),
            Text(Span("<script>x()</script>", "code")),
            Text(EVIL, "excerpt"),
            Table((EVIL,), [(EVIL,), (Span(EVIL, "strong"),)], EVIL),
        ),
        anchor='"><script>',
    )
    shown = write(page)
    assert "alert(1)" in shown
    assert "\x1b" not in shown
    if write is page_text:
        return
    assert "\u202e" not in shown
    assert "<script>" not in shown
    assert not re.search(r"""href=["']javascript""", shown)
    if write is page_markdown:
        assert not re.search(r"""(?<!\\)\]\(javascript""", shown)


def test_a_table_that_is_too_wide_folds_its_header_then_comes_in_parts() -> None:
    table = Table(("query id", *(f"measure {n}" for n in range(4))), [("q1", *[0.5] * 4)])
    assert max(map(len, page_text(Page("", (table,)), 50).splitlines())) < 50
    narrow = page_text(Page("", (table,)), 40)
    assert narrow.count("q1") == 2
    assert max(map(len, narrow.splitlines())) < 40


def test_the_parts_of_a_wide_table_are_alike_and_have_room_for_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "a name of 26 characters ok"
    table = Table(("run", *(f"measure{n}" for n in range(8))), [(name, *[0.5] * 8)], ids=(0,))
    shown = page_text(Page("", (table,)), 80)

    assert shown.count(name) == 2
    assert [line.count("measure") for line in shown.splitlines() if "run" in line] == [4, 4]


def test_numbers_are_written_in_one_way() -> None:
    assert str(Value(0.25, 0.1, 0.5, "+.2f", "+.1f")) == "+0.25 [+0.1, +0.5]"
    assert str(Value(None)) == "–"
    assert str(interval(None)) == "–"
    assert str(percent(0.125)) == "12.5%"
    assert part(3, 12) == "3 (25.0%)"
    assert part(3, 0) == "3"
    assert [p_value(0.00001), p_value(0.5), p_value(None)] == ["<0.0001", "0.5000", "–"]
    assert [counted(1, "query", "queries"), counted(1200, "pair")] == ["1 query", "1,200 pairs"]


def test_an_excerpt_has_the_lines_around_its_marks_which_may_overlap() -> None:
    text = "first\nthe ring is\nmissing here\nlast"
    places = located(text, ["ring is\nmissing", "missing here", "not there"])
    page = Page("", (Text(tuple(marked(text, places, 0)), "excerpt"),))
    assert page_text(page) == "  | …\n  | the ⟦ring is\n  | missing⟧⟦ here⟧\n  | …\n"
    assert "".join(one.text for one in marked(text, places)) == text
    assert "".join(one.text for one in marked(text, (), 3)) == "first\n…"


def test_a_name_is_whole_where_a_narrower_frame_is_enough() -> None:
    table = Table(("step", "calls", "tokens"), [("closed_book_answer", 18, 124_750)])
    assert "closed_book_answer" in page_text(Page("", (table,)), 38)


def test_a_long_word_of_a_name_is_broken_where_there_is_no_room() -> None:
    table = Table(("query", "title", "nuggets"), [("1", f"of {'very' * 20}", 5)], keys=2)
    shown = page_text(Page("", (table,)), 50)
    assert shown.count("┏") == 1
    assert max(map(len, shown.splitlines())) <= 50


def test_code_keeps_its_lines_and_cannot_end_its_own_fence() -> None:
    page = Page("", (Text("a = 1\n```\n<b>", "code"), prose("type `x` now")))
    assert page_text(page) == "    a = 1\n    ```\n    <b>\ntype x now\n"
    assert page_markdown(page) == "``````\na = 1\n```\n<b>\n``````\n\ntype `x` now\n"
    assert "<pre><code>a = 1\n```\n&lt;b&gt;</code></pre>" in html_fragment(page)


def test_an_address_that_is_shown_is_a_plain_link() -> None:
    def link(text: str) -> str:
        return page_markdown(Page("", (Text(Span(text, href=text)),)))

    assert link("https://example.org/a/1_2#3") == "<https://example.org/a/1_2#3>\n"
    assert link("javascript:alert(1)") == "javascript:alert(1)\n"
    assert link("https://a.example/><b>") == "https://a.example/&gt;&lt;b&gt;\n"
    assert link("https://a.example/|x") == "https://a.example/\\|x\n"


def test_a_folded_section_is_opened_by_its_heading_in_html_and_whole_elsewhere() -> None:
    page = Page("Runs", (Page("Evidence", (Text("words"),), anchor="e", folded=True),))

    (found,) = lxml.html.fromstring(html_document(page)).iterfind(".//details")

    assert found.findtext("summary/h2") == "Evidence"
    assert found.findtext("div[@id='e']/p") == "words"
    assert page_text(page) == "Runs\nEvidence\nwords\n"
    assert page_markdown(page) == '# Runs\n\n<a id="e"></a>\n\n## Evidence\n\nwords\n'


def test_a_cell_without_words_is_no_heading_of_its_row() -> None:
    table = Table(("without", "a", "lost"), [("bm25", "retriever", 1), ("all", "", 2)], keys=2)

    found = lxml.html.fromstring(html_fragment(Page("", (table,))))

    assert found.xpath("//tbody//th/text()") == ["bm25", "retriever", "all"]


def test_a_long_line_of_a_document_is_wrapped_below_its_beginning() -> None:
    lines = page_text(Page("", (Text("  one two three four five six", "excerpt"),)), 24)
    assert lines == "  |   one two three four\n  |   five six\n"


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1,200", "3 (25.0%)", "–", ""], True),
        (["+0.25", "<0.0001", "12/1/3", "3 of 4"], True),
        (["[0.1, 0.5]", "$0.0250"], True),
        (["1001_1", "2"], False),
        (["1 ranked low"], False),
    ],
)
def test_columns_of_numbers_are_flush_right(cells: list[str], right: bool) -> None:
    table = Table(("key", "value"), [("k", cell) for cell in cells])
    assert table.flush_right() == [False, right]


def test_a_table_is_made_of_attributes_and_functions_of_records() -> None:
    spans = [Span("a", "code"), Span("b")]
    table = Table.of(spans, {"text": "text", "is code": lambda span: str(span.style == "code")})

    assert list(table.header) == ["text", "is code"]
    assert table.rows == [("a", "True"), ("b", "False")]


def test_what_has_no_view_has_no_page() -> None:
    with pytest.raises(TypeError, match="int has no page"):
        page_of(1)
