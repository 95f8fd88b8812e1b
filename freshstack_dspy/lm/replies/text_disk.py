"""diskcache with nothing but text in it: what could be unpickled is neither written nor read."""

from typing import Any

import diskcache
from diskcache.core import MODE_RAW

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.replies.store_format import LONGEST_ENTRY


class JsonTextDisk(diskcache.Disk):
    """Keys and values are text inside the database row, and nothing else is read back."""

    def put(self, key: Any) -> Any:
        """Accept a text key as it is."""
        if not isinstance(key, str):
            raise StoreError(f"the replies store takes text keys only, not {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Read a key back, refusing one that would have to be unpickled."""
        if not raw or not isinstance(key, str):
            raise DamagedReplyError("a key that is not plain text")
        return key

    def store(self, value: Any, read: Any, key: Any = None) -> Any:
        """Accept a text value, to be kept in the row."""
        del read, key
        if not isinstance(value, str):
            raise StoreError(f"the replies store takes text only, not {type(value).__name__}")
        refuse_longer(value)
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> str:
        """Read a value back, refusing pickles and files."""
        del read
        if mode != MODE_RAW or filename is not None or not isinstance(value, str):
            raise DamagedReplyError("a value that is not plain text")
        return value

    def remove(self, file_path: Any) -> None:
        """Remove nothing: a store of ours has no files, and a foreign one may name any."""


def refuse_longer(text: str) -> None:
    """Refuse what could not be read back.

    Raises:
        StoreError: The text is longer than an entry may be.
    """
    if 4 * len(text) > LONGEST_ENTRY and len(text.encode()) > LONGEST_ENTRY:
        raise StoreError(f"the replies store takes entries of {LONGEST_ENTRY:,} bytes at most")
