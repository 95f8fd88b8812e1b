"""What the values of two runs decide."""

import json
import math
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.compare import compare, compare_evaluations
from freshstack_dspy.measures.decision import Decision, decide, questions_needed
from freshstack_dspy.measures.evaluation import Evaluation, Values
from freshstack_dspy.measures.ppi import Corrected
from freshstack_dspy.measures.qrels import About, People
from freshstack_dspy.pages.terminal import page_text

PAIR = ("new", "old")


def alternating(mean: float, spread: float, queries: int) -> list[float]:
    """An even number of values with this mean, and this far from it."""
    return [mean + spread * (-1) ** place for place in range(queries)]


def test_the_interval_by_hand() -> None:
    decision = decide("nDCG@10", PAIR, alternating(0.06, 0.05, 16))
    # s = .05 * sqrt(16 / 15), and the .975 quantile of t with 15 degrees of freedom is 2.13145
    half = 2.13145 * 0.05 * math.sqrt(16 / 15) / 4
    assert decision.difference == pytest.approx(0.06)
    assert decision.low == pytest.approx(0.06 - half, abs=1e-6)
    assert decision.high == pytest.approx(0.06 + half, abs=1e-6)
    assert (decision.outcome, decision.ship, decision.command) == ("ship", "new", "")


@pytest.mark.parametrize(
    ("mean", "spread", "queries", "outcome", "ship"),
    [
        (0.06, 0.05, 100, "ship", "new"),
        (-0.06, 0.05, 100, "ship", "old"),
        (0.0, 0.05, 100, "no difference that matters", None),
        (0.0, 0.0, 185, "no difference that matters", None),
        (0.0, 0.0, 184, "cannot tell yet", None),  # a rare difference may just not be among them
        (0.0, 0.3, 100, "cannot tell yet", None),
        (0.03, 0.05, 20, "cannot tell yet", None),  # better, and perhaps not by what matters
        (0.5, 0.05, 8, "no decision", None),
    ],
)
def test_outcomes(mean: float, spread: float, queries: int, outcome: str, ship: str | None) -> None:
    decision = decide("nDCG@10", PAIR, alternating(mean, spread, queries))
    assert (decision.outcome, decision.ship) == (outcome, ship)
    assert bool(decision.command) == (outcome in ("cannot tell yet", "no decision"))


def test_what_would_tell() -> None:
    values = alternating(0.0, 0.3, 100)
    decision = decide("nDCG@10", PAIR, values, about=About(dollars=0.05))
    spread = stdev(values)
    needed = math.ceil(((1.959964 + 1.281552) * spread / 0.02) ** 2 + 1.959964**2 / 2)
    assert decision.more_queries == needed - 100
    assert decision.dollars == pytest.approx(0.05 * (needed - 100))
    same = decide("nDCG@10", PAIR, [0.0] * 100)
    assert same.high == pytest.approx(-math.log(0.025) / 100)  # Poisson: none seen
    assert same.more_queries == 85
    near = decide("nDCG@10", PAIR, alternating(0.02, 0.05, 200))
    assert (near.outcome, near.more_queries) == ("cannot tell yet", None)
    assert near.more_queries_as_observed is None
    assert questions_needed(10.0, 0.001) is None
    # to ship what is .03 better than what matters: one end of the interval, z(.8) = .841621
    as_observed = math.ceil(((1.959964 + 0.841621) * 0.3 / 0.03) ** 2 + 1.959964**2 / 2)
    assert questions_needed(0.3, 0.02, difference=-0.05) == as_observed
    better = decide("nDCG@10", PAIR, alternating(0.05, 0.3, 100), about=About(dollars=0.05))
    assert better.more_queries_as_observed is not None
    assert better.more_queries is not None
    assert better.more_queries_as_observed < better.more_queries
    assert f"{better.more_queries_as_observed:,}" in better.settled_by


def test_rare_gains_of_just_what_matters_are_rarely_taken_for_more_or_less() -> None:
    """Exactly: a gain of .25 for 8 % of 300 questions; Student's interval is wrong 6.6 % of times."""
    wrong = 0.0
    for gains in range(61):
        decision = decide("nDCG@10", PAIR, [0.25] * gains + [0.0] * (300 - gains))
        if decision.outcome != "cannot tell yet":
            wrong += math.comb(300, gains) * 0.08**gains * 0.92 ** (300 - gains)
    assert 0.02 < wrong < 0.045


