"""Searches of agents, by hand on the small collection: 12 has two nuggets, A supports one, B both."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import Chunk, Collection, compare, evaluate, steps
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.lm.tokens import count_tokens
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


def passages_of(folder: Path) -> Collection:
    """A question with two nuggets, each supported by one of the chunks of a file."""
    texts = {"lib/one.md_0_11": "alpha beta\n", "lib/one.md_11_23": "gamma delta\n"}
    chunks = [
        Chunk(
            chunk_id=id_,
            source="lib",
            path="one.md" if "one" in id_ else "two.md",
            start_byte=int(id_.split("_")[1]),
            end_byte=int(id_.split("_")[2]),
            text=text,
            tokens=2,
        )
        for id_, text in (texts | {"lib/two.md_0_8": "epsilon\n"}).items()
    ]
    collection = Collection.of(
        queries=[{"query_id": "q", "title": "Why?"}],
        nuggets=[{"nugget_id": f"q_{n}", "query_id": "q", "text": f"fact {n}"} for n in (0, 1)],
        judgments=[
            {"nugget_id": f"q_{n}", "chunk_id": id_, "label": int(n == place)}
            for n in (0, 1)
            for place, id_ in enumerate(texts)
        ],
        chunks=chunks,
        name="passages",
    )
    return collection.save(folder)


ELSEWHERE = {"text": "These words are in no file of it."}
PASSAGES: list[list[Any]] = [
    [{"text": "alpha beta\n"}, ELSEWHERE],
    [{"path": "one.md", "start": 0, "end": 23}, "lib/one.md_0_11"],
    ["lib/two.md_0_8", ELSEWHERE],
]


def test_passages_by_hand(tmp_path: Path) -> None:
    """What is in no file is not judged, and not irrelevant; the words shown are counted."""
    collection, file = passages_of(tmp_path / "c"), tmp_path / "agent.jsonl"
    lines = [
        {"query_id": "q", "search": str(step), "results": results, "cost": 0.01 * (step + 1)}
        for step, results in enumerate(PASSAGES)
    ]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    found = steps(collection, file)
    first, second, third = found.steps

    assert found.placed_share == 3 / 4  # alpha beta, the whole file, epsilon; not those elsewhere
    assert (first.alone, first.union, first.unjudged) == (0.5, 0.5, 0.5)
    assert (second.alone, second.union, second.repeated, second.unjudged) == (1.0, 1.0, 0.5, 0.0)
    assert (third.alone, third.repeated, third.unjudged) == (0.0, 0.5, 1.0)
    assert [one.cost for one in found.steps] == pytest.approx([0.01, 0.03, 0.06])
    assert [one.per_dollar for one in found.steps] == pytest.approx([100, 2 / 0.03, 2 / 0.06])
    assert [one.unplaced for one in found.trajectories["q"]] == [1, 0, 1]
    assert first.tokens == 2 + count_tokens(ELSEWHERE["text"])
    evaluation = evaluate(collection, file, ["Coverage@20"])
    assert evaluation.means["Coverage@20"] == third.union
    assert evaluation.passages is not None
    assert evaluation.passages.placed_share == found.placed_share
    assert compare(collection, {"a": file, "b": {"q": {"lib/one.md_0_11": 1.0}}}).differences
    with pytest.raises(CollectionError, match="here results are the ids of chunks"):
        evaluate({"q": {"lib/one.md_0_11": 1}}, file)


def test_a_search_costs_what_was_paid_since_the_last_one(tmp_path: Path) -> None:
    """The agent's span sums up; what follows the last search writes the answer."""

    def below(parent: int, number: int, **attributes: Any) -> dict[str, Any]:
        return span("t", number, **attributes) | {"parentSpanId": f"t-{parent}"}

    search: dict[str, Any] = {
        "openinference__span__kind": "RETRIEVER",
        "retrieval__documents__0__document__id": A,
    }
    agent = span("t", 1, query_id="12", llm__cost__total=9.0)
    spans = [
        agent,
        below(1, 2),
        below(2, 3, gen_ai__usage__cost=0.02),
        below(3, 4, gen_ai__usage__cost=0.02),  # the same call, seen by what is below
        below(1, 5, gen_ai__usage__cost=0.01, **search),
        below(1, 6, **search),
        below(1, 7, gen_ai__usage__cost=5.0),
    ]
    file = tmp_path / "spans.jsonl"
    line = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    file.write_text(json.dumps(line), encoding="utf-8")
    found = steps(write_small(tmp_path / "c"), file)

    assert [one.cost for one in found.steps] == pytest.approx([0.03, 0.03])
    assert found.steps[0].per_dollar == pytest.approx(1 / 0.03)


def span(trace: str, start: int, **attributes: Any) -> dict[str, Any]:
    """A span as OTLP's JSON has it; texts and lists of documents."""

    def value(given: Any) -> dict[str, Any]:
        if isinstance(given, dict):
            pairs = [{"key": key, "value": value(of)} for key, of in given.items()]
            return {"kvlistValue": {"values": pairs}}
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(one) for one in given]}}
        return {"doubleValue" if isinstance(given, float) else "stringValue": given}

    pairs = [{"key": key.replace("__", "."), "value": value(of)} for key, of in attributes.items()]
    number = {"traceId": trace, "spanId": f"{trace}-{start}", "startTimeUnixNano": str(start)}
    return {**number, "attributes": pairs}


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
    bare = {**kind, "retrieval__documents__0__document__score": "1", "query_id": "12"}
    for wrong, fault in (
        (spans[6], "the attribute query_id"),
        (span("t", 1, **bare), "without id and content"),
    ):
        line = {"resourceSpans": [{"scopeSpans": [{"spans": [wrong]}]}]}
        (tmp_path / "wrong.jsonl").write_text(json.dumps(line), encoding="utf-8")
        with pytest.raises(SourceError, match=fault):
            evaluate(collection, tmp_path / "wrong.jsonl")


@pytest.mark.parametrize(
    ("lines", "error", "fault"),
    [
        ([line("12", 1, "a", A), line("12", 1, "b", A)], SourceError, "step is 1; allowed"),
        ([{"query_id": "12", "search": "a", "results": [{"path": "x"}]}], SourceError, "with text"),
        ([line("12", 1, "a", A) | {"cost": -1}], SourceError, "cost is -1; allowed: US dollars"),
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


def test_many_searches_take_no_time_by_their_square(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    lines = (line("12", number + 1, f"s {number}", A, B) for number in range(2000))
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    start = time.process_time()
    last = steps(write_small(tmp_path / "c"), file).steps[-1]

    assert (last.union, last.tokens) == (0.5, 4000)
    assert time.process_time() - start < 10
