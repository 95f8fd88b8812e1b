"""What a plan says of questions that are not there yet."""

from pathlib import Path

import pytest

from freshstack_dspy.config import BudgetConfig
from freshstack_dspy.errors import BudgetError
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.planning.plan import plan
from tests.recipes.scripted import ScriptedProvider
from tests.recipes.workshop import synthesize, workshop


def test_a_plan_is_an_estimate_until_the_questions_are_there(tmp_path: Path) -> None:
    config = workshop(tmp_path)
    before = plan(config)
    made = build(config, provider=ScriptedProvider(SynthesizeQueries=synthesize))
    after = plan(config)

    assert before.queries == after.queries == 4
    assert [step.step for step in before.steps] == [step.step for step in after.steps]
    assert before.steps[0].step == "synthesis"
    assert not any(step.exact for step in before.steps)
    assert all(step.exact and step.missing == 0 for step in after.steps)
    assert before.steps[0].requests == made.manifest.estimate["synthesis"].requests == 15
    assert after.steps[0].requests == made.manifest.ledger["synthesis"].calls
    assert before.steps[1].missing == 0  # the nuggets are asked for in synthesis


def test_a_half_recorded_plan_takes_off_what_is_recorded(tmp_path: Path) -> None:
    config = workshop(tmp_path, model={"concurrency": 1})
    capped = config.model_copy(update={"budget": BudgetConfig(calls=6)})
    with pytest.raises(BudgetError):
        build(capped, provider=ScriptedProvider(SynthesizeQueries=synthesize))

    synthesis = plan(config).steps[0]

    assert (synthesis.recorded, synthesis.missing, synthesis.exact) == (6, 9, False)


def test_related_chunks_are_planned_for_too(tmp_path: Path) -> None:
    config = workshop(tmp_path, queries={"chunks": 2, "count": 3})

    assert not any(step.exact for step in plan(config).steps)
    build(config, provider=ScriptedProvider(SynthesizeQueries=synthesize))
    assert all(step.exact for step in plan(config).steps)
