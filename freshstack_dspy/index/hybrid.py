"""The hybrid index: a LanceDB table with vectors, BM25 beside it, and their fusion."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from freshstack_dspy.config import FusionConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.building import (
    build_index,
    build_or_open_index,
    holds_these,
    index_folder,
    only_index,
    silence,
    wanted_of,
)
from freshstack_dspy.index.columns import check_embedders, check_stored
from freshstack_dspy.index.difference import Difference
from freshstack_dspy.index.fusion import PAPER_FUSION
from freshstack_dspy.index.lsa import LsaModel
from freshstack_dspy.index.models import Embedder, Reranker
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.searching import Models, Searcher
from freshstack_dspy.index.settings import IndexedFile, IndexSettings
from freshstack_dspy.index.stats import IndexStats, stats_of
from freshstack_dspy.index.updating import update_index
from freshstack_dspy.index.writing import Report
from freshstack_dspy.records import Chunk, ScoredChunk

_SETTINGS = IndexSettings()


class HybridIndex:
    """A searchable corpus; what it reads stays as it was opened, whoever updates it meanwhile.

    Attributes:
        path: The folder of this index.
        fingerprint: SHA-256 of the chunks, the settings and the version of the format.
        cut_by: How the chunks were cut, as whoever built it put it.
        revisions: For each source the revision of its files.
    """

    def __init__(self, parts: Parts, models: Models, fused: Sequence[str]) -> None:
        manifest = parts.manifest
        self.path = parts.folder
        self.fingerprint = manifest.fingerprint
        self.cut_by = manifest.cut_by
        self.revisions: Mapping[str, str | None] = manifest.revisions
        self._parts = parts
        self._searcher = Searcher(parts, models, fused)

    @classmethod
    def build(  # noqa: PLR0913 - by keyword, and most are left out
        cls,
        root: Path,
        name: str,
        chunks: Sequence[Chunk],
        *,
        files: Sequence[IndexedFile] = (),
        embedders: Sequence[Embedder] = (),
        reranker: Reranker | None = None,
        rerank_depth: int = 50,
        settings: IndexSettings = _SETTINGS,
        cut_by: str = "",
        lsa: LsaModel | None = None,
        progress: Report | None = None,
    ) -> Self:
        """Build an index from nothing; one that stands is replaced once the new one is whole.

        Only vectors of the same embedders for the same content are taken from what stands.

        Args:
            root: The folder where indexes are kept, one folder for each.
            name: Of this index, and of its folder.
            chunks: In any order, with distinct ids, one revision for each source.
            files: Of all chunks; without them the index cannot be updated. Those that have no
                chunk are left out.
            embedders: What gives the chunks vectors, beside `lsa`.
            reranker: What `hybrid+rerank` scores chunks with.
            rerank_depth: How many chunks of the hybrid ranking it scores for each text.
            settings: What the results depend on, beside the chunks.
            cut_by: How the chunks were cut, for the caller to compare.
            lsa: A fitted model to use, as `lsa_model` of another index; None: one is fitted on
                exactly these chunks.
            progress: Told how far the stages are: `terms`, `bm25`, `lsa`, the names of the
                embedders, and `table`.

        Raises:
            IndexingError: No chunk, two chunks with one id, nothing to find any chunk by, a folder
                that is no index or cannot be written, or an embedder that gives no vectors.
        """
        wanted = wanted_of(chunks, settings, embedders, cut_by, progress, lsa)
        folder = index_folder(root, name)
        parts = build_index(folder, chunks, files, wanted)
        return cls._of(parts, Models(embedders, reranker, rerank_depth))

    @classmethod
    def build_or_open(  # noqa: PLR0913 - as for build
        cls,
        root: Path,
        name: str,
        chunks: Sequence[Chunk],
        *,
        files: Sequence[IndexedFile] = (),
        embedders: Sequence[Embedder] = (),
        reranker: Reranker | None = None,
        rerank_depth: int = 50,
        settings: IndexSettings = _SETTINGS,
        cut_by: str = "",
        progress: Report | None = None,
    ) -> Self:
        """Open the index of these chunks, settings and embedders, or make it of what stands.

        It searches as one built from nothing does; what stands only saves work.
        Arguments and errors are those of `build`, but that nothing is told to `progress` where the
        index stands already.
        """
        wanted = wanted_of(chunks, settings, embedders, cut_by, progress)
        parts = build_or_open_index(index_folder(root, name), chunks, files, wanted)
        return cls._of(parts, Models(embedders, reranker, rerank_depth))

    @classmethod
    def update(  # noqa: PLR0913 - as for build
        cls,
        root: Path,
        name: str,
        changed_chunks: Sequence[Chunk],
        *,
        files: Sequence[IndexedFile],
        revisions: Mapping[str, str | None],
        embedders: Sequence[Embedder] = (),
        reranker: Reranker | None = None,
        rerank_depth: int = 50,
        refit_lsa: bool | None = None,
        progress: Report | None = None,
    ) -> tuple[Self, Difference]:
        """Bring an index to the state of its files.

        The rows of unchanged files are kept unread. `bm25` and the embedders then rank as after a
        build from nothing; `lsa` does so as long as its model is one fitted on these chunks.

        Args:
            root: As for `build`.
            name: As for `build`.
            changed_chunks: All chunks of the files that are new or whose hash is not the one in
                `files()`; chunks of other files are passed over.
            files: All files as they are now, but for those without chunks; whatever else is in the
                index is removed.
            revisions: Of each source of these files.
            embedders: All those of the index, and new ones.
            reranker: As for `build`.
            rerank_depth: As for `build`.
            refit_lsa: Whether to fit the `lsa` model again; None: once the chunks that have changed
                since are a fifth of those it was fitted on.
            progress: As for `build`.

        Raises:
            IndexingError: There is no index, it does not know its files or has vectors of an
                embedder that is not given, a changed file has no chunks or a chunk no file, or no
                chunk is left; and as for `build`.
        """
        check_embedders(embedders)
        parts, difference = update_index(
            index_folder(root, name),
            changed_chunks,
            files,
            revisions,
            embedders,
            refit_lsa,
            progress or silence,
        )
        return cls._of(parts, Models(embedders, reranker, rerank_depth)), difference

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        name: str | None = None,
        embedders: Sequence[Embedder] = (),
        reranker: Reranker | None = None,
        rerank_depth: int = 50,
    ) -> Self:
        """Open an index.

        Args:
            path: The folder of an index, or the folder where indexes are kept.
            name: Of the index; may be left out where there is just one.
            embedders: Those of the index that are to be searched by.
            reranker: As for `build`.
            rerank_depth: As for `build`.

        Raises:
            IndexingError: There is none, there are several, it is damaged or of another schema
                version, or it was made with another embedder of this name.
        """
        check_embedders(embedders)
        parts = Parts.open(only_index(path) if name is None else index_folder(path, name))
        stored = check_stored(parts.folder, parts.manifest.columns, embedders)
        return cls(parts, Models(embedders, reranker, rerank_depth), stored)

    @classmethod
    def _of(cls, parts: Parts, models: Models) -> Self:
        return cls(parts, models, [embedder.name for embedder in models.embedders])

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The names that `search` takes."""
        return self._searcher.retrievers

    @property
    def lsa_model(self) -> LsaModel:
        """The fitted embedder, to be used in another index."""
        return self._parts.lsa

    def search(
        self,
        retriever: str,
        texts: Sequence[str],
        depth: int,
        *,
        where: str | None = None,
        fusion: FusionConfig = PAPER_FUSION,
    ) -> list[list[ScoredChunk]]:
        """Rank the chunks for each text.

        Only chunks of positive score are found (a reranker's scores may be any), so a ranking may
        be shorter than `depth`, and a text without any known term finds nothing by `bm25` and `lsa`.

        Args:
            retriever: One of `retrievers`; `hybrid` fuses `bm25`, `lsa` and all embedders, each
                at the same depth; `hybrid+rerank` scores the first of these chunks anew.
            texts: What to search for.
            depth: How many chunks to give at most.
            where: An SQL filter on the columns of the table; other chunks are as if not there, but
                count in the weights of terms. None: all are searched.
            fusion: How `hybrid` fuses.

        Returns:
            One ranking per text, by score descending, then by chunk id.

        Raises:
            IndexingError: The retriever is unknown or lacks its model, the depth is below 1, or the
                filter cannot be understood.
        """
        return self._searcher.search(retriever, texts, depth, where, fusion)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give a chunk by its id; `chunks_by_id` is faster for many.

        Raises:
            IndexingError: There is none of this id.
        """
        return self.chunks_by_id([chunk_id])[chunk_id]

    def chunks_by_id(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Give chunks by their ids, in the given order.

        Raises:
            IndexingError: There is none of one of these ids.
        """
        wanted = list(dict.fromkeys(chunk_ids))
        numbers = self._parts.rows.numbers
        unknown = next((chunk_id for chunk_id in wanted if chunk_id not in numbers), None)
        if unknown is not None:
            raise IndexingError(
                f"no chunk {unknown!r} in {self.path}; the ids are those of its {len(self)} chunks"
            )
        rows = np.array([numbers[chunk_id] for chunk_id in wanted], np.intp)
        return dict(zip(wanted, self._parts.chunks(rows), strict=True))

    def chunks(self) -> Iterator[Chunk]:
        """Read all chunks, in the order of their ids."""
        return self._parts.chunks(np.arange(len(self)))

    def holds(
        self, chunks: Sequence[Chunk], settings: IndexSettings, embedders: Sequence[Embedder] = ()
    ) -> bool:
        """Whether `build` would make the same of these chunks, settings and embedders."""
        return holds_these(self._parts, chunks, wanted_of(chunks, settings, embedders, "", None))

    def files(self) -> list[IndexedFile]:
        """Give the files the chunks are from; none where they were not told."""
        with self._parts.damage_told():
            return list(self._parts.rows.files)

    def stats(self) -> IndexStats:
        """Count what is in this index."""
        return stats_of(self._parts)

    def __len__(self) -> int:
        return len(self._parts.rows)
