from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.conventions import CONVENTIONS, Order
from freshstack_dspy.measures.evaluation import evaluate, find_holes
from freshstack_dspy.measures.measure import FAMILIES, parse_measure
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.records import ScoredChunk

from .five import QRELS, in_order, run

TIED = run({"q": {"c": 1.0, "a": 1.0, "b": 1.0}})


def order(of: Run, conventions: str, family: str = "Recall") -> list[str]:
    measure = parse_measure(f"{family}@10")
    return list(CONVENTIONS[conventions].order_of(measure, [10]).chunks(of, "q"))


@pytest.mark.parametrize(
    ("conventions", "family", "chunks"),
    [
        ("freshstack_dspy", "Recall", "abc"),
        ("pyndeval", "Recall", "abc"),
        ("trec_eval", "Recall", "cba"),
        ("ndeval", "Recall", "cab"),
        ("freshstack", "alpha_nDCG", "abc"),
        ("freshstack", "Coverage", "cab"),
        ("freshstack", "Recall", "cba"),
    ],
)
def test_each_program_has_its_own_order_of_equal_scores(
    conventions: str, family: str, chunks: str
) -> None:
    assert list(chunks) == order(TIED, conventions, family)


def test_the_official_package_cuts_before_it_breaks_ties() -> None:
    """alpha-nDCG sees the first listed of the tied chunks, up to its deepest cut-off of 20."""
    rule = CONVENTIONS["freshstack"]
    one, two, deep = map(parse_measure, ("alpha_nDCG@1", "alpha_nDCG@2", "alpha_nDCG@50"))

    assert list(rule.order_of(one, [1, 50]).chunks(TIED, "q")) == ["c"]
    assert list(rule.order_of(one, [1, 2, None]).chunks(TIED, "q")) == ["a", "c"]
    assert list(rule.order_of(two, [1, 2]).chunks(TIED, "q")) == ["a", "c"]
    assert list(rule.order_of(deep, [1, 50]).chunks(TIED, "q")) == ["a", "b", "c"]


def test_a_measure_too_deep_for_the_official_package_sees_the_whole_ranking() -> None:
    deep = run({"q": in_order(*(f"hole {number}" for number in range(30)), "a")})
    names = ["alpha_nDCG@10", "alpha_nDCG@50"]

    official = evaluate(QRELS, deep, names, conventions="freshstack")

    assert official.means["alpha_nDCG@10"] == 0
    assert official.means["alpha_nDCG@50"] == round(evaluate(QRELS, deep, names).means[names[1]], 4)


def test_scores_that_are_one_in_single_precision_are_tied_for_trec_eval_only() -> None:
    near = run({"q": {"a": 1.0 + 1e-9, "b": 1.0}})

    assert order(near, "freshstack_dspy") == order(near, "pyndeval") == ["a", "b"]
    assert order(near, "trec_eval") == ["b", "a"]


def test_scores_too_large_for_single_precision_are_tied_for_trec_eval_only() -> None:
    large = run({"q": {"a": 2e300, "b": 1e300}})

    assert order(large, "freshstack_dspy") == ["a", "b"]
    assert order(large, "trec_eval") == ["b", "a"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True))
def test_ids_are_in_the_order_that_c_programs_have_them_in(ids: list[str]) -> None:
    """They compare the bytes of UTF-8; here it is code points, which come in the same order."""
    assert sorted(ids) == sorted(ids, key=str.encode)


def test_a_run_remembers_how_it_was_listed_only_where_that_is_another_order() -> None:
    assert run({"q": in_order("b", "a")}).listed == {}
    assert TIED.listed == {"q": ("c", "a", "b")}
    assert run({"q": {"a": 1.0, "b": 2.0}}).listed == {"q": ("a", "b")}


def test_runs_are_equal_however_they_were_listed() -> None:
    assert run({"q": {"b": 1.0, "a": 1.0}}) == run({"q": {"a": 1.0, "b": 1.0}})


def test_a_run_keeps_what_it_remembers_when_it_is_renamed_or_loses_queries() -> None:
    both = run({"q": {"c": 1.0, "a": 1.0}, "p": {"b": 1.0, "a": 1.0}})

    renamed = replace(both, name="other")
    left = both.without(["p", "not there"])

    assert renamed.listed == both.listed
    assert (left.listed, list(left.rankings)) == ({"q": ("c", "a")}, ["q"])


def test_an_order_of_other_chunks_is_refused() -> None:
    with pytest.raises(CollectionError, match="'q': the order remembered is not of the chunks"):
        Run("run", {"q": (ScoredChunk("a", 1.0),)}, listed={"q": ("b",)})


def read(folder: Path, *lines: str) -> Run:
    path = folder / "a.run"
    path.write_text("".join(f"q Q0 {line} r\n" for line in lines), encoding="utf-8")
    return read_run(path)


def test_ndeval_goes_by_the_rank_column_wherever_a_line_stands(tmp_path: Path) -> None:
    ranked = read(tmp_path, "c 10 0.5", "a 2 0.5", "b 1 0.1")

    assert order(ranked, "ndeval") == ["b", "a", "c"]
    assert order(ranked, "freshstack", "Coverage") == ["c", "a", "b"]
    assert order(ranked, "freshstack_dspy") == ["a", "c", "b"]


