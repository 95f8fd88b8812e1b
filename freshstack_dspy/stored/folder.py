"""A collection in its folder: records, manifest and chunks, and the judgments for the measures."""

import os
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import existing_folder
from freshstack_dspy.records import Chunk, Query, Scale
from freshstack_dspy.stored.contents import Contents, NuggetsName, Slices, slice_queries
from freshstack_dspy.stored.manifest import (
    CORPUS_FILE,
    Manifest,
    by_hand,
    dollars_per_query,
    is_dry_run,
    labels_by,
    makers,
    people_of,
    read_manifest,
    read_sums,
    uncalibrated,
)
from freshstack_dspy.stored.record_files import RECORD_FILES

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import About, NuggetQrels
    from freshstack_dspy.stored.passages import Files

GRADED = ("import:beir", "import:mteb", "import:golden")
"""Recipes whose labels are grades for the query, which has no nuggets."""
_JUDGED_CHUNKS_ONLY = ("import:nuggetizer", "import:crux", "import:judgments")
"""Recipes whose corpus is only a part of what runs were made on."""


class ChunkLengths(Mapping[str, int]):
    """The lengths of chunks in tokens, where they have a text; few measures need them."""

    def __init__(self, corpus: ChunkFile) -> None:
        self._corpus = corpus

    def __getitem__(self, chunk_id: str) -> int:
        row = self._corpus.ids.row(chunk_id)
        if row is None or not (tokens := int(self._corpus.tokens[row])):
            raise KeyError(chunk_id)
        return tokens

    def __iter__(self) -> Iterator[str]:
        tokens = self._corpus.tokens
        return (chunk_id for row, chunk_id in enumerate(self._corpus.ids) if tokens[row])

    def __len__(self) -> int:
        return int((self._corpus.tokens > 0).sum())

    def __repr__(self) -> str:
        """Describe it without reading, as the qrels that hold it are printed."""
        return "ChunkLengths(...)"


