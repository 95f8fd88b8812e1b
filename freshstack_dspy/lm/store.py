"""The replies store: diskcache over raw JSON text, with nothing ever unpickled or thrown away.

diskcache pickles keys and values that are not plain, and unpickles whatever row says so
(CVE-2025-69872; its JSONDisk does not close it). `JsonTextDisk` writes text only and refuses
every other kind of row. There is no eviction and no expiry: the defaults would throw paid
replies away. People exchange bundles (`bundle.py`), never the SQLite file.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_RAW
from pydantic import ValidationError

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.reply import Reply, reply_from_json
from freshstack_dspy.lm.request import Ask, canonical_json, sha256_of
from freshstack_dspy.lm.spent import Spent
from freshstack_dspy.records import Status

SCHEMA = "1"
_FORMAT_KEY = "format"
_NEVER = 2**62
_PATIENCE = 60
"""Seconds to wait for another process that is writing."""


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
        return 0, MODE_RAW, None, value

    def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> str:
        """Read a value back, refusing pickles and files."""
        del read
        if mode != MODE_RAW or filename is not None or not isinstance(value, str):
            raise DamagedReplyError("a value that is not plain text")
        return value


class ReplyStore:
    """Replies by key, shared by threads and processes.

    Three kinds of entries: `reply:KEY`, the reply that is served; `reply:KEY:N`, what it replaced,
    oldest first; `ask:KEY`, a deferred request without a reply yet.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the store in a folder.

        Raises:
            StoreError: The folder cannot be written, or holds a store of another schema version.
        """
        self.path = path
        self._lock = threading.Lock()
        with self._errors_explained():
            self._cache: Any = diskcache.Cache(
                str(path),
                disk=JsonTextDisk,
                eviction_policy="none",
                cull_limit=0,
                size_limit=_NEVER,
                statistics=0,
                tag_index=0,
                timeout=_PATIENCE,
            )
            self._cache.add(_FORMAT_KEY, SCHEMA)
            found = self._read(_FORMAT_KEY)
        if found != SCHEMA:
            self.close()
            raise StoreError(
                f"{path}: a replies store of schema {found!r}; this program reads {SCHEMA!r}"
            )

    def get(self, key: str) -> Reply | None:
        """The reply recorded for a key, validated, or None.

        Raises:
            DamagedReplyError: The entry cannot be trusted.
        """
        text = self._read(f"reply:{key}")
        return None if text is None else self._opened(key, text)

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent."""
        with self._writing():
            total = self.spent(account) + spent
            self._cache.set(f"spent:{account}", canonical_json(total.model_dump(mode="json")))

    def spent(self, account: str) -> Spent:
        """What an account has spent so far."""
        text = self._read(f"spent:{account}")
        return Spent() if text is None else Spent.model_validate_json(text)

    def put(self, reply: Reply, *, account: str = "", spent: Spent | None = None) -> None:
        """Record a reply; one that it replaces is kept under the next number."""
        if spent is not None:
            self.charge(account, spent)
        name = f"reply:{reply.key}"
        with self._writing():
            if not self._cache.add(name, _sealed(reply)):
                self._keep_replaced(name)
                self._cache.set(name, _sealed(reply))
            self._cache.delete(f"ask:{reply.key}")

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a recorded reply turned out to be worth."""
        known = self.get(key)
        if known is None or (known.status, known.reasked_as) == (status, reasked_as):
            return
        with self._writing():
            reply = self.get(key) or known
            noted = reply.model_copy(update={"status": status, "reasked_as": reasked_as})
            self._cache.set(f"reply:{key}", _sealed(noted))

    def defer(self, ask: Ask) -> None:
        """Write down a request that is to be answered later."""
        with self._writing():
            self._cache.add(f"ask:{ask.key}", canonical_json(ask.model_dump(mode="json")))

    def deferred(self) -> Iterator[Ask]:
        """The requests that wait for a reply, by key."""
        for name in self._names("ask:"):
            text = self._read(name)
            if text is None:
                continue
            try:
                yield Ask.model_validate_json(text)
            except ValidationError:
                raise StoreError(f"{self.path}: the deferred request {name} is damaged") from None

    def replies(self) -> Iterator[Reply]:
        """Every reply that is served, by key."""
        for name in self._names("reply:"):
            key = name.removeprefix("reply:")
            reply = None if ":" in key else self.get(key)
            if reply is not None:
                yield reply

    def close(self) -> None:
        """Close this thread's connection; those of threads that have ended are closed already."""
        self._cache.close()

    def _names(self, prefix: str) -> list[str]:
        with self._errors_explained(), self._refusals_explained("it"):
            return sorted(name for name in self._cache.iterkeys() if name.startswith(prefix))

    def _read(self, name: str) -> str | None:
        with self._errors_explained(), self._refusals_explained(f"entry {name}"):
            text: str | None = self._cache.get(name)
        return text

    def _keep_replaced(self, name: str) -> None:
        try:
            replaced = self._read(name)
        except DamagedReplyError:
            return  # not text, so there is nothing that could be read back
        number = 1
        while not self._cache.add(f"{name}:{number}", replaced):
            number += 1

    def _opened(self, key: str, text: str) -> Reply:
        checksum, _, line = text.partition("\n")
        where = f"{self.path}: entry {key}"
        if checksum != sha256_of(line):
            raise DamagedReplyError(f"{where}: damaged or edited by hand")
        try:
            reply = reply_from_json(line, where)
        except StoreError as error:
            raise DamagedReplyError(str(error)) from None
        if reply.key != key:
            raise DamagedReplyError(f"{where}: holds the reply to another request, {reply.key}")
        return reply

    @contextmanager
    def _refusals_explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except DamagedReplyError as error:
            raise DamagedReplyError(f"{self.path}: {what} holds {error}: refused unread") from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # Not `retry=True`: it would go on for ever where the file cannot be written at all.
        with self._errors_explained(), self._lock, self._cache.transact():
            yield

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            said = " ".join(str(error).split()) or "it is locked or read-only"
            raise StoreError(
                f"{self.path}: the replies store cannot be read or written: {said}; "
                "check the disk's free space and the folder's permissions"
            ) from error


def _sealed(reply: Reply) -> str:
    line = canonical_json(reply.model_dump(mode="json"))
    return f"{sha256_of(line)}\n{line}"
