"""The queries of a collection in groups: by tag, slice, date, language, their own fields."""

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import chain
from typing import get_args

from freshstack_dspy.collection.contamination import asked, day_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import QueryGroups
from freshstack_dspy.records import QueryOrigin
from freshstack_dspy.stored.contents import CONTAMINATED, SLICES, Contents
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.record_files import rows

DIFFICULTY_DEPTH = 20
"""The rank down to which difficulty looks at the question's own list, as Coverage@20 does."""


def query_groups(collection: StoredCollection, by: str, *, at: str | None = None) -> QueryGroups:
    """Group the queries of a collection, of all slices; without groups that have no query.

    Args:
        collection: A collection.
        by: A name in `GROUPINGS`, which says what divides the queries; a column of the table that
            they are from, such as `product` (`Query.fields`); or a kind of notes. A query with several
            tags is in several groups.
        at: With `date` only: an ISO 8601 date.

    Raises:
        CollectionError: The kind is unknown, `at` is not a date or is given with another kind, or
            the collection has this for none of its queries.
    """
    if by not in (allowed := groupings(collection)):
        raise CollectionError(f"queries are grouped by {', '.join(allowed)}, not by {by!r}")
    if at is not None and by != "date":
        raise CollectionError(f"a date divides queries by date, not by {by}")
    rule, order, grouped = GROUPINGS.get(by) or _by_field(by)
    if at is None:
        pairs = list(grouped(collection))
    else:
        try:
            at = date.fromisoformat(at).isoformat()
        except ValueError:
            raise CollectionError(f"{at!r} is not a date; type one as 2024-06-30") from None
        names = {"before_cutoff": f"up to {at}", "after_cutoff": f"after {at}"}
        rule, order = "the day of the question, in UTC", tuple(names.values())
        dated = ((asked(query.asked_at, at), query.query_id) for query in collection.queries)
        pairs = [(names[when], query_id) for when, query_id in dated if when is not None]
    if not pairs:
        raise CollectionError(f"the collection says of no query what its {by} is")
    members: dict[str, set[str]] = {}
    for name, query_id in pairs:
        members.setdefault(name, set()).add(query_id)
    return QueryGroups(
        by=f"date={at}" if at else by,
        rule=rule,
        members={
            name: tuple(sorted(members[name]))
            for name in order or sorted(members)
            if name in members
        },
    )


def groupings(collection: StoredCollection) -> tuple[str, ...]:
    """The ways to group the queries of a collection: `GROUPINGS`, own fields, and notes."""
    fields = {name for query in collection.queries for name in query.fields}
    kinds = {note.kind for note in collection.notes}
    return (*GROUPINGS, *sorted((fields | kinds) - GROUPINGS.keys()))


def _by_field(name: str) -> "_Grouping":
    return (
        f"the {name} of the question, as its source or a step of the recipe says",
        (),
        lambda collection: chain(
            ((note.value, note.query_id) for note in collection.notes if note.kind == name),
            (
                (query.fields[name], query.query_id)
                for query in collection.queries
                if name in query.fields
            ),
        ),
    )


def _years(collection: StoredCollection) -> Iterator[tuple[str, str]]:
    for query in collection.queries:
        if (day := day_of(query.asked_at)) is not None:
            yield f"{day.year:04}", query.query_id


_CUTOFF = {"before_cutoff": "up to the cut-off", "after_cutoff": "after the cut-off"}
_KNOWN = (f"known below {CONTAMINATED:.0%}", f"known {CONTAMINATED:.0%} or more")


def _known_shares(collection: StoredCollection) -> Iterator[tuple[str, str]]:
    contaminated = set(collection.contaminated())
    for part in collection.contamination:
        if part.closed_book_coverage is not None:
            yield _KNOWN[part.query_id in contaminated], part.query_id


def _difficulties(collection: StoredCollection) -> Iterator[tuple[str, str]]:
    for query_id, share in found_shares(collection).items():
        yield "easy" if share >= 2 / 3 else "medium" if share >= 1 / 3 else "hard", query_id


