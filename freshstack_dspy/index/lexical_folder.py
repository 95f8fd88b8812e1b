"""`bm25` alone on disk: for whoever asks for no other retriever, nothing else is fitted."""

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.draft import Draft
from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.manifest import cutter_of_terms, fingerprint
from freshstack_dspy.index.parts import check_stamp, write_stamp
from freshstack_dspy.index.ranking import RowScore
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.index.workplace import (
    PartGoneError,
    check_ours,
    hold,
    new_part,
    next_number,
    sole_writer,
    sweep,
)
from freshstack_dspy.index.writing import Report, check_terms
from freshstack_dspy.records import Chunk, ScoredChunk

_PART = "bm25"
_WITHOUT_LSA = 0
"""The dimensions of `lsa` in the fingerprint of what has none."""


def search_lexically(
    folder: Path,
    chunks: Sequence[Chunk],
    texts: Sequence[str],
    depth: int,
    report: Report,
) -> list[list[ScoredChunk]]:
    """Rank chunks by `bm25`, as `HybridIndex.search` does for an index of exactly these chunks.

    The folder holds one part, `bm25-N`, whose stamp is written last and says which chunks it is
    of: one that was cut short, is damaged or is of other chunks is written again, by one process at
    a time, and a part that somebody reads stays.

    Args:
        folder: Of the index of these chunks' terms; it is made where it is missing.
        chunks: In any order, with distinct ids.
        texts: What to search for.
        depth: How many chunks to give for each text, at least 1.
        report: Told how far the stages `terms` and `bm25` are, where they are needed.

    Returns:
        A ranking for each text, best first, ties by chunk id.

    Raises:
        IndexingError: No chunk, two chunks with one id, no word in any, depth is below 1, or the
            folder holds something else or cannot be written.
    """
    if depth < 1:
        raise IndexingError(f"depth must be at least 1, not {depth!r}")
    draft = Draft.of(chunks, ())
    stamp = f"{fingerprint(draft.digests, _WITHOUT_LSA)} {cutter_of_terms()}"
    rankings = _searched(folder, stamp, draft, texts, depth)
    if rankings is None:
        with sole_writer(folder):
            check_ours(folder)
            rankings = _searched(folder, stamp, draft, texts, depth)  # somebody else was faster
            if rankings is None:
                rankings = _written(folder, stamp, draft, report).search(texts, depth)
    return [[ScoredChunk(draft.ids[row], score) for row, score in rows] for rows in rankings]


def _searched(
    folder: Path, stamp: str, draft: Draft, texts: Sequence[str], depth: int
) -> list[list[RowScore]] | None:
    """Search what stands in a folder; None where nothing of these chunks does, or it is damaged."""
    for part in sorted(folder.glob(f"{_PART}-*")):
        with ExitStack() as held:
            try:
                held.enter_context(closing(hold(part)))
                check_stamp(part, stamp)
                return LexicalIndex.load(part, len(draft.ids)).search(texts, depth)
            except (
                IndexingError,
                PartGoneError,
                OSError,
                ValueError,
                KeyError,
                IndexError,
                TypeError,
                sqlite3.Error,
            ):
                continue
    return None


def _written(folder: Path, stamp: str, draft: Draft, report: Report) -> LexicalIndex:
    """Write the index of the terms; only for a `sole_writer`."""
    sweep(folder, ())
    report("terms", 0)
    counts = TermCounts.of(
        [draft.given[row] for row in range(len(draft.ids))],
        lambda fraction: report("terms", fraction),
        None,
    ).used()
    check_terms(counts, draft.ids)
    report("terms", 1)
    report("bm25", 0)
    index = LexicalIndex.build(counts)
    part = new_part(folder / f"{_PART}-{next_number(folder)}")
    index.save(part)
    write_stamp(part, stamp)
    report("bm25", 1)
    return index
