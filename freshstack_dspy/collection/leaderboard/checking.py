"""Stored results against computed ones: every difference by its name."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from freshstack_dspy.collection.leaderboard.places import inside, read_bytes
from freshstack_dspy.collection.leaderboard.results import RESULTS_FILE, Results
from freshstack_dspy.errors import CollectionError

_SAME = 1e-9
"""Figures this near are the same: the last bits of an interval may depend on the machine."""
_LONGEST = 100
_CAUSE = re.compile(
    r"(conventions|measures|measures_version|schema_version)\b|[^:]*(sha256|content_hash): "
)


def differences(folder: Path, results: Results) -> list[str]:
    """Say how the stored results differ from computed ones, one line for each difference.

    What figures are made from (versions, conventions, hashes) comes before the figures.

    Args:
        folder: Of the leaderboard, where its `leaderboard.json` stands.
        results: As computed now.

    Raises:
        CollectionError: There are no stored results, or they are no JSON object.
    """
    path = folder / RESULTS_FILE
    if not path.exists():
        raise CollectionError(
            f"{path}: no such file; write it with: freshstack leaderboard {folder}"
        )
    try:
        stored = from_json(read_bytes(inside(folder, RESULTS_FILE)), allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise CollectionError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(stored, dict):
        raise CollectionError(f"{path}: not the results of a leaderboard")
    computed = json.loads(results.model_dump_json())
    found = _differing("", _by_name(stored), _by_name(computed))
    return sorted(found, key=lambda line: _CAUSE.match(line) is None)


def _by_name(values: dict[str, Any]) -> dict[str, Any]:
    """Put entries under their names, so that one that was added does not shift the others."""
    entries = values.get("entries")
    if not isinstance(entries, list):
        return values
    named = {}
    for number, entry in enumerate(entries):
        info = entry.get("info") if isinstance(entry, dict) else None
        name = info.get("name") if isinstance(info, dict) else None
        key = repr(name) if isinstance(name, str) else f"[{number}]"
        named[f"{key} again" if key in named else key] = entry
    return {**values, "entries": named}


def _differing(place: str, stored: Any, computed: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(computed, dict):
        for key in sorted(stored.keys() | computed.keys()):
            where = f"{place}.{key}".removeprefix(".")
            if key not in computed:
                yield f"{where}: stored, and nothing now"
            elif key not in stored:
                yield f"{where}: not stored, now {_shown(computed[key])}"
            else:
                yield from _differing(where, stored[key], computed[key])
    elif not _same(stored, computed):
        yield f"{place}: stored {_shown(stored)}, now {_shown(computed)}"


def _same(stored: Any, computed: Any) -> bool:
    if isinstance(stored, float) and isinstance(computed, float):
        return math.isclose(stored, computed, rel_tol=0, abs_tol=_SAME)
    return type(stored) is type(computed) and bool(stored == computed)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
