from dataclasses import replace
from typing import Any

import pytest

from freshstack_dspy.collection.contents import Contents, check_references
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Failure, Nugget, Scale

from .small import CHUNKS, CONTENTS, A, candidate, judgment, query

IDS = {chunk.chunk_id for chunk in CHUNKS}


def with_more(**more: Any) -> Contents:
    changed: Any = {name: (*getattr(CONTENTS, name), one) for name, one in more.items()}
    return replace(CONTENTS, **changed)


def test_the_small_collection_holds_together() -> None:
    check_references(CONTENTS, IDS, Scale())


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        (
            with_more(nuggets=Nugget(nugget_id="x", query_id="1", text="t", call_id="k")),
            "nuggets.jsonl names query '1', and the collection has no such query",
        ),
        (with_more(judgments=judgment("12_7", A, 1)), "judgments.jsonl names nugget '12_7'"),
        (with_more(judgments=judgment("12_0", "b", 1)), "judgments.jsonl names chunk 'b'"),
        (with_more(pool=candidate("12", "b")), "pool.jsonl names chunk 'b'"),
        (with_more(pool=candidate("1", A)), "pool.jsonl names query '1'"),
        (
            with_more(
                failures=Failure(
                    query_id="12",
                    step="support",
                    status="failed",
                    message="",
                    chunk_ids=("b",),
                    call_id=None,
                )
            ),
            "failures.jsonl names chunk 'b'",
        ),
        (with_more(queries=query("7")), "slices.jsonl: query '7' is in no slice (1 such)"),
        (with_more(queries=query("12")), "queries.jsonl: '12' stands twice"),
        (
            with_more(judgments=judgment("12_0", A, 0)),
            f"judgments.jsonl: '12', '12_0', '{A}' stands twice",
        ),
        (
            with_more(nuggets=Nugget(nugget_id="12_0", query_id="123", text="t", call_id="k")),
            "nuggets.jsonl: '12_0' stands twice",
        ),
        (
            with_more(judgments=judgment("12_0", A, 0).model_copy(update={"query_id": "123"})),
            "gives nugget '12_0' to query '123', but it belongs to query '12'",
        ),
    ],
)
def test_an_id_at_fault_is_named(contents: Contents, fault: str) -> None:
    with pytest.raises(CollectionError) as caught:
        check_references(contents, IDS, Scale())

    assert fault in str(caught.value)
