"""How a collection was made, for its manifest."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.collection.manifest import Provenance
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.typed import instructions
from freshstack_dspy.lm.usage import Ledger, StepLedger

if TYPE_CHECKING:
    from freshstack_dspy.recipes.freshstack import FreshStack

_PACKAGES = ("freshstack_dspy", "bm25s", "dspy", "instructor", "lancedb", "litellm", "pydantic")
_PRIVATE = frozenset(["api_key", "api_base"])


def provenance(
    config: BuildConfig,
    recipe: "FreshStack",
    ledger: Ledger,
    *,
    fingerprints: Mapping[str, str] | None = None,
    reasked: Iterable[str] = (),
) -> Provenance:
    """Describe how a build was made, without secrets and names of machines.

    Args:
        config: Of the build.
        recipe: With the prompts that were used.
        ledger: What was asked, by step.
        fingerprints: As `fingerprints.fingerprints` gives them.
        reasked: Keys of the replies that were used and that no record names.
    """
    return Provenance(
        name=config.name,
        recipe=config.recipe,
        model=config.model.name,
        scale=config.judge.graded,
        prompts=dict(prompt_hash(predictor) for _, predictor in recipe.named_predictors()),
        versions={name: version(name) for name in _PACKAGES},
        ledger=ledger.steps(),
        config=shareable(config),
        fingerprints=dict(fingerprints or {}),
        reasked=tuple(sorted(reasked)),
    )


def prompt_hash(predictor: Any) -> tuple[str, str]:
    """The name of a predictor's signature, and the hash of its prompt."""
    prompt = [instructions(predictor.signature), predictor.demos]
    return predictor.signature.__name__, sha256_of(prompt)


def shareable(config: BuildConfig) -> dict[str, Any]:
    """A configuration without secrets and machines, and of each path only the last part."""
    values: dict[str, Any] = _without_private(config.model_dump())
    return values


def added(before: Mapping[str, StepLedger], now: Mapping[str, StepLedger]) -> dict[str, StepLedger]:
    """Add up the accounts of two pieces of work, step by step."""
    sums = {}
    for name in sorted({*before, *now}):
        one, other = before.get(name, StepLedger()), now.get(name, StepLedger())
        sums[name] = StepLedger(
            **{key: getattr(one, key) + getattr(other, key) for key in StepLedger.model_fields}
        )
    return sums


def _without_private(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_private(item) for name, item in value.items() if name not in _PRIVATE
        }
    if isinstance(value, (list, tuple)):
        return [_without_private(item) for item in value]
    return value.name if isinstance(value, Path) else value
