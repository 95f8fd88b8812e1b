import re
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy.collection import Collection, write_collection
from freshstack_dspy.collection.markdown import escape, link
from freshstack_dspy.lm.spending.ledger import StepLedger
from freshstack_dspy.records import Attribution

from .small import CHUNKS, CONTENTS, PROVENANCE, query, write_small

HOSTILE = [
    "a | b |",
    "line\nbreak\r\n\n# heading",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![pixel](https://evil.example/p.png)",
    "`code` ```fence",
    "**bold** __init__ ~~gone~~ $x$",
    "&lt;b&gt; &#60;",
    "\u202etxt.exe",
    "\\|",
    "<!-- hidden",
    "\x00\x1b[31m\u2028",
]


def card(path: Path) -> str:
    return (path / "README.md").read_text(encoding="utf-8")


def unescaped_pipes(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_text_in_one_cell(tmp_path: Path, text: str) -> None:
    by = Attribution(author=text, url=text, licence=text)
    hostile = query("12", title=text).model_copy(
        update={"question_source": by, "answer_source": by}
    )
    write_small(tmp_path / "mild")
    write_small(tmp_path / "hostile", replace(CONTENTS, queries=(hostile, *CONTENTS.queries[1:])))
    mild = card(tmp_path / "mild").split("\n")
    lines = card(tmp_path / "hostile").split("\n")

    # One licence more, and no other line: nothing broke out of its cell.
    assert len(mild) + 1 == len(lines)
    attributed = lines[lines.index("## Attribution") :]
    cells = [unescaped_pipes(line) for line in attributed if line.startswith("| ")]
    assert set(cells) == {3, 5, 7}
    assert not re.search(r"<(?!https?://)", "".join(attributed))
    assert not re.search(r"(?<!\\)[\[`]", "".join(attributed))
    assert not any(char in "".join(lines) for char in "\r\x00\x1b\u2028\u202e")


def test_escaped_text_is_still_readable() -> None:
    assert escape("Why does get_user() fail on [1, 2]?") == (
        r"Why does get\_user() fail on \[1, 2\]?"
    )


def test_a_very_long_text_is_cut() -> None:
    assert escape("x" * 1000) == "x" * 200 + "…"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://stackoverflow.com/a/1_2#3", "<https://stackoverflow.com/a/1_2#3>"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("https://a.example/ onclick=x", "https://a.example/ onclick=x"),
        ("https://a.example/><b>", "https://a.example/&gt;&lt;b&gt;"),
        ("https://a.example/|x", r"https://a.example/\|x"),
    ],
)
def test_only_a_plain_web_address_is_a_link(url: str, shown: str) -> None:
    assert link(url) == shown


def test_the_card_says_what_it_is_and_how_it_was_made(tmp_path: Path) -> None:
    collection = write_small(tmp_path)
    text = card(tmp_path)

    assert text.startswith("# small\n")
    for said in (
        "**freshstack**",
        "**openai/some-model**",
        f"| JudgeSupport | `{'ab' * 32}` |",
        collection.manifest.content_hash,
        "| `judgments` | 8 |",
        "| failures: support, refused | 1 |",
        "| questions left out: no accepted answer | 7 |",
        "| `answerable` | 2 | yes |",
        "| `unanswerable` | 1 | no |",
        "Judgments that failed: 1.",
        "| CC BY-SA 4.0 | 8 |",
        "| 12 | How? | question | Ada | <https://example.org/q/12> | CC BY-SA 4.0 |",
        "| code | c0ffee | 1 |",
        "| docs | not recorded | 2 |",
    ):
        assert said in text


def test_the_statistics_are_those_counted_by_hand(tmp_path: Path) -> None:
    """Title and body have 3 words in query 12 and 6 in 123; 12 has 2 nuggets, 123 has 1.

    Nuggets 12_0, 12_1 and 123_0 have 2, 1 and 1 supporting chunks; queries 12 and 123 have 2
    and 1.
    """
    write_small(tmp_path)

    assert ("| evaluated | 2 | 3 | 2 | 1.5 | 4.5 | 3.0 | 50.0% | 100.0% | 1.3 | 1.5 |\n") in card(
        tmp_path
    )


def test_only_the_baseline_is_warned_of(tmp_path: Path) -> None:
    told = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    write_collection(tmp_path / "baseline", CONTENTS, CHUNKS, told)
    write_small(tmp_path / "model")

    assert "is a baseline" in card(tmp_path / "baseline")
    assert "is a baseline" not in card(tmp_path / "model")


def test_a_text_without_attribution_says_so(tmp_path: Path) -> None:
    bare = query("12").model_copy(update={"question_source": None})
    write_small(tmp_path, replace(CONTENTS, queries=(bare, *CONTENTS.queries[1:])))

    assert "| 12 | How? | question | not recorded |  | not recorded |" in card(tmp_path)
    assert "| not recorded | 1 |" in card(tmp_path)


def test_the_card_does_not_change_with_what_a_build_was_charged(tmp_path: Path) -> None:
    told = PROVENANCE.model_copy(
        update={"versions": {"dspy": "9"}, "ledger": {"support": StepLedger(calls=3, cost=1.5)}}
    )
    write_small(tmp_path / "one")
    two = write_collection(
        tmp_path / "two", CONTENTS, CHUNKS, told, rejected={"no accepted answer": 7}
    )

    assert card(tmp_path / "one") == card(tmp_path / "two")
    assert Collection.load(tmp_path / "two").manifest.ledger == two.manifest.ledger
    assert two.manifest.ledger["support"].cost == 1.5
