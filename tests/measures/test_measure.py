"""Names of measures."""

from contextlib import suppress

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.measure import EVERY, FAMILIES, Measure, parse_measure
from freshstack_dspy.measures.qrels import Judged
from tests.measures.five import LABELS

KNOWN_THERE = [family for family in FAMILIES if family in ir_measures.measures.registry]
VALUES = {
    "rel": st.integers(1, 9),
    "judged_only": st.booleans(),
    "dcg": st.sampled_from(["log2", "exp-log2"]),
    "grade": st.sampled_from(["sum", "count", "max"]),
    "of": st.sampled_from(["all", "answerable"]),
}
"""What a parameter may be; any other is a number."""


@st.composite
def names(draw: st.DrawFn, families: list[str]) -> str:
    """The name of a measure, with parameters in any order and a cut-off where there may be one."""
    family = draw(st.sampled_from(families))
    words = {**FAMILIES[family].parameters, **EVERY}
    chosen = draw(st.lists(st.sampled_from(sorted(words)), unique=True))
    given = [f"{word}={draw(VALUES.get(word, st.floats(0.01, 1)))!r}" for word in chosen]
    k = {
        "required": st.integers(1, 10**6),
        "optional": st.none() | st.integers(1, 10**6),
        "none": st.none(),
    }[FAMILIES[family].cutoff]
    at = draw(k)
    return f"{family}({','.join(given)}){'' if at is None else f'@{at}'}"


@given(names(list(FAMILIES)))
def test_what_is_printed_reads_back(name: str) -> None:
    measure = parse_measure(name)

    assert parse_measure(measure.name) == parse_measure(repr(measure)) == measure
    assert repr(measure) == str(measure) == measure.name
    assert parse_measure(measure.name).name == measure.name


@given(names(KNOWN_THERE))
def test_ir_measures_reads_our_names_as_the_same_measure(name: str) -> None:
    ours = parse_measure(name)
    theirs = ir_measures.parse_measure(ours.name)

    params = dict(theirs.params)
    assert params.pop("cutoff", None) == ours.k
    assert params == dict(ours.parameters)
    # Not all that is a measure here is one there: ours have more parameters, and fewer need a k.
    if params.keys() <= theirs.SUPPORTED_PARAMS.keys() and ours.k:
        theirs.validate_params()
        assert parse_measure(repr(theirs)).family == ours.family


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("alpha-nDCG@10", "alpha_nDCG@10"),  # as FreshStack writes it
        ("α-nDCG@10", "alpha_nDCG@10"),
        ("ERR-IA@20", "ERR_IA@20"),  # as ndeval writes it
        ("strec@10", "StRecall@10"),
        ("R@50", "Recall@50"),
        ("MRR@10", "RR@10"),
        ("hit_rate@1", "Success@1"),
        (" nDCG ( dcg = 'exp-log2' , rel = 2 ) @ 3 ", "nDCG(dcg='exp-log2',rel=2)@3"),
        ("alpha_nDCG(alpha=0.5)@10", "alpha_nDCG@10"),
        ("alpha_nDCG(alpha=1)@10", "alpha_nDCG(alpha=1.0)@10"),
        ("ndcg@10", "nDCG@10"),  # as ranx and BEIR write them
        ("map", "AP"),  # as trec_eval writes them
        ("ndcg_cut_10", "nDCG@10"),
        ("P_5", "P@5"),
        ("recip_rank", "RR"),
    ],
)
def test_other_ways_to_write_it_give_one_measure(written: str, name: str) -> None:
    assert parse_measure(written).name == name
    assert parse_measure(written) == parse_measure(name)
    assert hash(parse_measure(written)) == hash(parse_measure(name))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("recal@10", r"no measure 'recal@10'; did you mean Recall\[@k\]\?"),
        ("num_rel_ret", "the measures are alpha_nDCG"),
        ("P", r"'P' needs a cut-off; type P@10"),
        ("Rprec@10", "'Rprec@10' takes no cut-off; type Rprec"),
        ("Recall@1.5", "not '1.5'"),
        ("P(of='all')@5", "P has no parameter 'of'; .*its parameters are rel, judged_only"),
        ("alpha_nDCG(alpha=1.5)@5", "alpha is a number from 0 to 1, not 1.5"),
        ("alpha_nDCG(alpha=1e999-1e999)@5", "parameters are written name=value"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_measure(name)


@given(st.text(max_size=60))
def test_any_text_is_a_measure_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(parse_measure(text), Measure)


def test_chunks_without_a_label_are_taken_out_before_the_cut() -> None:
    """`c` has labels, all 0, and stays; `e` has none."""
    ranking = ["e", "c", "a"]

    assert parse_measure("P@2")(ranking, Judged(LABELS)) == 0
    assert parse_measure("P(judged_only=True)@2")(ranking, Judged(LABELS)) == 1 / 2
    assert parse_measure("RR(judged_only=True)")(ranking, Judged(LABELS)) == 1 / 2
    assert parse_measure("Judged(judged_only=True)@2")(ranking, Judged(LABELS)) == 1