CORRECTED = Corrected(
    judge=0.0,
    value=0.1,
    low=0.09,
    high=0.11,
    wide_low=0.05,
    wide_high=0.15,
    labelled=20,
    items=100,
)


def test_the_corrected_difference_decides() -> None:
    values = alternating(-0.06, 0.05, 100)
    by_judge, by_people = (
        decide("nDCG@10", PAIR, values, corrected=corrected) for corrected in (None, CORRECTED)
    )
    assert (by_judge.ship, by_judge.basis) == ("old", "judge")
    assert (by_people.ship, by_people.basis) == ("new", "people")
    assert (by_people.low, by_people.high) == (0.05, 0.15)
    assert "people" in by_people.reason
    # what is unjudged moves the judge's difference by .1, and the corrected one with it
    moved = decide("nDCG@10", PAIR, values, corrected=CORRECTED, judged_only=-0.16)
    assert moved.blocked == "unjudged"
    refused = CORRECTED.model_copy(update={"wide_low": None, "wide_high": None})
    assert decide("nDCG@10", PAIR, values, corrected=refused) == by_judge


@pytest.mark.parametrize(
    ("wide", "fields"), [(0.021, {"labels"}), (0.04, {"labels", "more_queries"})]
)
def test_more_labels_or_else_more_questions_tell_what_is_corrected(
    wide: float, fields: set[str]
) -> None:
    """With all labelled, the first interval would be ±.0112, within the aim of ±.0121."""
    ends = {"value": 0.0, "low": -0.0178, "high": 0.0178, "wide_low": -wide, "wide_high": wide}
    corrected = CORRECTED.model_copy(update=ends)
    about = About(dollars=0.1, people=People(labels=400, seconds=15.0, pairs=20.0))
    decision = decide("nDCG@10", PAIR, [0.0] * 100, corrected=corrected, about=about)
    assert decision.outcome == "cannot tell yet"
    assert {name for name in ("labels", "more_queries") if getattr(decision, name)} == fields
    assert decision.labels is not None
    assert decision.minutes == pytest.approx(decision.labels / 4)
    if decision.more_queries is None:
        assert 0 < decision.labels <= 80 * 20
        assert f"--for runs --limit {20 + decision.labels // 20}" in decision.command


def test_few_questions_come_before_labels_of_them() -> None:
    about = About(uncalibrated="nobody compared them", by_hand=True)
    decision = decide("nDCG@10", PAIR, [0.1] * 4, blocked="not calibrated", about=about)
    assert decision.blocked == "few questions"
    assert "10 are needed" in decision.reason
    assert "nobody compared them" in decision.reason
    assert decision.command == "freshstack refresh CONFIG --mode defer"


def test_labels_that_would_calibrate() -> None:
    people = People(labels=150, needed=400, kappa=0.7, seconds=12.0, pairs=40.0)
    about = About(uncalibrated="kappa .7", people=people)
    (decision, *_) = compare_evaluations(runs(about=about)).decisions
    assert (decision.labels, decision.minutes) == (250, 50.0)
    assert "--limit 400" in decision.command
    unknown = about.model_copy(update={"people": people.model_copy(update={"seconds": None})})
    (decision, *_) = compare_evaluations(runs(about=unknown)).decisions
    assert (decision.labels, decision.minutes) == (250, None)
    assert "assuming 200 an hour" in decision.settled_by
    never = about.model_copy(update={"people": people.model_copy(update={"needed": None})})
    (decision, *_) = compare_evaluations(runs(about=never)).decisions
    assert (decision.labels, decision.settled_by) == (None, "")
    assert "optimize" in decision.command


def test_the_schema_in_the_docs() -> None:
    path = Path(__file__).parents[2] / "docs" / "decision.schema.json"
    assert json.loads(path.read_text()) == Decision.model_json_schema()


@given(
    st.lists(st.floats(-1, 1), min_size=10, max_size=60), st.floats(0.001, 0.5), st.integers(1, 50)
)
def test_more_pairs_and_a_stricter_difference_never_decide_more(
    values: list[float], matters: float, pairs: int
) -> None:
    alone = decide("nDCG@10", PAIR, values, matters=matters)
    among = decide("nDCG@10", PAIR, values, matters=matters, pairs=pairs)
    swapped = decide("nDCG@10", PAIR, [-value for value in values], matters=matters)
    if among.outcome != "cannot tell yet":
        assert among.outcome == alone.outcome
    assert swapped.outcome == alone.outcome
    assert (swapped.ship == alone.ship) == (alone.ship is None)
    if alone.ship is not None:
        assert abs(fmean(values)) > matters
    if alone.outcome == "no difference that matters":
        assert abs(fmean(values)) < matters


