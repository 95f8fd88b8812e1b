"""Measures of one ranking: by hand, and against ir_measures, trec_eval and ndeval."""

import math
from math import log2

import ir_measures
import pyndeval
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.measure import FAMILIES, parse_measure
from freshstack_dspy.measures.qrels import Judged
from tests.measures.five import LABELS, value
from tests.measures.strategies import (
    NuggetLabels,
    by_chunk,
    by_subtopic,
    cutoffs,
    graded,
    labels,
    rankings,
    rels,
    scored,
    theirs,
)


@given(labels(), rankings, cutoffs)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    p, recall, f1 = (
        value(f"{name}@{k}", ranking, Judged(labels)) for name in ("P", "Recall", "F1")
    )

    if p and recall:
        assert f1 == pytest.approx(2 / (1 / p + 1 / recall))
    else:
        assert not f1


@pytest.mark.parametrize(
    ("name", "ranking", "expected"),
    [
        ("Judged", "abcde", 4 / 5),
        ("Judged@4", "abcde", 1.0),
        ("Judged@10", "ae", 1 / 2),
        ("Judged@5", "", None),
        ("Coverage@1", "abcde", 2 / 3),
        ("Coverage@2", "bcdea", 1 / 3),
        ("StRecall@1", "bcdea", 1 / 2),
        ("StRecall@3", "bcdea", 1.0),
        ("StRecall@2", "", 0.0),
        ("RBP(p=0.5)", "acb", 0.5 * (1 + 0.25)),
        ("RBP@2", "acb", 0.2),
    ],
)
def test_by_hand(name: str, ranking: str, expected: float | None) -> None:
    assert value(name, ranking, Judged(LABELS)) == pytest.approx(expected)


def test_a_query_without_a_relevant_chunk_has_no_value() -> None:
    """Not 0 in one measure and none in another: they are then means over the same queries."""
    unsupported = Judged({"n": {"a": 0, "b": -1}, "m": {}})
    cut = {"required": "@5", "optional": "", "none": ""}

    values = {
        name: value(f"{name}{cut[family.cutoff]}", "ax", unsupported)
        for name, family in FAMILIES.items()
    }

    assert {name: of for name, of in values.items() if of is not None} == {
        "Coverage": 0.0,  # of all nuggets: none of them can be covered, and none is
        "Judged": 1 / 2,
    }
    assert value("Coverage(of='answerable')", "a", unsupported) is None


# alpha-nDCG by hand: the ideal is a (gain 2), then d and b (1/2 each; d is the larger id).
IDEAL_3 = 2 + 0.5 / log2(3) + 0.5 / log2(4)


@pytest.mark.parametrize(
    ("ranking", "k", "expected"),
    [
        ("adb", 3, 1.0),
        ("b", 1, 1 / 2),
        ("ecb", 3, (1 / log2(4)) / IDEAL_3),
        ("bad", 3, (1 + 1.5 / log2(3) + 0.5 / log2(4)) / IDEAL_3),
        ("bad", 2, (1 + 1.5 / log2(3)) / (2 + 0.5 / log2(3))),
        ("bdeca", 100, (1 + 1 / log2(3) + 1 / log2(6)) / IDEAL_3),
        ("", 10, 0.0),
    ],
)
def test_alpha_ndcg_by_hand(ranking: str, k: int, expected: float) -> None:
    found = value(f"alpha_nDCG@{k}", ranking, Judged(LABELS))

    assert found == pytest.approx(expected, abs=1e-15)


def test_a_greedy_ideal_can_be_beaten() -> None:
    """The ideal takes z first (a tie, the largest id) and cannot make up for it; pyndeval agrees."""
    pairs = {"1": {"x": 1, "z": 1}, "2": {"x": 1}, "3": {"y": 1, "z": 1}, "4": {"y": 1}}
    ideal = 2 + 1.5 / log2(3) + 1.5 / log2(4)

    found = value("alpha_nDCG@3", "xyz", Judged(pairs))

    assert found == pytest.approx((2 + 2 / log2(3) + 1 / log2(4)) / ideal, abs=1e-15)
    assert found is not None
    assert found > 1


AD_HOC = ("P", "RR", "AP", "Success", "Recall", "Judged")
WITHOUT_CUTOFF = ("RR", "AP", "Rprec", "Judged")
DIVERSITY = ("alpha_nDCG", "alpha_DCG", "ERR_IA", "nERR_IA", "P_IA", "StRecall")
OVER_ALL = ("NRBP", "nNRBP", "AP_IA")


def ours(names: list[str], labels: NuggetLabels, ranking: list[str], rel: int) -> dict[str, float]:
    return {
        name: parse_measure(name)(ranking, Judged(labels, parse_measure(name).rel or rel)) or 0.0
        for name in names
    }


