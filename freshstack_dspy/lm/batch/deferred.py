"""Deferred requests: a file in the OpenAI batch format, answered by whatever is cheapest.

A provider's batch API, `vllm run-batch`, or a person answers it; the replies are imported, and
the build goes on. Each line of the replies is either what a batch API gives back,
`{"custom_id": …, "response": {"status_code": 200, "body": {…}}}`, or, for people,
`{"custom_id": …, "content": "…"}`.
"""

from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

from pydantic import Field

from freshstack_dspy.config import ModelConfig, PricesConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.batch.reply_lines import BadLine, Completion, ReplyLine, read_lines
from freshstack_dspy.lm.provider.redaction import presentable
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.spending.budget import worst_case
from freshstack_dspy.lm.spending.prices import Price, price_of
from freshstack_dspy.lm.spending.spent import Spent
from freshstack_dspy.records import Record

_LISTED = 5
_SHOWN = 16
_GROUPS = ("replaced", "failed", "invalid", "unknown", "repeated")


class ImportReport(Record):
    """What became of the lines of a replies file; the lists name custom ids."""

    imported: int = 0
    replaced: tuple[str, ...] = ()
    """Lines that took the place of a recorded reply; that one is kept under a number."""
    failed: tuple[str, ...] = ()
    """Lines that hold an error in place of a reply; their requests still wait."""
    invalid: tuple[str, ...] = ()
    """Lines that are no answer to their request; it still waits."""
    unknown: tuple[str, ...] = ()
    """Lines whose request this store does not wait for, and has no reply to."""
    repeated: tuple[str, ...] = ()
    """Lines for a request that an earlier line, or the store, has a reply to."""
    waiting: int = Field(default=0, ge=0)
    """Requests that still wait for a reply."""
    reasons: tuple[str, ...] = ()
    """Why lines failed or are invalid, the most frequent first, with how often."""

    @property
    def faulty(self) -> bool:
        """Whether something did not go as it should."""
        return bool(self.failed or self.invalid or self.unknown)

    def summary(self) -> str:
        """What became of the lines, without what waits."""
        parts = [f"{self.imported} imported"]
        for name in _GROUPS:
            ids = getattr(self, name)
            if ids:
                listed = [ascii(custom_id[:_SHOWN])[1:-1] for custom_id in ids[:_LISTED]]
                shown = ", ".join(listed) + (", …" if len(ids) > _LISTED else "")
                parts.append(f"{len(ids)} {name} ({shown})")
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"{self.summary()}; {self.waiting} still waiting"


def request_line(ask: Ask, url: str = "/v1/chat/completions") -> bytes:
    """A request as one line of an OpenAI batch file, without the line break."""
    value = {"custom_id": ask.key, "method": "POST", "url": url, "body": ask.body()}
    return canonical_json(value).encode()


def write_requests(store: ReadOnlyStore, path: Path, keys: Container[str] | None = None) -> int:
    """Write deferred requests, each as one line of an OpenAI batch file; return how many.

    Args:
        store: Where they wait.
        path: The file.
        keys: Which; None: all that wait, those of earlier configurations too.

    Raises:
        StoreError: The file cannot be written.
    """
    return write_asks((ask for ask in store.deferred() if keys is None or ask.key in keys), path)


def write_asks(asks: Iterable[Ask], path: Path) -> int:
    """Write requests, each as one line of an OpenAI batch file; return how many.

    Raises:
        StoreError: The file cannot be written.
    """
    lines = [request_line(ask) + b"\n" for ask in asks]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
    except OSError as error:
        raise StoreError(f"{path}: the requests cannot be written: {error}") from error
    return len(lines)


