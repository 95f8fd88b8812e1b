"""What replies say, as hashes: by these a rerun tells whether a reply is still the same."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic_core import from_json

from freshstack_dspy.errors import DamagedReplyError
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.recorded import Recorded, recorded_reply
from freshstack_dspy.lm.replies.sealed import unsealed
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import sha256_of

_TWO_REPLIES = "two replies in one run"


class UsedReplies:
    """The replies that a run was given, each hashed when it was used; shared by threads."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def enter(self, reply: Reply) -> None:
        """Enter a reply that is given out."""
        now = said(reply)
        if self._said.setdefault(reply.key, now) != now:
            # Asked again in one run: no single reply stands for all that was made from this key.
            self._said[reply.key] = _TWO_REPLIES

    def by_key(self) -> dict[str, str]:
        """The hash of what each reply said, by key, in the order of the keys."""
        return dict(sorted(self._said.copy().items()))


def said(reply: Reply) -> str:
    """SHA-256 of all in a reply that can change what is made of it; the request is in its key."""
    return _hashed(reply.finish_reason, reply.text)


def recorded_says(
    key: str, store: ReadOnlyStore | None, recorded: Mapping[str, Reply]
) -> str | None:
    """What the reply of a key says, as the door would find it, or None where there is none.

    Of an entry in the store the seal is checked, and no more: it need not be believed, for only
    what says the same as a reply that was once believed counts.

    Raises:
        StoreError: The reply cannot be read, or its entry in the store is damaged.
    """
    entry = store.text(f"reply:{key}") if store is not None else None
    if entry is None:
        reply = recorded.get(key)
        return None if reply is None else said(reply)
    try:
        told = from_json(unsealed(entry))
        return _hashed(told["finish_reason"], told["text"])
    except (ValueError, KeyError, TypeError):
        raise DamagedReplyError(f"the entry {key} is not a recorded reply") from None


def replies_of(
    keys: Iterable[str], store: ReadOnlyStore | None, recorded: Recorded
) -> Iterator[Reply]:
    """The recorded replies of these keys, in the order of the keys.

    Raises:
        StoreError: One cannot be read or trusted.
    """
    for key in sorted(keys):
        reply = recorded_reply(key, store, recorded)
        if reply is not None:
            yield reply


def fingerprint_replies(
    keys: Iterable[str], store: ReadOnlyStore | None, recorded: Mapping[str, Reply]
) -> str | None:
    """The fingerprint of the recorded replies of these keys, or None where one is missing.

    Raises:
        StoreError: A reply cannot be read, or its entry in the store is damaged.
    """
    by_key: dict[str, str] = {}
    for key in keys:
        says = recorded_says(key, store, recorded)
        if says is None:
            return None
        by_key[key] = says
    return fingerprint_said(by_key)


def fingerprint_said(by_key: Mapping[str, str]) -> str:
    """The fingerprint of replies, from what each says by key."""
    return sha256_of(dict(by_key))


def _hashed(finish_reason: str, text: str) -> str:
    return sha256_of([finish_reason, text])
