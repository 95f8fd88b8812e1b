"""Markdown becomes paragraphs, items and code, and these become statements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.markdown import blocks, plain, sentences, statements

TEXT = """\
# The *loader*

Use the **loader**, e.g. `a*b`, of [the docs](http://x.y/z). It is fast!

> Quoted words
> go on.

- one
  continued
- two

1. three

```python
# a comment
>>> loader = Loader(
...     "a",
... )
done()
```

    indented = 1

| key | value |
|-----|-------|
"""


def test_blocks_are_told_apart_and_keep_their_heading() -> None:
    found = blocks(TEXT)

    assert [block.kind for block in found] == [
        "prose", "prose", "item", "item", "item", "code", "code", "item",
    ]  # fmt: skip
    assert {block.heading for block in found} == {"The loader"}
    assert found[1].text == "Quoted words\ngo on."
    assert found[2].text == "one\n  continued"
    assert [[one.text for one in statements(found[place])] for place in (0, 5)] == [
        ["Use the loader, e.g. `a*b`, of the docs.", "It is fast!"],
        ['loader = Loader( "a", )', "done()"],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Who came. He left.", ["Dr. Who came.", "He left."]),
        ("See vs. Other. Done.", ["See vs. Other.", "Done."]),
        ("Version 1.2 is out. 3 more follow.", ["Version 1.2 is out.", "3 more follow."]),
        ("First; second.", ["First;", "second."]),
        ("", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > b and List<String>", "a > b and List<String>"),
        ("my\\_name __init__ snake_case", "my_name __init__ snake_case"),
        ("<p>one</p>\n<p>two</p>", "one two"),
        ("![alt](pic.png) text", "alt text"),
    ],
)
def test_plain_text_keeps_what_is_meant(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(alphabet="ab.*`_#>-|[]()<~\\ \n\t", max_size=300))
def test_any_text_can_be_cut(text: str) -> None:
    for block in blocks(text):
        assert block.text.strip()
        assert all(statement.text for statement in statements(block))
