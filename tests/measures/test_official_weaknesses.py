"""What goes wrong in the official evaluator (v0.0.6), each with what happens here."""

import pytest

from freshstack_dspy.measures.conventions import CONVENTIONS
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import Judged, NuggetQrels

from .five import LABELS, QRELS, in_order, run

ALL = ("alpha_nDCG@1", "Coverage@1", "Recall@1")


def test_1_a_query_id_that_is_the_beginning_of_another_keeps_to_its_own_nuggets() -> None:
    """The official loader gives the nuggets of 123 to 12 as well."""
    qrels = NuggetQrels(
        {"12": ("12_0",), "123": ("123_0", "123_1")},
        {"12_0": {"a": 1}, "123_0": {"b": 1}, "123_1": {"c": 1}},
    )

    evaluation = evaluate(qrels, run({"12": in_order("a"), "123": in_order("b")}), ("Coverage@5",))

    assert evaluation.per_query == {"12": {"Coverage@5": 1.0}, "123": {"Coverage@5": 0.5}}
    assert qrels.official().query_to_nuggets == {"12": ["12_0"], "123": ["123_0", "123_1"]}


def test_1_query_ids_may_hold_underscores_and_nugget_ids_anything() -> None:
    """The official loader cuts the query id out of the nugget id at the first underscore."""
    qrels = NuggetQrels(
        {"my_query_1": ("fact",), "my_query_2": ("my_query_1_0",)},
        {"fact": {"a": 1}, "my_query_1_0": {"b": 1}},
    )

    evaluation = evaluate(
        qrels, run({"my_query_1": in_order("a"), "my_query_2": in_order("a")}), ("Recall@1",)
    )

    assert evaluation.per_query == {
        "my_query_1": {"Recall@1": 1.0},
        "my_query_2": {"Recall@1": 0.0},
    }


@pytest.mark.parametrize(("relevant", "value"), [("a", 1.0), ("b", 0.0), ("c", 0.0)])
def test_2_all_measures_see_tied_chunks_in_one_order(relevant: str, value: float) -> None:
    """The official evaluator orders ties in three ways, one for each measure."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {relevant: 1}})

    evaluation = evaluate(qrels, run({"q": {"c": 1.0, "b": 1.0, "a": 1.0}}), ALL)

    assert dict.fromkeys(ALL, value) == evaluation.means


def test_2_the_three_orders_can_be_had_by_their_name() -> None:
    """The official figures of one list of ties: alpha-nDCG 0, Coverage 1 and Recall 0."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"m": 1}})
    tied = run({"q": {"m": 1.0, "a": 1.0, "z": 1.0}})

    official = evaluate(qrels, tied, (*ALL, "alpha_nDCG@3"), conventions="freshstack")

    assert official.means == {
        "alpha_nDCG@1": 0.0,
        "Coverage@1": 1.0,
        "Recall@1": 0.0,
        "alpha_nDCG@3": 0.6309,
    }
    assert set(evaluate(qrels, tied, ALL).means.values()) == {0.0}


def test_2_every_query_whose_chunks_are_all_tied_is_named() -> None:
    """CRUX gave each passage the score 3, so that its alpha-nDCG was that of the ids; ranx takes
    the order in which they were inserted, pytrec_eval the reverse of the ids."""
    qrels = NuggetQrels({"q": ("n",), "p": ("m",)}, {"n": {"z": 1}, "m": {"z": 1}})

    one_score = evaluate(
        qrels, run({"q": {"z": 3.0, "a": 3.0}, "p": {"z": 3.0}}), ("alpha_nDCG@20",)
    )
    ranked = evaluate(qrels, run({"q": in_order("z", "a"), "p": {"z": 3.0}}), ("alpha_nDCG@20",))

    assert one_score.tied == ("q",)
    assert one_score.per_query["q"]["alpha_nDCG@20"] == pytest.approx(0.6309, abs=1e-4)
    assert ranked.tied == ()
    assert ranked.per_query["q"]["alpha_nDCG@20"] == 1.0


