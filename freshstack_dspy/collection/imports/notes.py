"""What an export of ours says beside the format it is in: our ids, the scale, the licences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from freshstack_dspy.collection.imports.layout import inside
from freshstack_dspy.collection.imports.rows import Row, read_rows
from freshstack_dspy.collection.jsonl import first_fault
from freshstack_dspy.collection.layouts import EXPORT_FILE, IDS_FILE, LICENCES_FILE
from freshstack_dspy.collection.makers import NO_MODEL, texts_of
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import LicenceFile, Scale
from freshstack_dspy.sources.questions.json_objects import json_file


class Notes(NamedTuple):
    """The notes of an export; empty for what others wrote."""

    queries: dict[str, str]
    """Exported id → ours, of those that had to change."""
    nuggets: dict[str, str]
    chunks: dict[str, str]
    scale: Scale | None
    """That of the collection that was exported."""
    licences: tuple[LicenceFile, ...]
    exported: dict[str, str]
    """Of which collection it is an export: its name, content hash, recipe and model."""


def read_notes(path: Path) -> Notes:
    """Read the notes in a folder, those of them that are there.

    Raises:
        SourceError: One is there and is not what an export writes.
    """
    ids = _object(path / IDS_FILE)
    told = _object(path / EXPORT_FILE)
    scale = told.get("scale")
    try:
        return Notes(
            queries=_ids(ids.get("queries"), path / IDS_FILE),
            nuggets=_ids(ids.get("nuggets"), path / IDS_FILE),
            chunks=_ids(ids.get("chunks"), path / IDS_FILE),
            scale=Scale.model_validate(scale) if scale is not None else None,
            licences=_licences(path / LICENCES_FILE),
            exported=_exported(told),
        )
    except ValidationError as error:
        raise SourceError(f"{path}: not the notes of an export: {first_fault(error)}") from None


def _exported(told: Mapping[str, Any]) -> dict[str, str]:
    """Name the collection; of one that was itself imported, the model that was first asked."""
    found = texts_of(told)
    first = told.get("imported_from")
    if found.get("model") == NO_MODEL:
        del found["model"]
        earlier = texts_of(first) if isinstance(first, dict) else {}
        found |= {"model": earlier["model"]} if "model" in earlier else {}
    return found


def _object(file: Path) -> dict[str, object]:
    value = json_file(inside(file.parent, file)) if file.is_file() else {}
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object")
    return value


def _ids(value: object, file: Path) -> dict[str, str]:
    found = value if value is not None else {}
    if not isinstance(found, dict) or not all(isinstance(id_, str) for id_ in found.values()):
        raise SourceError(f"{file}: allowed: by kind, exported id -> id")
    return dict(found)


def _licences(file: Path) -> tuple[LicenceFile, ...]:
    rows = read_rows(inside(file.parent, file)) if file.is_file() else ()
    return tuple(_licence(row) for row in rows)


def _licence(row: Row) -> LicenceFile:
    return LicenceFile(source=row.text("source"), path=row.text("path"), text=row.text("text"))