def import_replies(
    store: ReplyStore,
    path: Path,
    prices: PricesConfig | None = None,
    *,
    account: str | None = None,
    model: ModelConfig | None = None,
    replace: bool = False,
    lenient: bool = False,
    only: Container[str] | None = None,
) -> ImportReport:
    """Record the replies of a file.

    A person's answer that does not fit its request is refused. A batch's reply is paid for and
    recorded as it is; the next build asks again with its error.

    Args:
        store: Where the requests wait.
        path: The file.
        prices: What the model costs, over LiteLLM's table.
        account: In whose name a batch's replies are charged; None: nobody's.
        model: Whose secrets must not be shown with a provider's words.
        replace: Record also what there is a reply to already; that one is kept under a number.
        lenient: Count a line in neither format as invalid, in place of refusing the file.
        only: The keys that were asked; a reply to another request counts as unknown. None: all.

    Raises:
        StoreError: The file cannot be read, or a line is not in one of the two formats; then
            nothing is recorded.
    """
    lines = list(read_lines(path))
    if not lenient:
        _refuse_bad_lines(path, lines)
    run = _Import(store, prices, account, replace=replace)
    for line in lines:
        run.take(line, asked=only is None or line.custom_id in only)
    return run.report(model or ModelConfig())


def _refuse_bad_lines(path: Path, lines: list[ReplyLine | BadLine]) -> None:
    for line in lines:
        if isinstance(line, BadLine):
            raise StoreError(
                f"{path}:{line.number}: neither a batch reply (custom_id, response.body.choices) "
                f"nor a hand-written one (custom_id, content): {line.fault}"
            )


class _Import:
    """One file's way into the store."""

    def __init__(
        self, store: ReplyStore, prices: PricesConfig | None, account: str | None, *, replace: bool
    ) -> None:
        self._store = store
        self._prices = prices
        self._account = account
        self._replace = replace
        self._waiting = {ask.key: ask for ask in store.deferred()}
        self._taken: set[str] = set()
        self._imported = 0
        self._groups: dict[str, list[str]] = {name: [] for name in _GROUPS}
        self._reasons: Counter[str] = Counter()

    def take(self, line: ReplyLine | BadLine, *, asked: bool = True) -> None:
        """Record one line, or enter why not."""
        key = line.custom_id
        if isinstance(line, BadLine):
            self._refuse("invalid", key, line.fault)
            return
        if not asked:
            self._groups["unknown"].append(key)
            return
        known = self._store.get(key) if key not in self._waiting else None
        if key not in self._waiting and (known is None or not self._replace or key in self._taken):
            self._groups["unknown" if known is None else "repeated"].append(key)
        elif (completion := line.completion()) is None:
            self._refuse("failed", key, line.reason())
        else:
            ask = known.ask if known is not None else self._waiting[key]
            self._answer(ask, line, completion, replaces=known is not None)

    def report(self, model: ModelConfig) -> ImportReport:
        """What became of all lines."""
        ordered = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
        return ImportReport(
            imported=self._imported,
            waiting=len(self._waiting),
            reasons=tuple(f"{count} x {presentable(why, model)}" for why, count in ordered),
            **{name: tuple(ids) for name, ids in self._groups.items()},
        )

    def _answer(self, ask: Ask, line: ReplyLine, completion: Completion, *, replaces: bool) -> None:
        fault = _fault_of_a_person(ask, completion.text) if line.by_hand else None
        if fault is not None:
            self._refuse("invalid", ask.key, fault)
            return
        price = price_of(ask.model, self._prices)
        reply = completion.as_reply_to(ask, price, batch=not line.by_hand)
        self._record(reply, price, paid=not line.by_hand)
        self._waiting.pop(ask.key, None)
        self._taken.add(ask.key)
        if replaces:
            self._groups["replaced"].append(ask.key)
        else:
            self._imported += 1

    def _record(self, reply: Reply, price: Price | None, *, paid: bool) -> None:
        if paid and self._account is not None:
            if reply.input_tokens is None or reply.output_tokens is None:
                spent = worst_case(reply.ask, price, batch=True)  # nobody counted
            else:
                spent = Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)
            self._store.put(reply, account=self._account, spent=spent)
        else:
            self._store.put(reply)

    def _refuse(self, group: str, key: str, why: str) -> None:
        self._groups[group].append(key)
        self._reasons[" ".join(why.split())] += 1


def _fault_of_a_person(ask: Ask, text: str) -> str | None:
    from freshstack_dspy.lm.batch.fits import fault_in  # loads DSPy, and only this needs it

    return fault_in(ask, text)
