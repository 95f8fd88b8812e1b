"""Functions over Arrow batches: what came of each row is in its row."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from freshstack_dspy.arrow_batches import (
    CHUNKS,
    FILES,
    FOUND,
    VECTORS,
    chunk_batch,
    embed_batch,
    search_batch,
)
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.parquet import chunks_in
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.records import ScoredChunk, SourceFile


def test_files_are_cut_as_one_by_one_and_one_that_cannot_be_is_a_row_that_says_why() -> None:
    text = "".join(f"word{number} " for number in range(200)).encode()
    good = [
        SourceFile("repo", "a.md", text, "v1"),
        SourceFile("repo", "b.txt", text.decode().encode("utf-16-le"), None, "utf-16-le"),
    ]
    bad = SourceFile("repo", "c.py", b"\xff", "v1")
    rows = [file._asdict() for file in (good[0], bad, good[1])]

    cut = chunk_batch(pa.RecordBatch.from_pylist(rows, FILES), 64, {})

    faults = cut.column("fault").to_pylist()
    kept = cut.filter(pa.array([fault is None for fault in faults]))
    assert cut.schema == CHUNKS
    assert list(chunks_in(kept)) == [chunk for file in good for chunk in chunk_file(file, 64)]
    assert len(kept) > 2
    (fault,) = (row for row in cut.to_pylist() if row["fault"])
    assert (fault["source"], fault["path"], fault["text"]) == ("repo", "c.py", "")
    assert fault["fault"].startswith("cannot be cut: UnicodeDecodeError: 'utf-8' codec can't")


def test_texts_are_embedded_and_one_that_cannot_be_is_a_row_that_says_why() -> None:
    def encode(texts: Sequence[str]) -> list[dict[str, Any]]:
        return [{"vector": [1.0 / len(text), 2.0]} for text in texts]

    def unloadable(texts: Sequence[str]) -> list[dict[str, Any]]:
        raise ConfigError("no model")

    texts = pa.record_batch({"text": ["one", "", "three"]})

    found = embed_batch(texts, encode)

    assert found.schema == VECTORS
    assert found["vector"].to_pylist() == [pytest.approx([1 / 3, 2]), None, pytest.approx([0.2, 2])]
    assert found["fault"].to_pylist() == [None, "ZeroDivisionError: float division by zero", None]
    with pytest.raises(ConfigError):  # of the model, and so of all texts
        embed_batch(texts, unloadable)


def test_rankings_are_rows_that_name_their_question() -> None:
    ranking = [ScoredChunk("a", 2.5), ScoredChunk("b", 1.0)]
    questions = pa.record_batch({"query": [7, 8, 9], "text": ["x", "y", "z"]})

    found = search_batch(questions, lambda texts, _: [ranking[: "zyx".index(of)] for of in texts])

    assert found.schema == FOUND
    rows = [[*row.values()] for row in found.to_pylist()]
    assert rows == [[7, "a", 2.5], [7, "b", 1.0], [8, "a", 2.5]]
