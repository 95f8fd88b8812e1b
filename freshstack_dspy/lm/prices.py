"""What a call costs: the price of a model, by the user's own prices or the table in LiteLLM's wheel."""

import functools
import re

from pydantic import Field

from freshstack_dspy.config import PricesConfig
from freshstack_dspy.lm.capabilities import entry_of
from freshstack_dspy.lm.request import BY_HAND
from freshstack_dspy.records import Record

_MILLION = 1_000_000
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Tier(Record):
    """The price of a token once a call's input exceeds a number of tokens."""

    above: int
    input: float
    output: float


class Price(Record):
    """What one model costs, in US dollars per token."""

    input: float = Field(ge=0)
    output: float = Field(default=0, ge=0)
    unit: float = Field(default=0, ge=0)
    """The price of a reranker's search unit: one text with up to a hundred passages, as Cohere counts."""
    batch_input: float | None = Field(default=None, ge=0)
    """Through the provider's batch API; None where the table names no such price."""
    batch_output: float | None = Field(default=None, ge=0)
    tiers: tuple[Tier, ...] = ()

    @property
    def batched(self) -> "Price":
        """What it costs through the provider's batch API: the live price where none is known."""
        if self.batch_input is None or self.batch_output is None:
            return self
        return Price(input=self.batch_input, output=self.batch_output)

    def cost(self, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """US dollars for one call, or None where its tokens were not counted."""
        if input_tokens is None or output_tokens is None:
            return None
        reached = (tier for tier in self.tiers if input_tokens > tier.above)
        per_token = next(reached, self)
        return input_tokens * per_token.input + output_tokens * per_token.output


def price_of(model: str, own: PricesConfig | None = None) -> Price | None:
    """The price of a model, or None where neither the user's own prices nor the table name one."""
    free = model.startswith(("extractive/", BY_HAND))
    price = Price(input=0, output=0) if free else _from_table(model)
    own_prices = {name: value / _MILLION for name, value in own or () if value is not None}
    if price is None:
        return Price(**own_prices) if {"input", "output"} <= own_prices.keys() else None
    # The table's batch price and tiers belong to its own price alone.
    if {"input", "output"} & own_prices.keys():
        price = Price(input=price.input, output=price.output)
    return price.model_copy(update=own_prices)


def rerank_price_of(model: str) -> Price | None:
    """The price of a reranker, or None where the table names none."""
    entry = entry_of(model)
    token, unit = entry.get("input_cost_per_token"), entry.get("input_cost_per_query")
    if token is None and unit is None:
        return None
    return Price(input=token or 0.0, unit=unit or 0.0)


@functools.lru_cache(maxsize=64)
def _from_table(model: str) -> Price | None:
    entry = entry_of(model)
    if entry.get("input_cost_per_token") is None:
        return None
    # Thoughts count as output; where they cost more, all output is charged at their price.
    output = max(entry.get(f"output_cost_per_{kind}token") or 0.0 for kind in ("", "reasoning_"))
    tiers = [
        Tier(
            above=int(match[1]) * 1000,
            input=value,
            output=entry.get(name.replace("input", "output", 1)) or output,
        )
        for name, value in entry.items()
        if (match := _TIER.fullmatch(name)) and value is not None
    ]
    return Price(
        input=entry["input_cost_per_token"],
        output=output,
        batch_input=entry.get("input_cost_per_token_batches"),
        batch_output=entry.get("output_cost_per_token_batches"),
        tiers=tuple(sorted(tiers, key=lambda tier: -tier.above)),
    )
