"""A collection small enough to check by hand: queries 12 and 123, and two that are not evaluated.

query  slice         nuggets and their chunks
12     answerable    12_0: a and "b c" support it; 12_1: "b c" supports it, a does not
123    answerable    123_0: a supports it, "b c" does not, d failed
5      unanswerable  5_0: a does not support it
6      without_nuggets  none
"""

from pathlib import Path

from freshstack_dspy import Chunk, Collection, Judgment, Nugget, Query
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.records import (
    Attribution,
    Candidate,
    Contamination,
    Expansion,
    Failure,
    Found,
    LicenceFile,
    QuerySlice,
    Scale,
    SkippedFile,
    TechniqueRank,
)
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import (
    Provenance,
)

A, B, D = "docs/a.md_0_5", "docs/b c.md_0_6", "code/d.py_3_9"


def query(query_id: str, title: str = "How?", body: str = "It fails.") -> Query:
    by = Attribution(author="Ada", url=f"https://example.org/q/{query_id}", licence="CC BY-SA 4.0")
    return Query(
        query_id=query_id,
        title=title,
        body=body,
        answer_id=f"9{query_id}",
        answer="Call `run()` twice.",
        tags=("api",),
        asked_at="2026-01-02T03:04:05",
        question_source=by,
        answer_source=by,
    )


def chunk(chunk_id: str, text: str, start: int = 0) -> Chunk:
    return Chunk(
        chunk_id=chunk_id,
        source=chunk_id.split("/", maxsplit=1)[0],
        path="x",
        start_byte=start,
        end_byte=start + len(text.encode()),
        text=text,
        tokens=1,
        revision="c0ffee" if chunk_id.startswith("code") else None,
    )


def judgment(nugget_id: str, chunk_id: str, label: int | None) -> Judgment:
    return Judgment(
        query_id=nugget_id.rpartition("_")[0],
        nugget_id=nugget_id,
        chunk_id=chunk_id,
        label=label,
        status="ok" if label is not None else "refused",
        reason="because",
        call_id="k2",
    )


def candidate(query_id: str, chunk_id: str) -> Candidate:
    return Candidate(
        query_id=query_id,
        chunk_id=chunk_id,
        pooled_by=(TechniqueRank(technique="question", rank=1),),
        found_by=(Found(technique="question", retriever="bm25", rank=1),),
    )


CHUNKS = (chunk(A, "alpha"), chunk(B, "bêta "), chunk(D, "def d:", start=3))
CONTENTS = Contents(
    queries=(query("12"), query("123", body="```\nx = 1\n```"), query("5"), query("6")),
    nuggets=tuple(
        Nugget(nugget_id=nugget_id, query_id=query_id, text=f"fact {nugget_id}", call_id="k1")
        for nugget_id, query_id in (("12_0", "12"), ("12_1", "12"), ("123_0", "123"), ("5_0", "5"))
    ),
    expansions=(Expansion(query_id="12", kind="sub_questions", texts=("Why?",), call_id="k0"),),
    pool=(candidate("12", A), candidate("12", B), candidate("123", A), candidate("5", A)),
    judgments=(
        judgment("12_0", A, 1),
        judgment("12_0", B, 1),
        judgment("12_1", A, 0),
        judgment("12_1", B, 1),
        judgment("123_0", A, 1),
        judgment("123_0", B, 0),
        judgment("123_0", D, None),
        judgment("5_0", A, 0),
    ),
    contamination=(
        Contamination(
            query_id="12",
            known_nuggets=("12_1",),
            closed_book_coverage=0.5,
            asked="before_cutoff",
            gold_overlap=0.25,
            near_duplicates=("123",),
            call_id="k3",
        ),
    ),
    failures=(
        Failure(
            query_id="123",
            step="support",
            status="refused",
            message="no",
            chunk_ids=(D,),
            call_id="k2",
        ),
        Failure(query_id="6", step="nuggets", status="truncated", message="cut", call_id=None),
    ),
    slices=(
        QuerySlice(query_id="12", slice="answerable", nuggets=2, supported=2, undetermined=0),
        QuerySlice(query_id="123", slice="answerable", nuggets=1, supported=1, undetermined=0),
        QuerySlice(query_id="5", slice="unanswerable", nuggets=1, supported=0, undetermined=0),
        QuerySlice(query_id="6", slice="without_nuggets", nuggets=0, supported=0, undetermined=0),
    ),
    skipped=(SkippedFile(source="docs", path="logo.png", kind="binary", reason="binary"),),
    licences=(LicenceFile(source="docs", path="LICENSE", text="Do as you like.\n"),),
)
PROVENANCE = Provenance(
    name="small",
    recipe="freshstack",
    model="openai/some-model",
    scale=Scale(name="binary"),
    prompts={"JudgeSupport": "ab" * 32},
    versions={"freshstack_dspy": "0.1.0"},
    config={"pool": {"depth": 100}},
)


def write_small(path: Path, contents: Contents = CONTENTS) -> Collection:
    return write_collection(path, contents, CHUNKS, PROVENANCE, rejected={"no accepted answer": 7})


def read_all(collection: Collection) -> None:
    """Read every file of records."""
    for records in collection.records().values():
        len(records)


def files_of(path: Path) -> dict[str, bytes]:
    """The bytes of every file under a folder, by its path there."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }
