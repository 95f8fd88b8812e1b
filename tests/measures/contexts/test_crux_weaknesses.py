"""What goes wrong in CRUX's own code, SYSTEMS.md section 2(d), and does not here."""

import pytest

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts import evaluate_context
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from tests.measures.five import in_order, run

ONE_IN_TEN = NuggetQrels({"q": ("n",)}, {"n": {"z": 5, **dict.fromkeys("abcdefghi", 0)}})


def test_ranked_coverage_reads_the_ranking() -> None:
    """1: CRUX gives every passage the score 3, so that the ids decide."""
    first = run({"q": in_order("z", *"abcdefghi")})
    tied = run({"q": dict.fromkeys("zabcdefghi", 3.0)})
    last = run({"q": in_order(*"abcdefghi", "z")})

    assert evaluate(ONE_IN_TEN, first, ["alpha_nDCG@20"]).means == {"alpha_nDCG@20": 1}
    assert (
        evaluate(ONE_IN_TEN, tied, ["alpha_nDCG@20"]).means
        == evaluate(ONE_IN_TEN, last, ["alpha_nDCG@20"]).means
    )


def test_a_tied_list_of_three_has_the_value_that_was_seen() -> None:
    """.631, 1 / log2(3), for the only relevant passage, which has the larger id, of two."""
    qrels = NuggetQrels({"q": ("n",)}, {"n": {"b": 3}}, threshold=3)
    tied = evaluate(qrels, run({"q": {"b": 3.0, "a": 3.0}}), ["alpha_nDCG@20"])

    assert tied.means["alpha_nDCG@20"] == pytest.approx(0.631, abs=5e-4)
    scored = evaluate(qrels, run({"q": {"b": 3.0, "a": 2.0}}), ["alpha_nDCG@20"])
    assert scored.means["alpha_nDCG@20"] == 1


def test_a_failed_judgment_is_counted_and_is_no_rating() -> None:
    """2: CRUX writes failures as ratings of -1 and -2, which a mean then mixes in."""
    qrels = NuggetQrels(
        {"q": ("n1", "n2")},
        {"n1": {"a": 4}, "n2": {"b": 3}},
        failed={"n2": frozenset({"a"})},
        threshold=3,
    )
    found = evaluate_context(qrels, "q", ["a"], w=None)
    holes = evaluate(qrels, run({"q": {"a": 1.0}}), ["StRecall@5"]).holes

    assert found.coverage == 0.5
    assert found.failed == 1
    assert holes[0].failed == {"q": 1}
    with pytest.raises(CollectionError, match="a failed judgment has no label"):
        NuggetQrels({"q": ("n",)}, {"n": {"a": 4}}, failed={"n": frozenset({"a"})})


def test_a_passage_without_a_rating_adds_nothing_and_is_counted() -> None:
    """5: in CRUX a KeyError or a row of zeros, depending on the branch."""
    judged = NuggetQrels({"q": ("n",)}, {"n": {"a": 4}}, threshold=3, tokens={"a": 9, "x": 9})
    alone, beside = (evaluate_context(judged, "q", each) for each in (["a"], ["x", "a"]))

    assert alone.coverage == beside.coverage == 1
    assert (alone.unjudged, beside.unjudged) == (0, 1)
    assert alone.density == 1
    assert beside.density == pytest.approx(0.5**0.5)


def test_any_number_of_questions_and_passages() -> None:
    """4: CRUX expects 10 or 15 questions."""
    nuggets = tuple(f"n{number}" for number in range(40))
    qrels = NuggetQrels({"q": nuggets}, {nugget: {nugget: 3} for nugget in nuggets}, threshold=3)
    ranking = run({"q": in_order(*nuggets)})
    means = evaluate(qrels, ranking, ["StRecall@30", "alpha_nDCG@30"]).means

    assert means == {"StRecall@30": 0.75, "alpha_nDCG@30": 1}


def test_a_label_above_the_threshold_is_support_and_what_none_tells_is_not_asked_for() -> None:
    """Of three questions that two passages answer, rated as in Figure 2 of the paper, eta = 3."""
    labels = {"q1": {"p1": 5, "p2": 0}, "q2": {"p1": 2, "p2": 3}, "q3": {"p1": 2, "p2": 1}}

    assert Judged(labels, 3).answerable == {0, 1}
    assert Judged(labels, 5).answerable == {0}
