"""Whether the ids in a collection's records lead somewhere, and each to one thing."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import SCALES, Judgment, Scale, Vote


class _References(NamedTuple):
    file: str
    kind: str
    """What the ids should name."""
    ids: Iterable[str]


def check_references(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> None:
    """Check that ids are unique, none dangles, every query has its slice, and labels their scale.

    Raises:
        CollectionError: In one line, naming the file and the first id at fault.
    """
    for fault in reference_faults(contents, chunk_ids, scale):
        raise CollectionError(fault)


def reference_faults(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> Iterator[str]:
    """Say everything that is wrong with the ids and labels, one line for each id at fault.

    Args:
        contents: The records.
        chunk_ids: Those of the corpus.
        scale: What the labels mean.
    """
    yield from _twice(contents)
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
            yield (
                f"{references.file}.jsonl names {references.kind} {id_!r}, "
                f"and the collection has no such {references.kind}"
            )
    for file in ("judgments", "single_judgments"):
        yield from _foreign(file, contents)
        yield from _off_scale(file, contents, scale)
    if missing := sorted(set(known["query"]) - {part.query_id for part in contents.slices}):
        yield (
            f"slices.jsonl: query {missing[0]!r} is in no slice ({len(missing)} such); "
            "every query belongs to one"
        )


def _twice(contents: Contents) -> Iterator[str]:
    for file in RECORD_FILES:
        if file.once:
            yield from _each_twice(file.filename, file.identities(getattr(contents, file.name)))
    ids = ((nugget.nugget_id,) for nugget in contents.nuggets)
    yield from _each_twice("nuggets.jsonl", ids)


def _each_twice(filename: str, identities: Iterable[tuple[str, ...]]) -> Iterator[str]:
    seen = set()
    for identity in identities:
        if identity in seen:
            named = ", ".join(map(repr, identity))
            yield f"{filename}: {named} stands twice; keep one"
        seen.add(identity)


def _references(contents: Contents) -> Iterator[_References]:
    for file in RECORD_FILES:
        if "query_id" in file.record.model_fields and file.name != "queries":
            records = getattr(contents, file.name)
            yield _References(file.name, "query", (record.query_id for record in records))
    pool, failures = contents.pool, contents.failures
    yield _References("pool", "chunk", (candidate.chunk_id for candidate in pool))
    for name in ("judgments", "single_judgments"):
        judgments: tuple[Judgment, ...] = getattr(contents, name)
        yield _References(name, "nugget", (judgment.nugget_id for judgment in judgments))
        yield _References(name, "chunk", (judgment.chunk_id for judgment in judgments))
    chunks = (chunk_id for failure in failures for chunk_id in failure.chunk_ids)
    yield _References("failures", "chunk", chunks)
    seeds = (chunk_id for query in contents.queries for chunk_id in query.seed_chunk_ids)
    yield _References("queries", "chunk", seeds)
    originals = (nugget.duplicate_of for nugget in contents.nuggets)
    yield _References("nuggets", "nugget", filter(None, originals))
    lacking = (nugget_id for part in contents.slices for nugget_id in part.unsupported_nuggets)
    yield _References("slices", "nugget", lacking)
    known = (nugget_id for one in contents.contamination for nugget_id in one.known_nuggets or ())
    yield _References("contamination", "nugget", known)
    alike = (query_id for one in contents.contamination for query_id in one.near_duplicates)
    yield _References("contamination", "query", alike)


def _foreign(file: str, contents: Contents) -> Iterator[str]:
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    judgments: tuple[Judgment, ...] = getattr(contents, file)
    for judgment in judgments:
        owner = owners.get(judgment.nugget_id)
        if owner is not None and owner != judgment.query_id:
            yield (
                f"{file}.jsonl gives nugget {judgment.nugget_id!r} to query "
                f"{judgment.query_id!r}, but it belongs to query {owner!r}"
            )


def _off_scale(file: str, contents: Contents, scale: Scale) -> Iterator[str]:
    highest = SCALES[scale.name].highest
    judgments: tuple[Judgment, ...] = getattr(contents, file)
    for judgment in judgments:
        said: tuple[Judgment | Vote, ...] = (judgment, *judgment.votes)
        if any(one.label is not None and one.label > highest for one in said):
            yield (
                f"{file}.jsonl labels nugget {judgment.nugget_id!r} and chunk "
                f"{judgment.chunk_id!r} above {highest}, the highest of scale {scale.name}"
            )
