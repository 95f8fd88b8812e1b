"""HTML of posts → Markdown. The expected texts are CommonMark, written by hand."""

import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.html_to_markdown import html_to_markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("", ""),
        ("<p> </p>\n", ""),
        ("<p>one\ntwo</p>\n\n<p>three</p>", "one two\n\nthree"),
        ("<p>a<br>b<br />c</p>", "a\nb\nc"),
        ("<h1>A</h1><h3>B <em>c</em></h3>", "# A\n\n### B *c*"),
        ("<p>x<strong> bold </strong>y</p>", "x **bold** y"),
        (
            "<p><del>a</del> 2<sup>10</sup> <kbd>Esc</kbd></p>",
            "~~a~~ 2<sup>10</sup> <kbd>Esc</kbd>",
        ),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ("<dl><dt>a</dt><dd>b</dd></dl>", "a\n:   b"),
        ("<p>a<!-- hidden --><script>x()</script>b</p>", "ab"),
    ],
)
def test_text_keeps_its_structure(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


def test_entities_are_decoded_once_and_nothing_is_escaped() -> None:
    html = "<p>&lt;div&gt; &amp;lt; a_b * c A&nbsp;B &#x1F600; caf&eacute;</p>"

    assert html_to_markdown(html) == "<div> &lt; a_b * c A B \U0001f600 café"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<ul><li><p>a</p><p>b</p></li><li>c</li></ul>", "- a\n\n  b\n- c"),
        ("<ul><li>a<ol><li>b</li><li>c</li></ol></li><li>d</li></ul>", "- a\n  1. b\n  2. c\n- d"),
        (
            "<ol><li>a\n<pre><code>x\n\n  y\n</code></pre></li></ol>",
            "1. a\n\n   ```\n   x\n\n     y\n   ```",
        ),
    ],
)
def test_lists_are_indented_by_their_markers(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<pre><code>a\n  b &lt; c\n\n</code></pre>", "```\na\n  b < c\n\n```"),
        ("<pre><code class='language-c++'>a</code></pre>", "```c++\na\n```"),
        ("<pre><code>```\na ```` b\n</code></pre>", "`````\n```\na ```` b\n`````"),
        ("<pre>a<br>b <span>c</span>d</pre>", "```\na\nb cd\n```"),
        ("<b><pre><code> a\n  b</code></pre></b>", "```\n a\n  b\n```"),
        ("<pre><code> \n</code></pre>", ""),
    ],
)
def test_code_blocks_are_fenced(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<code>a  b</code>", "`a  b`"),
        ("<code>a`b</code>", "``a`b``"),
        ("<code>`</code>", "`` ` ``"),
        ("x<code></code>y", "xy"),
    ],
)
def test_code_inside_a_line_is_fenced_by_more_backticks_than_it_holds(
    html: str, markdown: str
) -> None:
    assert html_to_markdown(html) == markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<a href='https://x.org/a'>b</a>", "[b](https://x.org/a)"),
        ("<a href='https://x.org/a'>https://x.org/a</a>", "<https://x.org/a>"),
        ("<a href='https://x.org/a_(b)'>c</a>", "[c](<https://x.org/a_(b)>)"),
        ("<a href='https://x.org'><img src='https://i.org/1.png' alt='i'></a>",
         "[![i](https://i.org/1.png)](https://x.org)"),
        ("<a href='javascript:alert(1)'>a</a>", "a"),
        ("<a href='JaVa\tscript:alert(1)'>a</a>", "a"),
        ("<a href='data:text/html;base64,x'>a</a>", "a"),
    ],
)  # fmt: skip
def test_links_lead_to_the_web_or_keep_their_text_only(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


def test_tables_have_a_head() -> None:
    html = (
        "<table><thead><tr><th>a</th><th>b|c</th></tr></thead>"
        "<tbody><tr><td><code>x</code></td></tr></tbody></table>"
    )

    assert html_to_markdown(html) == "| a | b\\|c |\n| --- | --- |\n| `x` |"


@pytest.mark.parametrize("depth", [45, 5_000])
@pytest.mark.parametrize("tag", ["div", "blockquote"])
def test_text_survives_any_nesting(tag: str, depth: int) -> None:
    html = f"<p>before</p>{f'<{tag}>' * depth}deep &amp; low{f'</{tag}>' * depth}<p>after</p>"

    markdown = html_to_markdown(html)

    for word in ("before", "deep & low", "after"):
        assert word in markdown


TREES = st.recursive(
    st.sampled_from(["xa ", " xb", "xc", "<br>", "<code>xd</code>", "<pre>xe\n</pre>", "<hr>"]),
    lambda inner: st.tuples(
        st.sampled_from(
            "p,div,ul,ol,li,table,tr,td,thead,blockquote,b,em,h2,dl,dd,a href='/y',span,font".split(
                ","
            )
        ),
        st.lists(inner, max_size=4),
    ).map(lambda tree: f"<{tree[0]}>{''.join(tree[1])}</{tree[0].split()[0]}>"),
    max_leaves=12,
)


@given(TREES)
def test_no_text_is_lost_or_doubled_however_elements_are_nested(html: str) -> None:
    words = re.findall("x[a-e]", re.sub("<[^>]*>", " ", html))

    assert sorted(re.findall("x[a-e]", html_to_markdown(html))) == sorted(words)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_any_code_is_kept_exactly(code: str) -> None:
    markdown = html_to_markdown(f"<pre><code>{escape(code)}\n</code></pre>")

    assert markdown == "" if not code.strip() else code in markdown.split("\n")


@pytest.mark.parametrize(
    "part",
    ["<!--", "<!--a>", '<a b="', "a<b ", "<?a", "<![CDATA["],
)
@pytest.mark.parametrize("end", ["", ">"])
def test_what_has_no_end_is_read_once(part: str, end: str) -> None:
    """Read on for its end from each of them, this would take minutes."""
    html_to_markdown(f"<p>before</p>{part * (200_000 // len(part))}{end}")


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("a <b c", "a <b c"),
        ("a<!--x", "a<!--x"),
        ("a<!-- x -- >b<!--c", "ab<!--c"),
        ("a<![x", "a<![x"),
        ("a<![CDATA[x]]>b", "axb"),
        ("<ol start='3'>" + "<li>a</li>" * 3 + "</ol>", "3. a\n4. a\n5. a"),
    ],
)
def test_what_has_no_end_is_text(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


@pytest.mark.parametrize("html", ["<pre>{}</pre>", "<ol>{}</ol>"])
def test_long_lists_and_code_take_time_by_their_length(html: str) -> None:
    """To look at all others for each of them would take minutes."""
    item = "<br>a" if "pre" in html else "<li>a</li>"

    assert html_to_markdown(html.format(item * 10_000)).count("a") == 10_000
