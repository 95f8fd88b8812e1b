"""Searches of agents, by hand on the small collection: 12 has two nuggets, A supports one, B both."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Collection, compare, evaluate, steps
from freshstack_dspy.errors import CollectionError, SourceError
from tests.collection.small import A, B, D, write_small


def line(query_id: str, step: int, search: str, *results: str) -> dict[str, Any]:
    return {"query_id": query_id, "step": step, "search": search, "results": results}


LINES = [
    line("12", 2, "b", A, B),  # of 12_0 and 12_1 A supports the first, B both
    line("12", 1, "a", D, A),
    line("12", 3, " B "),
    line("123", 1, "c", B),  # of 123_0 A supports it, B does not
    line("123", 2, "d", A),
    line("5", 1, "not measured", A),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    file = tmp_path / "agent.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in LINES), encoding="utf-8")
    return file


def test_the_curve_by_hand(tmp_path: Path, run: Path) -> None:
    """Every chunk has one token; 12 is shown D A, A B and nothing, 123 is shown B, A."""
    found = steps(write_small(tmp_path / "c"), run)
    first, second, third = found.steps

    assert found.queries == 2
    assert (first.searches, first.alone, first.union, first.added) == (2, 0.25, 0.25, 0.25)
    assert (first.repeated, first.tokens, first.per_thousand) == (0, 3, 1000 * 1 / 3)
    assert (second.searches, second.alone, second.union, second.added) == (2, 1.0, 1.0, 0.75)
    assert (second.repeated, second.tokens, second.per_thousand) == (1 / 3, 6, 1000 * 3 / 6)
    assert (third.searches, third.alone, third.union, third.added) == (1, 0.0, 1.0, 0.0)
    assert (third.empty, third.same, third.tokens) == (1, 1, 6)


def test_a_trajectory_says_what_was_found_and_missing(tmp_path: Path, run: Path) -> None:
    found = steps(write_small(tmp_path / "c"), run)
    first, second, third = found.trajectories["12"]

    assert (first.search, first.found, first.missing) == ("a", ("fact 12_0",), ("fact 12_1",))
    assert (second.repeated, second.found, second.missing) == (1, ("fact 12_1",), ())
    assert (third.results, third.found) == (0, ())
    assert list(found.trajectories) == ["12", "123"]
    with pytest.raises(CollectionError, match="no search for the query '5'"):
        found.page("5")


def test_measures_take_what_was_shown_as_one_run(tmp_path: Path, run: Path) -> None:
    collection = write_small(tmp_path / "c")
    shown = {"12": {D: 3.0, A: 2.0, B: 1.0}, "123": {B: 2.0, A: 1.0}}
    measures = ["alpha_nDCG@10", "Coverage@20"]
    values = evaluate(collection, run, measures)

    assert values.means == evaluate(collection, shown, measures).means
    assert values.means["Coverage@20"] == steps(collection, run).steps[-1].union
    assert compare(collection, {"agent": run, "once": shown}, measures).differences[0].ties == 2


def span(trace: str, start: int, **attributes: Any) -> dict[str, Any]:
    """A span as OTLP's JSON has it; texts and lists of documents."""

    def value(given: Any) -> dict[str, Any]:
        if isinstance(given, dict):
            pairs = [{"key": key, "value": value(of)} for key, of in given.items()]
            return {"kvlistValue": {"values": pairs}}
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(one) for one in given]}}
        return {"stringValue": given}

    pairs = [{"key": key.replace("__", "."), "value": value(of)} for key, of in attributes.items()]
    return {"traceId": trace, "startTimeUnixNano": str(start), "attributes": pairs}


def test_spans_of_retrievers_are_searches(tmp_path: Path, run: Path) -> None:
    """By the conventions of OpenTelemetry, structured and as a text, and by OpenInference's."""
    retrieval = {"gen_ai__operation__name": "retrieval"}
    kind = {"openinference__span__kind": "RETRIEVER", "input__value": "c"}
    inference = {**kind, "retrieval__documents__0__document__id": B}
    spans = [
        span("t1", 9, query_id="12", openinference__span__kind="CHAIN"),
        span("t1", 30, **retrieval, gen_ai__retrieval__query__text=" B "),
        span(
            "t1",
            20,
            **retrieval,
            gen_ai__retrieval__query__text="b",
            gen_ai__retrieval__documents=[{"id": A}, {"id": B}],
        ),
        span(
            "t1",
            10,
            **retrieval,
            gen_ai__retrieval__query__text="a",
            gen_ai__retrieval__documents=json.dumps([{"id": D, "score": 1}, {"id": A}]),
        ),
        span("t2", 5, **inference, query_id="123"),
        span("t2", 6, **{**inference, "input__value": "d"}, query_id="123"),
        span("t3", 1, **inference),
    ]
    spans[5]["attributes"][2]["value"] = {"stringValue": A}
    line = {"resourceSpans": [{"scopeSpans": [{"spans": spans[:4]}, {"spans": spans[4:]}]}]}
    (tmp_path / "spans.jsonl").write_text(json.dumps(line), encoding="utf-8")
    collection = write_small(tmp_path / "c")

    assert steps(collection, tmp_path / "spans.jsonl").steps == steps(collection, run).steps
    bare = {**kind, "retrieval__documents__0__document__content": "text", "query_id": "12"}
    for wrong, fault in (
        (spans[6], "the attribute query_id"),
        (span("t", 1, **bare), "without an id"),
    ):
        line = {"resourceSpans": [{"scopeSpans": [{"spans": [wrong]}]}]}
        (tmp_path / "wrong.jsonl").write_text(json.dumps(line), encoding="utf-8")
        with pytest.raises(SourceError, match=fault):
            evaluate(collection, tmp_path / "wrong.jsonl")


@pytest.mark.parametrize(
    ("lines", "error", "fault"),
    [
        ([line("12", 1, "a", A), line("12", 1, "b", A)], SourceError, "step is 1; allowed"),
        ([{"query_id": "12", "search": "a", "results": [{"id": A}]}], SourceError, "list of texts"),
        ([line("12", 1, "a", "gone")], CollectionError, "1 chunks are not in the corpus"),
        ([line("7", 1, "a", A)], CollectionError, "no search for a query of small"),
    ],
)
def test_what_is_no_run_of_searches(
    tmp_path: Path, lines: list[Any], error: type[Exception], fault: str
) -> None:
    file = tmp_path / "agent.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    collection: Collection = write_small(tmp_path / "c")

    with pytest.raises(error, match=fault):
        steps(collection, file)
