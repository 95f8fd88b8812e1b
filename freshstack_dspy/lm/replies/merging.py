"""Taking the replies of a bundle into a store, overwriting nothing unless told to."""

from freshstack_dspy.errors import DamagedReplyError
from freshstack_dspy.lm.replies.bundle import Bundle
from freshstack_dspy.lm.replies.entries import Entry, says_the_same
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.records import Record

_LISTED = 5
_SHOWN = 16


class MergeReport(Record):
    """What became of the replies of a bundle."""

    added: int = 0
    same: int = 0
    """The store has a reply that says the same (see `says_the_same`), which stays."""
    repaired: int = 0
    """The store's entry was damaged; the bundle's reply is in its place."""
    conflicts: tuple[str, ...] = ()
    """Keys for which the store has another reply, which stays."""
    replaced: tuple[str, ...] = ()
    """Keys whose reply was replaced; the store keeps the old one under a number."""

    def __str__(self) -> str:
        parts = [f"{self.added} added", f"{self.same} there already"]
        if self.repaired:
            parts.append(f"{self.repaired} damaged ones repaired")
        if self.replaced:
            parts.append(f"{len(self.replaced)} replaced ({_listed(self.replaced)})")
        if self.conflicts:
            parts.append(
                f"{len(self.conflicts)} conflicts ({_listed(self.conflicts)}): the store has other "
                "replies to these requests and keeps them; --replace takes the bundle's"
            )
        return ", ".join(parts)


def merge_bundle(bundle: Bundle, store: ReplyStore, *, replace: bool = False) -> MergeReport:
    """Record the replies and figures of a bundle.

    Args:
        bundle: Validated when it was opened, so that nothing is recorded of a damaged one.
        store: Where to.
        replace: Whether the bundle's reply takes the place of another one in the store.

    Raises:
        StoreError: The store cannot be written.
    """
    counts = {"added": 0, "same": 0, "repaired": 0}
    conflicts: list[str] = []
    for reply in bundle.entries():
        if store.add(reply):
            counts["added"] += 1
            continue
        known = _trusted(store, reply)
        if known is None:
            store.put_entry(reply)
            counts["repaired"] += 1
        elif says_the_same(known, reply):
            counts["same"] += 1
        else:
            conflicts.append(reply.key)
            if replace:
                store.put_entry(reply)
    taken, kept = (tuple(conflicts), ()) if replace else ((), tuple(conflicts))
    return MergeReport(**counts, conflicts=kept, replaced=taken)


def _trusted(store: ReplyStore, entry: Entry) -> Entry | None:
    try:
        if isinstance(entry, Reply):
            return store.get(entry.key)
        return store.figures(entry.key)
    except DamagedReplyError:
        return None


def _listed(keys: tuple[str, ...]) -> str:
    shown = [key[:_SHOWN] for key in keys[:_LISTED]]
    return ", ".join(shown) + (", …" if len(keys) > _LISTED else "")
