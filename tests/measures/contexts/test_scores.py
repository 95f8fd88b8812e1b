import pytest

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts import ContextScores, evaluate_context, evaluate_contexts
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from tests.measures.five import in_order, run

QRELS = NuggetQrels(
    {"q": ("n1", "n2", "n3", "n4"), "other": ("m",)},
    {
        "n1": {"a": 5, "b": 0, "c": 3, "d": 0, "e": 0},
        "n2": {"a": 3, "b": 0, "c": 1, "d": 2},
        "n3": {"a": 0, "b": 4, "c": 0, "d": 4, "e": 0},
        "n4": {"a": 1, "b": 1, "c": 0, "d": 0, "e": 0},
        "m": {"a": 0},
    },
    failed={"n2": frozenset({"e"})},
    threshold=3,
    tokens={"a": 100, "b": 50, "c": 50, "d": 20, "e": 30, "x": 50},
)


def test_by_hand() -> None:
    """P** is a and b; d is partly redundant, c is redundant, e would be but for a failure."""
    found = evaluate_context(QRELS, "q", ["c", "d", "e", "x", "a"], k=4, w=1)

    assert found == ContextScores(
        query_id="q",
        chunks=4,
        coverage=2 / 3,
        ranked_coverage=found.ranked_coverage,
        density=found.density,
        covered=("n1", "n3"),
        uncovered=("n2",),
        unanswerable=("n4",),
        supporting=2,
        required=0,
        of_required=2,
        partly_redundant=1,
        redundant=1,
        undetermined=1,
        unjudged=1,
        failed=1,
    )
    assert found.density == pytest.approx((2 / 150) / (3 / 150))


def test_its_figures_are_those_of_the_measures() -> None:
    ranking = run({"q": in_order("c", "d", "e", "x", "a")})
    names = ["StRecall@4", "alpha_nDCG@4", "Density@4"]
    found = evaluate_contexts(QRELS, ranking, 4)
    values = evaluate(QRELS, ranking, names).per_query["q"]

    assert [each.query_id for each in found] == ["q", "other"]
    figures = [found[0].coverage, found[0].ranked_coverage, found[0].density]
    assert list(values.values()) == figures


def test_another_threshold() -> None:
    found = evaluate_context(QRELS, "q", ["a", "b"], rel=5)

    assert (found.covered, found.uncovered) == (("n1",), ())
    assert found.unanswerable == ("n2", "n3", "n4")
    assert (found.required, found.of_required) == (1, 1)


def test_an_empty_context_and_a_query_without_an_answerable_nugget() -> None:
    empty = evaluate_context(QRELS, "q", [])
    nothing = evaluate_context(QRELS, "other", ["x"], w=None)

    assert (empty.chunks, empty.coverage, empty.ranked_coverage, empty.density) == (0, 0, 0, 0)
    assert (nothing.coverage, nothing.ranked_coverage, nothing.density) == (None, None, None)
    assert (nothing.of_required, nothing.unjudged) == (0, 1)


def test_without_density_no_length_is_looked_up() -> None:
    unknown = NuggetQrels({"q": ("n",)}, {"n": {"a": 1}})

    assert evaluate_context(unknown, "q", ["a"], w=None).density is None
    with pytest.raises(CollectionError, match="length of chunk 'a' is not known"):
        evaluate_context(unknown, "q", ["a"])


def test_what_is_refused() -> None:
    with pytest.raises(CollectionError, match="query 'p' is not in the collection"):
        evaluate_context(QRELS, "p", [])
    with pytest.raises(ValueError, match="stands twice"):
        evaluate_context(QRELS, "q", ["a", "a"])
    with pytest.raises(ValueError, match="cut-off k is at least 1"):
        evaluate_context(QRELS, "q", ["a"], k=0)
