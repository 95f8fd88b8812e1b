"""CRUX on DUC-2004: 50 topics, 15 questions each, the ratings of a BM25 run's first 100 passages.

Everything is computed twice: by the product, and plainly here from the tables as they stand.
"""

import json
import math
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from freshstack_dspy.measures.contexts import evaluate_contexts, required_chunks
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.records import ScoredChunk

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "crux-duc04-ratings"
RUN = "bm25-crux-mds-duc04.run"
DEPTHS = (1, 10, *(pytest.param(k, marks=pytest.mark.slow) for k in (5, 20, 100)))
THRESHOLDS = (3, 5)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no folder {FOLDER}")


@cache
def ratings() -> dict[str, list[list[int]]]:
    """By topic and rank of the run, the rating of each question."""
    text = (FOLDER / "ratings.oracle.bm25.json").read_text(encoding="utf-8")
    table: dict[str, list[list[int]]] = json.loads(text)
    return table


@cache
def run() -> Run:
    return read_run(FOLDER / RUN)


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
    evaluation = evaluate(qrels(), run(), names, undefined="skip")

    assert {name: round(mean, 4) for name, mean in evaluation.means.items()} == {
        "StRecall@10": 0.6346,
        "Coverage@10": 0.5147,
        "alpha_nDCG@10": 0.4964,
        "StRecall(rel=5)@10": 0.5543,
        "alpha_nDCG(rel=5)@10": 0.3840,
    }
    assert [len(evaluation.values(name)) for name in names] == [50, 50, 50, 48, 48]


def test_a_run_of_scores_that_are_all_3_is_in_the_order_of_the_ids_and_worth_something_else() -> (
    None
):
    """Defect 1 of SYSTEMS 2(d): here the passages of the topics have the smaller ids."""
    tied = {
        topic: tuple(ScoredChunk(chunk.chunk_id, 3.0) for chunk in ranking)
        for topic, ranking in run().rankings.items()
    }
    evaluation = evaluate(qrels(), Run("tied", tied), ["alpha_nDCG@10"])

    assert round(evaluation.means["alpha_nDCG@10"], 4) == 0.5404


def test_the_contexts_of_a_run_as_one_record_for_each_topic() -> None:
    evaluation = evaluate(qrels(), run(), ["StRecall@10", "alpha_nDCG@10", "Density@10"])

    for scores in evaluate_contexts(qrels(), run(), 10):
        values = [scores.coverage, scores.ranked_coverage, scores.density]
        assert values == list(evaluation.per_query[scores.query_id].values())
        counted = [scores.required, scores.partly_redundant, scores.redundant]
        assert sum(counted) == scores.chunks == 10
        assert (scores.undetermined, scores.unjudged, scores.failed) == (0, 0, 0)
        parts = [scores.covered, scores.uncovered, scores.unanswerable]
        assert sum(map(len, parts)) == 15


@pytest.mark.slow
@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("k", [5, 10, 20])
def test_ranked_coverage_and_coverage_are_those_of_ir_measures(k: int, threshold: int) -> None:
    """With real scores; CRUX itself gives every passage the score 3."""
    ir_measures: Any = pytest.importorskip("ir_measures")
    pytest.importorskip("pyndeval")
    judged = [
        ir_measures.Qrel(topic, passage, int(row[q] >= threshold), str(q + 1))
        for topic, table in ratings().items()
        for passage, row in zip(passages(topic), table, strict=True)
        for q in range(15)
    ]
    scored = [
        ir_measures.ScoredDoc(topic, chunk.chunk_id, chunk.score)
        for topic, ranking in run().rankings.items()
        for chunk in ranking
    ]
    names = [f"alpha_nDCG(rel={threshold})@{k}", f"StRecall(rel={threshold})@{k}"]
    ours = evaluate(qrels(), run(), names, undefined="skip")
    asked = {ir_measures.alpha_nDCG @ k: names[0], ir_measures.StRecall @ k: names[1]}
    theirs: dict[str, dict[str, float]] = {name: {} for name in names}
    for one in ir_measures.iter_calc(list(asked), judged, scored):
        theirs[asked[one.measure]][one.query_id] = one.value

    for name in names:
        found = ours.values(name)
        assert found == pytest.approx({topic: theirs[name][topic] for topic in found}, abs=1e-9)
        assert {v for t, v in theirs[name].items() if t not in found} <= {0.0}
        assert fmean(found.values()) > 0