@pytest.mark.parametrize("conventions", ["freshstack_dspy", "pyndeval", "trec_eval"])
def test_2_the_order_of_insertion_is_of_no_account(conventions: str) -> None:
    """ranx orders ties by it, and the official Coverage does."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"b": 1}})
    one, other = ({"a": 1.0, "b": 1.0, "c": 1.0}, {"c": 1.0, "b": 1.0, "a": 1.0})

    values = [
        evaluate(qrels, run({"q": found}), ALL, conventions=conventions) for found in (one, other)
    ]

    assert values[0] == values[1]


def test_3_no_cut_off_is_too_deep() -> None:
    """The official evaluator leaves alpha-nDCG out beyond 20, and crashes if all are beyond."""
    deep = in_order(*(f"hole {number}" for number in range(99)), "a")
    names = ("alpha_nDCG@99", "alpha_nDCG@100", "alpha_nDCG@1000")

    values = evaluate(QRELS, run({"q": deep}), names).means

    assert values["alpha_nDCG@99"] == 0
    assert 0 < values["alpha_nDCG@100"] == values["alpha_nDCG@1000"]


def test_4_missing_results_and_judgments_are_counted_and_never_crash() -> None:
    """The official evaluator raises KeyError for each of these three."""
    qrels = NuggetQrels(
        {"empty": ("n1",), "no labels": ("n2",), "half": ("n3", "no labels either")},
        {"n1": {"a": 1}, "n3": {"a": 1}},
    )

    evaluation = evaluate(
        qrels, run({"empty": {}, "no labels": in_order("a"), "half": in_order("a")}), ALL
    )

    assert {
        "empty": dict.fromkeys(ALL, 0.0),
        "no labels": dict.fromkeys(ALL, 0.0),
        "half": {"alpha_nDCG@1": 1.0, "Coverage@1": 0.5, "Recall@1": 1.0},
    } == evaluation.per_query
    assert evaluation.empty == ("empty",)
    assert evaluation.without_relevant == ("no labels",)


@pytest.mark.parametrize("conventions", list(CONVENTIONS))
def test_4_no_conventions_crash_on_what_is_missing(conventions: str) -> None:
    qrels = NuggetQrels(
        {"empty": ("n1",), "no labels": ("n2",), "absent": ("n3",)}, {"n1": {"a": 1}}
    )
    of = run({"empty": {}, "no labels": in_order("a"), "unknown": in_order("a")})

    evaluation = evaluate(qrels, of, (*ALL, "nDCG@5", "AP"), conventions=conventions, bounds=True)

    assert set(evaluation.means.values()) == {0.0}
    assert evaluation.without_relevant == ("no labels", "absent")


def test_5_the_denominator_of_coverage_is_a_choice() -> None:
    """An unsupported nugget counts in Coverage and not in alpha-nDCG; both can be had."""
    from freshstack_dspy.measures.diversity import alpha_ndcg, coverage

    assert alpha_ndcg(["a"], Judged(LABELS), 1) == 1.0
    assert coverage(["a"], Judged(LABELS), 1) == 2 / 3
    assert coverage(["a"], Judged(LABELS), 1, of="answerable") == 1.0


def test_6_the_default_measures_work() -> None:
    """The official `evaluate_custom` has a bool for a default measure and crashes."""
    assert len(evaluate(QRELS, run({"q": in_order("a")})).means) == 3


def test_7_a_run_is_ordered_before_it_is_cut() -> None:
    """The official fusion cuts an unsorted list, and one chunk or none is too few for it."""
    ascending = {"c": 0.1, "b": 0.2, "a": 0.9}

    assert evaluate(QRELS, run({"q": ascending}), ("Recall@1",)).means == {"Recall@1": 1 / 3}
    assert evaluate(QRELS, run({"q": {"a": 7}}), ("Recall@1",)).means == {"Recall@1": 1 / 3}
    assert evaluate(QRELS, run({"q": {}}), ("Recall@1",)).means == {"Recall@1": 0.0}


def test_9_holes_are_those_of_the_query_divided_by_what_was_found_with_a_mean() -> None:
    """The official `hole` pools all queries, divides by k and gives no mean."""
    qrels = NuggetQrels({"1": ("n",), "2": ("m",)}, {"n": {"a": 1}, "m": {"b": 0}})

    (holes,) = evaluate(qrels, run({"1": in_order("b"), "2": in_order("b")}), ("Recall@10",)).holes

    assert holes.unjudged == {"1": 1.0, "2": 0.0}
    assert holes.mean_unjudged == 0.5


def test_9_a_chunk_judged_for_another_query_is_no_hole_bound_of_this_one() -> None:
    qrels = NuggetQrels({"1": ("n",), "2": ("m",)}, {"n": {"a": 1}, "m": {"b": 1}})

    (bounds,) = evaluate(
        qrels, run({"1": in_order("b"), "2": in_order("b")}), ("P@1",), bounds=True
    ).bounds

    assert bounds.highest == {"1": 1.0, "2": 1.0}
    assert bounds.lowest == {"1": 0.0, "2": 1.0}


def test_10_values_come_by_query_in_the_order_of_the_collection_and_are_not_rounded() -> None:
    """The official evaluator gives rounded means only, over queries in the order of a set."""
    queries = [f"q{number}" for number in (3, 1, 2)]
    qrels = NuggetQrels(
        {query: tuple(f"{query} {n}" for n in range(3)) for query in queries},
        {f"{query} 0": {"a": 1} for query in queries},
    )

    evaluation = evaluate(qrels, run({q: in_order("a") for q in sorted(queries)}), ("Coverage@1",))

    assert queries == list(evaluation.per_query)
    assert evaluation.means == {"Coverage@1": 1 / 3}
