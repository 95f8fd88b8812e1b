"""What a door to an embedder or reranker needs beside its model: records, money, and listeners."""

from dataclasses import dataclass, field

from freshstack_dspy.config import Mode
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.lm.events import Listener
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.recorded import RecordedFigures
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.spending.budget import Account
from freshstack_dspy.lm.spending.ledger import Ledger


@dataclass(frozen=True)
class Access:
    """How a door is opened.

    Attributes:
        mode: See `door.py`.
        store: Where figures are kept; every mode but `replay` needs one that can be written.
        recorded: Figures of bundles, read beside the store.
        account: Who pays, and how much at most; with `in_flight` under one cap with other doors.
        ledger: Where what is asked and served is entered.
        on_call: Told of every request that is sent, by many threads.
    """

    mode: Mode = "live"
    store: ReadOnlyStore | None = None
    recorded: RecordedFigures | None = None
    account: Account = field(default_factory=Account)
    ledger: Ledger = field(default_factory=Ledger)
    on_call: Listener | None = None

    def written(self) -> ReplyStore | None:
        """The store to record in; None in a replay.

        Raises:
            FatalModelError: The mode asks, and there is no store that can be written.
        """
        if self.mode == "replay":
            return None
        if not isinstance(self.store, ReplyStore):
            raise FatalModelError(f"mode {self.mode!r} needs a replies store")
        return self.store