@dataclass(frozen=True, kw_only=True, repr=False)
class StoredCollection(Contents):
    """A judged collection as its files have it: its records, its manifest and its chunks.

    Two are equal when their records and manifests are.

    Attributes:
        manifest: What it is, how it was made, and the hashes of its files.
        corpus: The chunks; read from disk when first needed.
    """

    manifest: Manifest
    corpus: ChunkFile = field(compare=False)

    @classmethod
    def holding(cls, contents: Contents, manifest: Manifest, corpus: ChunkFile) -> Self:
        """Make a collection of these records and chunks, with the manifest that describes them."""
        threshold = manifest.scale.threshold
        return cls(**contents.records(), threshold=threshold, manifest=manifest, corpus=corpus)

    @classmethod
    def load(cls, path: Self | Path | str) -> Self:
        """Open the collection in a folder; records and chunks are read when they are needed.

        A collection in place of its folder is given as it is.

        Raises:
            CollectionError: In one line, where a file is missing, or where the collection is of
                another schema version; when records are first needed, where a line is none.
        """
        if isinstance(path, StoredCollection):
            return path
        try:
            folder = existing_folder(Path(os.path.realpath(path)))
        except (OSError, ValueError) as error:  # too long, or no name at all
            raise CollectionError(f"{reprlib.repr(str(path))} cannot be read: {error}") from None
        manifest, sums = read_manifest(folder), read_sums(folder)
        records: Any = {file.name: file.open(folder, manifest.files, sums) for file in RECORD_FILES}
        corpus = ChunkFile(folder / CORPUS_FILE, sha256=sums.get(CORPUS_FILE, "") if sums else None)
        threshold = manifest.scale.threshold
        collection = cls(**records, threshold=threshold, manifest=manifest, corpus=corpus)
        vars(collection)["_path"] = Path(path)
        return collection

    def at_threshold(self, threshold: int) -> Self:
        """Give the collection with another lowest label that counts as support (CRUX's η).

        The queries are sliced anew; nothing is written.

        Raises:
            CollectionError: The scale of the labels does not reach that high.
        """
        try:
            scale = Scale(name=self.manifest.scale.name, threshold=threshold)
        except ValidationError as error:
            raise CollectionError(f"{self.name}: {first_fault(error)}") from None
        changed = replace(
            self,
            slices=slice_queries(self.queries, self.nuggets, self.judgments, threshold, self.pool),
            threshold=threshold,
            manifest=self.manifest.model_copy(update={"scale": scale}),
        )
        vars(changed)["_path"] = self.path
        return changed

    def __hash__(self) -> int:
        """Equal collections have one hash, that of their content."""
        return hash(self.manifest.content_hash)

    def __repr__(self) -> str:
        """Say in one line what it is and how large."""
        counts, by = self.manifest.counts, " and ".join(makers(self.manifest))
        return (
            f"<Collection {self.name}: {counts.queries:,} queries, {counts.nuggets:,} nuggets, "
            f"{counts.chunks:,} chunks, {counts.judgments:,} judgments{f' by {by}' if by else ''}>"
        )

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.manifest.name

    @property
    def path(self) -> Path | None:
        """Its folder, as it was named when it was opened; None of one that is in no folder."""
        path: Path | None = vars(self).get("_path")
        return path

    @property
    def recipe(self) -> str:
        """The recipe that built it."""
        return self.manifest.recipe

    @property
    def plain(self) -> bool:
        """Whether its labels are grades for the query, of qrels without nuggets."""
        return self.recipe in GRADED

    @property
    def labels_by(self) -> str:
        """Who made the labels, and how far they agree with people, in a line."""
        return labels_by(self.manifest)

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks of the corpus, by chunk_id."""
        return iter(self.corpus)

    def chunk(self, chunk_id: str) -> Chunk:
        """Give one chunk of the corpus.

        Raises:
            CollectionError: There is no such chunk, or the corpus cannot be read.
        """
        return self.corpus.chunk(chunk_id)

    @cached_property
    def files(self) -> "Files":
        """The files that the chunks are from, read only when needed."""
        from freshstack_dspy.stored.passages import Files

        return Files(self.corpus, self.judgments)

    def _spans(self) -> "Files":
        """Give `files`, where a measure asks for them; a method, which can be pickled."""
        return self.files

    def true_at(self, query_id: str | None = None) -> dict[str, str]:
        """Say when each nugget of a query, or of all, was last seen to be true, where it is known.

        That is the date of the commit whose chunks support it, or the latest of several sources.
        For documents outside of a git repository, no date is known.
        """
        if not (dates := self.manifest.dates):
            return {}
        supporting = [*self.supporting("nugget_id", "chunk_id", query_id=query_id)]
        chunks = self.corpus.chunks({chunk_id for _, chunk_id in supporting})
        latest: dict[str, str] = {}
        for nugget_id, chunk_id in supporting:
            if date := dates.get(chunks[chunk_id].source):
                latest[nugget_id] = max(date, latest.get(nugget_id, ""))
        return latest

    def qrels(self, slices: Slices = None, nuggets: NuggetsName = "supported") -> "NuggetQrels":
        """Give the judgments of these queries as the measures read them.

        The lengths of chunks are read only if a measure asks for one.

        Args:
            slices: As in `query_ids`; `answerable` is the filter of the FreshStack paper.
            nuggets: On which of its nuggets a query is measured: those that the corpus supports, or
                all. A query without a supported one is measured on all.

        Raises:
            CollectionError: A name is not that of a slice, or no query is in these slices.
        """
        key = slices if slices is None or isinstance(slices, str) else tuple(slices), nuggets
        if key not in self._qrels:
            self._qrels[key] = self._make_qrels(slices, nuggets)
        return self._qrels[key]

    @cached_property
    def _qrels(self) -> dict[Any, "NuggetQrels"]:
        """The judgments asked for so far; all runs on them share what they cache."""
        return {}

    def _make_qrels(self, slices: Slices, nuggets: NuggetsName) -> "NuggetQrels":
        self.check_any(slices)
        qrels = self.qrels_of(slices, ChunkLengths(self.corpus), nuggets)
        return replace(
            qrels,
            spans=self._spans,
            plain=self.plain,
            dry_run=is_dry_run(self.manifest),
            questions={query.query_id: query.text for query in self.queries},
            about=self.about(slices, nuggets),
            chunk_ids=None if self.recipe in _JUDGED_CHUNKS_ONLY else self.corpus.ids,
        )

    def about(self, slices: Slices = None, nuggets: NuggetsName = "supported") -> "About":
        """Describe the data behind a result on these slices."""
        from freshstack_dspy.measures.qrels import About

        named = ", ".join([slices] if isinstance(slices, str) else slices or ())
        choice = f" ({named})" if named not in ("", "supported") else ""
        return About(
            name=self.name,
            choice=f"{choice}, on all nuggets" if nuggets == "all" else choice,
            query_ids=frozenset(query.query_id for query in self.queries),
            left_out=self.left_out(slices, nuggets),
            labels_by=self.labels_by,
            uncalibrated=uncalibrated(self.manifest),
            by_hand=by_hand(self.manifest),
            dollars=dollars_per_query(self.manifest),
            people=people_of(self.manifest),
            path=self.path,
            imported=self.recipe.partition("import:")[2],
            identity={
                "collection": self.name,
                "content_hash": self.manifest.content_hash,
                "slices": slices or "supported",
                "nuggets": nuggets,
                "dry_run": is_dry_run(self.manifest),
                **({"weights": "times asked"} if self.weights else {}),
            },
        )


def find_query(collection: StoredCollection, query_id: str) -> Query:
    """Give a query by its id."""
    queries = {query.query_id: query for query in collection.queries}
    if query_id not in queries:
        from freshstack_dspy.text import named_nearest  # reading needs no words

        raise CollectionError(
            f"{collection.name}: there is no query {query_id!r} among its {len(queries):,}; "
            f"{named_nearest(query_id, queries, 'freshstack show')}"
        )
    return queries[query_id]
