"""The records: what they refuse, and the one order of rankings."""

import inspect
import itertools
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from freshstack_dspy import Chunk, Judgment, Query, records
from freshstack_dspy.records import Candidate, Record, RunRank, ScoredChunk, Status, ranked

RECORDS = [
    value
    for _, value in inspect.getmembers(records, inspect.isclass)
    if issubclass(value, Record) and value is not Record
]


def judgment(label: int | None, status: Status) -> Judgment:
    return Judgment(
        query_id="1",
        nugget_id="1_0",
        chunk_id="a",
        label=label,
        status=status,
        reason="",
        call_id=None,
    )


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_takes_no_unknown_field_and_does_not_change(record: type[Record]) -> None:
    with pytest.raises(ValidationError) as caught:
        record.model_validate({"surprise": 1})
    assert "extra_forbidden" in {fault["type"] for fault in caught.value.errors()}

    with pytest.raises(ValidationError, match="frozen"):
        setattr(record.model_construct(), next(iter(record.model_fields)), "other")


def test_a_record_takes_little_more_memory_than_its_fields() -> None:
    def bytes_of_each(make: Callable[[], Record]) -> float:
        tracemalloc.start()
        _kept = [make() for _ in range(1_000)]
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return taken / 1_000

    found = [{"technique": "answer", "retriever": "bm25", "rank": rank} for rank in range(1, 13)]
    candidate = {"query_id": "1", "chunk_id": "a", "found_by": found}

    assert bytes_of_each(lambda: judgment(1, "ok")) < 600  # 1,300 with Pydantic's set of fields
    assert bytes_of_each(lambda: Candidate.model_validate(candidate)) < 1_500


def test_a_part_of_a_record_is_checked_as_a_record_is() -> None:
    with pytest.raises(ValidationError, match="unexpected_keyword_argument"):
        Candidate.model_validate(
            {"query_id": "1", "chunk_id": "a", "runs": [{"run": "r", "rank": 1, "surprise": 1}]}
        )
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        RunRank(run="r", rank=0)
    with pytest.raises(FrozenInstanceError):
        setattr(RunRank(run="r", rank=1), "rank", 2)  # noqa: B010


def test_all_fields_of_a_record_count_as_given() -> None:
    one = judgment(1, "ok")

    assert one.model_dump(exclude_unset=True) == one.model_dump()
    assert one.model_copy(update={"parts": 2}).model_fields_set == set(Judgment.model_fields)


@pytest.mark.parametrize("status", get_args(Status))
def test_a_judgment_has_a_label_if_and_only_if_it_is_ok(status: Status) -> None:
    assert (judgment(0, "ok").label, judgment(1, "ok").label) == (0, 1)
    with pytest.raises(ValidationError, match="if and only if"):
        judgment(None, "ok") if status == "ok" else judgment(0, status)
    if status != "ok":
        assert judgment(None, status).label is None


@pytest.mark.parametrize(
    ("title", "body", "text"),
    [("How?", "Like so.", "How? Like so."), ("How?", "", "How?"), ("", "How?", "How?")],
)
def test_the_text_of_a_query_is_title_and_body(title: str, body: str, text: str) -> None:
    assert Query(query_id="1", title=title, body=body, answer="a").text == text


def test_a_query_has_an_id_and_may_lack_an_answer() -> None:
    with pytest.raises(ValidationError, match="query_id"):
        Query(query_id="", title="a", body="")
    assert Query(query_id="1", title="a", body="").answer == ""


def test_a_record_survives_json() -> None:
    query = Query(query_id="1", title="é\u2028", body='"', answer="\x00", tags=("a", "b"))

    assert Query.model_validate_json(query.model_dump_json(), strict=True) == query
    assert json.loads(query.model_dump_json())["tags"] == ["a", "b"]


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0]), max_size=9),
    st.integers(min_value=0, max_value=9),
    st.randoms(),
)
def test_a_ranking_is_one_order_however_the_scores_stand(
    scores: dict[str, float], depth: int, chance: Random
) -> None:
    shuffled = list(scores.items())
    chance.shuffle(shuffled)

    whole = ranked(scores)

    assert ranked(dict(shuffled)) == whole
    assert ranked(scores, depth) == whole[:depth]
    assert sorted(entry.chunk_id for entry in whole) == sorted(scores)
    for one, other in itertools.pairwise(whole):
        assert (one.score, other.chunk_id) > (other.score, one.chunk_id)
    assert all(entry == ScoredChunk(entry.chunk_id, scores[entry.chunk_id]) for entry in whole)


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("\n \t\n    def f():\n        pass\n\n", "    def f():\n        pass"),
        ("one\n\n\ntwo \t\n", "one\n\n\ntwo"),
        ("\r\n\r\none", "one"),
        (" \n ", ""),
        ("  one", "  one"),
    ],
)
def test_a_passage_is_a_chunk_without_blank_lines_around_it(text: str, passage: str) -> None:
    chunk = Chunk(chunk_id="c", source="s", path="p", start_byte=0, end_byte=1, text=text, tokens=1)

    assert chunk.passage == passage
