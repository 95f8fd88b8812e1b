"""Whether the ids in a collection's records lead somewhere, and each to one thing."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.errors import CollectionError


class _References(NamedTuple):
    file: str
    kind: str
    """What the ids should name."""
    ids: Iterable[str]


def check_references(contents: Contents, chunk_ids: Ids[str]) -> None:
    """Check that ids are unique, that none dangles and that every query has its slice.

    Raises:
        CollectionError: In one line, naming the file and the first id at fault.
    """
    _check_once(contents)
    known: dict[str, Ids[str]] = {
        "query": {query.query_id for query in contents.queries},
        "nugget": {nugget.nugget_id for nugget in contents.nuggets},
        "chunk": chunk_ids,
    }
    for references in _references(contents):
        there = known[references.kind]
        # Most ids stand many times; in their order all the same, so that the first is named.
        dangling = (id_ for id_ in dict.fromkeys(references.ids) if id_ not in there)
        for id_ in dangling:
            raise CollectionError(
                f"{references.file}.jsonl names {references.kind} {id_!r}, "
                f"and the collection has no such {references.kind}"
            )
    _check_owners(contents)
    if missing := sorted(set(known["query"]) - {part.query_id for part in contents.slices}):
        raise CollectionError(
            f"slices.jsonl: query {missing[0]!r} is in no slice ({len(missing)} such); "
            "every query belongs to one"
        )


def _check_once(contents: Contents) -> None:
    for file in RECORD_FILES:
        if file.once:
            _refuse_twice(file.filename, file.identities(getattr(contents, file.name)))
    _refuse_twice("nuggets.jsonl", ((nugget.nugget_id,) for nugget in contents.nuggets))


def _refuse_twice(filename: str, identities: Iterable[tuple[str, ...]]) -> None:
    seen = set()
    for identity in identities:
        if identity in seen:
            named = ", ".join(map(repr, identity))
            raise CollectionError(f"{filename}: {named} stands twice; keep one")
        seen.add(identity)


def _references(contents: Contents) -> Iterator[_References]:
    for file in RECORD_FILES:
        if "query_id" in file.record.model_fields and file.name != "queries":
            records = getattr(contents, file.name)
            yield _References(file.name, "query", (record.query_id for record in records))
    pool, judgments, failures = contents.pool, contents.judgments, contents.failures
    yield _References("pool", "chunk", (candidate.chunk_id for candidate in pool))
    yield _References("judgments", "nugget", (judgment.nugget_id for judgment in judgments))
    yield _References("judgments", "chunk", (judgment.chunk_id for judgment in judgments))
    chunks = (chunk_id for failure in failures for chunk_id in failure.chunk_ids)
    yield _References("failures", "chunk", chunks)


def _check_owners(contents: Contents) -> None:
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    for judgment in contents.judgments:
        if (owner := owners[judgment.nugget_id]) != judgment.query_id:
            raise CollectionError(
                f"judgments.jsonl gives nugget {judgment.nugget_id!r} to query "
                f"{judgment.query_id!r}, but it belongs to query {owner!r}"
            )
