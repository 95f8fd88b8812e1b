"""Relevance measures: by hand, and against ir_measures and trec_eval."""

import math
from math import log2

import ir_measures
import pyndeval
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import (
    average_precision,
    f1,
    judged_share,
    ndcg,
    precision,
    r_precision,
    recall,
    reciprocal_rank,
    success,
)
from tests.measures.five import LABELS
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
    judged = Judged(labels)
    both = precision(ranking, judged, k), recall(ranking, judged, k)
    value = f1(ranking, judged, k)

    if both[0] and both[1]:
        assert value == pytest.approx(2 / (1 / both[0] + 1 / both[1]))
    else:
        assert not value


@pytest.mark.parametrize(
    ("ranking", "k", "value"),
    [("abcde", None, 4 / 5), ("abcde", 4, 1.0), ("e", 10, 0.0), ("ae", 10, 1 / 2), ("", 5, None)],
)
def test_the_judged_share_is_of_those_found(
    ranking: str, k: int | None, value: float | None
) -> None:
    assert value == judged_share(list(ranking), Judged(LABELS), k)


def test_a_query_without_a_relevant_chunk_has_no_value() -> None:
    """Not 0 in one measure and none in another: they are then means over the same queries."""
    unsupported = Judged({"n": {"a": 0, "b": -1}, "m": {}})

    for measure in (
        average_precision,
        f1,
        ndcg,
        precision,
        r_precision,
        recall,
        reciprocal_rank,
        success,
    ):
        assert measure(["a"], unsupported, 5) is None
        assert measure([], Judged({}), 5) is None
    assert judged_share(["a", "x"], unsupported, 5) == 1 / 2


FIVE = ["d1", "d2", "d3", "d4", "d5"]
# A worked example of a chapter on benchmarks: grades 3, 2, 0, 0, 1 in the order retrieved.
GRADED = {"n": {"d1": 3, "d2": 2, "d3": 0, "d4": 0, "d5": 1}}


def test_the_worked_example_of_the_benchmarks_chapter() -> None:
    value = parse_measure("nDCG(dcg='exp-log2')@5")(FIVE, Judged(GRADED))
    dcg, ideal = 7 + 3 / log2(3) + 1 / log2(6), 7 + 3 / log2(3) + 1 / log2(4)

    assert (round(dcg, 3), round(ideal, 3)) == (9.280, 9.393)
    assert value == pytest.approx(dcg / ideal, abs=1e-15)
    assert value is not None
    assert round(value, 3) == 0.988


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
    names += [f"{family}(judged_only=True)@{k}" for family in ("P", "AP", "Recall", "Success")]

    assert theirs(names, by_chunk(labels), ranking) == pytest.approx(
        ours(names, labels, ranking, 1), abs=1e-12
    )


@given(graded, rankings, st.integers(1, 30))
def test_ndcg_is_that_of_trec_eval(labels: NuggetLabels, ranking: list[str], k: int) -> None:
    """With each rule of a chunk's grade; labels of 0 and below gain nothing."""
    names = ["nDCG", f"nDCG@{k}", f"nDCG(judged_only=True)@{k}"]
    for rule in ("sum", "count", "max"):
        grades = {**dict.fromkeys(Judged(labels).chunks, 0), **Judged(labels).grades(rule)}
        qrels = [ir_measures.Qrel("q", chunk, grade) for chunk, grade in grades.items()]
        found = {name: ndcg_named(name, labels, ranking, rule) for name in names}

        assert theirs(names, qrels, ranking) == pytest.approx(found, abs=1e-12)


def ndcg_named(name: str, labels: NuggetLabels, ranking: list[str], rule: str) -> float:
    only = "judged_only=True," if "judged_only" in name else ""
    at = name.partition("@")[2]
    ours = parse_measure(f"nDCG({only}grade='{rule}'){f'@{at}' if at else ''}")
    return ours(ranking, Judged(labels)) or 0.0


@given(graded, rankings, st.integers(1, 30))
def test_exponential_ndcg_is_that_of_trec_eval_with_these_gains(
    labels: NuggetLabels, ranking: list[str], k: int
) -> None:
    grades = {chunk: 2**grade - 1 for chunk, grade in Judged(labels).grades("max").items()}
    value = ndcg(ranking, Judged(labels), k, dcg="exp-log2", grade="max")

    if value is not None and ranking:
        evaluator = pytrec_eval.RelevanceEvaluator({"q": grades}, {f"ndcg_cut.{k}"})
        run = {"q": {each.doc_id: each.score for each in scored(ranking)}}
        assert evaluator.evaluate(run)["q"][f"ndcg_cut_{k}"] == pytest.approx(value, abs=1e-12)


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
        value = parse_measure(f"{family}(alpha={alpha})@{k}")(ranking, Judged(labels))
        assert found[name] == pytest.approx(value or 0.0, abs=1e-12)


@pytest.mark.parametrize("family", ["ERR_IA", "alpha_DCG"])
def test_at_one_ndeval_forgets_to_divide(family: str) -> None:
    """The loop of ndeval that divides begins at the second rank."""
    labels = {"n1": {"a": 1}, "n2": {"a": 1, "b": 1}, "n3": {"b": 1}}
    name = f"{family}@1"

    assert theirs([name], by_subtopic(labels), ["a"]) == {name: 2.0}
    assert parse_measure(name)(["a"], Judged(labels)) == pytest.approx(2 / 3)


def test_rbp_by_hand() -> None:
    """Relevant at ranks 1 and 3: (1 - p) * (1 + p²)."""
    measure = parse_measure("RBP(p=0.5)")

    assert measure(["a", "c", "b"], Judged(LABELS)) == 0.5 * (1 + 0.25)
    assert measure(["c"], Judged(LABELS)) == 0
    assert measure(["a"], Judged({"n": {"a": 0}})) is None
    assert parse_measure("RBP@2")(["a", "c", "b"], Judged(LABELS)) == pytest.approx(0.2)
