"""Stored results against computed ones: every difference by its name."""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.leaderboard.places import inside, read_bytes
from freshstack_dspy.collection.leaderboard.quoting import cut, quoted
from freshstack_dspy.collection.leaderboard.results import RESULTS_FILE, Results, encode_values
from freshstack_dspy.errors import CollectionError

_SAME = 1e-9
"""Figures this near are the same: the last bits of an interval may depend on the machine."""
_CAUSE = re.compile(
    r"(conventions|measures|measures_version|schema_version)\b|[^:]*(sha256|content_hash): "
)


def differences(
    folder: Path, results: Results, elsewhere: Mapping[str, Path] | None = None
) -> list[str]:
    """Say how the stored results differ from computed ones, one line for each difference.

    What figures are made from (versions, conventions, hashes) comes before the figures. Where all
    these are the same, the file itself has to be what `write_results` writes.

    Args:
        folder: Of the leaderboard, where its `leaderboard.json` stands.
        results: As computed now.
        elsewhere: As for `compute`; for the command in the message.

    Raises:
        CollectionError: There are no stored results, they are no JSON object, or a key stands
            twice in it.
    """
    path = folder / RESULTS_FILE
    if not path.exists():
        raise CollectionError(
            f"{path}: no such file; write it with: {computing_command(folder, elsewhere)}"
        )
    try:
        text = read_bytes(inside(folder, RESULTS_FILE)).decode("utf-8")
        stored = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise CollectionError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(stored, dict):
        raise CollectionError(f"{path}: not the results of a leaderboard")
    computed = json.loads(results.model_dump_json())
    found = list(_differing("", _by_name(stored), _by_name(computed)))
    if not found and not _as_written(text, stored, computed):
        found = [f"{RESULTS_FILE}: the figures are the same, the file was written otherwise"]
    return sorted(found, key=lambda line: _CAUSE.match(line) is None)


def computing_command(folder: Path, elsewhere: Mapping[str, Path] | None = None) -> str:
    """Give what is to be typed to compute the results and write them."""
    words = ["freshstack", "leaderboard", str(folder)]
    for topic, path in (elsewhere or {}).items():
        words += ["--collection", f"{topic}={path}"]
    return shlex.join(words)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a table, in which a second value under one key would hide the first."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counted = Counter(key for key, _ in pairs)
        twice = next(key for key, number in counted.items() if number > 1)
        raise ValueError(f"the key {quoted(twice)} stands twice in one table")
    return values


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _as_written(text: str, stored: dict[str, Any], computed: dict[str, Any]) -> bool:
    """Whether a file is what was written, whatever the last bits of its figures are."""
    same_order = [_name(entry) for entry in stored["entries"]] == [
        _name(entry) for entry in computed["entries"]
    ]
    return same_order and encode_values(stored) == text


def _by_name(values: dict[str, Any]) -> dict[str, Any]:
    """Put entries under their names, so that one that was added does not shift the others."""
    entries = values.get("entries")
    if not isinstance(entries, list):
        return values
    named = {}
    for number, entry in enumerate(entries):
        name = _name(entry)
        key = repr(name) if isinstance(name, str) else f"[{number}]"
        named[f"{key} again" if key in named else key] = entry
    return {**values, "entries": named}


def _name(entry: Any) -> Any:
    info = entry.get("info") if isinstance(entry, dict) else None
    return info.get("name") if isinstance(info, dict) else None


def _differing(place: str, stored: Any, computed: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(computed, dict):
        for key in sorted(stored.keys() | computed.keys()):
            where = f"{place}.{cut(key)}".removeprefix(".")
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
    return cut(json.dumps(value, ensure_ascii=False))
