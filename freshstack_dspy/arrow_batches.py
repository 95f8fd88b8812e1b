"""Functions over Arrow batches, which an engine's workers run as this process does.

They keep no state that a result depends on, and what is wrong with a row is said in its row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from freshstack_dspy.config import Boundaries
from freshstack_dspy.corpus.parquet import chunk_schema
from freshstack_dspy.errors import (
    ConfigError,
    FreshstackError,
)
from freshstack_dspy.records import Chunk, ScoredChunk, SourceFile

FILES = pa.schema(
    {
        "source": pa.string(),
        "path": pa.string(),
        "data": pa.large_binary(),
        "revision": pa.string(),
        "encoding": pa.string(),
    }
)
"""The fields of a `SourceFile`."""
CHUNKS = chunk_schema().append(pa.field("fault", pa.string()))
"""Chunks; and of a file that cannot be cut a row that says why, with no text and no id."""
VECTORS = pa.schema({"vector": pa.list_(pa.float32()), "cut_to": pa.int32(), "fault": pa.string()})
"""`cut_to`: the tokens that the model takes, of a text that has more; `fault`: why there is no
vector."""
FOUND = pa.schema({"query": pa.int64(), "chunk_id": pa.string(), "score": pa.float64()})
"""What was found, the best first; `query` is the number that the batch has for it."""


def chunk_batch(
    files: pa.RecordBatch,
    max_tokens: int,
    languages: Mapping[str, Sequence[str]],
    boundaries: Boundaries = "packed",
) -> pa.RecordBatch:
    """Cut files, rows of `FILES`, into chunks of at most `max_tokens` tokens, rows of `CHUNKS`.

    Each is in one of the languages of its source, which may have none.
    """
    from freshstack_dspy.corpus.chunks import chunk_file

    rows: list[dict[str, Any]] = []
    for values in files.to_pylist():
        file = SourceFile(**values)
        try:
            chunks = chunk_file(file, max_tokens, languages.get(file.source, ()), boundaries)
            rows += [chunk.model_dump() for chunk in chunks]
        except ConfigError:  # of the settings, and so of all files
            raise
        except Exception as error:  # noqa: BLE001 - one file ends no corpus
            fault = f"cannot be cut: {type(error).__name__}: {' '.join(str(error).split())}"
            none = Chunk(
                chunk_id="",
                source=file.source,
                path=file.path,
                start_byte=0,
                end_byte=0,
                text="",
                tokens=0,
            )
            rows.append({**none.model_dump(), "fault": fault})
    return pa.RecordBatch.from_pylist(rows, CHUNKS)


def embed_batch(
    texts: pa.RecordBatch, encode: Callable[[Sequence[str]], list[dict[str, Any]]]
) -> pa.RecordBatch:
    """Embed the column `text`; give a row of `VECTORS` for each, as `encode` makes them of texts.

    Where it raises, texts are embedded one by one, and those that cannot be are rows that say why.
    """
    values = texts["text"].to_pylist()
    try:
        rows = encode(values)
    except FreshstackError:  # of the model, and so of all texts
        raise
    except Exception as error:  # noqa: BLE001 - one text ends no corpus
        if len(values) > 1:
            alone = (embed_batch(texts.slice(row, 1), encode) for row in range(len(values)))
            return pa.Table.from_batches(alone).combine_chunks().to_batches()[0]
        rows = [{"fault": f"{type(error).__name__}: {' '.join(str(error).split())}"}]
    return pa.RecordBatch.from_pylist(rows, VECTORS)


def search_batch(
    questions: pa.RecordBatch, rank: Callable[..., Iterable[Sequence[ScoredChunk]]]
) -> pa.RecordBatch:
    """Give rows of `FOUND`: what `rank` makes of the columns `text` and, if it is there, `vector`.

    The column `query` numbers the questions.
    """
    vectors = None
    if "vector" in questions.schema.names:
        vectors = questions["vector"].flatten().to_numpy().reshape(len(questions), -1)
    columns: dict[str, list[Any]] = {name: [] for name in FOUND.names}
    rankings = rank(questions["text"].to_pylist(), vectors)
    for query, ranking in zip(questions["query"].to_pylist(), rankings, strict=True):
        columns["query"] += [query] * len(ranking)
        columns["chunk_id"] += [hit.chunk_id for hit in ranking]
        columns["score"] += [hit.score for hit in ranking]
    return pa.record_batch(columns, FOUND)
