import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr, pointbiserialr, spearmanr

from freshstack_dspy.measures.answers import found_and_agrees
from tests.measures.strategies import untimed

pairs = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=2, max_size=30
)


def test_the_table_of_two_by_two() -> None:
    values = {"a": 1.0, "b": 0.5, "c": 1.0, "d": 0.0, "e": 0.0, "f": 0.0, "only": 1.0, "null": 1.0}
    verdicts = {
        "a": True,
        "b": True,
        "c": False,
        "d": True,
        "e": True,
        "f": False,
        "null": None,
        "judged": True,
    }

    found = found_and_agrees(values, verdicts, measure="Recall@5")

    assert found.queries == 6
    assert (found.found_agree, found.found_disagree) == (2, 1)
    assert (found.missed_agree, found.missed_disagree) == (2, 1)
    assert found.unannotated_share.value == pytest.approx(2 / 3)
    assert found.distracted_share.value == pytest.approx(1 / 3)
    assert found.without_value == ("judged",)
    assert found.without_verdict == ("null", "only")


def test_found_may_be_asked_to_be_more_than_something() -> None:
    values, verdicts = {"a": 1.0, "b": 0.5}, {"a": True, "b": False}

    strict = found_and_agrees(values, verdicts, measure="Coverage@20", found_from=1.0)

    assert (strict.found_agree, strict.missed_disagree) == (1, 1)
    assert strict.phi.value == pytest.approx(1)


@given(pairs)
@untimed
def test_correlations_are_those_of_scipy(drawn: list[tuple[float, bool]]) -> None:
    values = {f"q{place}": value for place, (value, _) in enumerate(drawn)}
    verdicts = {f"q{place}": agrees for place, (_, agrees) in enumerate(drawn)}
    numbers, answers = [*values.values()], [*verdicts.values()]

    found = found_and_agrees(values, verdicts, measure="m")

    if len({*answers}) < 2 or len({*numbers}) < 2:
        assert found.point_biserial.value is None
        assert found.tau_b.value is None
        return
    assert found.point_biserial.value == pytest.approx(pointbiserialr(answers, numbers).statistic)
    assert found.tau_b.value == pytest.approx(kendalltau(numbers, answers).statistic)
    assert found.spearman.value == pytest.approx(spearmanr(numbers, answers).statistic)
    if len({value > 0 for value in numbers}) == 2:
        phi = pearsonr([value > 0 for value in numbers], answers).statistic
        assert found.phi.value == pytest.approx(phi)


def test_where_one_side_says_the_same_of_all_there_is_no_correlation() -> None:
    one_answer = found_and_agrees({"a": 1, "b": 0}, {"a": True, "b": True}, measure="m")
    one_value = found_and_agrees({"a": 1, "b": 1}, {"a": True, "b": False}, measure="m")
    nothing = found_and_agrees({}, {}, measure="m")

    assert one_answer.phi.reason == "of 2 answers all agree"
    assert one_value.phi.reason == "m, above or below, is the same for all 2 queries"
    assert one_value.tau_b.reason == "m is the same for all 2 queries"
    assert nothing.point_biserial.reason == "of 0 answers none agrees"
    assert nothing.distracted_share.reason == "the measure and the answers never differ"


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="query 'a': a value is a finite number, not nan"):
        found_and_agrees({"a": math.nan}, {"a": True}, measure="m")


@pytest.mark.parametrize(
    ("recall", "agreement", "failures"),
    [(0.498, 0.648, 601), (0.792, 0.767, 395), (0.865, 0.786, 315)],
)
def test_table_1_of_the_paper_fits_a_table_of_two_by_two(
    recall: float, agreement: float, failures: int
) -> None:
    """Its failures are where both differ, and their difference that of the rates (2,889 queries)."""
    agree_more = (agreement - recall) * 2889
    missed_agree = round((failures + agree_more) / 2)
    found_disagree = failures - missed_agree
    found_agree = round(recall * 2889) - found_disagree
    cells = [(1.0, True)] * found_agree + [(1.0, False)] * found_disagree
    cells += [(0.0, True)] * missed_agree
    cells += [(0.0, False)] * (2889 - len(cells))

    found = found_and_agrees(
        {str(place): value for place, (value, _) in enumerate(cells)},
        {str(place): agrees for place, (_, agrees) in enumerate(cells)},
        measure="Recall",
    )

    assert found.queries == 2889
    assert (found.found_agree + found.missed_agree) / 2889 == pytest.approx(agreement, abs=5e-4)
    assert found.missed_agree + found.found_disagree == failures
    assert min(found.missed_agree, found.found_disagree) > 0
