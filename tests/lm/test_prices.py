"""What calls cost, by the price table in LiteLLM's wheel."""

import pytest

from freshstack_dspy.lm.prices import cost_of


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("openai/gpt-4o", 1000 * 2.5e-06 + 100 * 1e-05),
        ("anthropic/claude-sonnet-4-5", 1000 * 3e-06 + 100 * 1.5e-05),
        ("deepseek/deepseek-chat", 1000 * 2.8e-07 + 100 * 4.2e-07),
        ("extractive/baseline", 0.0),
        ("openai/made-up", None),
        ("made-up", None),
    ],
)
def test_a_call_costs_what_the_table_says(model: str, cost: float | None) -> None:
    assert cost_of(model, 1000, 100) == (cost if cost is None else pytest.approx(cost))


def test_a_model_on_ones_own_server_does_not_cost_what_openai_asks() -> None:
    assert cost_of("hosted_vllm/gpt-4o", 1000, 100) is None


@pytest.mark.parametrize("counts", [(None, 1), (1, None), (None, None)])
def test_an_unknown_count_makes_an_unknown_cost(counts: tuple[int | None, int | None]) -> None:
    assert cost_of("openai/gpt-4o", *counts) is None
