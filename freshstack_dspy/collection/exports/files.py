"""Writing the files of an export: the same content always to the same bytes."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.jsonl import canonical_json

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, in folders that are made where they lack."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, each with its end, one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines, with no character inside that some readers end a line at."""
    write_lines(path, (canonical_json(row).translate(_LINE_ENDS) for row in rows))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as indented JSON with sorted keys."""
    text = json.dumps(values, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False)
    write_text(path, f"{text}\n")
