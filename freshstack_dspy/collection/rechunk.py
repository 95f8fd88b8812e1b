"""Rechunk a collection: the same files cut anew, and the labels projected by their evidence."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.config import Boundaries
from freshstack_dspy.corpus.chunks import SMALLEST_LIMIT, chunk_file
from freshstack_dspy.corpus.texts import BOM
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import only_writer
from freshstack_dspy.measures.passage_labels import SpanLabel, chunks_under, label_under
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Candidate, Chunk, Judgment, Record, SourceFile
from freshstack_dspy.stored.contents import Contents, nuggets_by_query, slice_queries
from freshstack_dspy.stored.manifest import Provenance
from freshstack_dspy.stored.passages import File

R = TypeVar("R", bound=Record)

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
    `max_tokens` the qrels are the same; `[chunking] boundaries` stays as it was.

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
    boundaries = _chunking(before).get("boundaries", "packed")
    new = {file: _cut(chunks, max_tokens, boundaries) for file, chunks in old.items()}
    over: dict[str, list[str]] = {}
    unchanged: dict[str, str] = {}
    for file, chunks in old.items():
        for chunk in chunks:
            span = chunk.start_byte, chunk.end_byte
            near = [
                part for part in new[file] if part.start_byte < span[1] and span[0] < part.end_byte
            ]
            over[chunk.chunk_id] = [part.chunk_id for part in near]
            if near and (near[0].start_byte, near[0].end_byte) == span:
                unchanged[chunk.chunk_id] = near[0].chunk_id
    judgments, held = _projected(before, new, unchanged)
    records = before.records()
    records |= {
        "judgments": tuple(judgments),
        "pool": _pool(before.pool, judgments, over, unchanged),
        "slices": slice_queries(
            before.queries, before.nuggets, judgments, before.threshold, before.pool
        ),
        "queries": _with_ids(before.queries, "seed_chunk_ids", over),
        "nuggets": _with_ids(before.nuggets, "chunk_ids", over),
        "failures": _with_ids(before.failures, "chunk_ids", over),
    }
    contents = Contents(**records, threshold=before.threshold)
    support = [judgment for judgment in before.judgments if before.supports(judgment)]
    lost = sum((judgment.nugget_id, judgment.chunk_id) not in held for judgment in support)
    cut = [chunk for chunks in new.values() for chunk in chunks]
    return Rechunked(
        write_collection(out, contents, cut, _provenance(before, max_tokens, lost)),
        lost,
        sum(not judgment.evidence for judgment in support),
        tuple(sorted(before.supported_nuggets - contents.supported_nuggets)),
    )


def _by_file(chunks: Iterable[Chunk]) -> dict[File, list[Chunk]]:
    """Give the chunks of each file in their order, or an error where they do not make it up."""
    files: defaultdict[File, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        files[chunk.source, chunk.path].append(chunk)
    for (source, path), parts in files.items():
        parts.sort(key=lambda chunk: chunk.start_byte)
        tiled = all(first.end_byte == second.start_byte for first, second in pairwise(parts))
        if parts[0].start_byte or not tiled:
            raise CollectionError(
                f"the chunks of {source}/{path} do not make up a file, so it cannot be cut anew; "
                "collections that were built from files can"
            )
    return dict(files)


def _cut(chunks: Sequence[Chunk], max_tokens: int, boundaries: Boundaries) -> list[Chunk]:
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
    cut = chunk_file(file, max_tokens, boundaries=boundaries)
    return [chunk.model_copy(update=same) for chunk in cut]


def _projected(
    before: Collection, new: Mapping[File, Sequence[Chunk]], unchanged: Mapping[str, str]
) -> tuple[list[Judgment], set[tuple[str, str]]]:
    """Give the judgments of the new chunks, and the (nugget id, old chunk id) whose label one has.

    `unchanged` maps the old ids of the chunks that are cut as before to their new ones.
    """
    judged = {(each.nugget_id, each.chunk_id): each for each in before.judgments}
    judgments: list[Judgment] = []
    held: set[tuple[str, str]] = set()
    for pair, judgment in judged.items():
        if pair[1] in unchanged:
            same_as = unchanged.get(judgment.same_as or "")
            ids = {"chunk_id": unchanged[pair[1]], "same_as": same_as}
            judgments.append(judgment.model_copy(update=ids))
            held.add(pair)
    unchanged_ids = set(unchanged.values())
    for query_id, nuggets in nuggets_by_query(before.nuggets, doubtful=True).items():
        for file, labels in before.files.labels(query_id).items():
            for chunk in (part for part in new[file] if part.chunk_id not in unchanged_ids):
                span = chunk.start_byte, chunk.end_byte
                near = chunks_under(span, labels)
                for nugget_id in (nugget.nugget_id for nugget in nuggets if near):
                    label = label_under(near, nugget_id, span)
                    if label is not None:
                        source = judged[nugget_id, label.chunk_id]
                        judgments.append(_of_part(source, label, chunk.chunk_id))
                        held.update((nugget_id, chunk_id) for chunk_id in label.held)
    return judgments, held


def _of_part(source: Judgment, label: SpanLabel, chunk_id: str) -> Judgment:
    """Give the judgment of a new chunk, by that of a chunk that it overlaps."""
    update: dict[str, Any] = {"chunk_id": chunk_id, "parts": 1, "votes": (), "same_as": None}
    if not label.held:
        fields = "probability", "followed_from"
        update |= {"label": label.label, "evidence": (), **dict.fromkeys(fields)}
        if source.label:
            update["reason"] = f"the evidence is not, or not all, in this part of {label.chunk_id}"
    return source.model_copy(update=update)


def _pool(
    pool: Iterable[Candidate],
    judgments: Iterable[Judgment],
    over: Mapping[str, Sequence[str]],
    unchanged: Mapping[str, str],
) -> list[Candidate]:
    """Give the new chunks that have a judgment, or are pooled as before, with what found them."""
    judged = {(each.query_id, each.chunk_id) for each in judgments}
    overlapping: defaultdict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in pool:
        for chunk_id in over[candidate.chunk_id]:
            pair = candidate.query_id, chunk_id
            if unchanged.get(candidate.chunk_id) == chunk_id or pair in judged:
                overlapping[pair].append(candidate)
    return [_merged(chunk_id, candidates) for (_, chunk_id), candidates in overlapping.items()]


def _merged(chunk_id: str, candidates: Sequence[Candidate]) -> Candidate:
    """Give one candidate in place of those it overlaps, at the best of their ranks."""
    first = candidates[0]
    pooled = _best(candidates, "pooled_by", ("technique",))
    techniques = {by.technique for by in pooled}
    below = _best(candidates, "ranked_below", ("technique",))
    grades = [each.relevance for each in candidates if each.relevance is not None]
    return first.model_copy(
        update={
            "chunk_id": chunk_id,
            "pooled_by": tuple(pooled),
            "ranked_below": tuple(by for by in below if by.technique not in techniques),
            "found_by": tuple(_best(candidates, "found_by", ("technique", "retriever"))),
            "lost_without": tuple(
                technique
                for technique in first.lost_without
                if all(technique in each.lost_without for each in candidates)
            ),
            "runs": tuple(_best(candidates, "runs", ("run",))),
            "relevance": max(grades, key=lambda relevance: relevance.grade, default=None),
        }
    )


def _best(candidates: Sequence[Candidate], field: str, by: tuple[str, ...]) -> list[Any]:
    """Give the entries of a field of all candidates, by some of their own the one of best rank."""
    best: dict[tuple[str, ...], Any] = {}
    for entry in (each for candidate in candidates for each in getattr(candidate, field)):
        key = tuple(getattr(entry, name) for name in by)
        best[key] = min(entry, best.get(key, entry), key=lambda each: int(each.rank))
    return list(best.values())


def _with_ids(records: Iterable[R], field: str, over: Mapping[str, Sequence[str]]) -> list[R]:
    """Give records with the ids of the new chunks that overlap those in a field."""
    return [
        record.model_copy(
            update={
                field: tuple(dict.fromkeys(n for id_ in getattr(record, field) for n in over[id_]))
            }
        )
        for record in records
    ]


def _chunking(before: Collection) -> dict[str, Any]:
    """How the collection was cut; empty where its manifest does not say."""
    chunking = before.manifest.config.get("chunking")
    return dict(chunking) if isinstance(chunking, dict) else {}


def _provenance(before: Collection, max_tokens: int, lost: int) -> Provenance:
    manifest = before.manifest
    config: dict[str, Any] = dict(manifest.config)
    own = _chunking(before)
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
