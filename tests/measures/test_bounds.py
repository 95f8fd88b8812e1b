from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from freshstack_dspy.measures.evaluation import (
    RISING,
    RISING_WITH_PLACE,
    Bounds,
    evaluate,
    find_bounds,
)
from freshstack_dspy.measures.measure import FAMILIES, parse_measure
from freshstack_dspy.measures.qrels import Judged, NuggetQrels

from .at_random import example
from .five import QRELS, in_order, run


def bounds_of(measure: str, *chunks: str) -> Bounds:
    return find_bounds(QRELS, parse_measure(measure), {"q": chunks})


def test_a_hole_judged_relevant_supports_every_nugget() -> None:
    """e is the hole: without it a tells two of the three nuggets, with it all are told."""
    bounds = bounds_of("Coverage@2", "a", "e")

    assert bounds.none_relevant == {"q": 2 / 3}
    assert bounds.all_relevant == {"q": 1.0}
    assert bounds.lowest == {"q": 2 / 3}
    assert bounds.highest == {"q": 1.0}


def test_only_the_holes_above_the_cut_are_judged() -> None:
    bounds = bounds_of("P@1", "a", "e")

    assert (bounds.lowest, bounds.highest) == ({"q": 1.0}, {"q": 1.0})


def test_a_relevant_hole_is_one_more_chunk_to_be_found() -> None:
    """Of four relevant chunks then, two are in the top."""
    assert bounds_of("Recall@2", "a", "e").all_relevant == {"q": 2 / 4}


def test_judging_every_hole_relevant_can_lower_a_measure_that_has_an_ideal() -> None:
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1, "b": 0}})
    ranking = {"q": ["a", "b", "hole"]}

    (ndcg, average) = (
        find_bounds(qrels, parse_measure(name), ranking) for name in ("nDCG@3", "AP@3")
    )

    assert ndcg.none_relevant["q"] == 1.0
    assert ndcg.all_relevant["q"] < 1.0
    assert (ndcg.mean_lowest, ndcg.mean_highest) == (ndcg.all_relevant["q"], 1.0)
    assert average.all_relevant["q"] == pytest.approx((1 + 2 / 3) / 2)
    assert (average.mean_lowest, average.mean_highest) == (average.all_relevant["q"], 1.0)


def test_the_bounds_can_lie_beyond_both_ends() -> None:
    """Here one relevant hole is worse than none and than two, and there better than both."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1, **dict.fromkeys("wxyz", 0)}})
    ndcg = parse_measure("nDCG@9")

    low = find_bounds(qrels, ndcg, {"q": ["a", "x", "y", "hole", "another"]})
    high = find_bounds(qrels, ndcg, {"q": ["hole", "a", "w", "x", "y", "z", "another"]})

    assert low.mean_lowest == pytest.approx(0.8503, abs=1e-4)
    assert low.mean_all_relevant == pytest.approx(0.8530, abs=1e-4)
    assert low.mean_none_relevant == low.mean_highest == 1.0
    assert high.mean_lowest == pytest.approx(0.5912, abs=1e-4)
    assert high.mean_none_relevant == pytest.approx(0.6309, abs=1e-4)
    assert high.mean_all_relevant == pytest.approx(0.9217, abs=1e-4)
    assert high.mean_highest == 1.0


def test_of_a_measure_that_is_not_understood_only_the_two_values_are_given() -> None:
    bounds = bounds_of("Judged@2", "a", "e")

    assert bounds.none_relevant == bounds.all_relevant == {"q": 1.0}
    assert (bounds.lowest, bounds.highest) == (None, None)
    assert (bounds.mean_lowest, bounds.mean_highest) == (None, None)


def test_a_graded_hole_has_the_highest_label_of_the_collection() -> None:
    qrels = NuggetQrels({"q": ("n",), "p": ("m",)}, {"n": {"a": 1}, "m": {"b": 3}})

    bounds = find_bounds(qrels, parse_measure("nDCG@1"), {"q": ["a", "hole"], "p": ["hole"]})

    assert bounds.all_relevant == {"q": 1.0, "p": 1.0}
    bounds = find_bounds(qrels, parse_measure("nDCG@2"), {"q": ["a", "hole"]})
    # 1 and then 3, where 3 and then 1 would be best
    assert bounds.all_relevant["q"] == pytest.approx((1 + 3 / 1.584963) / (3 + 1 / 1.584963))


def test_holes_that_a_measure_leaves_out_are_in_the_ranking_once_they_are_judged() -> None:
    bounds = bounds_of("P(judged_only=True)@2", "e", "a", "c")

    assert bounds.none_relevant == {"q": 1 / 2}
    assert bounds.all_relevant == {"q": 1.0}


def test_of_a_measure_that_leaves_holes_out_no_bounds_are_given() -> None:
    """Judged in any way the hole comes first, so the value as it is, 1, would lie beyond."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1}})
    for name in ("RR(judged_only=True)@1", "nDCG(judged_only=True)@1"):
        (bounds,) = evaluate(qrels, run({"q": in_order("hole", "a")}), [name], bounds=True).bounds

        assert bounds.none_relevant == {"q": 0.0}
        assert (bounds.lowest, bounds.highest) == (None, None)
        assert (bounds.mean_lowest, bounds.mean_highest) == (None, None)


