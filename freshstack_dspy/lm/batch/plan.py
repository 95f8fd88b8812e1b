"""What a submission would send, how it is cut into batches, and the most that it can cost."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import BudgetError, StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.batch.api import BatchAPI
from freshstack_dspy.lm.replies.store import ReplyStore
from freshstack_dspy.lm.request import Ask, endpoint_identity
from freshstack_dspy.lm.spending.budget import Budget, worst_case
from freshstack_dspy.lm.spending.prices import price_of
from freshstack_dspy.lm.spending.spent import Spent


class Plan(NamedTuple):
    """A submission before it is sent."""

    parts: tuple[tuple[Ask, ...], ...] = ()
    """The requests of each batch."""
    underway: int = 0
    """Requests of the file that a pending job has already."""
    answered: int = 0
    """Requests of the file that have a reply."""
    unknown: int = 0
    """Requests of the file that nobody waits for."""
    foreign: int = 0
    """Requests of the file to another model, or to another endpoint."""
    batch: Spent = Spent()
    """At most, through the batch API."""
    live: Spent = Spent()
    """At most, asked one by one."""
    priced: bool = False
    """Whether the price of the model is known."""

    @property
    def requests(self) -> int:
        """How many would be sent."""
        return sum(map(len, self.parts))


def plan(
    config: BuildConfig, store: ReplyStore, api: BatchAPI, file: Path, underway: frozenset[str]
) -> Plan:
    """Find out which requests of a file can be sent, and what they could cost.

    Args:
        config: Whose model answers them.
        store: Where they wait.
        api: The batch API, for its limits.
        file: As a deferred build wrote it.
        underway: The keys that a pending job has.

    Raises:
        StoreError: The file cannot be read, or was changed since it was written.
    """
    waiting = {ask.key: ask for ask in store.deferred()}
    endpoint = endpoint_identity(config.model.name, config.model.api_base)
    chosen: dict[str, Ask] = {}
    counts = dict.fromkeys(("underway", "answered", "unknown", "foreign"), 0)
    for key in dict.fromkeys(_keys_in(file, waiting)):
        ask = waiting.get(key)
        if ask is None:
            counts["unknown" if store.get(key) is None else "answered"] += 1
        elif key in underway:
            counts["underway"] += 1
        elif (ask.model, ask.endpoint) != (config.model.name, endpoint):
            counts["foreign"] += 1
        else:
            chosen[key] = ask
    price = price_of(config.model.name, config.prices)
    asks = list(chosen.values())
    return Plan(
        parts=tuple(cut(asks, api)),
        batch=_sum(worst_case(ask, price, batch=True) for ask in asks),
        live=_sum(worst_case(ask, price) for ask in asks),
        priced=price is not None,
        **counts,
    )


def cut(asks: Sequence[Ask], api: BatchAPI) -> Iterator[tuple[Ask, ...]]:
    """Cut requests into batches that the provider takes, in order."""
    part: list[Ask] = []
    size = 0
    for ask in asks:
        length = len(api.line(ask)) + 1
        if part and (len(part) == api.most_requests or size + length > api.most_bytes):
            yield tuple(part)
            part, size = [], 0
        part.append(ask)
        size += length
    if part:
        yield tuple(part)


def refuse_over_budget(config: BuildConfig, planned: Plan, spent: Spent, reserved: Spent) -> None:
    """Stop where the caps of `[budget]` could be passed.

    Args:
        config: With the caps.
        planned: What would be sent.
        spent: By this collection so far.
        reserved: The most that its pending jobs can cost.

    Raises:
        BudgetError: The worst case does not fit into what is left.
        ConfigError: There is a cap on dollars, and the model has no price.
    """
    price = price_of(config.model.name, config.prices)
    Budget(config.budget, model=config.model.name, price=price, spent=lambda: spent)
    taken = spent + reserved + planned.batch
    for name, cap in config.budget:
        if cap is not None and getattr(taken, name) > cap:
            raise BudgetError(
                f"[budget] {name} = {cap:g} does not allow these {planned.requests} requests: "
                f"{amount(name, spent)} spent so far, {amount(name, reserved)} reserved for "
                f"batches underway, and these could take {amount(name, planned.batch)}; nothing "
                "was sent: raise the cap, or submit fewer requests"
            )


def amount(name: str, spent: Spent) -> str:
    """An amount of calls, tokens or dollars, as it is shown."""
    value = getattr(spent, name)
    return f"${value:.4f}" if name == "dollars" else f"{value:,}"


def _sum(amounts: Iterable[Spent]) -> Spent:
    return sum(amounts, Spent())


class _RequestLine(BaseModel):
    custom_id: str
    body: dict[str, Any]


def _keys_in(file: Path, waiting: dict[str, Ask]) -> Iterator[str]:
    """The keys in a requests file; what waits under one must be what stands there."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{file}: the requests cannot be read: {error}; write them with: "
            "freshstack build CONFIG --mode defer"
        ) from None
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = _RequestLine.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"{file}:{number}: not a deferred request (custom_id, body): {first_fault(error)}"
            ) from None
        ask = waiting.get(line.custom_id)
        if ask is not None and line.body != ask.body():
            raise StoreError(
                f"{file}:{number}: not the request that waits as {line.custom_id}: it was changed, "
                "and its reply would be recorded as that to another; write the file again with: "
                "freshstack build CONFIG --mode defer"
            )
        yield line.custom_id
