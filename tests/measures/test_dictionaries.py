"""Plain dictionaries as judgments and runs, and what is said where they are handed in as they are."""

from typing import Any

import pytest
import pytrec_eval

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk

QRELS = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d3": 1}}
SCORES = {"q1": {"d2": 3.0, "d1": 2.0, "d9": 1.5, "d3": 1.0}, "q2": {"d1": 2.0, "d3": 1.0}}


def test_qrels_of_beir_have_one_nugget_a_query() -> None:
    qrels = NuggetQrels.from_qrels(QRELS)

    assert qrels == NuggetQrels({"q1": ("q1",), "q2": ("q2",)}, QRELS)
    assert qrels.judged("q1").grades() == {"d1": 2, "d3": 1}
    assert NuggetQrels.from_qrels(QRELS, threshold=2).judged("q1").grades() == {"d1": 2}


def test_diversity_qrels_have_one_nugget_a_subtopic() -> None:
    qrels = NuggetQrels.from_diversity_qrels({"q": {"1": {"a": 1}, "2": {"a": 1, "b": 0}}})

    assert qrels.nuggets == {"q": ("q 1", "q 2")}
    assert qrels.labels_of("q") == {"q 1": {"a": 1}, "q 2": {"a": 1, "b": 0}}


def test_a_query_without_judgments_stays_one() -> None:
    qrels = NuggetQrels.from_qrels({**QRELS, "q3": {}})

    found = evaluate(qrels, Run.from_scores(SCORES), "AP")
    assert found.without_relevant == found.absent == ("q3",)
    assert found.per_query["q3"] == {"AP": 0}


def test_a_run_of_scores_is_in_their_order() -> None:
    run = Run.from_scores({"q": {"a": 1, "b": 2.5}, "none": {}}, name="bm25")

    assert run.name == "bm25"
    assert run.rankings == {"q": (ScoredChunk("b", 2.5), ScoredChunk("a", 1.0)), "none": ()}
    assert Run.from_scores({}).name == "run"


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy as np

    qrels = NuggetQrels.from_qrels({"q": {"a": np.int64(1), "b": 1.0, "c": np.float64(0)}})  # type: ignore[dict-item]

    assert qrels.labels == {"q": {"a": 1, "b": 1, "c": 0}}
    assert {type(label) for label in qrels.labels["q"].values()} == {int}
    run = Run.from_scores({"q": {"a": np.float32(0.5)}})  # type: ignore[dict-item]
    assert run.rankings["q"] == (ScoredChunk("a", 0.5),)


@pytest.mark.parametrize(
    "name",
    ["map", "map_cut_10", "ndcg", "ndcg_cut_10", "recall_100", "P_5", "success_1", "recip_rank",
     "Rprec", "set_recall"],
)  # fmt: skip
def test_the_names_of_trec_eval_give_the_figures_of_trec_eval(name: str) -> None:
    theirs = pytrec_eval.RelevanceEvaluator(QRELS, {name}).evaluate(SCORES)
    ours_of = "Recall" if name == "set_recall" else name

    ours = evaluate(NuggetQrels.from_qrels(QRELS), Run.from_scores(SCORES), ours_of)

    (measure,) = ours.measures
    for query, value in ours.values(measure).items():
        assert value == pytest.approx(theirs[query][name], abs=1e-12)


def test_one_measure_need_not_be_a_list() -> None:
    qrels, run = NuggetQrels.from_qrels(QRELS), Run.from_scores(SCORES)

    assert evaluate(qrels, run, "nDCG@10") == evaluate(qrels, run, ["nDCG@10"])
    with pytest.raises(ConfigError, match="there is no measure 'nope'"):
        evaluate(qrels, run, "nope")


def test_plain_dictionaries_are_told_how_they_become_judgments_and_runs() -> None:
    plain: Any = QRELS
    with pytest.raises(CollectionError, match=r"not dict: type NuggetQrels.from_qrels\(\{query: "):
        evaluate(plain, Run.from_scores(SCORES))
    with pytest.raises(CollectionError, match=r"not str: .*read_qrels\(path\), or collection.qrel"):
        evaluate("qrels.txt", Run.from_scores(SCORES))  # type: ignore[arg-type]
    with pytest.raises(CollectionError, match=r"not dict: type\s+Run.from_scores\(\{query: \{ch"):
        evaluate(NuggetQrels.from_qrels(QRELS), plain)
    for given in (QRELS, {"q": ("d1", "d2")}, {"q": ["d1"]}, {"q": "d1"}, [("q", "d1")]):
        with pytest.raises(CollectionError, match=r"Run.from_scores makes one, and read_run reads"):
            Run("x", given)  # type: ignore[arg-type]
    with pytest.raises(CollectionError, match=r"Run.from_scores makes one"):
        Run(SCORES, {})  # type: ignore[arg-type]
    for other in (QRELS, {"q": "n"}, ["n"]):
        with pytest.raises(CollectionError, match=r"NuggetQrels.from_qrels makes one, of"):
            NuggetQrels(other, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("q", "d", 1)], r"qrels: a list, \[\('q', 'd', 1\)\], and not a dictionary; they are"),
        ({"q": ["d1"]}, r"query 'q': a list, \['d1'\], and not a dictionary"),
        ({1: {"d": 1}}, "qrels: an id is a text, as '1', not 1; type str"),
        ({"q": {1: 1}}, "query 'q': an id is a text"),
        ({"q": {"d": "1"}}, "query 'q', document 'd': the grade is '1', and not a whole number"),
        ({"q": {"d": 0.5}}, "the grade is 0.5"),
        ({"q": {"d": float("nan")}}, "the grade is nan"),
        ({"q": {"d": None}}, "the grade is None"),
        ({"q": {"1": {"d": 1}}}, "the grade is {'d': 1}.* use NuggetQrels.from_diversity_qrels"),
    ],
)
def test_what_is_no_qrels_is_refused(given: Any, said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        NuggetQrels.from_qrels(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (QRELS, "query 'q1', subtopic 'd1': a int, 2, and not a dictionary; .*from_qrels"),
        ({"q": {"1": {"d": "x"}}}, "query 'q', subtopic '1', document 'd': the grade is 'x'"),
        ({"q": {}}, "query 'q' has no nuggets; leave it out"),
    ],
)
def test_what_is_no_diversity_qrels_is_refused(given: Any, said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        NuggetQrels.from_diversity_qrels(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"q": ["d1"]}, r"query 'q': a list, .*they are \{query: \{chunk: score\}\}"),
        ({"q": {"d": "0.5"}}, "query 'q': the score of chunk 'd' is '0.5', and not a number"),
        ({"q": {"d": None}}, "the score of chunk 'd' is None"),
        ({"q": {"d": float("inf")}}, "is inf; scores are finite numbers"),
        ({"q": {7: 1.0}}, "an id is a text, as '1', not 7"),
    ],
)
def test_what_are_no_scores_is_refused(given: Any, said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        Run.from_scores(given)
