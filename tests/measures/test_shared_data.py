"""Shared data of TREC RAG 2024, CRUX and NQ, each value computed two ways."""

import csv
import json
import math
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from freshstack_dspy.collection.answers import read_agreement, read_assignments, read_citations
from freshstack_dspy.measures.agreement import cohen_kappa, exact_match
from freshstack_dspy.measures.answers import (
    Scores,
    agrees_with_any,
    score_agreement,
    score_assignments,
    score_citations,
)
from freshstack_dspy.measures.contexts import required_chunks
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.measures.statistics import bootstrap_interval
from tests.measures.strategies import SHARED

DATA = SHARED
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


FOLDER = SHARED / "qa-eval-nq301"
YES_OR_NO = {"Yes": True, "No": False}


def rows_of_nq301(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def first_word(said: str) -> bool | None:
    """GPT-4 was asked for Yes or No first; what begins otherwise decides nothing."""
    return YES_OR_NO.get(said.split(maxsplit=1)[0].strip(".,"))


def test_gpt_4_and_people_agree_beyond_chance(tmp_path: Path) -> None:
    people, judge = rows_of_nq301("NQ301_human.tsv"), rows_of_nq301("NQ301_gpt-4.tsv")
    path = tmp_path / "agreement.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, (human, gpt) in enumerate(zip(people, judge, strict=True)):
            assert human["id"] == gpt["id"]
            if human["Model answer"] != gpt["Model answer"]:
                continue  # of one row the two files hold different answers
            said = first_word(gpt["gpt-4"])
            query = f"{human['id']}/{number}"
            for run, agrees, reason in (
                ("people", YES_OR_NO[human["Acceptable?"]], ""),
                ("gpt-4", said, gpt["gpt-4"]),
            ):
                row = {"run_id": run, "query_id": query, "agrees": agrees, "reason": reason}
                file.write(json.dumps(row) + "\n")

    compared = read_agreement([path])
    gpt_4, by_people = score_agreement(compared).runs

    assert by_people.means["agreement"].value == 816 / 1489
    assert gpt_4.counts == {"agree": 762, "disagree": 717, "undecided": 10}
    assert gpt_4.means["agreement"].value == pytest.approx(762 / 1479)

    verdicts = {(each.run, each.query_id): agrees_with_any(each.agrees) for each in compared}
    groups: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for (run, query), said in verdicts.items():
        if run == "gpt-4" and said is not None:
            groups[query.split("/")[0]].append((int(said), int(verdicts["people", query] or 0)))
    pairs = [pair for group in groups.values() for pair in group]
    kappa = bootstrap_interval(groups, lambda some: cohen_kappa(some).value, resamples=200)

    assert len(pairs) == 1479
    assert exact_match(pairs).value == pytest.approx(0.8485, abs=5e-5)
    assert kappa.value == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))
    assert kappa.value == pytest.approx(0.6962, abs=5e-5)
    assert kappa.value is not None
    assert kappa.low is not None
    assert kappa.high is not None
    assert 0.6 < kappa.low < kappa.value < kappa.high < 0.8


CRUX = SHARED / "crux-duc04-ratings"
RUN = "bm25-crux-mds-duc04.run"
DEPTHS = (1, 10, *(pytest.param(k, marks=pytest.mark.slow) for k in (5, 20, 100)))
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


def length(passage: str) -> int:
    """The texts are not there: any lengths do, if they differ."""
    return 60 + sum(passage.encode()) % 120


@cache
def qrels() -> NuggetQrels:
    nuggets, labels = {}, {}
    for topic, table in ratings().items():
        nuggets[topic] = tuple(f"{topic}_{n}" for n in range(1, 16))
        for question, nugget in enumerate(nuggets[topic]):
            column = (row[question] for row in table)
            labels[nugget] = dict(zip(passages(topic), column, strict=True))
    tokens = {passage: length(passage) for topic in ratings() for passage in passages(topic)}
    return NuggetQrels(nuggets, labels, threshold=3, tokens=tokens)


def plain_coverage(table: list[list[int]], k: int, threshold: int) -> float:
    best = [max(column) for column in zip(*table, strict=True)]
    best_of_top = [max(column) for column in zip(*table[:k], strict=True)]
    answerable = sum(each >= threshold for each in best)
    return sum(each >= threshold for each in best_of_top) / answerable if answerable else 0


