"""The recorded replies that a collection was made from, and nothing else that is recorded."""

from collections.abc import Iterator, Sequence

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.writing import call_ids_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import Recorded

_REASKED = b'"reasked_as":"'
"""In the JSON of every reply that was sent back with its error, as the store and bundles write it."""


def used_replies(collection: Collection, recorded: Sequence[Recorded]) -> Iterator[Reply]:
    """The replies that a replay of a collection needs, by key.

    These are the replies that its records name, those of synthetic questions that were refused,
    and backwards from them every invalid reply that was sent back with its error until such a
    reply came.

    Args:
        collection: Of which.
        recorded: Where its replies are; of several replies to a request the first is taken.

    Raises:
        CollectionError: A reply is not recorded.
        StoreError: One cannot be read or trusted.
    """
    named = call_ids(collection)
    for key in sorted(_with_those_sent_back(named, recorded)):
        reply = _first(key, recorded)
        if reply is None:
            raise CollectionError(
                f"{collection.name}: the reply {key} that the collection was made from is not "
                "recorded here; name the store or the bundle that it was built with in [cache], "
                "or build it again"
            )
        yield reply


def call_ids(collection: Collection) -> set[str]:
    """The keys of the replies that a collection was made from, named by a record or not."""
    return {*call_ids_of(collection), *collection.manifest.reasked}


def _with_those_sent_back(keys: set[str], recorded: Sequence[Recorded]) -> set[str]:
    """Add the replies whose re-ask, at whatever remove, is one of these."""
    origins: dict[str, set[str]] = {}
    for source in recorded:
        for line in source.lines(_REASKED):
            reply = _first(line.key, recorded)
            if reply is not None and reply.reasked_as is not None:
                origins.setdefault(reply.reasked_as, set()).add(reply.key)
    found, new = set(keys), set(keys)
    while new:
        new = {origin for key in new for origin in origins.get(key, ())} - found
        found |= new
    return found


def _first(key: str, recorded: Sequence[Recorded]) -> Reply | None:
    for source in recorded:
        reply = source.get(key)
        if reply is not None:
            return reply
    return None