def runs(**about: Any) -> dict[str, Values]:
    draws = random.Random(1)
    base = {f"q{n}": draws.random() / 2 for n in range(60)}
    better = {query: value + 0.2 + draws.gauss(0, 0.05) for query, value in base.items()}
    worse = {query: value - 0.001 for query, value in base.items()}
    named = {"base": base, "better": better, "worse": worse}
    return {
        name: Values.of(name, {"nDCG@10": values, "AP": base}, **about)
        for name, values in named.items()
    }


def test_a_comparison_decides_by_its_first_measure() -> None:
    comparison = compare_evaluations(runs(), baseline="base")
    assert [(each.run, each.measure, each.outcome) for each in comparison.decisions] == [
        ("better", "nDCG@10", "ship"),
        ("worse", "nDCG@10", "no difference that matters"),
    ]
    assert {each.pairs for each in comparison.decisions} == {2}
    assert len(compare_evaluations(runs()).decisions) == 3


@pytest.mark.parametrize(
    ("about", "blocked"),
    [
        ({"dry_run": True}, "dry run"),
        ({"about": About(uncalibrated="agreement with people: not measured")}, "not calibrated"),
    ],
)
def test_labels_that_decide_nothing(about: dict[str, Any], blocked: str) -> None:
    decisions = compare_evaluations(runs(**about)).decisions
    assert {each.blocked for each in decisions} == {blocked}
    assert {each.outcome for each in decisions} == {"no decision"}
    assert all(each.command for each in decisions)


def test_a_difference_that_matters_by_one_unjudged_chunk_alone_ships_nothing() -> None:
    """Both tests find one, of +.24 and, by judged chunks alone, of +.003."""
    relevant = dict(zip("klm", (49.0, 48.0, 47.0), strict=True))
    qrels = {f"q{n}": dict.fromkeys("klmr", 1) | {"j": 0} for n in range(40)}
    new = dict.fromkeys(qrels, relevant | {"r": 5.0, "j": 4.0, "u": 3.0})
    below, above = ({"j": place, "r": 4.0} for place in (3.0, 5.0))
    old = {
        query: {"u": 50.0} | relevant | (below if n % 6 else above) for n, query in enumerate(qrels)
    }
    comparison = compare(qrels, {"old": old, "new": new}, "nDCG@10")
    more = compare(qrels, {"old": old, "new": new}, ("nDCG@10", "AP", "P@3", "Recall@2", "RR"))
    assert more.decisions == comparison.decisions  # whatever else is tested
    (difference,), (decision,) = comparison.differences, comparison.decisions
    assert difference.verdict == "higher"
    assert (decision.outcome, decision.blocked) == ("no decision", "unjudged")
    assert "freshstack extend" in page_text(comparison.page())


def test_rankings_that_are_mostly_unjudged_decide_nothing() -> None:
    qrels = {f"q{n}": {"a": 1, "b": 0} for n in range(20)}
    judged = {query: {"a": 1.0} for query in qrels}
    unjudged = {query: {f"x{n}": 2.0 for n in range(9)} | {"a": 1.0} for query in qrels}
    (decision,) = compare(qrels, {"new": judged, "old": unjudged}, "nDCG@10").decisions
    assert decision.blocked == "unjudged"


def test_judgments_that_list_only_relevant_chunks_decide() -> None:
    qrels = {f"q{n}": {"a": 1} for n in range(20)}
    first = {query: {"a": 1.0} for query in qrels}
    tenth = {query: {f"x{n}": 2.0 for n in range(9)} | {"a": 1.0} for query in qrels}
    comparison = compare(qrels, {"new": first, "old": tenth}, "RR@10")
    assert comparison.decisions[0].ship == "new"
    evaluation = comparison.evaluations["old"]
    assert isinstance(evaluation, Evaluation)
    assert evaluation.only_relevant
    assert not evaluation.unjudged


@pytest.mark.parametrize("matters", [0.0, -0.1, math.inf, math.nan])
def test_a_difference_that_cannot_matter(matters: float) -> None:
    with pytest.raises(ConfigError, match="matters"):
        compare_evaluations(runs(), matters=matters)
