"""Rows of JSON Lines, and of the official FreshStack queries in all their forms."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.config import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import ReadProgress, decoded, json_file, json_object, read_lines
from freshstack_dspy.questions.tables import (
    Columns,
    PlacedRow,
    dataset_files,
    parquet_files,
    read_arrow,
    read_parquet,
)

_NAMES: dict[QueryColumn, str] = {
    "title": "query_title",
    "body": "query_text",
    "answer": "answer_text",
}
OFFICIAL_COLUMNS = Columns(_NAMES)
_NEEDED = ("query_id", *_NAMES.values())
_READ = (*_NEEDED, "answer_id", "metadata")


def read_jsonl(
    path: Path, columns: Columns, *, named: bool, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the objects of a JSON Lines file; blank lines and a byte order mark are passed over.

    If the user `named` no columns, an unknown key is an error, as it may be misspelt.
    """
    if path.is_dir():
        raise SourceError(f"{path}: a folder; name the JSON Lines file, or another source")
    known = columns.wanted()
    for number, line in read_lines(path, progress):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        row = json_object(decoded(line.strip(), place), place)
        unknown = [] if named else [key for key in row if key not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], sorted(known), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise SourceError(
                f"{place}: unknown key {unknown[0]!r}{hint}; if your file has other names, or more "
                f'keys, say where the parts of a query are, as [queries.columns] title = "…"'
            )
        yield PlacedRow(str(path), number, row)


def official_files(path: Path, split: str | None) -> tuple[list[Path], list[Path]]:
    """Name the files with the rows, and those that name these.

    `path` is a JSON or Parquet file, a folder of Parquet files, or one of `save_to_disk`.
    """
    if path.is_dir() and not any(path.rglob("*.parquet")):
        return dataset_files(path, split)
    return parquet_files(path), []


def read_official(
    path: Path, split: str | None, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of an official file or data set, for `OFFICIAL_COLUMNS`.

    JSON may be lines of objects, an array, or one object.
    """
    files, described = official_files(path, split)
    if described:
        rows = read_arrow(files, _choose, progress)
    elif path.is_dir() or path.suffix == ".parquet":
        rows = read_parquet(files, _choose, progress)
    else:
        rows = _read_json(path, progress)
    for row in rows:
        yield _flat(row)


def _read_json(path: Path, progress: ReadProgress | None) -> Iterator[PlacedRow]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((line.strip() for _, line in read_lines(path) if line.strip()), b"")
    if first.startswith(b"{") and first.endswith(b"}"):
        yield from read_jsonl(path, OFFICIAL_COLUMNS, named=True, progress=progress)
        return
    value = json_file(path)
    for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
        if not isinstance(each, dict):
            raise SourceError(f"{path}:{number}: not a JSON object")
        yield PlacedRow(str(path), number, each)


def _flat(row: PlacedRow) -> PlacedRow:
    """Put the date and tags of the metadata where the columns look for them."""
    values = {name: row.values.get(name) for name in _READ}
    metadata: Any = values.pop("metadata") or {}
    return row._replace(
        values={**values, "asked_at": metadata.get("date"), "tags": metadata.get("tags")}
    )


def _choose(present: list[str], file: str) -> list[str]:
    missing = [name for name in _NEEDED if name not in present]
    if missing:
        raise SourceError(
            f"{file}: has no column {missing[0]!r}; the official queries have {', '.join(_READ)}"
        )
    return [name for name in present if name in _READ]
