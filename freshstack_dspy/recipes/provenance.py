"""How a collection was made, as its manifest tells it."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.manifest import Provenance, StepEstimate
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.typed import instructions
from freshstack_dspy.lm.usage import Ledger
from freshstack_dspy.recipes.freshstack import FreshStack

_PACKAGES = ("freshstack_dspy", "bm25s", "dspy", "instructor", "lancedb", "litellm", "pydantic")
_PRIVATE = frozenset(["api_key", "api_base"])


def provenance(
    config: BuildConfig,
    recipe: FreshStack,
    ledger: Ledger,
    *,
    estimate: Mapping[str, StepEstimate] | None = None,
    fingerprints: Mapping[str, str] | None = None,
    reasked: Iterable[str] = (),
) -> Provenance:
    """Tell how a build was made; what is told can be handed on.

    Args:
        config: Of the build.
        recipe: With the prompts that were used.
        ledger: What was asked, by step.
        estimate: What was expected to be asked, by step.
        fingerprints: As `unchanged.fingerprints` gives them.
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
        config=_shareable(config.model_dump()),
        estimate=dict(estimate or {}),
        fingerprints=dict(fingerprints or {}),
        reasked=tuple(sorted(reasked)),
    )


def prompt_hash(predictor: Any) -> tuple[str, str]:
    """The name of a predictor's signature, and the hash of its prompt."""
    prompt = [instructions(predictor.signature), predictor.demos]
    return predictor.signature.__name__, sha256_of(prompt)


def _shareable(value: Any) -> Any:
    """A configuration without secrets and machines, and of each path only the last part."""
    if isinstance(value, dict):
        return {name: _shareable(item) for name, item in value.items() if name not in _PRIVATE}
    if isinstance(value, (list, tuple)):
        return [_shareable(item) for item in value]
    return value.name if isinstance(value, Path) else value
