"""A collection of everything that may be odd: ids, scale, failures, and nuggets nobody judged.

On the scale `graded_3` with the threshold 2. Each query has two nuggets, and of the chunks
`first` is labelled 3 and 1, `second` 0 and 2, `third` 0 and a failure.
The last nugget of the last query has no judgment at all, and `unseen` was never pooled.
"""

from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy import Chunk, Collection, Nugget, Query
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.records import QuerySlice, Scale
from freshstack_dspy.stored.contents import Contents
from tests.collection.small import PROVENANCE, candidate, judgment

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
    texts = {"title": "How?", "body": TEXT, "answer": "So."}
    nuggets = {f"{query_id}_{place}": query_id for query_id in query_ids for place in range(2)}
    unjudged = Nugget(
        nugget_id=f"{query_ids[-1]}_unjudged", query_id=query_ids[-1], text="none", call_id=None
    )
    return Contents(
        queries=tuple(
            Query(query_id=id_, **texts, origin="synthetic" if place % 2 else "community")
            for place, id_ in enumerate(query_ids)
        ),
        nuggets=(
            *(
                Nugget(
                    nugget_id=id_,
                    query_id=query_id,
                    text=f"{TEXT} {id_[-1]}",
                    call_id=None,
                    importance="okay" if id_[-1] == "1" else None,
                )
                for id_, query_id in nuggets.items()
            ),
            unjudged,
        ),
        judgments=tuple(
            judgment(f"{query_id}_{place}", chunk_id, label)
            for query_id in query_ids
            for chunk_id, given in labels.items()
            for place, label in enumerate(given)
        ),
        pool=tuple(candidate(query_id, chunk_id) for query_id in query_ids for chunk_id in labels),
        slices=tuple(
            QuerySlice(query_id=id_, slice="answerable", nuggets=2, supported=2, undetermined=0)
            for id_ in query_ids
        ),
    )


def write_odd(
    path: Path, query_ids: Sequence[str] = ODD_IDS, chunk_ids: Sequence[str] = ODD_IDS
) -> Collection:
    told = PROVENANCE.model_copy(
        update={"name": "odd", "scale": Scale(name="graded_3", threshold=2)}
    )
    contents = odd_contents(query_ids, chunk_ids)
    return write_collection(path, contents, odd_chunks(chunk_ids), told)
