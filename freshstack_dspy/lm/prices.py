"""What a call costs, by the price table that LiteLLM's wheel carries (no import of it, no network)."""

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

_TABLE = "model_prices_and_context_window_backup.json"


@functools.lru_cache(maxsize=1)
def _prices() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    table: dict[str, Any] = json.loads(
        (Path(spec.origin).parent / _TABLE).read_text(encoding="utf-8")
    )
    return table


def cost_of(model: str, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """US dollars for one call, or None where the table has no price for the model."""
    if model.startswith("extractive/"):
        return 0.0
    entry = _entry(model)
    if entry is None or input_tokens is None or output_tokens is None:
        return None
    input_price, output_price = (
        entry.get(f"{kind}_cost_per_token") for kind in ("input", "output")
    )
    if input_price is None:
        return None
    return float(input_tokens * input_price + output_tokens * (output_price or 0.0))


def _entry(model: str) -> dict[str, Any] | None:
    """The table's entry; under a bare name only if it is this provider's price."""
    table = _prices()
    provider, _, name = model.partition("/")
    entry: dict[str, Any] | None = table.get(model)
    if entry is None and table.get(name, {}).get("litellm_provider", "").startswith(provider):
        entry = table[name]
    return entry
