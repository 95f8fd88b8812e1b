"""What a call costs, by the price table in LiteLLM's wheel and the user's own prices over it.

The table is read as a file: LiteLLM is not imported, and nothing is fetched.
"""

import functools
import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.config import PricesConfig

_TABLE = "model_prices_and_context_window_backup.json"
_MILLION = 1_000_000
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Tier(Record):
    """What a token costs once a call's input is longer than so many tokens."""

    above: int
    input: float
    output: float


class Price(Record):
    """What one model costs, in US dollars per token."""

    input: float = Field(ge=0)
    output: float = Field(default=0, ge=0)
    unit: float = Field(default=0, ge=0)
    """Of a reranker's search unit: one text with up to a hundred passages, as Cohere counts."""
    batch_input: float | None = Field(default=None, ge=0)
    """Through the provider's batch API; None where the table names no such price."""
    batch_output: float | None = Field(default=None, ge=0)
    tiers: tuple[Tier, ...] = ()

    def cost(
        self, input_tokens: int | None, output_tokens: int | None, *, batch: bool = False
    ) -> float | None:
        """US dollars for one call, or None where its tokens were not counted."""
        if input_tokens is None or output_tokens is None:
            return None
        if batch and self.batch_input is not None and self.batch_output is not None:
            return input_tokens * self.batch_input + output_tokens * self.batch_output
        reached = (tier for tier in self.tiers if input_tokens > tier.above)
        per_token = next(reached, self)
        return input_tokens * per_token.input + output_tokens * per_token.output


def price_of(model: str, own: "PricesConfig | None" = None) -> Price | None:
    """The price of a model, or None where neither the user's own prices nor the table name one."""
    known = Price(input=0, output=0) if model.startswith("extractive/") else _from_table(model)
    given = {name: value / _MILLION for name, value in own or () if value is not None}
    if known is None:
        return Price(**given) if {"input", "output"} <= given.keys() else None
    if {"input", "output"} & given.keys():  # the table's batch price and tiers belong to its price
        known = Price(input=known.input, output=known.output)
    return known.model_copy(update=given)


def rerank_price_of(model: str) -> Price | None:
    """The price of a reranker, or None where the table names none."""
    entry = _entry(model)
    token, unit = entry.get("input_cost_per_token"), entry.get("input_cost_per_query")
    if token is None and unit is None:
        return None
    return Price(input=token or 0.0, unit=unit or 0.0)


def longest_input_of(model: str) -> int | None:
    """How many tokens a model takes, or None where the table does not say."""
    most = _entry(model).get("max_input_tokens")
    return most if isinstance(most, int) and most > 0 else None


@functools.lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table: dict[str, Any] = json.loads((Path(spec.origin).parent / _TABLE).read_bytes())
    return table


@functools.lru_cache(maxsize=64)
def _from_table(model: str) -> Price | None:
    entry = _entry(model)
    if entry.get("input_cost_per_token") is None:
        return None
    # What a model thinks is counted as output; where it costs more, all output does.
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


def _entry(model: str) -> dict[str, Any]:
    """The table's entry, or none; under a bare name only if it is this provider's price."""
    provider, _, name = model.partition("/")
    entry: dict[str, Any] = _table().get(model) or {}
    if not entry and name:
        bare = _table().get(name, {})
        entry = bare if bare.get("litellm_provider", "").startswith(provider) else {}
    return entry