def test_a_file_in_our_order_costs_no_memory_of_another(tmp_path: Path) -> None:
    ranked = read(tmp_path, "a 1 0.5", "b 2 0.5", "c 3 0.1")

    assert (ranked.listed, ranked.by_rank) == ({}, {})
    assert order(ranked, "ndeval") == ["a", "b", "c"]


def test_ranks_that_give_no_order_are_refused_where_they_decide(tmp_path: Path) -> None:
    """The official package writes 0 in every line."""
    ranked = read(tmp_path, "a 0 0.5", "b 0 0.4")

    assert order(ranked, "freshstack_dspy") == ["a", "b"]
    with pytest.raises(CollectionError, match=r"'q': a rank stands twice.* as pyndeval"):
        order(ranked, "ndeval")


@pytest.mark.parametrize("rank", ["9" * 19, "+-1", "１", "1_0"])
def test_a_rank_is_a_whole_number_as_c_has_it(tmp_path: Path, rank: str) -> None:
    with pytest.raises(CollectionError, match="is not a whole number"):
        read(tmp_path, f"a {rank} 0.5")


THREE = NuggetQrels(
    {"found": ("n",), "empty": ("m",), "absent": ("o",), "undefined": ("u",)},
    {"n": {"a": 1}, "m": {"a": 1}, "o": {"a": 1}, "u": {"a": 0}},
)


@pytest.mark.parametrize(
    ("conventions", "counted"),
    [
        ("freshstack_dspy", ["found", "empty", "absent", "undefined"]),
        ("freshstack", ["found", "empty", "absent", "undefined"]),
        ("pyndeval", ["found", "undefined"]),
        ("ndeval", ["found", "undefined"]),
        ("ndeval -c", ["found", "empty", "absent", "undefined"]),
        ("trec_eval", ["found", "empty", "undefined"]),
        ("trec_eval -c", ["found", "empty", "absent", "undefined"]),
    ],
)
def test_what_is_missing_counts_nothing_or_is_left_out(
    conventions: str, counted: list[str]
) -> None:
    of = run({"found": in_order("a"), "empty": {}, "undefined": in_order("a")})

    found = evaluate(THREE, of, ["Recall@5"], conventions=conventions)
    skipping = evaluate(THREE, of, ["Recall@5"], conventions=conventions, undefined="skip")

    assert list(found.values("Recall@5")) == counted
    assert found.conventions == conventions
    assert found.means["Recall@5"] == pytest.approx(1 / len(counted), abs=1e-4)
    assert "undefined" not in skipping.values("Recall@5")
    assert (found.absent, found.empty, found.without_relevant) == (
        ("absent",),
        ("empty",),
        ("undefined",),
    )


def test_a_measure_that_the_program_has_not_is_computed_and_named() -> None:
    names = ["alpha_nDCG@20", "alpha_nDCG@21", "alpha_nDCG(alpha=0.9)@5", "Coverage@5", "ERR_IA@1"]

    of = evaluate(QRELS, TIED, names, conventions="pyndeval")
    official = evaluate(QRELS, TIED, names, conventions="freshstack")

    assert of.beyond == ("alpha_nDCG@21", "alpha_nDCG(alpha=0.9)@5", "Coverage@5", "ERR_IA@1")
    assert official.beyond == ("alpha_nDCG@21", "alpha_nDCG(alpha=0.9)@5", "ERR_IA@1")
    assert set(of.means) == set(names)
    assert evaluate(QRELS, TIED, names).beyond == ()


def test_the_counts_that_the_official_ndcg_gains_are_asked_for_by_name() -> None:
    rule = CONVENTIONS["freshstack"]

    assert rule.has(parse_measure("nDCG(grade='count')@10"))
    assert not rule.has(parse_measure("nDCG@10"))
    assert not rule.has(parse_measure("nDCG(grade='max')@10"))


def test_holes_are_those_of_the_top_that_the_conventions_see() -> None:
    of = run({"q": {"e": 1.0, "a": 1.0}})

    assert find_holes(QRELS, of, 1).mean_unjudged == 0.0
    assert find_holes(QRELS, of, 1, order=Order(ties="listed")).mean_unjudged == 1.0
    (holes,) = evaluate(QRELS, of, ["P@1"], conventions="trec_eval").holes
    assert holes.mean_unjudged == 1.0


def test_conventions_of_ones_own_are_made_of_others() -> None:
    mine = replace(CONVENTIONS["freshstack_dspy"], name="mine", absent="skip")

    found = evaluate(THREE, run({"found": in_order("a")}), ["Recall@5"], conventions=mine)

    assert found.conventions == "mine"
    assert found.means == {"Recall@5": 1.0}


def test_unknown_conventions_are_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no conventions 'treceval'; there are .*'trec_eval -c'"):
        evaluate(QRELS, TIED, conventions="treceval")


def test_what_a_program_has_are_families_here() -> None:
    for each in CONVENTIONS.values():
        assert {*(each.known or ()), *each.orders, *each.decimals} <= FAMILIES.keys()
