"""A collection of everything that may be odd: ids, scale, failures, and nuggets nobody judged.

On the scale `graded_3` with the threshold 2. Each query has two nuggets, and of the chunks
`first` is labelled 3 and 1, `second` 0 and 2, `third` 0 and a failure.
The last nugget of the last query has no judgment at all, and `unseen` was never pooled.
"""

from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Found,
    Judgment,
    Nugget,
    Query,
    QuerySlice,
    Scale,
    TechniqueRank,
)
from tests.collection.small import PROVENANCE

LONG = "x" * 1000
ODD_IDS = (
    "12",
    "123",
    "a b",
    "a  b",
    " leading",
    "trailing ",
    "tab\there",
    "line\nbreak",
    "return\rhere",
    'quo"te',
    "'single'",
    "../../etc/passwd",
    "/absolute",
    "C:\\path",
    "\ufeffbom",
    "é ü",
    "é ü".encode().decode("latin-1"),
    "line\u2028separator",
    "nul\x00",
    "#hash",
    "a:b#c",
    "%20",
    "a!20b",
    "~0000E4",
    "日本語",
    "🙂",
    LONG,
)
TEXT = 'A "quoted"\ttext,\nin\r\nlines\u2028and \\ more é'


def odd_chunks(ids: Sequence[str]) -> list[Chunk]:
    return [
        Chunk(
            chunk_id=chunk_id,
            source="docs",
            path=f"{number // 2}.md",
            start_byte=number,
            end_byte=number + 1,
            text=f"{TEXT} {number}",
            tokens=3,
            title="A title" if number % 2 else "",
            url=f"https://example.org/{number}" if number % 3 else None,
        )
        for number, chunk_id in enumerate(ids)
    ]


def odd_contents(query_ids: Sequence[str], chunk_ids: Sequence[str]) -> Contents:
    """Judgments of the first three chunks for each query."""
    first, second, third = chunk_ids[:3]
    labels = {first: (3, 1), second: (0, 2), third: (0, None)}
    queries: list[Query] = []
    nuggets: list[Nugget] = []
    judgments: list[Judgment] = []
    pool: list[Candidate] = []
    slices: list[QuerySlice] = []
    for query_id in query_ids:
        synthetic = len(queries) % 2 == 1
        queries.append(
            Query(
                query_id=query_id,
                title="How?",
                body=TEXT,
                answer="So.",
                origin="synthetic" if synthetic else "community",
            )
        )
        ids = [f"{query_id}_{place}" for place in range(2)]
        nuggets += [
            Nugget(
                nugget_id=ids[place],
                query_id=query_id,
                text=f"{TEXT} {place}",
                call_id=None,
                importance="okay" if place else None,
            )
            for place in range(2)
        ]
        for rank, (chunk_id, given) in enumerate(labels.items(), start=1):
            pooled = TechniqueRank(technique="question", rank=rank)
            found = Found(technique="question", retriever="bm25", rank=rank)
            pool.append(
                Candidate(
                    query_id=query_id, chunk_id=chunk_id, pooled_by=(pooled,), found_by=(found,)
                )
            )
            judgments += [
                Judgment(
                    query_id=query_id,
                    nugget_id=nugget_id,
                    chunk_id=chunk_id,
                    label=label,
                    status="refused" if label is None else "ok",
                    reason="",
                    call_id=None,
                )
                for nugget_id, label in zip(ids, given, strict=True)
            ]
        slices.append(
            QuerySlice(
                query_id=query_id, slice="answerable", nuggets=2, supported=2, undetermined=0
            )
        )
    last = f"{query_ids[-1]}_unjudged"
    nuggets.append(Nugget(nugget_id=last, query_id=query_ids[-1], text="none", call_id=None))
    return Contents(
        queries=tuple(queries),
        nuggets=tuple(nuggets),
        judgments=tuple(judgments),
        pool=tuple(pool),
        slices=tuple(slices),
    )


def write_odd(
    path: Path, query_ids: Sequence[str] = ODD_IDS, chunk_ids: Sequence[str] = ODD_IDS
) -> Collection:
    told = PROVENANCE.model_copy(
        update={"name": "odd", "scale": Scale(name="graded_3", threshold=2)}
    )
    contents = odd_contents(query_ids, chunk_ids)
    return write_collection(path, contents, odd_chunks(chunk_ids), told)
