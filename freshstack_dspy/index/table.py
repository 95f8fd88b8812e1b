"""The LanceDB table of an index, on this machine or in an object store: chunks, terms and vectors.

Its rows are in the order of the chunks' ids, which have a scalar index. Terms have a full-text
index: LanceDB is given our terms with spaces between them and leaves them as they are, so that
parts of identifiers are found as by bm25s.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import K1
from freshstack_dspy.corpus.parquet import chunk_schema, chunks_in
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.files import Uri
from freshstack_dspy.index.lexical import indexed_text, terms_of
from freshstack_dspy.index.ranking import SCORE_DECIMALS, cosines, nearest
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.records import Chunk, ScoredChunk, ranked

if TYPE_CHECKING:
    import pyarrow as pa

ID, HASH, TERMS = "chunk_id", "content_sha256", "terms"
_IDS_AT_ONCE = 1_000
_VECTOR_ROWS = 8_192
_WORDS_MEMORY = 256
"""MiB, while words are indexed; what is above is written and merged. Rankings do not depend on it."""
_ROWS_A_WORD = 1_000
"""In an object store each new word of a search is a request. From one word for so many rows on, all
words are read at once, which takes some 200 KB of memory for each word that is asked for."""
_READ_AHEAD = str(32 << 20)
"""Bytes that LanceDB reads before they are needed; by default 2 GiB, the whole of most tables."""
_TERM_DECIMALS = 4
"""LanceDB adds scores up in single precision: more would depend on the order of the terms."""
_KEPT = 256 * 1024**2
"""Bytes of vectors that stay in memory for the next search; more are read for each."""
_PROBES, _REFINED = 40, 10
"""Partitions of an approximate search, and how many times `depth` vectors are compared exactly."""


class ChunkTable:
    """A table in a LanceDB database."""

    def __init__(self, database: Path | Uri, name: str) -> None:
        self.database, self.name = database, name
        self._kept: dict[str, list[pa.RecordBatch]] = {}
        self._asked: set[str] = set()

    @cached_property
    def _table(self) -> Any:
        with reaching(self.database):
            return connected(self.database).open_table(self.name)

    def write(
        self,
        schema: "pa.Schema",
        batches: Iterable["pa.RecordBatch"],
        *,
        approximate: Sequence[str] = (),
    ) -> None:
        """Write a new table, and index its ids, hashes and terms, and the vectors of some embedders.

        The rows come as a stream in the order of their ids.
        """
        import pyarrow as pa
        from lancedb.index import FTS, BTree, IvfRq

        as_they_are = dict.fromkeys(
            ("lower_case", "stem", "remove_stop_words", "ascii_folding", "with_position"), False
        )
        words = FTS(
            base_tokenizer="whitespace",
            max_token_length=None,
            memory_limit=_WORDS_MEMORY,
            **as_they_are,
        )
        indexes: dict[str, Any] = {ID: BTree(), TERMS: words}
        if any(name.startswith(_VECTOR) for name in schema.names):
            indexes[HASH] = BTree()
        indexes |= {column_of(name): IvfRq(distance_type="cosine") for name in approximate}
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        with reaching(self.database):
            table = connected(self.database).create_table(self.name, data=rows)
            for name, index in indexes.items():
                if name in schema.names:
                    table.create_index(name, config=index)

    def batches(self, columns: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        """Read columns, in the order of the rows."""
        with reaching(self.database):
            yield from self._table.search().select(list(columns)).to_batches(_VECTOR_ROWS)

    def chunks(self, chunk_ids: Sequence[str]) -> Iterator[Chunk]:
        """Read those of these chunks that are there, in any order."""
        for rows in self._with(ID, chunk_ids, list(Chunk.model_fields)):
            yield from chunks_in(rows)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """How many rows have each of some terms; all rows are read, once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(terms, pa.large_string())
        counts = np.zeros(len(wanted), np.int64)
        for batch in self.batches([TERMS]) if len(wanted) else ():
            words = pc.call_function("ascii_split_whitespace", [batch[TERMS]])
            places = pc.call_function("index_in", [words.values], pc.SetLookupOptions(wanted))
            rows = pc.call_function("list_parent_indices", [words]).filter(places.is_valid())
            pairs = rows.to_numpy() * len(wanted) + places.drop_null().to_numpy()
            counts += np.bincount(np.unique(pairs) % len(wanted), minlength=len(wanted))
        return dict(zip(wanted.to_pylist(), counts.tolist(), strict=True))

    def by_terms(self, texts: Sequence[Sequence[str]], depth: int) -> list[list[ScoredChunk]]:
        """Rank rows by BM25 for the terms of each text; one without a known term finds nothing."""
        self._read_words(chain.from_iterable(texts))
        return map_in_order(
            lambda text: self._ranked(" ".join(text), depth), texts, workers=_cores()
        )

    def by_vectors(
        self, name: str, queries: NDArray[np.float64], depth: int
    ) -> list[list[ScoredChunk]]:
        """Rank rows by the cosine of their vectors of an embedder, exactly or by the index."""
        import pyarrow as pa

        column = column_of(name)
        if column in self._indexed:
            return map_in_order(
                lambda query: self._approximate(column, query, depth), queries, workers=_cores()
            )
        ids: list[pa.Array] = []

        def blocks() -> Iterator[NDArray[np.float32]]:
            for batch in self._vectors(column):
                ids.append(batch[ID])
                yield matrix_of(batch[column])

        rankings = nearest(queries, blocks(), depth)
        all_ids = pa.chunked_array(ids, pa.string())
        return [
            [ScoredChunk(all_ids[row].as_py(), score) for row, score in rows] for rows in rankings
        ]

    def vectors(
        self, name: str, keys: Sequence[str], *, by: str = HASH
    ) -> dict[str, NDArray[np.float32]]:
        """Give the vectors of an embedder for contents that are there, by their hashes or ids."""
        column = column_of(name)
        return {
            key: vector
            for rows in self._with(by, keys, [by, column])
            for key, vector in zip(rows[by].to_pylist(), matrix_of(rows[column]), strict=True)
        }

    def _vectors(self, column: str) -> Iterable["pa.RecordBatch"]:
        """All vectors of an embedder, with the ids of their rows."""
        size = self._table.schema.field(column).type.list_size
        if self._size * size * 4 > _KEPT:
            return self.batches([ID, column])
        if column not in self._kept:
            self._kept[column] = list(self.batches([ID, column]))
        return self._kept[column]

    @cached_property
    def _indexed(self) -> set[str]:
        with reaching(self.database):
            return {column for index in self._table.list_indices() for column in index.columns}

    @cached_property
    def _size(self) -> int:
        with reaching(self.database):
            return int(self._table.count_rows())

    def _with(
        self, column: str, values: Sequence[str], columns: Sequence[str]
    ) -> Iterator["pa.Table"]:
        for start in range(0, len(values), _IDS_AT_ONCE):
            block = values[start : start + _IDS_AT_ONCE]
            quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in block)
            with reaching(self.database):
                rows = self._table.search().where(f"{column} IN ({quoted})").limit(self._size)
                yield rows.select(list(columns)).to_arrow()

    def _read_words(self, words: Iterable[str]) -> None:
        """Read all words of an index in an object store, once so many are asked for."""
        if isinstance(self.database, Uri):
            before, most = len(self._asked), self._size / _ROWS_A_WORD
            self._asked.update(words)
            if before <= most < len(self._asked):
                with reaching(self.database):
                    self._table.prewarm_index(f"{TERMS}_idx")

    def _matches(self, words: str, most: int, columns: Sequence[str]) -> "pa.Table":
        from lancedb import query

        wanted: Any = query.MatchQuery
        with reaching(self.database):
            rows = self._table.search(wanted(words, TERMS), query_type="fts").limit(most)
            return rows.select([*columns, "_score"]).to_arrow()

    def _ranked(self, words: str, depth: int) -> list[ScoredChunk]:
        """The best rows; of those that tie at the end, all are looked at."""
        if not words:
            return []
        most = depth + _IDS_AT_ONCE // 10
        while True:
            rows = self._matches(words, most, [ID])
            # LanceDB's formula has a factor of k1 + 1 in each term.
            exact = rows["_score"].to_numpy().astype(np.float64) / (K1 + 1)
            scores = np.round(exact, _TERM_DECIMALS)
            if len(scores) < most or scores[depth - 1] > scores[-1]:
                return ranked(dict(zip(rows[ID].to_pylist(), scores.tolist(), strict=True)), depth)
            most *= 4

    def _approximate(
        self, column: str, query: NDArray[np.float64], depth: int
    ) -> list[ScoredChunk]:
        """The best rows that the index finds, scored as exactly as all would be."""
        if not query.any():
            return []
        with reaching(self.database):
            search = self._table.search(query.astype(np.float32), vector_column_name=column)
            search = search.distance_type("cosine").nprobes(_PROBES).refine_factor(_REFINED)
            rows = search.limit(depth).select([ID, column, "_distance"]).to_arrow()
        scores = np.round(cosines(query, matrix_of(rows[column])), SCORE_DECIMALS)
        pairs = zip(rows[ID].to_pylist(), scores.tolist(), strict=True)
        return ranked({chunk_id: score for chunk_id, score in pairs if score > 0}, depth)