def test_a_hole_that_supports_some_nuggets_can_take_a_measure_beyond() -> None:
    """As the documents say; none that only rises is taken beyond."""
    labels = {"n": {"a": 1, "hole": 0}, "m": {"a": 0, "hole": 1}}
    unjudged = {nugget: {"a": of["a"]} for nugget, of in labels.items()}
    qrels = NuggetQrels({"q": ("n", "m")}, unjudged)
    ranking = {"q": ["a", "hole"]}
    nrbp, cover = (parse_measure(name) for name in ("NRBP", "Coverage@5"))
    of_nrbp, of_cover = (find_bounds(qrels, each, ranking) for each in (nrbp, cover))
    assert of_nrbp.lowest is not None
    assert of_cover.lowest is not None
    assert of_cover.highest is not None
    value, told = (each(ranking["q"], Judged(labels)) for each in (nrbp, cover))
    assert value is not None
    assert told is not None

    assert value < of_nrbp.lowest["q"] - 0.09
    assert of_cover.lowest["q"] <= told <= of_cover.highest["q"]


def test_a_query_without_a_relevant_chunk_has_a_value_if_a_hole_is_relevant() -> None:
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 0}})

    bounds = find_bounds(qrels, parse_measure("alpha_nDCG@5"), {"q": ["a", "hole"]})

    assert bounds.none_relevant == {"q": 0.0}
    assert 0 < bounds.all_relevant["q"] < 1


def test_an_evaluation_has_bounds_on_request_over_the_queries_that_count() -> None:
    qrels = NuggetQrels(
        {"found": ("n",), "absent": ("m",), "undefined": ("o",)}, {"n": {"a": 1}, "m": {"a": 1}}
    )
    of = run({"found": in_order("hole", "a"), "undefined": in_order("x")})

    plain = evaluate(qrels, of, ["RR", "P@1"])
    (rr, precision) = evaluate(qrels, of, ["RR", "P@1"], bounds=True).bounds
    (skipped, _) = evaluate(qrels, of, ["RR", "P@1"], bounds=True, undefined="skip").bounds

    assert plain.bounds == ()
    assert rr.measure == "RR"
    assert rr.lowest == {"found": 0.5, "absent": 0.0, "undefined": 0.0}
    assert rr.highest == {"found": 1.0, "absent": 0.0, "undefined": 1.0}
    assert (precision.mean_lowest, precision.mean_highest) == (0.0, 2 / 3)
    assert skipped.highest == {"found": 1.0, "absent": 0.0}


def test_bounds_see_the_order_of_the_conventions() -> None:
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"a": 1}})
    tied = run({"q": {"a": 1.0, "hole": 1.0}})

    (ours,) = evaluate(qrels, tied, ["P@1"], bounds=True).bounds
    (theirs,) = evaluate(qrels, tied, ["P@1"], bounds=True, conventions="trec_eval").bounds

    assert (ours.mean_lowest, ours.mean_highest) == (1.0, 1.0)
    assert (theirs.mean_lowest, theirs.mean_highest) == (0.0, 1.0)


def test_an_evaluation_with_bounds_survives_json() -> None:
    evaluation = evaluate(QRELS, run({"q": in_order("a", "e")}), ["nDCG@2"], bounds=True)

    assert evaluation == type(evaluation).model_validate_json(evaluation.model_dump_json())


def every_way(qrels: NuggetQrels, query: str, holes: Sequence[str]) -> Iterator[dict[str, int]]:
    """Judge the holes in every way there is: each relevant to all nuggets or to none."""
    top_label = max(
        [1, qrels.threshold, *(label for of in qrels.labels.values() for label in of.values())]
    )
    for many in range(len(holes) + 1):
        for relevant in combinations(holes, many):
            yield dict.fromkeys(holes, 0) | dict.fromkeys(relevant, top_label)


BOUNDED = sorted(RISING | RISING_WITH_PLACE)


@pytest.mark.parametrize("family", BOUNDED)
def test_the_bounds_are_the_extremes_over_every_way_to_judge_the_holes(family: str) -> None:
    ks = ("",) if FAMILIES[family].cutoff == "none" else ("@3", "@5")
    seen = 0
    for seed in range(80):
        of = example(seed)
        for query in of.qrels.nuggets.keys() & of.results.keys():
            ranking = list(of.results[query])[:7]
            measure = parse_measure(f"{family}{ks[seed % len(ks)]}")
            labels = of.qrels.labels_of(query)
            judged = Judged(labels).chunks
            holes = [chunk for chunk in ranking[: measure.k] if chunk not in judged]
            values = [
                measure(
                    ranking,
                    Judged({n: {**of_n, **way} for n, of_n in labels.items()}, of.qrels.threshold),
                )
                or 0.0
                for way in every_way(of.qrels, query, holes)
            ]
            bounds = find_bounds(of.qrels, measure, {query: ranking})
            assert bounds.lowest == pytest.approx({query: min(values)}, abs=1e-12)
            assert bounds.highest == pytest.approx({query: max(values)}, abs=1e-12)
            seen += len(holes) > 1
    assert seen > 20


def test_what_is_said_to_have_bounds_is_a_measure() -> None:
    assert set(BOUNDED) <= set(FAMILIES)
    assert not RISING & RISING_WITH_PLACE
