import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.records import Attribution
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Provenance
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, query

HOSTILE = [
    "a | b |",
    "line\nbreak\r\n\n# heading",
    "<script>alert(1)</script>",
    "![pixel](https://evil.example/p.png) [click](javascript:alert(1))",
    "`code` ```fence **bold** __init__ ~~gone~~ $x$",
    "&lt;b&gt; &#60; <!-- hidden",
    "\u202etxt.exe",
    "\\|",
    "\x00\x1b[31m\u2028",
]


def card(path: Path, contents: Contents = CONTENTS, **changed: object) -> str:
    """The card of the small collection, made otherwise."""
    provenance = Provenance.model_validate({**PROVENANCE.model_dump(), **changed})
    rejected = {"no accepted answer": 7}
    write_collection(path, contents, CHUNKS, provenance, rejected=rejected)
    return (path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_text_in_one_cell(tmp_path: Path, text: str) -> None:
    by = Attribution(author=text, url=text, licence=text)
    hostile = query("12", title=text).model_copy(
        update={"question_source": by, "answer_source": by}
    )
    mild = card(tmp_path / "mild").split("\n")
    contents = replace(CONTENTS, queries=(hostile, *CONTENTS.queries[1:]))
    lines = card(tmp_path / "hostile", contents).split("\n")

    # One licence more, and no other line: nothing broke out of its cell.
    assert len(mild) + 1 == len(lines)
    attributed = lines[lines.index("## Attribution") :]
    rows = [line for line in attributed if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {3, 7}
    assert not re.search(r"<(?!https?://)", "".join(attributed))
    assert not re.search(r"(?<!\\)[\[`]", "".join(attributed))
    assert not any(char in "".join(lines) for char in "\r\x00\x1b\u2028\u202e")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_configuration_stays_text(tmp_path: Path, text: str) -> None:
    """A collection may be from anybody, and its manifest may say anything."""
    corpus: list[JsonValue] = [{"name": "docs", "url": text}, {"name": text, "package": text}, text]
    hostile: dict[str, JsonValue] = {
        "pool": {"depth": text, "techniques": [text, {text: text}], text: 1},
        "judge": text,
        "queries": {"source": text, "tags": [text]},
        "contamination": {"cutoff": text},
        "corpus": corpus,
    }
    lines = card(tmp_path, config=hostile, prompts={text: text}).split("\n")

    assert not any(line.startswith("# ") and line != "# small" for line in lines)
    assert not re.search(r"<(?!https?://)", "".join(lines))
    assert not any(char in "".join(lines) for char in "\r\x00\x1b\u2028\u202e")


def test_the_card_says_what_it_is_and_how_it_was_made(tmp_path: Path) -> None:
    """The statistics are counted by hand, from `small.py`.

    Title and body have 5 of GPT-4o's tokens in query 12 and 9 in 123, answers 6, nuggets 5; chunks
    have one. 12 has 2 nuggets, 123 has 1. Nuggets
    12_0, 12_1 and 123_0 have 2, 1 and 1 supporting chunks; queries 12 and 123 have 2 and 1.
    """
    text = card(tmp_path, config={"pool": {"depth": 100}, "contamination": {"ngram": 8}})

    assert text.startswith("# small\n\nA judged test collection")
    for said in (
        "**freshstack**",
        "asking the model **openai/some-model**",
        f"| JudgeSupport | `{'ab' * 32}` |",
        "| `judgments` | 8 |",
        "| failures: support, refused | 1 |",
        "| questions left out: no accepted answer | 7 |",
        "Labels are by openai/some-model, not by people.",
        "Judgments that failed: 1.",
        "| CC BY-SA 4.0 | 8 |",
        "| 12 | How? | question | Ada | <https://example.org/q/12> | CC BY-SA 4.0 |",
        "| code | not recorded | c0ffee | 1 |  |  |",
        "| docs | not recorded | not recorded | 2 | 1 binary | LICENSE |",
        "| asked | 2026-01-02 to 2026-01-02 |",
        "| tags | api (4) |",
        'pool = {"depth": 100}',
        "| `answerable` | every nugget has a supporting chunk | 2 | 50.0% | yes |",
        "| `unanswerable` | no nugget has one | 1 | 25.0% | no |",
        "| supported | 2 | 3 | 2 | 1.5 | 7.0 | 6.0 | 5.0 | 1.0 | 50.0% | 100.0% | 1.3 | 1.5 |",
        "| nuggets that the closed-book answers support | 1 of 2 (50.0%) |",
        "| queries of which half the nuggets or more are known | 1 of 1 (100.0%) |",
        "| queries asked up to the model's cut-off | 1 of 1 (100.0%) |",
        "| queries that share 8 words in a row with a supporting chunk | 1 of 4 (25.0%) |",
        "| queries that nearly duplicate another | 1 of 4 (25.0%) |",
        "--exclude-contaminated",
    ):
        assert said in text
    assert "is a baseline" not in text


def test_the_baseline_is_warned_of(tmp_path: Path) -> None:
    baseline = card(tmp_path, model="extractive/baseline")

    assert baseline.startswith("# small\n\n**extractive/baseline is a baseline that counts words")
    assert "neither by people nor by a language model" in baseline
    assert "## Contamination\n\ndry run: labels by a word counter.\n\n" in baseline
    assert "dry run: labels" not in card(tmp_path / "other")


def test_a_replay_has_the_card_of_the_build_that_paid(tmp_path: Path) -> None:
    paid = {"support": StepLedger(calls=3, reasked=1, tokens=700, cost=1.5)}
    replayed = {"support": StepLedger(cached=3, reasked=1, cached_tokens=700, cached_cost=1.5)}
    first = card(tmp_path / "paid", ledger=paid)

    assert first == card(tmp_path / "replayed", ledger=replayed, versions={"dspy": "9"})
    assert "| support | 3 | 700 | 1.5000 |" in first