def plain_alpha_ndcg(
    table: list[list[int]], ids: list[str], k: int, threshold: int, alpha: float
) -> float:
    def gain(row: list[int], seen: list[int]) -> float:
        pairs = zip(row, seen, strict=True)
        return sum((1 - alpha) ** often for rating, often in pairs if rating >= threshold)

    def dcg(rows: list[list[int]]) -> float:
        seen, total = [0] * 15, 0.0
        for rank, row in enumerate(rows, start=1):
            total += gain(row, seen) / math.log2(rank + 1)
            seen = [often + (each >= threshold) for often, each in zip(seen, row, strict=True)]
        return total

    ideal: list[list[int]] = []
    rows = zip(ids, table, strict=True)
    left = {name: row for name, row in rows if max(row) >= threshold}
    while left and len(ideal) < k:
        seen = [sum(row[q] >= threshold for row in ideal) for q in range(15)]
        ideal.append(left.pop(max(left, key=lambda name: (gain(left[name], seen), name))))
    return dcg(table[:k]) / dcg(ideal) if dcg(ideal) else 0


def plain_required(table: list[list[int]], threshold: int) -> tuple[list[int], list[int]]:
    """The greedy of CRUX's code: positions that are required, and those that are redundant."""
    answered, required = [False] * 15, []
    while any(row[q] >= threshold and not done for row in table for q, done in enumerate(answered)):
        open_ = [q for q, done in enumerate(answered) if not done]
        scores = [
            sum(row[q] >= threshold for q in open_) + 0.1 * any(row[q] > 0 for q in open_)
            for row in table
        ]
        required.append(scores.index(max(scores)))
        taken = table[required[-1]]
        answered = [done or taken[q] >= threshold for q, done in enumerate(answered)]
    best = [max((table[place][q] for place in required), default=-1) for q in range(15)]
    rest = [place for place in range(len(table)) if place not in required]
    return required, [p for p in rest if all(best[q] > table[p][q] for q in range(15))]


def plain_density(
    table: list[list[int]], ids: list[str], k: int, threshold: int, w: float
) -> float:
    by_id = sorted(zip(ids, table, strict=True))
    places, _ = plain_required([row for _, row in by_id], threshold)
    if not places:
        return 0.0
    oracle = sum(length(by_id[place][0]) for place in places)
    context = sum(map(length, ids[:k]))
    return float((plain_coverage(table, k, threshold) / context / (1 / oracle)) ** w)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("k", DEPTHS)
def test_coverage_ranked_coverage_and_density_of_every_topic(k: int, threshold: int) -> None:
    cov, ranked = f"StRecall(rel={threshold})@{k}", f"alpha_nDCG(rel={threshold})@{k}"
    steep = f"alpha_nDCG(alpha=0.9,rel={threshold})@{k}"
    dense = f"Density(w=0.3,rel={threshold})@{k}"
    evaluation = evaluate(qrels(), run(), [cov, ranked, steep, dense])

    for topic, values in evaluation.per_query.items():
        table, ids = ratings()[topic], passages(topic)
        expected = [
            plain_coverage(table, k, threshold),
            plain_alpha_ndcg(table, ids, k, threshold, 0.5),
            plain_alpha_ndcg(table, ids, k, threshold, 0.9),
            plain_density(table, ids, k, threshold, 0.3),
        ]
        assert list(values.values()) == pytest.approx(expected, rel=1e-12)
    assert len(evaluation.per_query) == 50


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_required_and_redundant_passages_of_every_topic_in_the_order_of_the_run(
    threshold: int,
) -> None:
    for topic, table in ratings().items():
        ids = passages(topic)
        required, redundant = plain_required(table, threshold)
        found = required_chunks(qrels().judged(topic, threshold), ids)

        assert found.required == tuple(ids[place] for place in required)
        assert found.redundant == tuple(ids[place] for place in redundant)
        assert len(found.partly_redundant) == 100 - len(required) - len(found.redundant)
        assert found.undetermined == ()


def test_the_means_as_they_stand_in_the_docs() -> None:
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
