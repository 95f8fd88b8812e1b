"""Human nugget assignments and citation labels of TREC RAG 2024, each figure computed two ways."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from freshstack_dspy.collection.answers import read_assignments, read_citations
from freshstack_dspy.measures.answers import Scores, score_assignments, score_citations

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
ASSIGNMENTS = DATA / "trec-rag24-nugget-assignments" / "assignments.jsonl"
SUPPORT = DATA / "trec-rag24-citation-support" / "support.jsonl"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"there is no folder {DATA}")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mean_of_runs(scores: Scores, measure: str) -> float:
    return fmean(run.means[measure].value or 0.0 for run in scores.runs)


def test_nugget_recall_of_573_answers() -> None:
    credit = {"support": (1, 1), "partial_support": (0, 0.5), "not_support": (0, 0)}
    weight = {"V": {"vital": 1, "okay": 0}, "A": {"vital": 1, "okay": 1}}
    weight["W"] = {"vital": 1, "okay": 0.5}  # type: ignore[dict-item]
    expected = {}
    for row in rows_of(ASSIGNMENTS):
        for name, weights in weight.items():
            total = sum(weights[each["importance"]] for each in row["nuggets"])
            for strict, place in (("_strict", 0), ("", 1)):
                held = sum(
                    weights[each["importance"]] * credit[each["assignment"]][place]
                    for each in row["nuggets"]
                )
                expected[row["run_id"], row["qid"], name + strict] = held / total

    scores = score_assignments(read_assignments([ASSIGNMENTS]))

    found = {
        (answer.run, answer.query_id, name): value
        for answer in scores.answers
        for name, value in answer.values.items()
    }
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    assert len(scores.answers) == 573
    assert sum(len(run.absent) for run in scores.runs) == 45 * 13 - 573
    assert sum(run.counts["failed"] + run.counts["missing"] for run in scores.runs) == 0
    shown = {name: round(mean_of_runs(scores, name), 4) for name in scores.measures}
    assert shown == {
        "V_strict": 0.4627,
        "V": 0.4861,
        "A_strict": 0.3949,
        "A": 0.4223,
        "W_strict": 0.4182,
        "W": 0.4448,
    }


def test_the_mean_over_all_records_is_not_that_of_the_runs() -> None:
    """nuggetizer 0.0.6 prints .46724… for this file, where runs of 2 and of 13 answers mix."""
    scores = score_assignments(read_assignments([ASSIGNMENTS]), missing="zero", empty="zero")

    mixed = fmean(answer.values["V_strict"] for answer in scores.answers)
    assert mixed == pytest.approx(0.4672426468237987, abs=1e-15)
    assert mean_of_runs(scores, "V_strict") == pytest.approx(0.46270, abs=5e-5)


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
            told = [
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
            file.write(json.dumps({"topic_id": topic, "run_id": run, "sentences": told}) + "\n")

    scores = score_citations(read_citations([path]))

    assert len(scores.answers) == len(answers) == 797
    for answer in scores.answers:
        cited = [*answers[answer.run, answer.query_id].values()]
        first = fmean(labels[0][1] / 2 for labels in cited)
        every = fmean(fmean(label / 2 for _, label in labels) for labels in cited)
        full = fmean(labels[0][1] == 2 for labels in cited)
        assert answer.values["weighted_precision_first"] == pytest.approx(first)
        assert answer.values["weighted_precision_all"] == pytest.approx(every)
        assert answer.values["hard_precision_first"] == pytest.approx(full)
        assert answer.values["weighted_recall_first"] == pytest.approx(first)
    assert mean_of_runs(scores, "weighted_precision_first") == pytest.approx(0.5756, abs=5e-5)
    assert sum(run.counts["citations"] for run in scores.runs) == 4438
