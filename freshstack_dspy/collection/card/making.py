"""How a collection was made: by which recipe and model, with which settings, at which cost."""

from freshstack_dspy.collection.card.told import said, section
from freshstack_dspy.collection.makers import is_baseline
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape, table

_SETTINGS = {
    "chunking": ("max_tokens",),
    "nuggets": ("limit", "importance"),
    "pool": ("techniques", "retrievers", "lists", "depth", "top_k"),
    "fusion": ("method", "weights"),
    "judge": ("shape", "batch", "window", "shuffle", "votes", "compare"),
    "filters": ("unsupported_nuggets",),
}
"""The settings that shape the judgments and what is evaluated, by section of the configuration."""


def making_section(manifest: Manifest) -> str:
    """Say how the collection was made; of an imported one, that its model is not known."""
    asked = "the baseline" if is_baseline(manifest.model) else "the model"
    asking = f", asking {asked} **{escape(manifest.model)}**"
    if manifest.recipe.startswith("import:"):
        asking = ""
    earlier = ", ".join(map(escape, manifest.earlier_models))
    how = (
        "## How it was made\n\n"
        f"By the recipe **{escape(manifest.recipe)}** of freshstack_dspy{asking}.\n"
        "`manifest.json` has the configuration, the versions and the account of calls.\n"
        f"Labels are on the scale `{manifest.scale.name}`, and support from "
        f"{manifest.scale.threshold} on.\n"
        + (f"Some of what it holds may still be by {earlier}, asked before.\n" if earlier else "")
    )
    parts = [
        how,
        _settings(manifest),
        _prompts(manifest),
        _costs(manifest),
        _extensions(manifest),
    ]
    return "\n".join(part for part in parts if part)


def _settings(manifest: Manifest) -> str:
    rows = [
        (f"`{name}.{key}`", said(told[key]))
        for name, keys in _SETTINGS.items()
        for told in [section(manifest, name)]
        for key in keys
        if said(told.get(key))
    ]
    return table(("setting", "value"), rows) if rows else ""


def _prompts(manifest: Manifest) -> str:
    rows = [
        (escape(name), f"`{escape(manifest.prompts[name])}`") for name in sorted(manifest.prompts)
    ]
    return table(("signature", "SHA-256 of its prompt"), rows) if rows else ""


def _costs(manifest: Manifest) -> str:
    """What every reply cost when it was first asked for, so that a replay says the same."""
    rows = []
    requests, tokens, cost = 0, 0, 0.0
    for name in sorted(manifest.ledger):
        account = manifest.ledger[name]
        asked = account.calls + account.cached
        if asked:
            used, paid = account.tokens + account.cached_tokens, account.cost + account.cached_cost
            rows.append((escape(name), f"{asked:,}", f"{used:,}", f"${paid:.4f}"))
            requests, tokens, cost = requests + asked, tokens + used, cost + paid
    if not rows:
        return ""
    rows.append(("all", f"{requests:,}", f"{tokens:,}", f"${cost:.4f}"))
    header = ("step", "requests", "tokens", "US dollars")
    return (
        f"{table(header, rows)}\n"
        "These are the tokens that the provider counted and what they cost when they were first "
        "asked for, whether or not this build paid for them; 0 where nobody said.\n"
    )


def _extensions(manifest: Manifest) -> str:
    if not manifest.extensions:
        return ""
    rows = [
        (escape(one.run), str(one.depth), f"{one.judged:,}", escape(one.model), f"`{one.sha256}`")
        if one.sha256.isalnum()
        else (escape(one.run), str(one.depth), f"{one.judged:,}", escape(one.model), "")
        for one in manifest.extensions
    ]
    header = ("run", "depth", "pairs judged", "model", "SHA-256 of the run")
    return (
        f"It was extended with what these runs hold and nobody had judged:\n\n{table(header, rows)}"
    )
