"""What programs do with ties and with what is missing."""

from pathlib import Path

import pytest

from freshstack_dspy import NuggetQrels, Run, read_run
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.conventions import CONVENTIONS
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.measure import parse_measure
from tests.measures.five import QRELS, in_order, run

TIED = run({"q": {"c": 1.0, "a": 1.0, "b": 1.0}})


def order(of: Run, conventions: str, family: str = "Recall") -> list[str]:
    measure = parse_measure(f"{family}@10")
    return list(CONVENTIONS[conventions].order_of(measure, [10]).chunks(of, "q"))


@pytest.mark.parametrize(
    ("conventions", "family", "chunks"),
    [
        ("ours", "Recall", "abc"),
        ("pyndeval", "Recall", "abc"),
        ("trec_eval", "Recall", "cba"),
        ("ndeval", "Recall", "cab"),
        ("ndeval-traditional", "alpha_nDCG", "cba"),
        ("freshstack", "alpha_nDCG", "abc"),
        ("freshstack", "Coverage", "cab"),
        ("freshstack", "Recall", "cba"),
    ],
)
def test_each_program_has_its_own_order_of_equal_scores(
    conventions: str, family: str, chunks: str
) -> None:
    assert list(chunks) == order(TIED, conventions, family)


def test_scores_that_differ_below_single_precision_are_tied_for_trec_eval_alone() -> None:
    """ndeval keeps scores as doubles."""
    close = run({"q": {"a": 1.00000001, "b": 1.0}})

    assert order(close, "trec_eval") == ["b", "a"]
    assert order(close, "ndeval-traditional") == ["a", "b"]


def read(folder: Path, *lines: str) -> Run:
    path = folder / "a.run"
    path.write_text("".join(f"q Q0 {line} r\n" for line in lines), encoding="utf-8")
    return read_run(path)


def test_ndeval_goes_by_the_rank_column_wherever_a_line_stands(tmp_path: Path) -> None:
    ranked = read(tmp_path, "c 10 0.5", "a 2 0.5", "b 1 0.1")

    assert order(ranked, "ndeval") == ["b", "a", "c"]
    assert order(ranked, "freshstack", "Coverage") == ["c", "a", "b"]
    assert order(ranked, "ours") == ["a", "c", "b"]


def test_ranks_that_give_no_order_are_refused_where_they_decide(tmp_path: Path) -> None:
    """The official package writes 0 in every line."""
    ranked = read(tmp_path, "a 0 0.5", "b 0 0.4")

    assert order(ranked, "ours") == ["a", "b"]
    with pytest.raises(CollectionError, match=r"'q': two chunks have one rank.* as pyndeval"):
        order(ranked, "ndeval")


THREE = NuggetQrels(
    {"found": ("n",), "empty": ("m",), "absent": ("o",), "undefined": ("u",)},
    {"n": {"a": 1}, "m": {"a": 1}, "o": {"a": 1}, "u": {"a": 0}},
)


@pytest.mark.parametrize(
    ("conventions", "counted"),
    [
        ("ours", ["found", "empty", "absent", "undefined"]),
        ("freshstack", ["found", "empty", "absent", "undefined"]),
        ("pyndeval", ["found", "undefined"]),
        ("ndeval", ["found", "undefined"]),
        ("trec_eval", ["found", "empty", "undefined"]),
    ],
)
def test_what_is_missing_counts_nothing_or_is_left_out(
    conventions: str, counted: list[str]
) -> None:
    of = run({"found": in_order("a"), "empty": {}, "undefined": in_order("a")})

    found = evaluate(THREE, of, ["Recall@5"], conventions=conventions)

    assert list(found.values("Recall@5")) == counted
    assert found.conventions == conventions
    assert found.means["Recall@5"] == pytest.approx(1 / len(counted), abs=1e-4)
    assert "undefined" not in found.values("Recall@5", only_defined=True)
    assert (found.absent, found.empty, found.without_relevant) == (
        ("absent",),
        ("empty",),
        ("undefined",),
    )


def test_unknown_conventions_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no conventions 'treceval'; there are .*'trec_eval'"):
        evaluate(QRELS, TIED, conventions="treceval")
