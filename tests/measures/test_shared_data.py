"""Shared data of TREC RAG 2024 and CRUX, each value computed two ways."""

import json
from collections import defaultdict
from functools import cache
from itertools import product
from operator import mul
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from freshstack_dspy import NuggetQrels, Run, read_run
from freshstack_dspy.answering.judged_answers import read_assignments, read_citations
from freshstack_dspy.answering.scores import (
    Scores,
    score_assignments,
    score_citations,
)
from freshstack_dspy.measures.density import required_chunks
from freshstack_dspy.measures.evaluation import evaluate
from tests.measures.strategies import SHARED
from tests.measures.test_density import as_crux

DATA = SHARED
ASSIGNMENTS = DATA / "trec-rag24-nugget-assignments" / "assignments.jsonl"
SUPPORT = DATA / "trec-rag24-citation-support" / "support.jsonl"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no folder {DATA}")


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interval is looked at here."""
    monkeypatch.setattr("freshstack_dspy.measures.statistics.resamples_of", lambda queries: 10)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mean_of_runs(scores: Scores, measure: str) -> float:
    return fmean(run.means[measure] for run in scores.runs)


def test_nugget_recall_of_573_answers() -> None:
    credit = {"support": (1, 1), "partial_support": (0, 0.5), "not_support": (0, 0)}
    weight = {"V": (1, 0), "A": (1, 1), "W": (1, 0.5)}
    expected = {}
    for row in rows_of(ASSIGNMENTS):
        for (name, (vital, okay)), (place, strict) in product(
            weight.items(), enumerate(("_strict", ""))
        ):
            weights = [vital if each["importance"] == "vital" else okay for each in row["nuggets"]]
            given = [credit[each["assignment"]][place] for each in row["nuggets"]]
            earned = sum(map(mul, weights, given))
            expected[row["run_id"], row["qid"], name + strict] = earned / sum(weights)

    scores = score_assignments(read_assignments([ASSIGNMENTS]))

    found = {
        (run.run, query, name): value
        for run in scores.runs
        for query, values in run.per_query.items()
        for name, value in values.items()
    }
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    assert sum(len(run.per_query) for run in scores.runs) == 573
    assert sum(len(run.absent) for run in scores.runs) == 45 * 13 - 573
    shown = [round(mean_of_runs(scores, name), 4) for name in scores.measures]
    assert shown == [0.4627, 0.4861, 0.3949, 0.4223, 0.4182, 0.4448]


def test_citation_support_of_797_answers(tmp_path: Path) -> None:
    """The labels are one a line there: they become the file of the track, sentence by sentence.

    It has no sentence without a citation, so recall says nothing more than precision here.
    """
    answers: defaultdict[tuple[str, str], defaultdict[str, list[tuple[str, int]]]]
    answers = defaultdict(lambda: defaultdict(list))
    for row in rows_of(SUPPORT):
        answers[row["run"], row["topic"]][row["sentence"]].append(
            (row["passage_id"], row["support"])
        )
    path = tmp_path / "support.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for (run, topic), sentences in answers.items():
            rows = [
                {
                    "sentenceID": place,
                    "text": text,
                    "citations": [
                        {"citationID": number, "reference": passage, "support": str(label)}
                        for number, (passage, label) in enumerate(cited)
                    ],
                }
                for place, (text, cited) in enumerate(sentences.items())
            ]
            file.write(json.dumps({"topic_id": topic, "run_id": run, "sentences": rows}) + "\n")

    scores = score_citations(read_citations([path]))

    values = {(run.run, query): of for run in scores.runs for query, of in run.per_query.items()}
    assert len(values) == len(answers) == 797
    for answer, value in values.items():
        cited = [*answers[answer].values()]
        first = fmean(labels[0][1] / 2 for labels in cited)
        every = fmean(fmean(label / 2 for _, label in labels) for labels in cited)
        full = fmean(labels[0][1] == 2 for labels in cited)
        assert value["weighted_precision_first"] == pytest.approx(first)
        assert value["weighted_precision_all"] == pytest.approx(every)
        assert value["hard_precision_first"] == pytest.approx(full)
        assert value["weighted_recall_first"] == pytest.approx(first)
    assert mean_of_runs(scores, "weighted_precision_first") == pytest.approx(0.5756, abs=5e-5)
    assert sum(run.total["citations"] for run in scores.runs) == 4438


CRUX = SHARED / "crux-duc04-ratings"
RUN = "bm25-crux-mds-duc04.run"
THRESHOLDS = (3, 5)


@cache
def ratings() -> dict[str, list[list[int]]]:
    """By topic and rank of the run, the rating of each question."""
    text = (CRUX / "ratings.oracle.bm25.json").read_text(encoding="utf-8")
    table: dict[str, list[list[int]]] = json.loads(text)
    return table


@cache
def run() -> Run:
    return read_run(CRUX / RUN)


def passages(topic: str) -> list[str]:
    return [chunk.chunk_id for chunk in run().rankings[topic]]


@cache
def qrels() -> NuggetQrels:
    nuggets, labels = {}, {}
    for topic, table in ratings().items():
        nuggets[topic] = tuple(f"{topic}_{n}" for n in range(1, 16))
        for question, nugget in enumerate(nuggets[topic]):
            column = (row[question] for row in table)
            labels[nugget] = dict(zip(passages(topic), column, strict=True))
    return NuggetQrels(nuggets, labels, threshold=3)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_required_and_redundant_passages_of_every_topic_in_the_order_of_the_run(
    threshold: int,
) -> None:
    for topic, table in ratings().items():
        ids = passages(topic)
        found = required_chunks(qrels().judged(topic, threshold), ids)

        expected = as_crux(table, threshold)
        assert list(found.items()) == [(ids[place], label) for place, label in expected.items()]


def test_the_means_of_the_docs() -> None:
    names = [
        "StRecall@10",
        "Coverage@10",
        "alpha_nDCG@10",
        "StRecall(rel=5)@10",
        "alpha_nDCG(rel=5)@10",
    ]
    evaluation = evaluate(qrels(), run(), names)

    defined = {name: evaluation.values(name, only_defined=True) for name in names}
    assert {name: round(fmean(of.values()), 4) for name, of in defined.items()} == {
        "StRecall@10": 0.6346,
        "Coverage@10": 0.5147,
        "alpha_nDCG@10": 0.4964,
        "StRecall(rel=5)@10": 0.5543,
        "alpha_nDCG(rel=5)@10": 0.3840,
    }
    assert [len(of) for of in defined.values()] == [50, 50, 50, 48, 48]
