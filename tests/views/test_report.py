"""The report: one file that needs nothing, in which every figure leads to what it rests on."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import lxml.html
import pytest

from freshstack_dspy import Collection, HumanLabel, Run, report
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.usage import StepLedger
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, D, query

QUESTIONS = [
    "May I trust it?",
    "Which retriever?",
    "Where does it lose?",
    "Is the pool deep enough?",
    "Is the corpus enough?",
    "Does it help the answer?",
    "What did it cost?",
]
GOOD = {"12": {B: 2.0, A: 1.0}, "123": {A: 2.0, D: 1.0}}
BAD = {"12": {D: 2.0, A: 1.0}, "123": {D: 2.0, B: 1.0}}
EVIL = "<img src=x onerror=alert(1)> & </svg><script>alert(2)</script>"


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return write_collection(tmp_path / "small", CONTENTS, CHUNKS, PROVENANCE)


def labels(*pairs: tuple[str, str, int]) -> list[HumanLabel]:
    return [
        HumanLabel(
            query_id=nugget.rpartition("_")[0],
            nugget_id=nugget,
            chunk_id=chunk,
            label=label,
            annotator="ana",
            time="2026-01-02T03:04:05Z",
        )
        for nugget, chunk, label in pairs
    ]


def shown(found: Any, tmp_path: Path) -> Any:
    found.save(tmp_path / "report.html")
    return lxml.html.parse(tmp_path / "report.html").getroot()


def section(page: Any, question: str) -> str:
    (found,) = page.xpath(f"//section[h2 = '{question}']")
    text: str = found.text_content()
    return text


def answers(page: Any) -> dict[str, str]:
    """The summary: what follows each question."""
    lines = [item.text_content().strip() for item in page.xpath("//main/ul[1]/li")]
    return {of: line.removeprefix(of).strip() for of in QUESTIONS for line in lines if line.startswith(of)}  # fmt: skip


def text_of(page: Any) -> str:
    return " ".join(page.text_content().split())


def check_links(page: Any) -> None:
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in page.xpath("//a/@href") if href.startswith("#")} <= set(ids)


def test_without_runs_and_labels_each_section_says_what_is_known_or_what_to_do(
    collection: Collection, tmp_path: Path
) -> None:
    page = shown(report(collection), tmp_path)

    assert list(answers(page)) == QUESTIONS
    assert "freshstack label" in section(page, "May I trust it?")
    assert "freshstack retrieve" in section(page, "Which retriever?")
    assert "freshstack answer" in section(page, "Does it help the answer?")
    assert answers(page)["Is the corpus enough?"].startswith("The corpus supports 3 (75.0%) of 4")
    assert "fact 5_0" in section(page, "Is the corpus enough?")
    check_links(page)


@pytest.mark.parametrize(
    ("model", "cost", "said"),
    [
        ("openai/some-model", 1.5, "2 requests for $1.50"),
        ("openai/some-model", 0, "2 requests at an unknown price"),
        ("agent/helper", 0, "2 requests, answered by hand"),
    ],
)
def test_the_costs_are_dollars_unknown_or_an_agent_s_work(
    model: str, cost: float, said: str, tmp_path: Path
) -> None:
    ledger = {"support": StepLedger(calls=2, cost=cost)}
    provenance = PROVENANCE.model_copy(update={"model": model, "ledger": ledger})
    priced = write_collection(tmp_path / "small", CONTENTS, CHUNKS, provenance)

    assert answers(shown(report(priced), tmp_path))["What did it cost?"].startswith(said)


def test_one_run_has_its_values_and_its_worst_queries_with_their_evidence(
    collection: Collection, tmp_path: Path
) -> None:
    page = shown(report(collection, GOOD, "Recall@10"), tmp_path)

    assert answers(page)["Which retriever?"].startswith("run 1 has Recall@10 1.0000")
    assert "misses 0 (0.0%)" in answers(page)["Where does it lose?"]
    assert [row.text_content() for row in page.xpath("//details//h4")]
    check_links(page)


def test_two_runs_are_compared_and_the_best_is_named(
    collection: Collection, tmp_path: Path
) -> None:
    found = report(collection, {"good": GOOD, "bad": BAD}, "alpha_nDCG@10")

    page = shown(found, tmp_path)

    assert repr(found) == "Report('small'; good, bad)"
    assert found.best == "good"
    assert "good has the highest alpha_nDCG@10" in answers(page)["Which retriever?"]
    assert "2 queries are too few to tell whether it is higher than bad" in text_of(page)
    assert "no difference" not in answers(page)["Which retriever?"]
    assert "alpha_nDCG@10: how early the top of a ranking" in text_of(page)
    assert "κ (kappa)" not in text_of(page)
    assert "misses" in answers(page)["Where does it lose?"]
    assert len(page.xpath("//svg")) == len(page.xpath("//figure//table")) >= 4
    check_links(page)


def test_an_oracle_is_never_the_best_and_marked_across_the_pictures(
    collection: Collection, tmp_path: Path
) -> None:
    runs = {"good": GOOD, "bad": BAD, "known": Run("hybrid@nuggets", GOOD)}

    found = report(collection, runs, "alpha_nDCG@10")
    page = shown(found, tmp_path)
    one = shown(report(collection, {"bad": BAD, "known": runs["known"]}, "Recall@10"), tmp_path)

    assert (found.best, set(found.analyses)) == ("good", {"good", "bad"})
    assert "headroom to the oracle known +0.0000" in answers(page)["Which retriever?"]
    assert page.xpath("//svg//path[@stroke-dasharray]")
    assert "best oracle: known" in section(page, "Which retriever?")
    assert "bad has Recall@10" in answers(one)["Which retriever?"]
    assert "headroom to the oracle known +" in answers(one)["Which retriever?"]
    check_links(page)


def test_labels_of_people_give_the_agreement_and_corrected_values(
    collection: Collection, tmp_path: Path
) -> None:
    people = labels(("12_0", A, 1), ("12_1", B, 0), ("123_0", A, 1), ("123_0", B, 0), ("5_0", A, 0))

    page = shown(report(collection, {"good": GOOD, "bad": BAD}, labels=people), tmp_path)

    text = section(page, "May I trust it?")
    assert "judge compared with 1 annotator" in text
    assert "κ (kappa): how far judge and people agree beyond chance" in text_of(page)
    assert "corrected by labels of people" in text
    assert "query '12', nugget '12_1'" in text
    check_links(page)


def test_of_labels_by_a_word_counter_nothing_is_concluded(tmp_path: Path) -> None:
    dry = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    made = write_collection(tmp_path / "dry", CONTENTS, CHUNKS, dry)

    page = shown(report(made, {"good": GOOD, "bad": BAD}), tmp_path)

    (banner,) = page.xpath("//main/p[@class = 'warning']")
    assert banner.text_content().startswith("dry run")
    assert not re.search("highest|higher|no difference was found", page.text_content())
    assert "nothing is concluded" in answers(page)["Which retriever?"]
    assert "freshstack sample" not in page.text_content()
    assert "name one under [model]" in section(page, "May I trust it?")


def test_a_collection_of_which_no_query_can_be_measured_has_a_report(tmp_path: Path) -> None:
    contents = replace(
        CONTENTS,
        judgments=(),
        slices=tuple(
            one.model_copy(update={"slice": "unanswerable", "supported": 0})
            for one in CONTENTS.slices
        ),
    )
    made = write_collection(tmp_path / "bare", contents, CHUNKS, PROVENANCE)

    page = shown(report(made), tmp_path)

    assert answers(page)["Is the pool deep enough?"] == "No query has a supported nugget."


def test_the_same_inputs_give_the_same_bytes_in_another_process(
    collection: Collection, tmp_path: Path
) -> None:
    code = (
        "import sys, json; from freshstack_dspy import report; "
        "report(sys.argv[1], json.loads(sys.argv[2])).save(sys.argv[3])"
    )
    runs, here, there = {"good": GOOD, "bad": BAD}, tmp_path / "1.html", tmp_path / "2.html"
    report(collection, runs).save(here)
    command = [sys.executable, "-c", code, str(tmp_path / "small"), json.dumps(runs), str(there)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})

    assert here.read_bytes() == there.read_bytes()


def test_texts_of_others_are_shown_and_nothing_is_fetched_or_run(tmp_path: Path) -> None:
    queries = (query("12", title=EVIL), *CONTENTS.queries[1:])
    nuggets = tuple(one.model_copy(update={"text": EVIL}) for one in CONTENTS.nuggets)
    contents = replace(CONTENTS, queries=queries, nuggets=nuggets)
    made = write_collection(tmp_path / "evil", contents, CHUNKS, PROVENANCE)

    page = shown(report(made, {EVIL: GOOD, "bad": BAD}), tmp_path)

    assert not page.xpath("//script | //img | //link | //iframe | //@src | //@onerror")
    assert EVIL in page.text_content()
    assert all(href.startswith("#") for href in page.xpath("//@href"))


def test_answers_that_are_not_there_or_of_another_collection_are_refused(
    collection: Collection, tmp_path: Path
) -> None:
    with pytest.raises(CollectionError, match="freshstack answer writes such a folder"):
        report(collection, answers=tmp_path)


def test_an_unknown_measure_is_refused(collection: Collection) -> None:
    with pytest.raises(ConfigError, match="nDGC"):
        report(collection, GOOD, "nDGC@10")
