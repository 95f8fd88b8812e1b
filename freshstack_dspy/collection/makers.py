"""Who made the labels of a collection, and what is said where it was the baseline."""

from collections.abc import Mapping
from typing import Any

from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape

NO_MODEL = "none"
"""The model of a collection that was imported: nobody was asked."""
_BASELINE = "extractive/"
_TOLD = ("collection", "content_hash", "recipe", "model")


def is_baseline(model: str) -> bool:
    """Tell whether a model is the embedded baseline, which counts words."""
    return model.startswith(_BASELINE)


def exported_from(manifest: Manifest) -> dict[str, str]:
    """Give of which collection's export this one was imported; empty where of none.

    Returns:
        `collection` (its name), `content_hash`, `recipe` and `model`, as far as they are told. A
        manifest may hold anything: what is no text is left out.
    """
    imported = manifest.config.get("import")
    told: Any = imported.get("export") if isinstance(imported, dict) else None
    return texts_of(told) if isinstance(told, dict) else {}


def texts_of(told: Mapping[str, Any]) -> dict[str, str]:
    """Keep of an export's description what names its collection, as far as it is text."""
    return {name: told[name] for name in _TOLD if isinstance(told.get(name), str) and told[name]}


def makers(manifest: Manifest) -> tuple[str, ...]:
    """Name every model that some label may be by, each once; the collection's own first."""
    named = [manifest.model, *manifest.earlier_models]
    named += [one.model for one in manifest.extensions]
    if manifest.recipe.startswith("import:"):  # judged again, its labels are by others
        named.append(exported_from(manifest).get("model", NO_MODEL))
    return tuple(dict.fromkeys(model for model in named if model != NO_MODEL))


def baseline_warning(manifest: Manifest) -> str:
    """Warn, in one line of Markdown, of labels that the baseline made; empty where there is none."""
    found = [escape(model) for model in makers(manifest) if is_baseline(model)]
    if not found:
        return ""
    return (
        f"**{' and '.join(found)} is a baseline that counts words and understands nothing. "
        "The labels that it made are good for a dry run and as a floor to compare judges with; "
        "they are no ground for choosing a retriever.**"
    )
