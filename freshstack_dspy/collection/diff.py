"""Differences between two collections, or two states of one; records are matched by content.

Only the ids of queries count: a chunk that moved within its file is the same chunk.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set, Sized
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import Field

from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.files import encode_records, write_file
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Chunk, Judgment, Nugget, Record, SliceName
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.record_files import rows
from freshstack_dspy.text import jaccard, terms

_REWORDED = 0.5
"""From which Jaccard index of their terms on two nuggets of one id are one, reworded."""


class Tally(Record):
    """How many of a kind of record there are in both, in the other alone, in the one alone."""

    kept: int
    added: int
    dropped: int
    changed: int = 0
    """Among those in both: queries that were edited, nuggets reworded, or with another importance or
    doubt, judgments with another label. Not in `kept`."""


class QueryChange(Record):
    """A query that came, went, was edited, or is in another slice."""

    kind: Literal["query"] = "query"
    change: Literal["added", "dropped", "edited", "resliced"]
    query_id: str
    edited: tuple[str, ...] = ()
    """Which of title, body, answer and weight."""
    slice_before: SliceName | None = None
    slice_after: SliceName | None = None


class NuggetChange(Record):
    """A nugget that came, went, or is another in some of its fields; what is None is not there."""

    kind: Literal["nugget"] = "nugget"
    change: Literal["added", "dropped", "changed"]
    query_id: str
    before: Nugget | None
    after: Nugget | None
    fields: tuple[str, ...] = ()
    """Which of text, importance and doubtful."""


class JudgmentChange(Record):
    """A judgment that came, went, or has another label or evidence; what is None is not there."""

    kind: Literal["judgment"] = "judgment"
    change: Literal["added", "dropped", "changed", "evidence", "followed"]
    """`evidence`: the label is the same, and other words of the chunk show it; `followed`: it is that
    of an edited chunk, as the words that show it are still there."""
    query_id: str
    move: Literal["up", "down", "new", "gone"] | None = None
    """Where the label went; new and gone are those of pairs that had, or have, no label. None where
    neither has one."""
    before: Judgment | None
    after: Judgment | None


class Difference(Record, Shown):
    """What differs, counted; `changes` lists every query and judgment that is not as it was."""

    queries: Tally
    nuggets: Tally
    chunks: Tally
    pool: Tally
    """Chunks to be judged for a query."""
    judgments: Tally
    resliced: int
    """Queries in both that are in another slice."""
    evidence: int = 0
    """Judgments in both, with the same label, that other words of the chunk show; in `kept` too."""
    followed: int = 0
    """Labels that followed their evidence into an edited chunk; in `kept` too."""
    changes: tuple[QueryChange | NuggetChange | JudgmentChange, ...]
    """Queries by id, then nuggets, then judgments by query, nugget and chunk id."""
    questions: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """The texts of the queries of both; written nowhere."""
    texts: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Those of the nuggets."""

    @property
    def tallies(self) -> dict[str, Tally]:
        """The counts by what is compared."""
        kinds = ("queries", "nuggets", "chunks", "pool", "judgments")
        return {kind: getattr(self, kind) for kind in kinds}

    def __repr__(self) -> str:
        counts = (
            f"{kind} +{tally.added} -{tally.dropped} ~{tally.changed}"
            for kind, tally in self.tallies.items()
        )
        return f"Difference({', '.join(counts)})"

    __str__ = __repr__


def difference(
    before: Contents,
    after: Contents,
    chunks_before: ChunkFile,
    chunks_after: ChunkFile,
) -> Difference:
    """Compare two collections.

    Queries are the same if their ids are. Nuggets are the same if the id and text of their query
    and their own text are; chunks if source, path, title and text are, but for white space around
    it; judgments if nugget and chunk are. A nugget of the same id that shares half of its terms is listed as changed.
    Labels of two scales differ if only one of them counts as support, each by the threshold of
    its collection.
    """
    nuggets = match_nuggets(before, after)
    chunks = match_chunks(chunks_before.__iter__, chunks_after.__iter__)
    of_queries = list(query_changes(before, after))
    texts = [
        corpus.chunks(
            {chunk_id for chunk_id, spans in rows(judgments, "chunk_id", "evidence") if spans}
        )
        for corpus, judgments in (
            (chunks_before, before.judgments),
            (chunks_after, after.judgments),
        )
    ]
    changes: tuple[QueryChange | NuggetChange | JudgmentChange, ...] = (
        *of_queries,
        *sorted(_nugget_changes(before, after, nuggets), key=_nugget_order),
        *sorted(_judgment_changes(before, after, nuggets, chunks, *texts), key=_judgment_order),
    )
    counts = Counter[tuple[str, str]]((change.kind, change.change) for change in changes)
    moved = {(each.query_id, chunks.get(each.chunk_id)) for each in before.pool}
    pooled = sum((each.query_id, each.chunk_id) in moved for each in after.pool)

    def tally(kind: str, was: Sized, now: Sized, change: str = "changed") -> Tally:
        return _tally(len(was) - counts[kind, "dropped"], was, now, counts[kind, change])

    return Difference(
        queries=tally("query", before.queries, after.queries, "edited"),
        nuggets=tally("nugget", before.nuggets, after.nuggets),
        chunks=_tally(len(chunks), chunks_before, chunks_after),
        pool=_tally(pooled, before.pool, after.pool),
        judgments=tally("judgment", before.judgments, after.judgments),
        resliced=sum(
            each.change in ("edited", "resliced") and each.slice_before != each.slice_after
            for each in of_queries
        ),
        evidence=counts["judgment", "evidence"],
        followed=counts["judgment", "followed"],
        changes=changes,
        questions={
            query.query_id: query.title or query.body for query in (*after.queries, *before.queries)
        },
        texts={nugget.nugget_id: nugget.text for nugget in (*after.nuggets, *before.nuggets)},
    )