def rows_of(
    batch: "pa.RecordBatch", *, lexical: bool, languages: tuple[str, ...] = ENGLISH
) -> "pa.RecordBatch":
    """Give the rows of the table for a batch of chunks: with the hash of their content, and terms."""
    import pyarrow as pa

    chunks = list(chunks_in(batch))
    hashes = (content_hash(indexed_text(chunk)) for chunk in chunks)
    rows = batch.append_column(HASH, pa.array(hashes, pa.string()))
    if lexical:
        texts = (" ".join(terms_of(chunk, languages)) for chunk in chunks)
        words = pa.array(texts, pa.large_string())
        rows = rows.append_column(TERMS, words)
    return rows


def table_schema(vectors: Mapping[str, int], *, lexical: bool) -> "pa.Schema":
    """Give the columns of a table, with the dimensions of the vectors of each embedder."""
    import pyarrow as pa

    fields = [*chunk_schema(), pa.field(HASH, pa.string())]
    fields += [pa.field(TERMS, pa.large_string())] * lexical
    for name, size in vectors.items():
        fields.append(pa.field(column_of(name), pa.list_(pa.float32(), size)))
    return pa.schema(fields)


def vector_array(matrix: NDArray[np.floating]) -> "pa.Array":
    """Give a matrix as a column of vectors."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def content_hash(text: str) -> str:
    """Hash what a chunk is found by."""
    return hashlib.sha256(text.encode()).hexdigest()


_VECTOR = "vector_"


def column_of(embedder: str) -> str:
    """Name the column of an embedder's vectors; Lance takes no dot in a name."""
    return f"{_VECTOR}{embedder.replace('.', '~')}"


