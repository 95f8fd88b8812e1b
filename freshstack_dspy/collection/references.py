"""Whether the ids in a collection's records lead somewhere, and each to one thing."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.errors import CollectionError


class _Reference(NamedTuple):
    file: str
    kind: str
    """What the id should name."""
    id: str


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
    for reference in _references(contents):
        if reference.id not in known[reference.kind]:
            raise CollectionError(
                f"{reference.file}.jsonl names {reference.kind} {reference.id!r}, "
                f"and the collection has no such {reference.kind}"
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
            _refuse_twice(file.filename, map(file.identity, getattr(contents, file.name)))
    _refuse_twice("nuggets.jsonl", ((nugget.nugget_id,) for nugget in contents.nuggets))


def _refuse_twice(filename: str, identities: Iterable[tuple[str, ...]]) -> None:
    seen = set()
    for identity in identities:
        if identity in seen:
            named = ", ".join(map(repr, identity))
            raise CollectionError(f"{filename}: {named} stands twice; keep one")
        seen.add(identity)


def _references(contents: Contents) -> Iterator[_Reference]:
    for file in RECORD_FILES:
        if "query_id" in file.record.model_fields and file.name != "queries":
            for record in getattr(contents, file.name):
                yield _Reference(file.name, "query", record.query_id)
    for candidate in contents.pool:
        yield _Reference("pool", "chunk", candidate.chunk_id)
    for judgment in contents.judgments:
        yield _Reference("judgments", "nugget", judgment.nugget_id)
        yield _Reference("judgments", "chunk", judgment.chunk_id)
    for failure in contents.failures:
        for chunk_id in failure.chunk_ids:
            yield _Reference("failures", "chunk", chunk_id)


def _check_owners(contents: Contents) -> None:
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    for judgment in contents.judgments:
        if (owner := owners[judgment.nugget_id]) != judgment.query_id:
            raise CollectionError(
                f"judgments.jsonl gives nugget {judgment.nugget_id!r} to query "
                f"{judgment.query_id!r}, but it belongs to query {owner!r}"
            )
