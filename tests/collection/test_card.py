import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.markdown import escape, link
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.records import Attribution, Contamination, Vote

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
    assert set(cells) == {3, 7}
    assert not re.search(r"<(?!https?://)", "".join(attributed))
    assert not re.search(r"(?<!\\)[\[`]", "".join(attributed))
    assert not any(char in "".join(lines) for char in "\r\x00\x1b\u2028\u202e")


def test_escaped_text_is_still_readable() -> None:
    assert escape("Why does get_user() fail on [1, 2]?") == (
        r"Why does get\_user() fail on \[1, 2\]?"
    )


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
        "Judgments that failed: 1.",
        "| CC BY-SA 4.0 | 8 |",
        "| 12 | How? | question | Ada | <https://example.org/q/12> | CC BY-SA 4.0 |",
        "| code | not recorded | c0ffee | 1 |  |  |",
        "| docs | not recorded | not recorded | 2 | 1 binary | LICENSE |",
        "| asked | 2026-01-02 to 2026-01-02 |",
        "| tags | api (4) |",
        "| `pool.depth` | 100 |",
        "| `answerable` | every nugget has a supporting chunk | 2 | 50.0% |  | yes |",
        "| `unanswerable` | no nugget has one | 1 | 25.0% | 11.8% | no |",
    ):
        assert said in text


def test_the_statistics_are_those_counted_by_hand(tmp_path: Path) -> None:
    """Title and body have 3 words in query 12 and 6 in 123; 12 has 2 nuggets, 123 has 1.

    Nuggets 12_0, 12_1 and 123_0 have 2, 1 and 1 supporting chunks; queries 12 and 123 have 2
    and 1.
    """
    write_small(tmp_path)

    assert ("| supported | 2 | 3 | 2 | 1.5 | 4.5 | 3.0 | 50.0% | 100.0% | 1.3 | 1.5 |\n") in card(
        tmp_path
    )


def test_only_the_baseline_is_warned_of(tmp_path: Path) -> None:
    told = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    write_collection(tmp_path / "baseline", CONTENTS, CHUNKS, told)
    write_small(tmp_path / "model")

    baseline = card(tmp_path / "baseline")
    warning = "**extractive/baseline is a baseline that counts words"
    assert baseline.startswith(f"# small\n\n{warning}")
    assert f"## Limits\n\n- {warning}" in baseline
    assert "neither by people nor by a language model" in baseline
    assert "are by a language model" not in baseline
    assert "is a baseline" not in card(tmp_path / "model")
    assert "Nuggets and labels are by a language model" in card(tmp_path / "model")


def test_a_replay_has_the_card_of_the_build_that_paid(tmp_path: Path) -> None:
    paid = {"support": StepLedger(calls=3, reasked=1, tokens=700, cost=1.5)}
    replayed = {"support": StepLedger(cached=3, reasked=1, cached_tokens=700, cached_cost=1.5)}
    for name, ledger in (("paid", paid), ("replayed", replayed)):
        told = PROVENANCE.model_copy(update={"versions": {"dspy": name}, "ledger": ledger})
        written = write_collection(tmp_path / name, CONTENTS, CHUNKS, told)
        assert Collection.load(tmp_path / name).manifest.ledger == written.manifest.ledger

    assert card(tmp_path / "paid") == card(tmp_path / "replayed")
    assert "| support | 3 | 700 | $1.5000 |" in card(tmp_path / "paid")


def test_a_synthetic_query_is_counted_and_marked(tmp_path: Path) -> None:
    made = query("12").model_copy(
        update={
            "origin": "synthetic",
            "seed_chunk_ids": (CHUNKS[0].chunk_id,),
            "question_source": None,
            "answer_source": None,
        }
    )
    write_small(tmp_path, replace(CONTENTS, queries=(made, *CONTENTS.queries[1:])))
    text = card(tmp_path)

    assert "| synthetic queries | 1 |" in text
    assert "questions of a community and questions that a model made" in text
    assert "| 12 | How? | question | made by a model |  | made by a model |" in text


