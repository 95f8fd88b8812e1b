"""What was judged of a query and a chunk: what found the chunk, who judged it, and what came of it."""

from collections import Counter
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.collection.collection import Collection, named_nearest
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import (
    SCALES,
    Candidate,
    Chunk,
    Failure,
    HumanLabel,
    Judgment,
    Nugget,
    Query,
    QuerySlice,
    Record,
    Scale,
)

if TYPE_CHECKING:
    from freshstack_dspy.lm.store import Recorded


_OF_REPLY = (
    "status", "finish_reason", "input_tokens", "output_tokens", "cost", "received_at",
)  # fmt: skip


class Call(Record):
    """A call that judged the chunk, as far as its reply is recorded where it was looked for."""

    call_id: str
    """The key of the reply."""
    judgments: int
    """How many judgments of the collection name it."""
    recorded: bool
    """Whether the reply was found; where not, the rest is not known."""
    model: str | None = None
    task: str | None = None
    """The signature that it answers."""
    status: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars for the whole call."""
    received_at: str | None = None


class JudgedNugget(Record):
    """The judgments of the chunk and one nugget of the query."""

    nugget: Nugget
    number: int | None
    """By which the call, and so its reason, names the nugget, from 1; None without a call."""
    judgment: Judgment | None
    """None: the pair was not judged."""
    supports: bool | None
    """Whether its label counts as support; None without a label."""
    labels: tuple[HumanLabel, ...]
    """Those of people."""


class Explanation(Record):
    """Everything that is known of one query and one chunk."""

    query: Query
    slice: QuerySlice
    chunk: Chunk
    scale: Scale
    candidate: Candidate | None
    """What found it; None where it was judged without being a candidate."""
    is_seed: bool
    """Whether the query was made from it."""
    nuggets: tuple[JudgedNugget, ...]
    """All of the query's, by nugget_id."""
    failures: tuple[Failure, ...]
    """Requests about the chunk that failed."""
    calls: tuple[Call, ...]
    """Each once, in the order in which the judgments above name them."""
    looked_up: bool
    """Whether there was any place to look for the replies."""


def explain(
    collection: Collection | Path | str,
    query_id: str,
    chunk_id: str,
    *,
    replies: Sequence["Recorded"] = (),
    labels: Iterable[HumanLabel] = (),
) -> Explanation:
    """Explain what was judged of a query and a chunk.

    Args:
        collection: The collection, or its folder.
        query_id: The query.
        chunk_id: The chunk; pooled or judged for the query.
        replies: Where the replies may be recorded; the first that has one is believed.
        labels: Of people, on the collection's scale; those of other pairs are passed over.

    Raises:
        CollectionError: There is no such query or chunk, or the chunk was neither pooled nor
            judged for the query; the message names the nearest ids. A label is above the highest
            of the collection's scale.
        StoreError: A recorded reply cannot be read.
    """
    collection = Collection.of(collection)
    query = find_query(collection, query_id)
    candidates = {each.chunk_id: each for each in collection.pool if each.query_id == query_id}
    judged = {each.chunk_id for each in collection.judgments if each.query_id == query_id}
    _check_chunk(collection, query_id, chunk_id, judged | candidates.keys())
    labels = tuple(labels)
    check_labels_above(collection, labels)
    labels = [each for each in labels if (each.query_id, each.chunk_id) == (query_id, chunk_id)]
    nuggets = tuple(_nuggets(collection, query_id, chunk_id, labels))
    failures = tuple(
        each
        for each in collection.failures
        if each.query_id == query_id and chunk_id in each.chunk_ids
    )
    return Explanation(
        query=query,
        slice=next(part for part in collection.slices if part.query_id == query_id),
        chunk=collection.chunk(chunk_id),
        scale=collection.manifest.scale,
        candidate=candidates.get(chunk_id),
        is_seed=chunk_id in query.seed_chunk_ids,
        nuggets=nuggets,
        failures=failures,
        calls=tuple(_calls(collection, nuggets, failures, replies)),
        looked_up=bool(replies),
    )


