"""What differs between two collections, or two states of one: the same content is the same record.

Ids do not count but for those of queries: a chunk that moved within its file is the same chunk.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.files import encode_records, write_file
from freshstack_dspy.records import Chunk, Judgment, Query, Record, SliceName, Status

QueryField = Literal["title", "body", "answer"]
_QUERY_FIELDS: tuple[QueryField, ...] = ("title", "body", "answer")


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
    nugget_after: str | None = None
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


def difference(before: State, after: State) -> Difference:
    """Compare two collections.

    A query is the same by its id. A nugget is, where id and text of its query and its own text
    are; a chunk, where source, path, title and text are; a judgment, where nugget and chunk are.
    Labels of two scales differ where one is support and the other none, each by the threshold
    of its collection.
    """
    one, other = before.contents, after.contents
    chunks_before, chunks_after = list(before.chunks), list(after.chunks)
    nuggets = _matched(_nugget_keys(one), _nugget_keys(other))
    chunks = match_chunks(chunks_before, chunks_after)
    queries = list(_query_changes(one, other))
    judgments = sorted(_judgment_changes(one, other, nuggets, chunks), key=_in_order)
    ids = {query.query_id for query in one.queries} & {query.query_id for query in other.queries}
    moved = {(candidate.query_id, chunks.get(candidate.chunk_id)) for candidate in one.pool}
    pooled = sum((candidate.query_id, candidate.chunk_id) in moved for candidate in other.pool)
    edited = sum(change.change == "edited" for change in queries)
    relabelled = sum(change.change == "changed" for change in judgments)
    judged = len(one.judgments) - sum(change.change == "dropped" for change in judgments)
    return Difference(
        queries=_tally(len(ids), len(one.queries), len(other.queries), edited),
        nuggets=_tally(len(nuggets), len(one.nuggets), len(other.nuggets)),
        chunks=_tally(len(chunks), len(chunks_before), len(chunks_after)),
        pool=_tally(pooled, len(one.pool), len(other.pool)),
        judgments=_tally(judged, len(one.judgments), len(other.judgments), relabelled),
        resliced=sum(
            change.query_id in ids and change.slice_before != change.slice_after
            for change in queries
        ),
        changes=(*queries, *judgments),
    )


def match_chunks(before: Iterable[Chunk], after: Iterable[Chunk]) -> dict[str, str]:
    """Match chunks of the same source, path, title and text: by id, then in their order."""

    def keys(chunks: Iterable[Chunk]) -> dict[str, Hashable]:
        in_order = sorted(chunks, key=lambda chunk: (chunk.start_byte, chunk.chunk_id))
        return {each.chunk_id: (each.source, each.path, each.title, each.text) for each in in_order}

    return _matched(keys(before), keys(after))


def write_changes(found: Difference, path: Path) -> None:
    """Write the changes as JSON Lines, one for each, in their order; the file appears as a whole.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, encode_records(found.changes))


def _nugget_keys(contents: Contents) -> dict[str, Hashable]:
    texts = {query.query_id: query.text for query in contents.queries}
    return {
        each.nugget_id: (each.query_id, texts[each.query_id], each.text)
        for each in contents.nuggets
    }


def _matched(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> dict[str, str]:
    """Pair ids of equal keys: those that are the same id first, the others in the given order."""
    found = {id_: id_ for id_, key in before.items() if after.get(id_) == key}
    left: dict[Hashable, list[str]] = {}
    for id_, key in reversed(list(after.items())):
        if id_ not in found:
            left.setdefault(key, []).append(id_)
    for id_, key in before.items():
        if id_ not in found and left.get(key):
            found[id_] = left[key].pop()
    return found


def _tally(both: int, before: int, after: int, changed: int = 0) -> Tally:
    return Tally(kept=both - changed, added=after - both, dropped=before - both, changed=changed)


def _edited(was: Query, now: Query) -> tuple[QueryField, ...]:
    fields: list[QueryField] = []
    for field in _QUERY_FIELDS:
        if getattr(was, field) != getattr(now, field):
            fields.append(field)  # noqa: PERF401  pyright widens the fields of a comprehension
    return tuple(fields)


def _query_changes(before: Contents, after: Contents) -> Iterator[QueryChange]:
    one = {query.query_id: query for query in before.queries}
    other = {query.query_id: query for query in after.queries}
    slice_before: dict[str, SliceName] = {part.query_id: part.slice for part in before.slices}
    slice_after: dict[str, SliceName] = {part.query_id: part.slice for part in after.slices}
    for query_id in sorted(one.keys() | other.keys()):
        was, now = one.get(query_id), other.get(query_id)
        slices = slice_before.get(query_id), slice_after.get(query_id)
        edited: tuple[QueryField, ...] = ()
        change: Literal["added", "dropped", "edited", "resliced"] = "resliced"
        if was is None or now is None:
            change = "added" if was is None else "dropped"
        elif edited := _edited(was, now):
            change = "edited"
        elif slices[0] == slices[1]:
            continue
        yield QueryChange(
            change=change,
            query_id=query_id,
            edited=edited,
            slice_before=slices[0],
            slice_after=slices[1],
        )


def _judgment_changes(
    before: Contents, after: Contents, nuggets: Mapping[str, str], chunks: Mapping[str, str]
) -> Iterator[JudgmentChange]:
    on_support = _other_scale(before, after)

    def label(judgment: Judgment, of: Contents) -> int | bool | None:
        return of.supports(judgment) if on_support and judgment.status == "ok" else judgment.label

    left = {(one.nugget_id, one.chunk_id): one for one in after.judgments}
    for was in before.judgments:
        pair = nuggets.get(was.nugget_id, ""), chunks.get(was.chunk_id, "")
        now = left.pop(pair, None)
        if now is None or label(was, before) != label(now, after):
            yield _judgment_change(was, now)
    for now in left.values():
        yield _judgment_change(None, now)


def _other_scale(before: Contents, after: Contents) -> bool:
    """Whether the labels are on two scales; records that are no collection yet do not say theirs."""
    if not isinstance(before, Collection) or not isinstance(after, Collection):
        return False
    return before.manifest.scale.name != after.manifest.scale.name


def _judgment_change(was: Judgment | None, now: Judgment | None) -> JudgmentChange:
    either = was or now
    assert either is not None
    return JudgmentChange(
        change="added" if was is None else "dropped" if now is None else "changed",
        query_id=either.query_id,
        nugget_before=was and was.nugget_id,
        nugget_after=now and now.nugget_id,
        chunk_before=was and was.chunk_id,
        chunk_after=now and now.chunk_id,
        label_before=was and was.label,
        label_after=now and now.label,
        status_before=was and was.status,
        status_after=now and now.status,
    )


def _in_order(change: JudgmentChange) -> tuple[str, ...]:
    ids = (
        change.nugget_before or change.nugget_after,
        change.chunk_before or change.chunk_after,
        change.nugget_after,
        change.chunk_after,
    )
    return (change.query_id, *(id_ or "" for id_ in ids), change.change)