_SAME = ("same language", "both", "other language")


def _languages(collection: StoredCollection) -> Iterator[tuple[str, str]]:
    for query in collection.queries:
        if language := query.language or query.fields.get("language"):
            yield language, query.query_id


def _same_languages(collection: StoredCollection) -> Iterator[tuple[str, str]]:
    of_question = {query.query_id: query.language for query in collection.queries if query.language}
    pairs = collection.supporting("query_id", "chunk_id")
    supporting = {pair for pair in pairs if pair[0] in of_question}
    chunks = collection.corpus.chunks(sorted({chunk_id for _, chunk_id in supporting}))
    same: dict[str, set[bool]] = {}
    for query_id, chunk_id in supporting:
        if language := chunks[chunk_id].language:
            same.setdefault(query_id, set()).add(language == of_question[query_id])
    for query_id, matches in same.items():
        yield _SAME[1 if len(matches) > 1 else 0 if matches == {True} else 2], query_id


_Grouping = tuple[str, tuple[str, ...], Callable[[StoredCollection], Iterable[tuple[str, str]]]]
GROUPINGS: dict[str, _Grouping] = {
    "tag": (
        "the tags of the question; one with several tags counts in each",
        (),
        lambda collection: (
            (tag, query.query_id) for query in collection.queries for tag in query.tags
        ),
    ),
    "slice": (
        "whether chunks support all, some or none of the nuggets",
        SLICES,
        lambda collection: ((part.slice, part.query_id) for part in collection.slices),
    ),
    "date": ("the year of the question, in UTC", (), _years),
    "cutoff": (
        "the day up to which the model has read",
        tuple(_CUTOFF.values()),
        lambda collection: (
            (_CUTOFF[part.asked], part.query_id) for part in collection.contamination if part.asked
        ),
    ),
    "contamination": (
        "the share of the nuggets that the model's closed-book answer holds",
        _KNOWN,
        _known_shares,
    ),
    "difficulty": (
        "the share of supported nuggets that the question found to rank 20: easy 2/3, hard below 1/3",
        ("easy", "medium", "hard"),
        _difficulties,
    ),
    "origin": (
        "who asked: people or a model",
        get_args(QueryOrigin),
        lambda collection: ((query.origin, query.query_id) for query in collection.queries),
    ),
    "language": ("the language of the question", (), _languages),
    "cross_language": (
        "whether the chunks that support its nuggets are in the language of the question",
        _SAME,
        _same_languages,
    ),
}
"""By kind: what divides the queries; the groups in their order, or none: by name; and what gives
groups and the ids of their queries."""


def found_shares(collection: Contents) -> dict[str, float]:
    """Give the share of each query's supported nuggets that the pool found with the question alone.

    It counts the first 20 ranks of the technique `question`, all retrievers of the pool fused, so
    it is the same for every run. Queries without a supported nugget are left out.
    """
    ranks = {
        (query_id, chunk_id): by.rank
        for query_id, chunk_id, *ranked in rows(
            collection.pool, "query_id", "chunk_id", "pooled_by", "ranked_below"
        )
        for by in chain(*ranked)
        if by.technique == "question"
    }
    if not ranks:
        raise CollectionError(
            "the collection does not say what the question alone found, so the difficulty of its "
            "queries is not known; build it with question among [pool] techniques"
        )
    supported: dict[str, set[str]] = {}
    by_question: dict[str, set[str]] = {}
    for query_id, nugget_id, chunk_id in collection.supporting("query_id", "nugget_id", "chunk_id"):
        supported.setdefault(query_id, set()).add(nugget_id)
        if ranks.get((query_id, chunk_id), DIFFICULTY_DEPTH + 1) <= DIFFICULTY_DEPTH:
            by_question.setdefault(query_id, set()).add(nugget_id)
    return {
        query_id: len(by_question.get(query_id, ())) / len(supported[query_id])
        for query_id in sorted(supported)
    }