def _tally(both: int, before: Sized, after: Sized, changed: int = 0) -> Tally:
    added, dropped = len(after) - both, len(before) - both
    return Tally(kept=both - changed, added=added, dropped=dropped, changed=changed)


def match_nuggets(before: Contents, after: Contents) -> dict[str, str]:
    """Match nuggets of the same query and text: by id, then in their order."""
    return _matched(_nugget_keys(before), _nugget_keys(after))


def match_chunks(
    before: Callable[[], Iterable[Chunk]],
    after: Callable[[], Iterable[Chunk]],
    wanted: Set[str] | None = None,
) -> dict[str, str]:
    """Match chunks of the same source, path and passage: by id, then in their order.

    Args:
        before: Gives the earlier chunks, each time that it is called.
        after: Gives the later chunks.
        wanted: The ids of the earlier chunks to match; None: all.
    """
    contents: Set[bytes] | None = None
    if wanted is not None:
        contents = {_content(chunk) for chunk in before() if chunk.chunk_id in wanted}

    def keys(chunks: Iterable[Chunk]) -> dict[str, Hashable]:
        keyed = ((chunk.start_byte, chunk.chunk_id, _content(chunk)) for chunk in chunks)
        in_order = sorted(each for each in keyed if contents is None or each[2] in contents)
        return {chunk_id: content for _, chunk_id, content in in_order}

    return _matched(keys(before()), keys(after()))


def _content(chunk: Chunk) -> bytes:
    content = "\0".join((chunk.source, chunk.path, chunk.title, chunk.passage))
    return hashlib.sha256(content.encode()).digest()


def _nugget_keys(contents: Contents) -> dict[str, Hashable]:
    texts = {query.query_id: query.text for query in contents.queries}
    return {
        each.nugget_id: (each.query_id, texts[each.query_id], each.text)
        for each in contents.nuggets
    }


