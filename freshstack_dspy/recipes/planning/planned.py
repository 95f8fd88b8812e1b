"""A plan: requests, tokens and dollars of every step of a build, and what its budget says to it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from pydantic import Field

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.embedders import EmbeddingEstimate
from freshstack_dspy.lm.budget import ADDED_BY_PROVIDERS, Spent
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.recipes.planning.estimate import dollars
from freshstack_dspy.recipes.planning.expected_judging import Load
from freshstack_dspy.records import Record, Step

Cap = Literal["dollars", "tokens", "calls"]
_MOST_BYTES_MORE = 5
"""Bytes of a token beyond the first, in text that is hardly ever denser; prose and code have 3."""


class Planned(Record):
    """Requests, and what sending those that are not recorded takes."""

    requests: int = Field(ge=0)
    """All that a live build goes through, recorded or not; later re-asks left out."""
    recorded: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    """Of the requests that are not recorded, as are all the following."""
    output_tokens: int = Field(ge=0)
    """Expected; reasoning is not in it."""
    cost: float | None
    """US dollars; None where the model's price is not known."""
    batch_cost: float | None
    """Through the provider's batch API; None where it has no known price."""
    worst_output_tokens: int = Field(ge=0)
    """If every reply is as long as `[model] max_tokens` allows."""
    worst_cost: float | None
    reserved_tokens: int = 0
    """What a build reserves for its largest request beyond its tokens, for it counts its bytes."""
    reserved_cost: float | None = 0.0

    @property
    def missing(self) -> int:
        """Requests that a live build sends."""
        return self.requests - self.recorded


class PlannedStep(Planned):
    """The plan of one step."""

    step: Step
    exact: bool
    """Whether requests and input tokens are known, and not estimated."""
    unfit: int = Field(default=0, ge=0)
    """Queries, of those known, that with their nuggets leave no room for a chunk in the model's
    window: a build sends nothing of these, and lists them as failed."""


class PlannedCap(Record):
    """What a plan means to one cap of [budget]."""

    cap: Cap
    limit: float
    spent: float
    """By all builds of this name so far."""
    expected: float | None
    """What the plan adds; None where it is not known."""
    worst: float | None
    """The cap's share that a build can need, with what it reserves for a request in flight."""

    @property
    def left(self) -> float:
        """What may still be spent."""
        return max(0.0, self.limit - self.spent)


class Plan(Record):
    """What a live build would send now, by step."""

    name: str
    model: str
    queries: int
    longest_reply: int
    """In tokens."""
    steps: tuple[PlannedStep, ...]
    total: Planned
    """Of these steps."""
    embeddings: tuple[EmbeddingEstimate, ...] = ()
    """What each `[[embedder]]` is asked for."""
    budget: tuple[PlannedCap, ...] = ()
    """The caps that are set."""


def planned_step(
    config: BuildConfig,
    step: Step,
    recorded: int,
    missing: Sequence[Load],
    *,
    exact: bool,
    unfit: int = 0,
) -> PlannedStep:
    """Plan one step.

    Args:
        config: Of the build.
        step: Which.
        recorded: How many of its requests recorded replies answer.
        missing: The others.
        exact: Whether they are known, and not estimated.
        unfit: Of how many queries nothing is asked, for they do not fit.
    """
    price = price_of(config.model.name, config.prices)
    longest = config.model.max_tokens
    at_worst = [load._replace(output_tokens=longest) for load in missing]
    requests = sum(load.requests for load in missing)
    largest = max((load.input_tokens for load in missing), default=0)
    reserved = _MOST_BYTES_MORE * largest + ADDED_BY_PROVIDERS if missing else 0
    return PlannedStep(
        step=step,
        exact=exact,
        unfit=unfit,
        requests=recorded + requests,
        recorded=recorded,
        input_tokens=sum(load.requests * load.input_tokens for load in missing),
        output_tokens=sum(load.requests * load.output_tokens for load in missing),
        cost=dollars(missing, price),
        batch_cost=dollars(missing, price, batch=True),
        worst_output_tokens=requests * longest,
        worst_cost=dollars(at_worst, price),
        reserved_tokens=reserved,
        reserved_cost=price.cost(reserved, 0) if price else None,
    )


def total_of(steps: Sequence[PlannedStep]) -> Planned:
    """Add up all steps."""
    return Planned(
        requests=sum(step.requests for step in steps),
        recorded=sum(step.recorded for step in steps),
        input_tokens=sum(step.input_tokens for step in steps),
        output_tokens=sum(step.output_tokens for step in steps),
        cost=_sum(step.cost for step in steps),
        batch_cost=_sum(step.batch_cost for step in steps),
        worst_output_tokens=sum(step.worst_output_tokens for step in steps),
        worst_cost=_sum(step.worst_cost for step in steps),
        reserved_tokens=max((step.reserved_tokens for step in steps), default=0),
        reserved_cost=max((step.reserved_cost or 0.0 for step in steps), default=0.0),
    )


def caps_of(
    config: BuildConfig, total: Planned, embeddings: Sequence[EmbeddingEstimate], spent: Spent
) -> Iterator[PlannedCap]:
    """Hold a plan against every cap of a configuration that is set."""
    embedding = sum(each.tokens for each in embeddings)
    calls = total.missing + sum(each.requests for each in embeddings)
    embedding_dollars = [each.dollars for each in embeddings]
    expected = {
        "dollars": _sum([total.cost, *embedding_dollars]),
        "tokens": total.input_tokens + total.output_tokens + embedding,
        "calls": calls,
    }
    worst = {
        "dollars": _sum([total.worst_cost, total.reserved_cost, *embedding_dollars]),
        "tokens": total.input_tokens
        + total.worst_output_tokens
        + total.reserved_tokens
        + embedding,
        "calls": calls,
    }
    for cap in get_args(Cap):
        limit = getattr(config.budget, cap)
        if limit is not None:
            yield PlannedCap(
                cap=cap,
                limit=limit,
                spent=getattr(spent, cap),
                expected=expected[cap],
                worst=worst[cap],
            )


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)
