"""Runs as mappings, measures as objects and functions, and questions in tables."""

from collections.abc import Sequence
from typing import Any

import ir_measures
import pytest

from freshstack_dspy import Collection, FreshstackError, NuggetQrels, Run, compare, evaluate
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.qrels import Judged

QRELS = NuggetQrels.from_diversity_qrels({"q": {"1": {"a": 1, "b": 0}, "2": {"c": 2}}})
RUN = {"q": {"b": 1.0, "a": 2.0}}
OTHER = {"q": {"c": 1.0}}


def test_a_run_is_a_mapping_best_first() -> None:
    run = Run.from_scores(RUN, name="mine")

    assert dict(run) == RUN
    assert list(run["q"]) == ["a", "b"]
    assert ("q" in run, "x" in run, len(run)) == (True, False, 1)
    assert Run.from_scores(run) == Run.from_scores(RUN)
    assert compare(QRELS, {"x": run, "y": OTHER}).runs == ("x", "y")


def test_measures_of_ir_measures_are_taken() -> None:
    objects = [ir_measures.nDCG @ 10, ir_measures.alpha_nDCG(alpha=0.9) @ 5, ir_measures.AP(rel=2)]
    names = ["nDCG@10", "alpha_nDCG(alpha=0.9)@5", "AP(rel=2)"]

    assert evaluate(QRELS, RUN, objects) == evaluate(QRELS, RUN, names)
    assert evaluate(QRELS, RUN, ir_measures.RR).measures == ("RR",)
    with pytest.raises(ConfigError, match="no measure"):
        evaluate(QRELS, RUN, ir_measures.SetF)


def test_a_function_is_a_measure() -> None:
    def first_is_full(ranking: Sequence[str], judged: Judged) -> float | None:
        return float(any(of.get(ranking[0]) == 2 for of in judged.labels.values()))

    assert evaluate(QRELS, OTHER, first_is_full).means == {"first_is_full": 1.0}
    compared = compare(QRELS, [RUN, OTHER], [first_is_full, "P@1"])
    assert [each.interval.value for each in compared.differences] == [1.0, 0.0]
    assert compared.page().parts
    with pytest.raises(ConfigError, match="two measures are called '<lambda>'"):
        evaluate(QRELS, RUN, [lambda _ranking, _judged: 1.0, lambda _ranking, _judged: 0.0])


def test_a_table_has_the_question() -> None:
    pytest.importorskip("pandas")
    collection = Collection.of(
        queries=[{"query_id": "1", "title": "How?", "body": "I tried."}],
        nuggets=[{"nugget_id": "n", "query_id": "1", "text": "so"}],
        judgments=[{"nugget_id": "n", "chunk_id": "a", "label": 1}],
    )
    evaluation = collection.evaluate({"1": {"a": 1.0}}, "P@1")

    assert evaluation.to_pandas().to_dict("index") == {
        "1": {"question": "How? I tried.", "P@1": 1.0}
    }
    assert "How?" not in evaluation.model_dump_json()
    assert [*evaluate(QRELS, RUN, "P@1").to_pandas().columns] == ["P@1"]


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (lambda: compare(QRELS, RUN, OTHER), r"compare\(qrels, \[run, other\]\)"),  # type: ignore[arg-type]
        (lambda: compare(QRELS, [RUN]), "needs two runs, not 1"),
        (lambda: compare(QRELS, [RUN, OTHER], baseline="z"), "no run is named 'z'"),
        (lambda: evaluate(QRELS, RUN, 7), "7 is no measure"),  # type: ignore[arg-type]
        (lambda: evaluate(None, RUN), "NoneType holds no judgments"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_one_line(typed: Any, named: str) -> None:
    with pytest.raises(FreshstackError, match=named):
        typed()