def test_what_is_not_answerable_is_listed_by_id_and_title(tmp_path: Path) -> None:
    write_small(tmp_path)

    assert "Of `unanswerable`, 1 of 1:" in card(tmp_path)
    assert "| 5 | How? | 0 of 1 |" in card(tmp_path)


def test_contamination_is_told_of_those_that_were_scored(tmp_path: Path) -> None:
    known = Contamination(
        query_id="12",
        known_nuggets=("12_0",),
        closed_book_coverage=0.5,
        asked="after_cutoff",
        gold_overlap=None,
        near_duplicates=("123",),
        call_id="k",
    )
    told = PROVENANCE.model_copy(
        update={"config": {"contamination": {"ngram": 8, "cutoff": "2025-06-01"}}}
    )
    write_collection(tmp_path, replace(CONTENTS, contamination=(known,)), CHUNKS, told)
    text = card(tmp_path)

    for said in (
        "| nuggets that the closed-book answers support | 1 of 2 (50.0%) |",
        "| queries of which half the nuggets or more are known | 1 of 1 (100.0%) |",
        "| queries asked up to the model's cut-off, 2025-06-01 | 0 of 1 (0.0%) |",
        "| queries that share 8 words in a row with a supporting chunk | 0 of 4 (0.0%) |",
        "| queries that nearly duplicate another | 1 of 4 (25.0%) |",
        "--exclude-contaminated",
    ):
        assert said in text


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_configuration_stays_text(tmp_path: Path, text: str) -> None:
    """A collection may be from anybody, and its manifest may say anything."""
    corpus: list[JsonValue] = [{"name": "docs", "url": text}, {"name": text, "package": text}, text]
    hostile: dict[str, JsonValue] = {
        "pool": {"depth": text, "techniques": [text, {text: text}]},
        "judge": text,
        "queries": {"source": text, "tags": [text]},
        "contamination": {"cutoff": text},
        "corpus": corpus,
    }
    told = PROVENANCE.model_copy(update={"config": hostile, "prompts": {text: text}})
    write_collection(tmp_path, CONTENTS, CHUNKS, told)
    lines = card(tmp_path).split("\n")

    assert not any(line.startswith("# ") and line != "# small" for line in lines)
    assert not re.search(r"<(?!https?://)", "".join(lines))
    assert not any(char in "".join(lines) for char in "\r\x00\x1b\u2028\u202e")


def test_an_imported_collection_says_so_and_names_no_model(tmp_path: Path) -> None:
    imported: dict[str, JsonValue] = {"import": {"format": "beir"}}
    told = PROVENANCE.model_copy(
        update={"recipe": "import:beir", "model": "none", "prompts": {}, "config": imported}
    )
    queries = tuple(each.model_copy(update={"origin": "imported"}) for each in CONTENTS.queries)
    write_collection(tmp_path, replace(CONTENTS, queries=queries), CHUNKS, told)
    text = card(tmp_path)

    assert "| imported from the format | beir |" in text
    assert "asking the model" not in text
    assert "SHA-256 of its prompt" not in text
    assert "by a language model" not in text


def test_votes_are_compared(tmp_path: Path) -> None:
    votes = tuple(
        Vote(vote=number, label=label, status="ok", reason="", call_id=None)
        for number, label in enumerate((1, 1, 0), 1)
    )
    voted = CONTENTS.judgments[0].model_copy(update={"votes": votes})
    write_small(tmp_path, replace(CONTENTS, judgments=(voted, *CONTENTS.judgments[1:])))

    assert "| pairs with several votes | 1 |" in card(tmp_path)
    assert "| two votes agree | 33.3% |" in card(tmp_path)


def test_the_pool_says_what_would_be_lost(tmp_path: Path) -> None:
    """All was pooled by the question alone; `12` and `123` have supported nuggets."""
    write_small(tmp_path)

    assert "Of the 2 queries with a supported nugget." in card(tmp_path)
    assert "| question | technique | 3 | 3 | 3 |" in card(tmp_path)
