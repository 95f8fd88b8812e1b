from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.diversity import alpha_ndcg
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk

from .five import LABELS, QRELS, in_order, run
from .strategies import NuggetLabels, labels, tied_scores, untimed

FOUR = NuggetQrels(
    {"found": ("n1",), "absent": ("n2",), "empty": ("n3",), "unsupported": ("n4", "n5")},
    {"n1": {"a": 1}, "n2": {"a": 1}, "n3": {"a": 1}, "n4": {"a": 0}},
)


def test_the_measures_of_the_paper_are_the_default() -> None:
    evaluation = evaluate(QRELS, run({"q": in_order("b", "a", "d")}, "bm25"))

    assert evaluation.run == "bm25"
    assert evaluation.measures == ("alpha_nDCG@10", "Coverage@20", "Recall@50")
    assert evaluation.means == evaluation.per_query["q"]
    assert evaluation.means == {
        "alpha_nDCG@10": alpha_ndcg(["b", "a", "d"], Judged(LABELS), 10),
        "Coverage@20": 2 / 3,
        "Recall@50": 1.0,
    }


def test_every_query_of_the_collection_counts_and_what_is_missing_is_named() -> None:
    evaluation = evaluate(
        FOUR,
        run(
            {"found": in_order("a"), "empty": {}, "unsupported": in_order("a"), "x": in_order("a")}
        ),
        ("alpha_nDCG@5", "Coverage@5", "Recall@5"),
    )

    assert evaluation.means == {"alpha_nDCG@5": 0.25, "Coverage@5": 0.25, "Recall@5": 0.25}
    assert list(evaluation.per_query) == ["found", "absent", "empty", "unsupported"]
    assert set(evaluation.per_query["absent"].values()) == {0.0}
    assert set(evaluation.per_query["empty"].values()) == {0.0}
    assert set(evaluation.per_query["unsupported"].values()) == {0.0}
    assert evaluation.absent == ("absent",)
    assert evaluation.empty == ("empty",)
    assert evaluation.without_relevant == ("unsupported",)
    assert evaluation.unknown == ("x",)


def test_holes_are_found_at_each_cut_off_once() -> None:
    evaluation = evaluate(
        QRELS, run({"q": in_order("a", "e")}), ("Recall@8", "Coverage@1", "Coverage@8")
    )

    assert [(hole.k, hole.mean_unjudged) for hole in evaluation.holes] == [(1, 0.0), (8, 0.5)]


def test_failed_judgments_in_the_top_are_reported() -> None:
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1}}, {"n": frozenset({"b"})})

    evaluation = evaluate(qrels, run({"q": in_order("a", "b")}), ("Recall@1", "Recall@2"))

    assert [hole.failed for hole in evaluation.holes] == [{}, {"q": 1}]


def test_a_measure_named_twice_is_measured_once() -> None:
    evaluation = evaluate(QRELS, run({"q": in_order("a")}), ("Recall@5", "Recall@5"))

    assert evaluation.measures == ("Recall@5",)


def test_there_must_be_a_measure_and_it_must_be_known() -> None:
    with pytest.raises(ConfigError, match="at least one measure, as in alpha_nDCG@10"):
        evaluate(QRELS, run({"q": {}}), ())
    with pytest.raises(ConfigError, match="no measure 'MAPP@5'"):
        evaluate(QRELS, run({"q": {}}), ("MAPP@5",))


def test_a_run_of_another_collection_is_refused_and_not_given_zeros() -> None:
    with pytest.raises(CollectionError, match=r"none of the 1 queries of run 'run'.*'other'.*'q'"):
        evaluate(QRELS, run({"other": in_order("a")}))


def test_a_run_that_found_nothing_is_all_zeros() -> None:
    evaluation = evaluate(QRELS, run({}))

    assert set(evaluation.means.values()) == {0.0}
    assert evaluation.absent == ("q",)


def test_a_collection_without_queries_is_refused() -> None:
    with pytest.raises(CollectionError, match="no query in its evaluated slices"):
        evaluate(NuggetQrels({}, {}), run({"q": in_order("a")}))


def test_an_evaluation_survives_json() -> None:
    evaluation = evaluate(QRELS, run({"q": in_order("a", "e")}))

    assert evaluation == type(evaluation).model_validate_json(evaluation.model_dump_json())


@untimed
@given(labels(), tied_scores, st.randoms(use_true_random=False))
def test_the_order_in_which_tied_chunks_are_given_changes_nothing(
    labels: NuggetLabels, scores: dict[str, float], rng: Random
) -> None:
    qrels = NuggetQrels({"q": tuple(labels)}, labels)
    found = [ScoredChunk(chunk, score) for chunk, score in scores.items()]
    shuffled = rng.sample(found, len(found))
    measures = ("alpha_nDCG@3", "Coverage@3", "Recall@3")

    first = evaluate(qrels, Run("run", {"q": tuple(found)}), measures)

    assert first == evaluate(qrels, Run("run", {"q": tuple(shuffled)}), measures)


def test_queries_without_a_value_are_named_by_measure() -> None:
    qrels = NuggetQrels({"q": ("n",), "r": ("m",)}, {"n": {"a": 3}, "m": {"b": 5}}, threshold=3)
    evaluation = evaluate(qrels, run({"q": {"a": 1.0}}), ["StRecall(rel=5)@10", "Recall@5"])

    assert evaluation.without_value == {"StRecall(rel=5)@10": ("q",)}
    assert evaluation.without_relevant == ()


def test_a_length_that_is_not_known_is_named_with_run_and_query() -> None:
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1}})

    with pytest.raises(CollectionError, match=r"^run 'run', query 'q': the length of chunk 'a'"):
        evaluate(qrels, run({"q": {"a": 1.0}}), ["Density@5"])
