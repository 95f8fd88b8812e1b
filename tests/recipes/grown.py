"""A collection whose inputs change, and what a refresh makes of it."""

import json
from collections import Counter
from typing import Any

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import JudgmentChange, QueryChange
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.refresh import Refreshed, refresh
from tests.recipes.scripted import ScriptedProvider

WHOLE = {"depth": 20, "top_k": 20}
"""Every question pools every chunk that any technique finds."""


def refreshed(
    config: BuildConfig, provider: ScriptedProvider | None = None, **options: Any
) -> Refreshed:
    return refresh(config, provider=provider or ScriptedProvider(), **options)


def ask(config: BuildConfig, *questions: dict[str, Any]) -> None:
    """Put other questions into the file."""
    config.queries.location.write_text("".join(json.dumps(each) + "\n" for each in questions))


def put(config: BuildConfig, name: str, text: str) -> None:
    path = config.queries.location.parent / "corpus" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def shown(provider: ScriptedProvider) -> set[str]:
    """The files whose chunks the judge was shown; closed-book answers are none."""
    return {
        chunk["path"]
        for inputs in provider.asked
        for chunk in inputs.get("chunks", [])
        if not chunk["path"].startswith("model/")
    }


def labels(collection: Collection) -> Counter[tuple[str, str, str, int | None]]:
    """Every judgment by what it is about, whatever ids that has."""
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    chunks = {chunk.chunk_id: (chunk.path, chunk.text) for chunk in collection.chunks()}
    return Counter(
        (one.query_id, nuggets[one.nugget_id], str(chunks[one.chunk_id]), one.label)
        for one in collection.judgments
    )


def changes(found: Refreshed) -> list[QueryChange | JudgmentChange]:
    return list(found.difference.changes)
