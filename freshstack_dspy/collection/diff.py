"""What differs between two collections, or two states of one: what is the same content is kept.

Ids do not count but for those of queries: a chunk that moved within its file is the same chunk.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import encode_records, write_file
from freshstack_dspy.records import (
    Chunk,
    Judgment,
    Nugget,
    Query,
    Record,
    ScaleName,
    SliceName,
    Status,
)


class Matches(NamedTuple):
    """For ids of the one collection, those of the same content in the other; each at most once."""

    nuggets: Mapping[str, str]
    """Of queries whose id and text are the same, nuggets whose text is."""
    chunks: Mapping[str, str]
    """Chunks whose source, path, title and text are the same; offsets and revisions may differ."""

    def pair(self, nugget_id: str, chunk_id: str) -> tuple[str, str] | None:
        """Give what a judgment of the one is of in the other, or None where that is not there."""
        nugget, chunk = self.nuggets.get(nugget_id), self.chunks.get(chunk_id)
        return None if nugget is None or chunk is None else (nugget, chunk)


def match(
    before: Contents, before_chunks: Iterable[Chunk], after: Contents, after_chunks: Iterable[Chunk]
) -> Matches:
    """Match the nuggets and chunks of two collections.

    What stands several times is matched by id first, and then in the order in which it stands.

    Args:
        before: The records of the one.
        before_chunks: Its chunks, or those that are of interest.
        after: The records of the other.
        after_chunks: All of its chunks.
    """
    return Matches(
        nuggets=match_nuggets(before.queries, before.nuggets, after.queries, after.nuggets),
        chunks=match_chunks(before_chunks, after_chunks),
    )


def match_nuggets(
    before_queries: Iterable[Query],
    before: Iterable[Nugget],
    after_queries: Iterable[Query],
    after: Iterable[Nugget],
) -> dict[str, str]:
    """Match nuggets: the same query id, query text and nugget text."""

    def keyed(queries: Iterable[Query], nuggets: Iterable[Nugget]) -> dict[str, Hashable]:
        texts = {query.query_id: query.text for query in queries}
        return {
            nugget.nugget_id: (nugget.query_id, texts[nugget.query_id], nugget.text)
            for nugget in nuggets
        }

    return _matched(keyed(before_queries, before), keyed(after_queries, after))


def match_chunks(before: Iterable[Chunk], after: Iterable[Chunk]) -> dict[str, str]:
    """Match chunks: the same source, path, title and text."""

    def keyed(chunks: Iterable[Chunk]) -> dict[str, Hashable]:
        in_order = sorted(chunks, key=lambda chunk: (chunk.start_byte, chunk.chunk_id))
        return {
            chunk.chunk_id: (chunk.source, chunk.path, chunk.title, chunk.text)
            for chunk in in_order
        }

    return _matched(keyed(before), keyed(after))


def _matched(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> dict[str, str]:
    """Pair ids of equal keys: those that are the same id first, the others in the given order."""
    found = {id_: id_ for id_, key in before.items() if id_ in after and after[id_] == key}
    left: dict[Hashable, list[str]] = {}
    for id_, key in after.items():
        if id_ not in found:
            left.setdefault(key, []).append(id_)
    for ids in left.values():
        ids.reverse()
    for id_, key in before.items():
        if id_ not in found and left.get(key):
            found[id_] = left[key].pop()
    return found


QueryField = Literal["title", "body", "answer"]
QUERY_FIELDS: tuple[QueryField, ...] = ("title", "body", "answer")


class Tally(Record):
    """How many of a kind of record there are in both, in the other alone, in the one alone."""

    kept: int = Field(ge=0)
    added: int = Field(ge=0)
    dropped: int = Field(ge=0)
    changed: int = Field(default=0, ge=0)
    """Of those in both: queries that were edited, judgments with another label. Not in `kept`."""


class QueryChange(Record):
    """A query that came, went, was edited, or is in another slice."""

    kind: Literal["query"] = "query"
    change: Literal["added", "dropped", "edited", "resliced"]
    query_id: str
    edited: tuple[QueryField, ...] = ()
    slice_before: SliceName | None = None
    slice_after: SliceName | None = None


class JudgmentChange(Record):
    """A judgment that came, went, or has another label; what is None is not there."""

    kind: Literal["judgment"] = "judgment"
    change: Literal["added", "dropped", "changed"]
    query_id: str
    nugget_before: str | None = None
    """The id of the nugget in the one collection."""
    nugget_after: str | None = None
    """And in the other."""
    chunk_before: str | None = None
    chunk_after: str | None = None
    label_before: int | None = None
    label_after: int | None = None
    status_before: Status | None = None
    status_after: Status | None = None


class Difference(Record):
    """What differs, counted; `changes` lists every query and judgment that is not as it was."""

    queries: Tally
    nuggets: Tally
    chunks: Tally
    pool: Tally
    """Chunks to be judged for a query."""
    judgments: Tally
    resliced: int = Field(ge=0)
    """Queries in both that are in another slice."""
    changes: tuple[QueryChange | JudgmentChange, ...] = Field(default=(), repr=False)
    """Queries by id, then judgments by query, nugget and chunk id."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        tallies = (self.queries, self.nuggets, self.chunks, self.pool, self.judgments)
        return not self.resliced and not any(
            tally.added or tally.dropped or tally.changed for tally in tallies
        )