def matrix_of(column: "pa.Array | pa.ChunkedArray") -> NDArray[np.float32]:
    """Give vectors as a matrix."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    matrix: NDArray[np.float32] = column.flatten().to_numpy().reshape(len(column), -1)
    return matrix


def connected(database: Path | Uri) -> Any:
    """Open a LanceDB database; what an object store needs is in the environment."""
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", _READ_AHEAD)
    _load_when_used("lance_namespace_urllib3_client")  # of catalogue servers: half of its import
    import lancedb

    return lancedb.connect(database)


def _load_when_used(name: str) -> None:
    """Let a package run its `__init__`, which imports all that it has, when something of it is used."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module, run = importlib.util.module_from_spec(spec), spec.loader.exec_module

    def load(attribute: str) -> Any:
        del vars(module)["__getattr__"]
        run(module)
        return getattr(module, attribute)

    vars(module)["__getattr__"] = load
    sys.modules.setdefault(name, module)


_REMEDIES: dict[str, str] = {
    "NoSuchBucket": "there is no such bucket; make it, or name another",
    "ConnectError": "nothing answers at its endpoint; look at AWS_ENDPOINT_URL and the network",
    "redentials": "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of "
    "your store, in the environment",
    "No space left": "the disk is full",
    "TokenRequest": "no credentials; set GOOGLE_APPLICATION_CREDENTIALS in the environment",
    "region": "its region is not known; set AWS_REGION, and AWS_ENDPOINT_URL of a store of your own",
}


@contextmanager
def reaching(database: Path | Uri) -> Iterator[None]:
    """Say in one line what is wrong with an object store, or a disk."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        message = str(error)
        if isinstance(database, Path) and "LanceError(IO)" not in message:
            raise
        first = message.splitlines()[0]
        why = next((why for part, why in _REMEDIES.items() if part in message), first)
        raise IndexingError(f"{database}: cannot be used as an index: {why[:300]}") from None


def _cores() -> int:
    return os.cpu_count() or 1
