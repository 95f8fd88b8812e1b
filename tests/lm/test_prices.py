"""What calls cost, by the price table in LiteLLM's wheel and by the user's own prices."""

import pytest

from freshstack_dspy.config import PricesConfig
from freshstack_dspy.lm.capabilities import Price, price_of


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("openai/gpt-4o", 1000 * 2.5e-06 + 100 * 1e-05),
        ("anthropic/claude-sonnet-4-5", 1000 * 3e-06 + 100 * 1.5e-05),
        ("deepseek/deepseek-chat", 1000 * 2.8e-07 + 100 * 4.2e-07),
        ("extractive/baseline", 0.0),
    ],
)
def test_a_call_costs_what_the_table_says(model: str, cost: float) -> None:
    price = price_of(model)
    assert price is not None
    assert price.cost(1000, 100) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["openai/made-up", "made-up", "hosted_vllm/gpt-4o"])
def test_a_model_that_is_not_in_the_table_has_no_price(model: str) -> None:
    """One's own server does not cost what OpenAI asks for a model of the same name."""
    assert price_of(model) is None


def test_the_batch_price_of_the_table_is_half_the_live_one() -> None:
    price = price_of("openai/gpt-4o")
    assert price is not None
    live, batch = price.cost(1000, 100), price.batched.cost(1000, 100)
    assert live is not None
    assert batch == pytest.approx(live / 2)


def test_the_users_prices_go_before_the_tables() -> None:
    own = PricesConfig(input=1.0, output=2.0)
    assert price_of("openai/gpt-4o", own) == Price(input=1e-06, output=2e-06)
    assert price_of("hosted_vllm/mine", own) == Price(input=1e-06, output=2e-06)