class State(NamedTuple):
    """A collection to be compared."""

    contents: Contents
    chunks: Iterable[Chunk]

    @property
    def scale(self) -> ScaleName | None:
        """The scale of its labels; None where the records are no collection yet, and say none."""
        return self.contents.manifest.scale.name if isinstance(self.contents, Collection) else None


def difference(before: State, after: State) -> Difference:
    """Compare two collections.

    A query is the same by its id. A nugget is, where id and text of its query and its own text
    are; a chunk, where source, path, title and text are; a judgment, where nugget and chunk are.
    Labels of two scales are another where one is support and the other none, each by the threshold
    of its collection; the changes tell the labels themselves.

    Args:
        before: The one.
        after: The other.
    """
    chunks_before, chunks_after = list(before.chunks), list(after.chunks)
    one, other = before.contents, after.contents
    matches = match(one, chunks_before, other, chunks_after)
    queries = list(_query_changes(one, other))
    on_support = None not in (before.scale, after.scale) and before.scale != after.scale
    judgments = list(_judgment_changes(one, other, matches, on_support=on_support))
    ids = {query.query_id for query in one.queries} & {query.query_id for query in other.queries}
    edited = sum(change.change == "edited" for change in queries)
    relabelled = sum(change.change == "changed" for change in judgments)
    in_both = len(one.judgments) - sum(change.change == "dropped" for change in judgments)
    moved = {(candidate.query_id, matches.chunks.get(candidate.chunk_id)) for candidate in one.pool}
    pooled = sum((candidate.query_id, candidate.chunk_id) in moved for candidate in other.pool)
    return Difference(
        queries=_tally(len(ids), len(one.queries), len(other.queries), edited),
        nuggets=_tally(len(matches.nuggets), len(one.nuggets), len(other.nuggets)),
        chunks=_tally(len(matches.chunks), len(chunks_before), len(chunks_after)),
        pool=_tally(pooled, len(one.pool), len(other.pool)),
        judgments=_tally(in_both, len(one.judgments), len(other.judgments), relabelled),
        resliced=sum(
            change.slice_before != change.slice_after
            for change in queries
            if change.change in ("edited", "resliced")
        ),
        changes=(*queries, *judgments),
    )


def write_changes(found: Difference, path: Path) -> None:
    """Write the changes as JSON Lines, one for each, in their order; the file appears as a whole.

    Raises:
        CollectionError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, encode_records(found.changes))
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None


def _tally(both: int, before: int, after: int, changed: int = 0) -> Tally:
    return Tally(kept=both - changed, added=after - both, dropped=before - both, changed=changed)


def _query_changes(before: Contents, after: Contents) -> Iterator[QueryChange]:
    one = {query.query_id: query for query in before.queries}
    other = {query.query_id: query for query in after.queries}
    slice_before: dict[str, SliceName] = {part.query_id: part.slice for part in before.slices}
    slice_after: dict[str, SliceName] = {part.query_id: part.slice for part in after.slices}
    for query_id in sorted(one.keys() | other.keys()):
        was, now = one.get(query_id), other.get(query_id)
        slices = slice_before.get(query_id), slice_after.get(query_id)
        edited = _edited(was, now)
        if was is None or now is None:
            change: Literal["added", "dropped", "edited", "resliced"]
            change = "added" if was is None else "dropped"
        elif edited:
            change = "edited"
        elif slices[0] != slices[1]:
            change = "resliced"
        else:
            continue
        yield QueryChange(
            change=change,
            query_id=query_id,
            edited=edited,
            slice_before=slices[0],
            slice_after=slices[1],
        )


def _edited(was: Query | None, now: Query | None) -> tuple[QueryField, ...]:
    if was is None or now is None:
        return ()
    return tuple(name for name in QUERY_FIELDS if getattr(was, name) != getattr(now, name))


def _judgment_changes(
    before: Contents, after: Contents, matches: Matches, *, on_support: bool
) -> Iterator[JudgmentChange]:
    left = {(judgment.nugget_id, judgment.chunk_id): judgment for judgment in after.judgments}
    changes = []
    for was in before.judgments:
        pair = matches.pair(was.nugget_id, was.chunk_id)
        now = left.pop(pair, None) if pair is not None else None
        if now is None or (
            _said(now, after, on_support=on_support) != _said(was, before, on_support=on_support)
        ):
            changes.append(_judgment_change(was, now))
    changes += [_judgment_change(None, now) for now in left.values()]
    yield from sorted(changes, key=_in_order)


def _said(judgment: Judgment, of: Contents, *, on_support: bool) -> int | None:
    """The label, or whether it is support; None where there is none."""
    if judgment.label is None or not on_support:
        return judgment.label
    return int(judgment.label >= of.threshold)


def _in_order(change: JudgmentChange) -> tuple[str, ...]:
    ids = (
        change.nugget_before or change.nugget_after,
        change.chunk_before or change.chunk_after,
        change.nugget_after,
        change.chunk_after,
    )
    return (change.query_id, *(id_ or "" for id_ in ids), change.change)


def _judgment_change(was: Judgment | None, now: Judgment | None) -> JudgmentChange:
    either = was or now
    assert either is not None
    told: Mapping[str, object] = {
        f"{name}_{when}": getattr(judgment, field)
        for when, judgment in (("before", was), ("after", now))
        if judgment is not None
        for name, field in _TOLD
    }
    change = "added" if was is None else "dropped" if now is None else "changed"
    return JudgmentChange.model_validate({"change": change, "query_id": either.query_id, **told})


_TOLD = (("nugget", "nugget_id"), ("chunk", "chunk_id"), ("label", "label"), ("status", "status"))
