import math
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.contexts import density, required_chunks, required_only
from freshstack_dspy.measures.diversity import coverage
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from tests.measures import strategies
from tests.measures.five import LABELS, in_order, run
from tests.measures.strategies import untimed

TOKENS = {"a": 100, "b": 50, "c": 10, "d": 40, "e": 400}
FIVE = Judged(LABELS, tokens=TOKENS)
"""`a` alone supports both nuggets that can be supported: it is the required subset."""


fewer = settings(untimed, max_examples=40)
judgments = st.builds(
    Judged,
    strategies.labels(5),
    st.integers(1, 5),
    st.fixed_dictionaries(
        {chunk: st.integers(1, 500) for chunk in strategies.CHUNKS + strategies.UNJUDGED}
    ),
)


def test_by_hand() -> None:
    """(covered / tokens) / (2 / 100), to the power of w."""
    assert required_chunks(FIVE).required == ("a",)
    assert density(["a"], FIVE) == 1
    assert density(["a", "b"], FIVE, w=1) == pytest.approx((2 / 150) / (2 / 100))
    assert density(["a", "b"], FIVE) == pytest.approx(math.sqrt(100 / 150))
    assert density(["c", "e", "d"], FIVE, w=1) == pytest.approx((1 / 450) / (2 / 100))
    assert density(["b", "d"], FIVE, 1, w=1) == pytest.approx((1 / 50) / (2 / 100))


def test_a_context_that_tells_the_same_in_fewer_tokens_has_more_than_1() -> None:
    """The greedy takes the chunk that supports most, and does not look at its length."""
    assert density(["b", "d"], FIVE, w=1) == pytest.approx(100 / 90)


def test_an_empty_context_has_coverage_0_and_density_0() -> None:
    assert coverage([], FIVE, of="answerable") == 0
    assert density([], FIVE) == 0
    assert density(["c"], FIVE) == 0


def test_without_an_answerable_nugget_there_is_no_density_and_no_length_is_needed() -> None:
    assert density(["x"], Judged({"n": {"a": 0}})) is None
    assert density([], Judged({"n": {}})) is None


def test_a_chunk_of_unknown_length_is_named_and_not_given_the_mean() -> None:
    """CRUX puts in a dummy passage of mean length (SYSTEMS 2(d) 5)."""
    with pytest.raises(CollectionError, match=r"length of chunk 'x' is not known.*judged_only"):
        density(["a", "x"], FIVE)
    with pytest.raises(CollectionError, match="length of chunk 'a' is not known"):
        density(["b"], Judged(LABELS, tokens={"b": 3}))
    with pytest.raises(CollectionError, match=r"'b' is not known.*a collection that has its text"):
        density(["b"], Judged(LABELS))

    qrels = NuggetQrels({"q": ("n1", "n2", "n3")}, LABELS, tokens=TOKENS)
    ranking = run({"q": in_order("x", "a", "b")})
    values = evaluate(qrels, ranking, ["Density(judged_only=True)@2"]).per_query["q"]
    assert list(values.values()) == [pytest.approx(math.sqrt(100 / 150))]


def test_lengths_that_are_none() -> None:
    nothing = Judged(LABELS, tokens=dict.fromkeys(TOKENS, 0))
    with pytest.raises(CollectionError, match="has 0 tokens, so it has no density"):
        density(["a"], nothing)
    with pytest.raises(CollectionError, match="required subset of the judged chunks supports"):
        density(["b"], Judged(LABELS, tokens={**TOKENS, "a": 0}))
    with pytest.raises(CollectionError, match="length of chunk 'b' is -5; allowed: 0 or more"):
        density(["b"], Judged(LABELS, tokens={**TOKENS, "b": -5}))

    assert density(["c"], Judged(LABELS, tokens={**TOKENS, "c": 0})) == 0


@pytest.mark.parametrize("w", [0, -1, 1.01, math.nan])
def test_the_exponent_is_above_0_and_at_most_1(w: float) -> None:
    with pytest.raises(ValueError, match="w is a number above 0"):
        density(["a"], FIVE, w=w)


