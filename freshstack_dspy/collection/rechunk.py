"""Rechunk a collection: the same files cut anew, and the labels projected by their evidence."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.corpus.chunks import SMALLEST_LIMIT, chunk_file
from freshstack_dspy.corpus.texts import BOM
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import only_writer
from freshstack_dspy.measures.passage_labels import chunks_under, label_under
from freshstack_dspy.measures.qrels import ChunkLabels
from freshstack_dspy.measures.spans import Place, Span
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Candidate, Chunk, Judgment, SourceFile
from freshstack_dspy.stored.contents import Contents, nuggets_by_query
from freshstack_dspy.stored.manifest import Provenance
from freshstack_dspy.stored.passage_runs import CollectionSpans
from freshstack_dspy.stored.slices import slice_queries

File = tuple[str, str]
"""Source and path."""

_UNMARKED = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
"""What reads a file behind its byte order mark. A file of one chunk in UTF-16 does not say in which
order its bytes are; their offsets are the same."""


@dataclass(frozen=True, repr=False)
class Rechunked(Shown):
    """A collection that was cut anew."""

    collection: Collection
    lost: int
    """Labels of support that no chunk has any more: their evidence is cut through, or they have
    none and their chunk is cut."""
    without_evidence: int
    """Labels of support without evidence, which went on only where a chunk holds the whole of
    theirs."""
    lost_nuggets: tuple[str, ...]
    """Nuggets that were supported and are not any more, ascending."""

    def __repr__(self) -> str:
        return f"Rechunked({self.collection!r}: {counted(self.lost, 'label')} lost)"


def rechunk(collection: Collection | Path | str, max_tokens: int, out: Path | str) -> Rechunked:
    """Cut the files of a collection anew, and write a collection with its labels; no model is asked.

    A chunk supports a nugget if it holds all evidence of a label of support for it. It has the
    label 0 where all of it is in chunks that have a label for the nugget, and else it is unjudged.
    Chunks that are cut as before keep their judgments as they are, so that at the collection's own
    `max_tokens` the qrels are the same.

    Args:
        collection: A collection whose chunks make up its files, as those that were built here.
        max_tokens: The most cl100k_base tokens in a chunk.
        out: A new folder.

    Raises:
        ConfigError: `max_tokens` is too small, or `out` exists.
        CollectionError: The chunks of a path do not make up a file.
    """
    out = Path(out)
    if max_tokens < SMALLEST_LIMIT:
        raise ConfigError(f"max_tokens is {max_tokens}; allowed: {SMALLEST_LIMIT} or more")
    if out.exists():
        raise ConfigError(f"{out} exists; name a folder that does not")
    with only_writer(out, "freshstack rechunk"):
        return _rechunk(Collection.load(collection), max_tokens, out)


def _rechunk(before: Collection, max_tokens: int, out: Path) -> Rechunked:
    old = _by_file(before.chunks())
    new = {key: _cut(chunks, max_tokens) for key, chunks in old.items()}
    over = {
        chunk.chunk_id: [
            each.chunk_id
            for each in new[key]
            if each.start_byte < chunk.end_byte and chunk.start_byte < each.end_byte
        ]
        for key, chunks in old.items()
        for chunk in chunks
    }
    projection = _Projection(before, old, new)
    judgments = projection.judgments()
    records = before.records()
    records |= {
        "judgments": tuple(judgments),
        "pool": _pool(before.pool, judgments, over, projection.unchanged),
        "slices": slice_queries(
            before.queries, before.nuggets, judgments, before.threshold, before.pool
        ),
        "queries": [
            one.model_copy(update={"seed_chunk_ids": _all_over(one.seed_chunk_ids, over)})
            for one in before.queries
        ],
        "nuggets": [
            one.model_copy(update={"chunk_ids": _all_over(one.chunk_ids, over)})
            for one in before.nuggets
        ],
        "failures": [
            one.model_copy(update={"chunk_ids": _all_over(one.chunk_ids, over)})
            for one in before.failures
        ],
    }
    contents = Contents(**records, threshold=before.threshold)
    lost = len(projection.supports - projection.held)
    chunks = [chunk for of in new.values() for chunk in of]
    return Rechunked(
        write_collection(out, contents, chunks, _provenance(before, max_tokens, lost)),
        lost,
        sum(not one.evidence for one in before.judgments if before.supports(one)),
        tuple(sorted(before.supported_nuggets() - contents.supported_nuggets())),
    )


def _by_file(chunks: Iterable[Chunk]) -> dict[File, list[Chunk]]:
    """Give the chunks of each file in their order, or an error where they do not make it up."""
    files: defaultdict[File, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        files[chunk.source, chunk.path].append(chunk)
    for (source, path), of in files.items():
        of.sort(key=lambda chunk: chunk.start_byte)
        tiled = all(one.end_byte == other.start_byte for one, other in pairwise(of))
        if of[0].start_byte or not tiled:
            raise CollectionError(
                f"the chunks of {source}/{path} do not make up a file, so it cannot be cut anew; "
                "collections that were built from files can"
            )
    return dict(files)


def _cut(chunks: Sequence[Chunk], max_tokens: int) -> list[Chunk]:
    """Put a file together from its chunks, and cut it."""
    first = chunks[0]
    encoding = chunks[-1].encoding if len(chunks) > 1 else first.encoding
    encoding = _UNMARKED.get(encoding, encoding)
    text = "".join(chunk.text for chunk in chunks)
    data = (BOM * (first.encoding != encoding) + text).encode(encoding)
    if len(data) != chunks[-1].end_byte:
        raise CollectionError(
            f"the texts of the chunks of {first.source}/{first.path} are {len(data)} bytes in "
            f"{encoding}, and its last chunk ends at byte {chunks[-1].end_byte}"
        )
    file = SourceFile(first.source, first.path, data, first.revision, encoding)
    same = {"title": first.title, "url": first.url, "language": first.language}
    return [chunk.model_copy(update=same) for chunk in chunk_file(file, max_tokens)]


class _Projection:
    """The judgments of a collection, for other chunks of its files."""

    def __init__(
        self,
        before: Collection,
        old: Mapping[File, Sequence[Chunk]],
        new: Mapping[File, Sequence[Chunk]],
    ) -> None:
        self._before, self._new = before, new
        ids = {Place(*key, chunk.start_byte, chunk.end_byte): chunk.chunk_id
               for key, of in old.items() for chunk in of}  # fmt: skip
        self.unchanged = {
            ids[place]: chunk.chunk_id
            for key, of in new.items()
            for chunk in of
            if (place := Place(*key, chunk.start_byte, chunk.end_byte)) in ids
        }
        """Old id -> new id, of the chunks that are cut as before."""
        self._judgments: dict[tuple[str, str], Judgment] = {
            (one.nugget_id, one.chunk_id): one for one in before.judgments
        }
        self.supports = {key for key, one in self._judgments.items() if before.supports(one)}
        self.held: set[tuple[str, str]] = set()
        """The labels of support, by (nugget id, old chunk id), that a new chunk has too."""

    def judgments(self) -> list[Judgment]:
        """Give the judgments of the new chunks."""
        kept = set(self.unchanged.values())
        found = []
        for (nugget_id, old_id), one in self._judgments.items():
            if old_id in self.unchanged:
                ids = {"chunk_id": self.unchanged[old_id]}
                same = None if one.same_as is None else self.unchanged.get(one.same_as)
                found.append(one.model_copy(update={**ids, "same_as": same}))
                self.held.add((nugget_id, old_id))
        spans = CollectionSpans(self._before.corpus, self._before.judgments)
        nuggets = nuggets_by_query(self._before.nuggets, doubtful=True)
        for query, of_query in nuggets.items():
            for key, labels in spans.labels(query).items():
                for chunk in self._new[key]:
                    if chunk.chunk_id in kept:
                        continue
                    span = chunk.start_byte, chunk.end_byte
                    near = chunks_under(span, labels)
                    for nugget in of_query if near else ():
                        judged = self._judgment(near, nugget.nugget_id, span)
                        if judged is not None:
                            found.append(judged.model_copy(update={"chunk_id": chunk.chunk_id}))
        return found

    def _judgment(self, near: Sequence[ChunkLabels], nugget: str, span: Span) -> Judgment | None:
        """Give the judgment of a part of a file, but for its chunk."""
        found = label_under(near, nugget, span)
        if found is None:
            return None
        self.held.update((nugget, chunk_id) for chunk_id in found.held)
        source = self._judgments[nugget, found.of]
        new: dict[str, Any] = {"parts": 1, "votes": (), "same_as": None}
        if not found.held:
            if source.label:
                new["reason"] = f"the evidence is not, or not all, in this part of {found.of}"
            new |= {"label": found.label, "evidence": ()}
        return source.model_copy(update=new)


def _pool(
    pool: Iterable[Candidate],
    judgments: Iterable[Judgment],
    over: Mapping[str, Sequence[str]],
    unchanged: Mapping[str, str],
) -> list[Candidate]:
    """Give the new chunks that have a judgment, or are pooled as before, with what found them."""
    judged = {(one.query_id, one.chunk_id) for one in judgments}
    found: defaultdict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for one in pool:
        for chunk_id in over[one.chunk_id]:
            if unchanged.get(one.chunk_id) == chunk_id or (one.query_id, chunk_id) in judged:
                found[one.query_id, chunk_id].append(one)
    return [_candidate(chunk_id, of) for (_, chunk_id), of in found.items()]


def _candidate(chunk_id: str, of: Sequence[Candidate]) -> Candidate:
    """One candidate in place of those it overlaps, at the best of their ranks."""
    pooled = _best(of, "pooled_by", ("technique",))
    techniques = {one.technique for one in pooled}
    below = [
        one for one in _best(of, "ranked_below", ("technique",)) if one.technique not in techniques
    ]
    grades = [one.relevance for one in of if one.relevance is not None]
    only = set(of[0].lost_without).intersection(*(one.lost_without for one in of))
    return of[0].model_copy(
        update={
            "chunk_id": chunk_id,
            "pooled_by": tuple(pooled),
            "ranked_below": tuple(below),
            "found_by": tuple(_best(of, "found_by", ("technique", "retriever"))),
            "lost_without": tuple(one for one in of[0].lost_without if one in only),
            "runs": tuple(_best(of, "runs", ("run",))),
            "relevance": max(grades, key=lambda one: one.grade, default=None),
        }
    )


def _best(of: Sequence[Candidate], name: str, by: tuple[str, ...]) -> list[Any]:
    ranks: dict[tuple[str, ...], Any] = {}
    for one in (each for candidate in of for each in getattr(candidate, name)):
        key = tuple(getattr(one, part) for part in by)
        ranks[key] = min(one, ranks.get(key, one), key=lambda each: int(each.rank))
    return list(ranks.values())


def _all_over(ids: Iterable[str], over: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(new for old in ids for new in over[old]))


def _provenance(before: Collection, max_tokens: int, lost: int) -> Provenance:
    manifest = before.manifest
    config: dict[str, Any] = dict(manifest.config)
    chunking = config.get("chunking")
    own = dict(chunking) if isinstance(chunking, dict) else {}
    config["chunking"] = {**own, "max_tokens": max_tokens}
    config["rechunked"] = {
        "collection": manifest.name,
        "content_hash": manifest.content_hash,
        "max_tokens": own.get("max_tokens"),
        "lost": lost,
    }
    values = {name: getattr(manifest, name) for name in Provenance.model_fields}
    name = f"{manifest.name}-{max_tokens}"
    changed = {"name": name, "config": config, "trust": None}
    return Provenance(**{**values, **changed})
