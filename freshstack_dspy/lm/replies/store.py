"""The replies store: diskcache over raw JSON text, with nothing ever unpickled or thrown away.

diskcache pickles keys and values that are not plain, and unpickles whatever row says so
(CVE-2025-69872; its JSONDisk does not close it). Here it only writes, and `JsonTextDisk` writes
text only; reading goes past it (`read_only.py`). There is no eviction and no expiry: the defaults
would throw paid replies away. People exchange bundles (`bundle.py`), never the SQLite file.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskcache

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.replies.entries import Entry, entry_name
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.sealed import sealed
from freshstack_dspy.lm.replies.store_format import (
    DATABASE,
    FORMAT_ENTRY,
    SCHEMA,
    SETTINGS,
    account_entry,
    connected,
    errors_explained,
    refuse_foreign_settings,
    refuse_other_schema,
    refuse_unsafe_files,
)
from freshstack_dspy.lm.replies.text_disk import JsonTextDisk, refuse_longer
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.spending.spent import Spent
from freshstack_dspy.records import Status

_PATIENCE = 60
"""Seconds to wait for another process that is writing."""


@dataclass(eq=False)
class _Put:
    """A reply that is to be written."""

    key: str
    text: str
    account: str | None
    spent: Spent | None
    written: bool = False
    error: BaseException | None = None


class ReplyStore(ReadOnlyStore):
    """Replies by key, shared by threads and processes; for the entries see `ReadOnlyStore`."""

    def __init__(self, path: Path) -> None:
        """Open or make the store in a folder.

        Raises:
            StoreError: The folder cannot be written, or holds something else than a store of this
                schema version.
        """
        self._write_lock = threading.Lock()
        self._puts: deque[_Put] = deque()
        with errors_explained(path):
            _refuse_foreign(path)
            self._cache: Any = diskcache.Cache(
                str(path.absolute()), disk=JsonTextDisk, timeout=_PATIENCE, **SETTINGS
            )
            try:
                self._cache.add(FORMAT_ENTRY, SCHEMA)
                super().__init__(path)
            except BaseException:
                self._cache.close()
                raise

    def put(self, reply: Reply, *, account: str | None = None, spent: Spent | None = None) -> None:
        """Record a reply; one that it replaces is kept under the next number.

        Args:
            reply: What came.
            account: Who pays, if anybody.
            spent: What it cost; written together with the reply or not at all.

        Raises:
            StoreError: It cannot be written; or the account cannot be charged, and then the reply
                is recorded all the same.
        """
        text = _text(reply)
        mine = _Put(reply.key, text, account, spent)
        self._puts.append(mine)
        # Whoever comes first writes for all that have come since, in one transaction: a
        # transaction for each reply takes twice the time with many threads.
        with self._write_lock:
            while not mine.written:
                with contextlib.suppress(StoreError):  # each is told of its own
                    self._write_puts()
        if mine.error is not None:
            raise mine.error

    def put_figures(
        self, figures: Iterable[Figures], *, account: str | None = None, spent: Spent | None = None
    ) -> None:
        """Record the figures of one request; what they replace is kept under the next number.

        Args:
            figures: What came.
            account: Who pays, if anybody.
            spent: What all of them cost; written together with them.

        Raises:
            StoreError: They cannot be written; or the account cannot be charged, and then they
                are recorded all the same.
        """
        texts = {entry_name(one): _text(one) for one in figures}
        uncharged: StoreError | None = None
        with self._writing():
            for name, text in texts.items():
                self._replace(name, text)
            if account is not None and spent is not None:
                try:
                    self._charge(account, spent)
                except StoreError as error:
                    uncharged = error
        if uncharged is not None:
            raise uncharged

    def put_entry(self, entry: Entry) -> None:
        """Record an entry of either kind; see `put`."""
        if isinstance(entry, Reply):
            self.put(entry)
        else:
            self.put_figures([entry])

    def add(self, entry: Entry) -> bool:
        """Record an entry unless its key has one; tell whether it had none."""
        text = _text(entry)
        with self._writing():
            added: bool = self._cache.add(entry_name(entry), text)
            if added:
                self._cache.delete(f"ask:{entry.key}")
        return added

    def charge(self, account: str, spent: Spent) -> None:
        """Add to what an account has spent.

        Raises:
            StoreError: The account's name or its entry is not one.
        """
        with self._writing():
            self._charge(account, spent)

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a recorded reply turned out to be worth."""
        known = self.get(key)
        if known is None or (known.status, known.reasked_as) == (status, reasked_as):
            return
        with self._writing():
            reply = self.get(key) or known
            noted = reply.model_copy(update={"status": status, "reasked_as": reasked_as})
            self._cache.set(f"reply:{key}", _text(noted))

    def defer(self, ask: Ask) -> None:
        """Write down a request that is to be answered later."""
        with self._writing():
            self._cache.add(f"ask:{ask.key}", canonical_json(ask.model_dump(mode="json")))

    def close(self) -> None:
        """Close this thread's connections; those of threads that have ended are closed already."""
        super().close()
        self._cache.close()

    def _write_puts(self) -> None:
        """Write the replies that wait, but no two to one request; called with the lock held."""
        puts: dict[str, _Put] = {}
        while self._puts and self._puts[0].key not in puts:
            put = self._puts.popleft()
            puts[put.key] = put
        try:
            with errors_explained(self.path), self._cache.transact():
                for key, put in puts.items():
                    self._replace(f"reply:{key}", put.text)
                self._charge_for(list(puts.values()))
        except BaseException as error:
            said = StoreError(f"{self.path}: the reply was not written: {error}")
            for put in puts.values():
                put.error = error if isinstance(error, StoreError) else said
            raise
        finally:
            for put in puts.values():
                put.written = True

    def _replace(self, name: str, text: str) -> None:
        if not self._cache.add(name, text):
            self._keep_replaced(name)
            self._cache.set(name, text)
        if name.startswith("reply:"):
            self._cache.delete(f"ask:{name.removeprefix('reply:')}")

    def _charge_for(self, puts: Sequence[_Put]) -> None:
        accounts: dict[str, Spent] = {}
        for put in puts:
            if put.account is not None and put.spent is not None:
                accounts[put.account] = accounts.get(put.account, Spent()) + put.spent
        for account, spent in accounts.items():
            try:
                self._charge(account, spent)
            except StoreError as error:
                for put in puts:
                    put.error = error if put.account == account else put.error

    def _charge(self, account: str, spent: Spent) -> None:
        # Read by the other connection, which sees what was written before this transaction.
        total = self.spent(account) + spent
        self._cache.set(account_entry(account), sealed(total.model_dump(mode="json")))

    def _keep_replaced(self, name: str) -> None:
        """Keep an entry under the next number; what is damaged is set aside, for people to read."""
        kind, _, key = name.partition(":")
        try:
            text = (self.text(name) or b"").decode()
        except (DamagedReplyError, UnicodeDecodeError):
            return  # not text, so there is nothing that could be read back
        try:
            (self.get if kind == "reply" else self.figures)(key)
        except DamagedReplyError:
            kind = "damaged"
        number = 1
        while not self._cache.add(f"{kind}:{key}:{number}", text):
            number += 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        # Not `retry=True`: it would go on for ever where the file cannot be written at all.
        with errors_explained(self.path), self._write_lock, self._cache.transact():
            yield


def _text(entry: Entry) -> str:
    text = sealed(entry.model_dump(mode="json"))
    refuse_longer(text)
    return text


def _refuse_foreign(path: Path) -> None:
    """Look at a database before diskcache opens it, which would do what its settings say.

    Raises:
        StoreError: It is not a store of ours, or of another schema version.
    """
    if os.path.expandvars(path) != str(path):
        raise StoreError(f"{path}: diskcache would take the $ in the name for a variable")
    refuse_unsafe_files(path, writing=True)
    if not (path / DATABASE).exists() or not (path / DATABASE).stat().st_size:
        return
    # For writing, so that what a killed process left in the log is put in order.
    with contextlib.closing(connected(path, "mode=rw")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        if "Cache" in tables:
            refuse_other_schema(path, connection)
        if "Settings" in tables:
            refuse_foreign_settings(path, connection)