def test_its_name_is_read_and_printed() -> None:
    assert repr(parse_measure("Density(w=0.5)@10")) == "Density@10"
    assert repr(parse_measure("Den(rel=5,w=1)@10")) == "Density(w=1.0,rel=5)@10"
    assert parse_measure("Density@3").needs_tokens
    assert not parse_measure("Coverage@3").needs_tokens
    with pytest.raises(ConfigError, match=r"w is a number from 0\.01 to 1, not 0"):
        parse_measure("Density(w=0)@10")
    assert repr(parse_measure("Density")) == "Density"


@fewer
@given(judgments, strategies.rankings, st.sampled_from([0.25, 0.5, 1.0]))
def test_it_is_the_formula_of_the_paper_in_terms_of_coverage(
    judged: Judged, ranking: list[str], w: float
) -> None:
    """Eq. 5: Cov(Z) / token(Z) over Cov(P**) / token(P**), to the power of w."""
    required = required_chunks(judged).required
    found = density(ranking, judged, w=w)
    if not required:
        assert found is None
        return
    assert judged.tokens is not None
    assert coverage(required, judged, of="answerable") == 1
    assert density(required, judged, w=w) == 1
    context = sum(judged.tokens[chunk] for chunk in ranking)
    oracle = sum(judged.tokens[chunk] for chunk in required)
    share = coverage(ranking, judged, of="answerable") or 0
    assert found == pytest.approx(((share / context) * oracle) ** w if ranking else 0)


@fewer
@given(judgments, strategies.rankings)
def test_the_order_of_a_context_is_of_no_account(judged: Judged, ranking: list[str]) -> None:
    assert density(ranking, judged) == density(sorted(ranking), judged)


@fewer
@given(judgments)
def test_the_required_chunks_are_the_same_from_those_that_support_anything_alone(
    judged: Judged,
) -> None:
    assert required_only(judged) == required_chunks(judged).required


@fewer
@given(judgments, st.randoms(use_true_random=False))
def test_what_is_required_does_not_hang_on_how_the_labels_are_stored(
    judged: Judged, random: Random
) -> None:
    turned = {}
    for nugget, labels in judged.labels.items():
        items = list(labels.items())
        random.shuffle(items)
        turned[nugget] = dict(items)

    assert required_chunks(Judged(turned, judged.rel)) == required_chunks(judged)


@fewer
@given(judgments)
def test_every_judged_chunk_is_in_one_list(judged: Judged) -> None:
    found = required_chunks(judged)

    assert sorted(chunk for part in found for chunk in part) == sorted(judged.chunks)
    assert all(not set(one) & set(other) for one, other in combinations(found, 2))
    assert found.labels.keys() == judged.chunks - set(found.undetermined)


def test_of_equals_the_first_by_id_or_of_the_candidates_as_they_are_given() -> None:
    judged = Judged({"n1": {"p10": 5, "p9": 4}, "n2": {"p9": 0, "p10": 0}}, 3)

    assert required_chunks(judged).required == ("p10",)
    assert required_chunks(judged, ["p9", "p10"]).required == ("p9",)
    assert required_chunks(judged, ["p9"]).labels == {"p9": 3}
    with pytest.raises(ValueError, match="chunk 'x' has no label for this query"):
        required_chunks(judged, ["p9", "x"])
    with pytest.raises(ValueError, match="stands twice"):
        required_chunks(judged, ["p9", "p9"])


def test_required_and_redundant_chunks_by_hand() -> None:
    """`c` is told better by `a` on every nugget; `d` is not on the last; `e` lacks a label."""
    labels = {
        "n1": {"a": 5, "b": 0, "c": 3, "d": 0, "e": 0},
        "n2": {"a": 3, "b": 0, "c": 1, "d": 2, "e": 1},
        "n3": {"a": 0, "b": 4, "c": 0, "d": 4},
    }
    found = required_chunks(Judged(labels, 3))

    assert found.required == ("a", "b")
    assert found.labels == {"a": 3, "b": 3, "d": 2, "c": 1}
    assert found.undetermined == ("e",)