@given(graded, rankings, st.integers(1, 30), rels)
def test_measures_of_relevance_are_those_of_ir_measures(
    labels: NuggetLabels, ranking: list[str], k: int, rel: int
) -> None:
    """Judged is 0 for a ranking without chunks, where ours has no value."""
    at = f"(rel={rel})"
    names = [f"{family}@{k}" for family in AD_HOC] + list(WITHOUT_CUTOFF)
    names += [f"P{at}@{k}", f"RR{at}", f"AP{at}", f"AP{at}@{k}", f"Rprec{at}", f"Success{at}@{k}"]
    alone = [f"{family}(judged_only=True)@{k}" for family in ("P", "AP", "Recall", "Success")]
    qrels = by_chunk(labels)

    assert theirs(names, qrels, ranking) == pytest.approx(
        ours(names, labels, ranking, 1), abs=1e-12
    )
    assert theirs(alone, rated(qrels, labels), ranking) == pytest.approx(
        ours(alone, labels, ranking, 1), abs=1e-12
    )


def rated(qrels: list[ir_measures.Qrel], labels: NuggetLabels) -> list[ir_measures.Qrel]:
    """Those of chunks with a label of at least 0: trec_eval -J takes the others out too."""
    chunks = {chunk for judged in labels.values() for chunk in judged if judged[chunk] >= 0}
    return [qrel for qrel in qrels if qrel.doc_id in chunks]


@given(graded, rankings, st.integers(1, 30))
def test_ndcg_is_that_of_trec_eval(labels: NuggetLabels, ranking: list[str], k: int) -> None:
    """With each rule of a chunk's grade; labels of 0 and below gain nothing."""
    forms = {"nDCG": "nDCG({})", f"nDCG@{k}": f"nDCG({{}})@{k}"}
    alone = f"nDCG(judged_only=True)@{k}"
    for rule in ("sum", "count", "max"):
        grades = {**dict.fromkeys(Judged(labels).chunks, 0), **Judged(labels).grades(rule)}
        qrels = [ir_measures.Qrel("q", chunk, grade) for chunk, grade in grades.items()]
        found = {
            name: value(form.format(f"grade='{rule}'"), ranking, Judged(labels)) or 0.0
            for name, form in forms.items()
        }

        found_alone = value(f"nDCG(judged_only=True,grade='{rule}')@{k}", ranking, Judged(labels))

        assert theirs(list(forms), qrels, ranking) == pytest.approx(found, abs=1e-12)
        assert theirs([alone], rated(qrels, labels), ranking) == pytest.approx(
            {alone: found_alone or 0.0}, abs=1e-12
        )


@given(graded, rankings, st.integers(1, 30))
def test_exponential_ndcg_is_that_of_trec_eval_with_these_gains(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    grades = {chunk: 2**grade - 1 for chunk, grade in Judged(labels).grades("max").items()}
    found = value(f"nDCG(dcg='exp-log2',grade='max')@{k}", ranking, Judged(labels))

    if found is not None and ranking:
        evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {f"ndcg_cut.{k}"})
        run = {"q": {each.doc_id: each.score for each in scored(ranking)}}
        assert evaluator.evaluate(run)["q"][f"ndcg_cut_{k}"] == pytest.approx(found, abs=1e-12)


@given(graded, rankings, st.integers(2, 20), rels)
def test_measures_of_diversity_are_those_of_ir_measures(
    labels: NuggetLabels, ranking: list[str], k: int, rel: int
) -> None:
    names = [f"{family}(rel={rel})@{k}" for family in DIVERSITY]
    names += [f"{family}(rel={rel})" for family in OVER_ALL]
    names += [f"{family}(alpha=0.25)@{k}" for family in ("alpha_nDCG", "alpha_DCG")]
    names += [f"{family}(alpha=0.9,beta=0.8)" for family in ("NRBP", "nNRBP")]

    found = theirs(names, by_subtopic(labels), ranking)

    # 0 / 0 is not a number there, where no chunk is relevant.
    found = {name: 0.0 if math.isnan(value) else value for name, value in found.items()}
    assert found == pytest.approx(ours(names, labels, ranking, 1), abs=1e-12)


@given(graded, rankings, st.integers(2, 20), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_alpha_is_that_of_ndeval_in_err_ia_too(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    """The parameter -alpha of ndeval counts for ERR-IA; ir_measures has no way to say it."""
    pairs = {f"{family.replace('_', '-')}@{k}": family for family in DIVERSITY[:4]}
    evaluator = pyndeval.RelevanceEvaluator(
        [(q.query_id, q.iteration, q.doc_id, q.relevance) for q in by_subtopic(labels)],
        pairs,
        alpha=alpha,
    )
    found = evaluator.evaluate(scored(ranking)).get("q", dict.fromkeys(pairs, 0.0))

    for name, family in pairs.items():
        ours = value(f"{family}(alpha={alpha})@{k}", ranking, Judged(labels))
        assert found[name] == pytest.approx(ours or 0.0, abs=1e-12)
