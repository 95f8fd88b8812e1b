"""A plan is a dry run of the build: nothing is sent or recorded, and what is recorded is served."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from freshstack_dspy import BuildConfig, build, plan
from freshstack_dspy.errors import ConfigError, FatalModelError
from freshstack_dspy.recipes.opening import SAMPLE
from freshstack_dspy.recipes.plan import Plan
from tests.recipes.domain import QUESTIONS, domain, questions_file, write_domain
from tests.recipes.scripted import ScriptedProvider
from tests.recipes.test_build import NoStep


def requests(found: Plan) -> dict[str, tuple[int, int]]:
    return {step.step: (step.requests, step.recorded) for step in found.steps}


def test_it_is_what_a_build_by_the_baseline_asks(tmp_path: Path) -> None:
    config = domain(tmp_path, model={"name": "extractive/baseline"})

    before = plan(config)
    ledger = build(config).manifest.ledger
    after = plan(config)

    assert requests(before) == {name: (one.calls, 0) for name, one in ledger.items()}
    assert requests(after) == {name: (one.calls, one.calls) for name, one in ledger.items()}
    assert before.total.input_tokens > before.total.output_tokens > 0
    assert (after.total.input_tokens, after.total.output_tokens) == (0, 0)


def test_questions_with_little_in_common_with_the_corpus_are_named(tmp_path: Path) -> None:
    """Of "What is the phase of the dial? Nobody knows." it has two rare terms in five."""
    assert plan(domain(tmp_path)).little_overlap == {"x": 0.4}


def test_nothing_is_recorded_and_no_key_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = domain(tmp_path)

    found = plan(config)

    assert not config.cache.path.exists()
    assert not config.out.exists()
    assert found.total.recorded == 0
    assert found.total.cost is None
    assert "OPENAI_API_KEY" in (found.missing_key or "")


def test_what_is_recorded_is_served_and_leads_to_the_very_requests_of_the_build(
    copied: Callable[[str], BuildConfig], tmp_path: Path
) -> None:
    """The steps before are recorded, so that those after are known exactly."""
    copied("usual")
    config = domain(tmp_path, judge={"batch": 1})

    found = requests(plan(config))
    provider = ScriptedProvider()
    build(config, provider=provider, replace=True)

    asked, recorded = found["support"]
    assert asked - recorded == provider.calls["JudgeSupportLevel"] > 0
    assert found["nuggets"] == (3, 3)


def test_of_many_questions_a_sample_is_run_and_scaled_up(tmp_path: Path) -> None:
    config = domain(tmp_path, model={"name": "extractive/baseline"})
    number = 2 * SAMPLE + 5
    questions = [{**QUESTIONS[0], "query_id": f"{n}", "title": f"Dial {n}"} for n in range(number)]
    questions_file(config).write_text("".join(json.dumps(one) + "\n" for one in questions))

    found = plan(config)

    assert found.queries == number
    assert found.sampled < SAMPLE
    assert requests(found)["nuggets"] == (number, 0)


def test_dollars_and_what_the_budget_leaves(tmp_path: Path) -> None:
    config = domain(
        tmp_path, prices={"input": 1.0, "output": 2.0}, budget={"dollars": 1, "calls": 2}
    )

    found = plan(config)

    total = found.total
    assert total.cost == pytest.approx((total.input_tokens + 2 * total.output_tokens) / 1e6)
    assert total.upper_bound is not None
    assert total.upper_bound > (total.cost or 0)
    caps = {cap.cap: (cap.limit, cap.spent, cap.expected) for cap in found.budget}
    assert caps == {"dollars": (1, 0, total.cost), "calls": (2, 0, total.requests)}


def test_a_misspelt_provider_is_found_first_and_a_place_to_write_is_needed_by_a_build_alone(
    tmp_path: Path,
) -> None:
    with pytest.raises(FatalModelError, match=r"build.toml: .*opnai/gpt-4o"):
        plan(write_domain(tmp_path, model={"name": "opnai/gpt-4o"}), progress=NoStep())
    (tmp_path / "file").write_text("")
    config = domain(tmp_path).model_copy(update={"out": tmp_path / "file" / "collection"})
    assert plan(config).queries == 3, "nothing is written there"
    with pytest.raises(ConfigError, match="no folder"):
        build(config, progress=NoStep())