def _matched(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> dict[str, str]:
    """Pair ids of equal keys: equal ids first, the others in the given order."""
    pairs = {id_: id_ for id_, key in before.items() if after.get(id_) == key}
    left: dict[Hashable, list[str]] = {}
    for id_, key in reversed(list(after.items())):
        if id_ not in pairs:
            left.setdefault(key, []).append(id_)
    for id_, key in before.items():
        if id_ not in pairs and left.get(key):
            pairs[id_] = left[key].pop()
    return pairs


def write_changes(comparison: Difference, path: Path) -> None:
    """Write the changes as JSON Lines, one for each, in their order; the file appears as a whole."""
    write_file(path, encode_records(comparison.changes))


def query_changes(before: Contents, after: Contents) -> Iterator[QueryChange]:
    """Give the queries that came, went, were edited, or are in another slice, by id."""
    was, now = ({query.query_id: query for query in side.queries} for side in (before, after))
    slices: list[dict[str, SliceName]] = [
        {part.query_id: part.slice for part in side.slices} for side in (before, after)
    ]
    for query_id in sorted(was.keys() | now.keys()):
        old, new = was.get(query_id), now.get(query_id)
        edited: tuple[str, ...] = ()
        change: Literal["added", "dropped", "edited", "resliced"] = "dropped" if old else "added"
        if old and new:
            fields = ("title", "body", "answer", "weight")
            edited = tuple(name for name in fields if getattr(old, name) != getattr(new, name))
            change = "edited" if edited else "resliced"
        before_after: list[SliceName | None] = [by_query.get(query_id) for by_query in slices]
        if change != "resliced" or before_after[0] != before_after[1]:
            yield QueryChange(
                change=change,
                query_id=query_id,
                edited=edited,
                slice_before=before_after[0],
                slice_after=before_after[1],
            )


def _nugget_changes(
    before: Contents, after: Contents, matched: Mapping[str, str]
) -> Iterator[NuggetChange]:
    texts = {query.query_id: query.text for query in before.queries}
    unedited = {each.query_id for each in after.queries if texts.get(each.query_id) == each.text}
    by_id = {nugget.nugget_id: nugget for nugget in after.nuggets}
    left = {id_: by_id[id_] for id_ in by_id.keys() - set(matched.values())}
    for was in before.nuggets:
        now = by_id.get(matched.get(was.nugget_id, ""))
        other = left.get(was.nugget_id) if now is None and was.query_id in unedited else None
        if other and jaccard({*terms(was.text)}, {*terms(other.text)}) >= _REWORDED:
            now = left.pop(was.nugget_id)
        names = ("text", "importance", "doubtful") if now else ()
        fields = tuple(name for name in names if getattr(was, name) != getattr(now, name))
        if now is None or fields:
            change: Literal["changed", "dropped"] = "changed" if now else "dropped"
            yield NuggetChange(
                change=change, query_id=was.query_id, before=was, after=now, fields=fields
            )
    for now in left.values():
        yield NuggetChange(change="added", query_id=now.query_id, before=None, after=now)


def _nugget_order(change: NuggetChange) -> tuple[str, int, str, str]:
    nugget_id = max(each.nugget_id for each in (change.before, change.after) if each)
    return change.query_id, len(nugget_id), nugget_id, change.change


def _judgment_changes(
    before: Contents,
    after: Contents,
    nuggets: Mapping[str, str],
    chunks: Mapping[str, str],
    chunks_before: Mapping[str, Chunk],
    chunks_after: Mapping[str, Chunk],
) -> Iterator[JudgmentChange]:
    on_support = (  # records that are no collection yet do not say their scale: it is the same
        isinstance(before, StoredCollection)
        and isinstance(after, StoredCollection)
        and before.manifest.scale.name != after.manifest.scale.name
    )

    def label(judgment: Judgment, contents: Contents) -> int | bool | None:
        if on_support and judgment.status == "ok":
            return contents.supports(judgment)
        return judgment.label

    left = {(each.nugget_id, each.chunk_id): each for each in after.judgments}
    unedited = set(chunks.values())
    arrived = _followed(after, unedited)
    for was in before.judgments:
        nugget_id, chunk_id = nuggets.get(was.nugget_id, ""), chunks.get(was.chunk_id, "")
        judged = was.followed_from or was.same_as or was.chunk_id
        if not chunk_id and (edited := arrived[nugget_id, judged]):
            chunk_id = edited.pop(0)
        now = left.pop((nugget_id, chunk_id), None)
        old, new = label(was, before), label(now, after) if now else None
        change: Literal["dropped", "changed", "evidence", "followed"] = (
            "changed" if now else "dropped"
        )
        if now and now.followed_from and not (was.followed_from and chunk_id in unedited):
            change = "followed"
        elif now and old == new:
            if _places(was, chunks_before) == _places(now, chunks_after):
                continue
            change = "evidence"
        move = None if change in ("evidence", "followed") else _move(old, new)
        yield JudgmentChange(change=change, query_id=was.query_id, move=move, before=was, after=now)
    for now in left.values():
        move = _move(None, label(now, after))
        yield JudgmentChange(
            change="added", query_id=now.query_id, move=move, before=None, after=now
        )


def _followed(contents: Contents, unedited: Set[str]) -> defaultdict[tuple[str, str], list[str]]:
    """The edited chunks to which labels followed, by nugget and the chunk that was judged."""
    edited = defaultdict[tuple[str, str], list[str]](list)
    for judgment in contents.judgments:
        if judgment.followed_from and judgment.chunk_id not in unedited:
            edited[judgment.nugget_id, judgment.followed_from].append(judgment.chunk_id)
    return edited


def _places(judgment: Judgment, chunks: Mapping[str, Chunk]) -> list[int]:
    """The places of the evidence within the passage, which may have moved in its file."""
    if not judgment.evidence:
        return []
    chunk, ends = chunks[judgment.chunk_id], chain.from_iterable(judgment.evidence)
    return [chunk.place_at(offset) - chunk.passage_start for offset in ends]


def _move(before: int | None, after: int | None) -> Literal["up", "down", "new", "gone"] | None:
    if before is None or after is None:
        return "gone" if before is not None else "new" if after is not None else None
    return "up" if after > before else "down"


def _judgment_order(change: JudgmentChange) -> tuple[str, ...]:
    pairs = [(each.nugget_id, each.chunk_id) for each in (change.before, change.after) if each]
    return change.query_id, *pairs[0], *pairs[-1]
