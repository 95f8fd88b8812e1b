"""Every result, on the sample: as a notebook shows it, and as a line."""

from pathlib import Path
from typing import Any

import lxml.html
import pytest

from freshstack_dspy import Collection, agree, compare
from freshstack_dspy.calibration.agreement import nugget_ratings
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.collection.diff import difference
from freshstack_dspy.pages.terminal import page_text
from freshstack_dspy.records import NuggetLabel
from freshstack_dspy.stored.contents import Contents
from tests.test_sample import QUICKSTART, rebuilt

QUERY = "1001"
QUESTION = "One core out of six comes out with 10x too wide rings"
SHOWN = {
    "Collection": ("A judged test collection", "every nugget has a supporting chunk"),
    "Evaluation": ("quickstart: 16 queries", "alpha_nDCG@10"),
    "Comparison": ("B bm25", "detectable"),
    "Diagnosis": ("Who found the 152 relevant chunks", "next: freshstack evaluate"),
    "Explanation": (QUESTION, "1001_0"),
    "Analysis": (QUESTION, "what bm25 misses"),
    "AgreementReport": (QUESTION, "judge compared with 2 annotators"),
    "NuggetRatings": ("1 nugget by 1 annotator", "grounded"),
    "Difference": (f"{QUERY}: {QUESTION}", "queries dropped: 1"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One result of each kind, by the name of its class."""
    folder = tmp_path_factory.mktemp("results")
    sample = rebuilt("quickstart", folder)
    runs = {name: sample.retrieve(name, index_path=folder / "index") for name in ("lsa", "bm25")}
    judged = next(one for one in sample.judgments if one.query_id == QUERY and one.evidence)
    rating = NuggetLabel(
        query_id=QUERY, nugget_id=judged.nugget_id, annotator="ada",
        precise=True, grounded=True, vital=False,
    )  # fmt: skip
    fewer = without(sample, folder / "fewer")
    found = (
        sample,
        sample.evaluate(runs["bm25"]),
        compare(sample, runs),
        sample.diagnose(),
        sample.explain(QUERY, judged.chunk_id),
        sample.analyze(runs["bm25"], query_id=QUERY),
        agree(sample, QUICKSTART / "labels.jsonl"),
        nugget_ratings(sample, [rating]),
        difference(sample, fewer, sample.corpus, sample.corpus),
    )
    return {type(one).__name__: one for one in found}


def without(sample: Collection, folder: Path) -> Collection:
    """The sample without one query."""
    records = {
        name: tuple(one for one in of if getattr(one, "query_id", "") != QUERY)
        for name, of in sample.records().items()
    }
    contents = Contents(**records, threshold=sample.threshold)
    return write_collection(folder, contents, sample.chunks(), sample.manifest)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_it(results: dict[str, Any], name: str) -> None:
    shown = results[name]._repr_html_()
    tree = lxml.html.fragment_fromstring(shown, create_parent=True)
    text = " ".join(tree.text_content().split())

    assert not tree.xpath("//script | //link | //img | //iframe | //@onclick")
    assert tree.xpath("//h3")
    for words in SHOWN[name]:
        assert words in text


@pytest.mark.parametrize("name", SHOWN)
def test_its_repr_is_a_short_line(results: dict[str, Any], name: str) -> None:
    shown = repr(results[name])

    assert name in shown
    assert len(shown.splitlines()) == 1
    assert len(shown) < 250


@pytest.mark.parametrize("name", [name for name in SHOWN if name != "Collection"])
def test_its_tables_fit_a_terminal_in_one_part(
    results: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = results[name].page()
    lines = page_text(page, 80).splitlines()

    tables = [line for line in lines if line.startswith("┏")]
    assert len(tables) == len([*page.tables()])
    assert max(map(len, tables), default=0) <= 80


def test_the_evidence_of_a_disagreement_is_marked_in_its_passage(results: dict[str, Any]) -> None:
    tree = lxml.html.fromstring(results["AgreementReport"]._repr_html_())
    worst = results["AgreementReport"].disagreements[0]

    assert worst.evidence[0] in tree.xpath("//blockquote/mark/text()")


def test_a_diagnosis_says_what_to_do_next(results: dict[str, Any]) -> None:
    """Of a pool that lacks a tenth of what is relevant, to judge more; of a dry run, to build."""
    found = results["Diagnosis"]
    lacking = found.model_copy(update={"estimated_relevant": 1.2 * found.relevant})
    dry = lacking.model_copy(update={"dry_run": True})

    *_, enough = page_text(found.page()).splitlines()
    assert enough.endswith(f"freshstack evaluate {results['Collection'].path} RUN")
    assert f"freshstack extend {results['Collection'].path} RUN" in page_text(lacking.page())
    assert "next: build it with a language model" in page_text(dry.page())


def test_long_names_of_retrievers_leave_a_diagnosis_its_tables(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found, name = results["Diagnosis"], "some-organisation/a-large-embedding-model-v3"
    long = found.model_copy(
        update={
            field: tuple(one.model_copy(update={key: name}) for one in getattr(found, field))
            for field, key in (
                ("finders", "retriever"),
                ("results", "retriever"),
                ("losses", "without"),
            )
        }
    )

    shown = page_text(long.page(), 80)
    assert shown.count("┏") == 4
    assert "some-or" in shown
    assert "ding-model-v3" in shown
    assert "closed_book_answer" in shown
