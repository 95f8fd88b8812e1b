"""What of one collection stands in another, whatever ids it has there: matched by content."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.records import Chunk, Nugget, Query


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