def find_query(collection: Collection, query_id: str) -> Query:
    """Give a query by its id.

    Raises:
        CollectionError: There is none; the message names the nearest ids.
    """
    queries = {query.query_id: query for query in collection.queries}
    if query_id not in queries:
        raise CollectionError(
            f"{collection.name}: there is no query {query_id!r} among its {len(queries):,}; "
            f"{named_nearest(query_id, queries, 'freshstack show')}"
        )
    return queries[query_id]


def check_labels_above(collection: Collection, labels: Iterable[HumanLabel]) -> None:
    """Check that no label is above the highest of the collection's scale.

    Where that is yes or no, a person's scale may be finer: any label from 1 on is support.

    Raises:
        CollectionError: There is one; the message names the first.
    """
    name = collection.manifest.scale.name
    highest = SCALES[name].highest
    for label in labels:
        if name != "binary" and label.label > highest:
            raise CollectionError(
                f"a label is {label.label} (query {label.query_id!r}, nugget {label.nugget_id!r}, "
                f"chunk {label.chunk_id!r}, of {label.annotator!r}), and the scale {name} of "
                f"{collection.name!r} ends at {highest}: label on the scale of the collection"
            )


def _check_chunk(collection: Collection, query_id: str, chunk_id: str, of_query: set[str]) -> None:
    if chunk_id in of_query:
        return
    ids: Ids[str] = collection.corpus.rows
    what = f"there is no chunk {chunk_id!r} among its {len(ids):,}"
    if chunk_id in ids:
        ids = of_query
        what = (
            f"chunk {chunk_id!r} was neither pooled nor judged for query {query_id!r}; "
            f"{len(of_query):,} others were"
        )
    nearest = named_nearest(chunk_id, ids, f"freshstack show COLLECTION {query_id}")
    raise CollectionError(f"{collection.name}: {what}; {nearest}")


def _nuggets(
    collection: Collection, query_id: str, chunk_id: str, labels: Sequence[HumanLabel]
) -> Iterator[JudgedNugget]:
    judgments = {
        each.nugget_id: each
        for each in collection.judgments
        if (each.query_id, each.chunk_id) == (query_id, chunk_id)
    }
    numbers = _numbers(nuggets_by_query(collection.nuggets).get(query_id, []), judgments)
    for nugget in collection.nuggets:
        if nugget.query_id == query_id:
            judgment = judgments.get(nugget.nugget_id)
            labelled = judgment is not None and judgment.label is not None
            yield JudgedNugget(
                nugget=nugget,
                number=numbers.get(nugget.nugget_id),
                judgment=judgment,
                supports=collection.supports(judgment) if judgment and labelled else None,
                labels=tuple(each for each in labels if each.nugget_id == nugget.nugget_id),
            )


def _numbers(nuggets: Iterable[Nugget], judgments: Mapping[str, Judgment]) -> dict[str, int]:
    """Number a query's nuggets from 1 in each call on a chunk, in the order in which it had them."""
    calls: Counter[str] = Counter()
    numbers: dict[str, int] = {}
    for nugget in nuggets:
        judgment = judgments.get(nugget.nugget_id)
        if judgment is not None and judgment.call_id is not None:
            calls[judgment.call_id] += 1
            numbers[nugget.nugget_id] = calls[judgment.call_id]
    return numbers


def _calls(
    collection: Collection,
    nuggets: Sequence[JudgedNugget],
    failures: Sequence[Failure],
    replies: Sequence["Recorded"],
) -> Iterator[Call]:
    from freshstack_dspy.lm.reply import Reply
    from freshstack_dspy.lm.store import recorded_entry

    keys = [key for each in nuggets if each.judgment for key in _keys_of(each.judgment)]
    keys += [failure.call_id for failure in failures if failure.call_id]
    named = Counter(key for judgment in collection.judgments for key in set(_keys_of(judgment)))
    for key in dict.fromkeys(keys):
        reply = recorded_entry(key, replies)
        facts: dict[str, Any] = {}
        if isinstance(reply, Reply):
            facts = {name: getattr(reply, name) for name in _OF_REPLY}
            facts |= {"model": reply.request.model, "task": reply.request.task}
        yield Call(call_id=key, judgments=named[key], recorded=bool(facts), **facts)


def _keys_of(judgment: Judgment) -> list[str]:
    keys = (judgment.call_id, *(vote.call_id for vote in judgment.votes))
    return [key for key in keys if key is not None]
