"""The recorded entries that a collection was made from, and nothing else that is recorded."""

from collections.abc import Iterator, Sequence

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.writing import call_ids_of
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.reply import Entry
from freshstack_dspy.lm.store import Recorded, recorded_entry


def used_replies(collection: Collection, recorded: Sequence[Recorded]) -> Iterator[Entry]:
    """The replies and searches that a replay of a collection needs, by key.

    These are those that its records name, and those that its manifest does: replies that were sent
    back with their error, those of synthetic questions that were refused, and searches.

    Args:
        collection: Of which.
        recorded: Where its replies are; of several to a request the first is taken.

    Raises:
        CollectionError: One is not recorded.
        StoreError: One cannot be read or trusted.
    """
    for key in sorted({*call_ids_of(collection), *collection.manifest.reasked}):
        entry = recorded_entry(key, recorded)
        if entry is None:
            raise CollectionError(
                f"{collection.name}: the reply {key} that the collection was made from is not "
                "recorded here; name the store or the bundle that it was built with in [cache], "
                "or build it again"
            )
        yield entry
