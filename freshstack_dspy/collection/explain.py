"""Explain a query and a chunk: what found the chunk, who judged it, and the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import FirstOf, Recorded
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Failure,
    Judgment,
    Nugget,
    Query,
    QuerySlice,
    Record,
    Scale,
)
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.folder import StoredCollection, find_query
from freshstack_dspy.stored.record_files import records_of
from freshstack_dspy.text import named_nearest


class Call(Record):
    """A call that judged the chunk."""

    call_id: str
    """The key of the reply."""
    judgments: int
    """How many judgments of the query name it."""
    reply: Reply | None
    """With its request, where it is recorded in one of the places that were given."""


class JudgedNugget(Record):
    """The judgment of the chunk and one nugget of the query."""

    nugget: Nugget
    number: int | None
    """By which the call, and so its reason, names the nugget, from 1; None without a call."""
    judgment: Judgment | None
    """None: the pair was not judged."""
    supports: bool | None
    """Whether its label counts as support; None without a label."""
    evidence: tuple[str, ...] = ()
    """The words of the chunk at the places that the judgment names."""


class Reason(Record):
    """What a call said of the chunk: one sentence, for all nuggets that it was asked about."""

    text: str
    call_id: str | None
    nugget_ids: tuple[str, ...]
    """The nuggets whose judgments or votes it came with; of several it may be about any."""


class Explanation(Record, Shown):
    """Everything that is known of one query and one chunk."""

    query: Query
    slice: QuerySlice
    chunk: Chunk
    scale: Scale
    candidate: Candidate | None
    """What found it; None where it was judged without being a candidate."""
    nuggets: tuple[JudgedNugget, ...]
    """All of the query's, by nugget_id."""
    reasons: tuple[Reason, ...]
    """Each once, in the order of the nuggets."""
    failures: tuple[Failure, ...]
    """Requests about the chunk that failed."""
    calls: tuple[Call, ...]
    """Each once, in the order in which the judgments above name them."""
    true_at: str | None = None
    """When the commit that the chunk is of was made (UTC, ISO 8601); None where it is of none."""
    labels_by: str = ""
    """Who made the labels of the collection, in a line."""

    def __repr__(self) -> str:
        judged = sum(each.judgment is not None for each in self.nuggets)
        supported = sum(bool(each.supports) for each in self.nuggets)
        return (
            f"Explanation(query {self.query.query_id!r}, chunk {self.chunk.chunk_id!r}: supports "
            f"{supported} of {judged} judged nuggets)"
        )

    __str__ = __repr__


def explain(
    collection: StoredCollection | Path | str,
    query_id: str,
    chunk_id: str,
    *,
    replies: Sequence[Recorded | None] = (),
) -> Explanation:
    """Explain what was judged of a query and a chunk.

    Args:
        collection: The collection, or its folder.
        query_id: The query.
        chunk_id: The chunk; pooled or judged for the query. With … for its middle if that will do.
        replies: Where the replies may be recorded; the first that has one is believed.

    Raises:
        CollectionError: There is no such query or chunk, or the chunk was neither pooled nor
            judged for the query; the message names the nearest ids.
        StoreError: A recorded reply cannot be read.
    """
    collection = StoredCollection.load(collection)
    query = find_query(collection, query_id)
    candidates = {each.chunk_id: each for each in records_of(collection.pool, query_id)}
    judgments = records_of(collection.judgments, query_id)
    of_query = candidates.keys() | {each.chunk_id for each in judgments}
    if "…" in chunk_id:  # as a narrow screen shows it
        start, _, end = chunk_id.partition("…")
        alike = [each for each in of_query if each.startswith(start) and each.endswith(end)]
        chunk_id = alike[0] if len(alike) == 1 else chunk_id
    if chunk_id not in of_query:
        what = f"there is no chunk {chunk_id!r}"
        if chunk_id in collection.corpus.ids:
            what = f"chunk {chunk_id!r} was neither pooled nor judged for query {query_id!r}"
        typed = collection.path or "COLLECTION"
        nearest = named_nearest(chunk_id, of_query, f"freshstack show {typed} {query_id}")
        raise CollectionError(f"{collection.name}: {what}; {nearest}")
    of_chunk = {each.nugget_id: each for each in judgments if each.chunk_id == chunk_id}
    failed = (each for each in collection.failures if each.query_id == query_id)
    failures = tuple(each for each in failed if chunk_id in each.chunk_ids)
    keys = [key for nugget_id in sorted(of_chunk) for key in _keys_of(of_chunk[nugget_id])]
    keys += [failure.call_id for failure in failures if failure.call_id]
    named = Counter(key for judgment in judgments for key in set(_keys_of(judgment)))
    recorded = FirstOf(*replies)
    entries = {key: recorded.entry(key) for key in dict.fromkeys(keys)}
    calls = tuple(
        Call(call_id=key, judgments=named[key], reply=entry if isinstance(entry, Reply) else None)
        for key, entry in entries.items()
    )
    chunk = collection.chunk(chunk_id)
    nuggets = _judged_nuggets(collection, query_id, chunk, of_chunk)
    return Explanation(
        query=query,
        slice=next(part for part in collection.slices if part.query_id == query_id),
        chunk=chunk,
        scale=collection.manifest.scale,
        candidate=candidates.get(chunk_id),
        nuggets=nuggets,
        reasons=_reasons(nuggets),
        failures=failures,
        calls=calls,
        true_at=collection.manifest.dates.get(chunk.source),
        labels_by=collection.labels_by,
    )


def _judged_nuggets(
    collection: StoredCollection, query_id: str, chunk: Chunk, judgments: Mapping[str, Judgment]
) -> tuple[JudgedNugget, ...]:
    """All nuggets of the query, by id; a call numbers from 1 those that it was asked about."""
    judged = []
    calls: Counter[str | None] = Counter()
    for nugget in nuggets_by_query(collection.nuggets, doubtful=True).get(query_id, []):
        judgment = judgments.get(nugget.nugget_id)
        call_id = judgment.call_id if judgment else None
        calls[call_id] += 1
        is_labelled = judgment is not None and judgment.label is not None
        judged.append(
            JudgedNugget(
                nugget=nugget,
                number=calls[call_id] if call_id else None,
                judgment=judgment,
                supports=collection.supports(judgment) if judgment and is_labelled else None,
                evidence=tuple(chunk.text_at(*s) for s in judgment.evidence) if judgment else (),
            )
        )
    return tuple(sorted(judged, key=lambda each: each.nugget.nugget_id))


def _reasons(nuggets: Sequence[JudgedNugget]) -> tuple[Reason, ...]:
    """The reasons given for the chunk, each with its nuggets."""
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for judgment in (judged.judgment for judged in nuggets if judged.judgment is not None):
        for vote in judgment.votes or (judgment,):
            ids = by_reason.setdefault((vote.reason, vote.call_id), [])
            if vote.reason and judgment.nugget_id not in ids:
                ids.append(judgment.nugget_id)
    return tuple(
        Reason(text=text, call_id=call_id, nugget_ids=tuple(ids))
        for (text, call_id), ids in by_reason.items()
        if text
    )


def _keys_of(judgment: Judgment) -> list[str]:
    keys = (judgment.call_id, *(vote.call_id for vote in judgment.votes))
    return [key for key in keys if key is not None]
