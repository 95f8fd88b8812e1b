"""Queries from JSON Lines: one `Query` record per line, or one object whose columns are named."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.config import QueryColumn
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import ReadProgress, decoded, json_file, json_object, read_lines
from freshstack_dspy.questions.selection import Intake
from freshstack_dspy.questions.tables import (
    Columns,
    PlacedRow,
    Values,
    dataset_files,
    parquet_files,
    read_arrow,
    read_parquet,
)
from freshstack_dspy.records import Query


def read_jsonl(
    path: Path,
    columns: Mapping[QueryColumn, str],
    intake: Intake,
    progress: ReadProgress | None = None,
) -> None:
    """Read the queries of a JSON Lines file, in the order of the file.

    Blank lines and a byte order mark are passed over. A question whose only fault is that it has
    no answer is rejected, not an error. Without `columns` a line is a `Query`, with types taken
    strictly and no other keys; with them it is read as a row of a table is.

    Args:
        path: The file, in UTF-8.
        columns: Under which key each part of a query is there.
        intake: Takes the queries.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: `file:line: …` for a line that is not a `Query`, an id that is there twice,
            or an id with white space.
    """
    named = Columns(columns)
    for number, data in read_lines(path, progress):
        if not data.strip():
            continue
        place = f"{path}:{number}"
        text = decoded(data.strip(), place)
        if columns:
            row = json_object(text, place)
            query = named.query(row, place, intake)
        else:
            query = _parsed(text, place, intake)
        if query is not None:
            intake.take(query, str(path), number)


def _parsed(text: str, place: str, intake: Intake) -> Query | None:
    try:
        return Query.model_validate_json(text, strict=True)
    except ValidationError as error:
        reason = _lacks_only_the_answer(error)
        if reason is None:
            raise SourceError(f"{place}: {_said(error)}") from None
        intake.reject(reason)
        return None


def _lacks_only_the_answer(error: ValidationError) -> str | None:
    fault, *others = error.errors(include_url=False)
    if others:
        return None
    given = fault["input"]
    if fault["loc"] == () and isinstance(given, dict) and not given.get("answer"):
        return "empty answer" if "answer" in given else "no accepted answer"
    return "no accepted answer" if fault["loc"] == ("answer",) and given is None else None


def _said(error: ValidationError) -> str:
    """Say what is wrong with a line: that it is no JSON object, or every fault by field."""
    fault = error.errors(include_url=False)[0]
    return in_one_line(error, Query) if fault["loc"] else fault["msg"]


_NAMES: dict[QueryColumn, str] = {
    "title": "query_title",
    "body": "query_text",
    "answer": "answer_text",
}
OFFICIAL_COLUMNS = Columns(_NAMES)
_NEEDED = ("query_id", *_NAMES.values())
_READ = (*_NEEDED, "answer_id", "metadata")
_PARQUET = b"PAR1"


def official_files(path: Path, split: str | None) -> tuple[list[Path], list[Path]]:
    """Name the files with the rows, and those that name these.

    Args:
        path: A JSON or Parquet file, a folder of Parquet files, or a folder of `save_to_disk`.
        split: Of a folder of `save_to_disk`.

    Raises:
        SourceError: The folder holds neither.
    """
    if path.is_dir() and not any(path.rglob("*.parquet")):
        return dataset_files(path, split)
    return parquet_files(path), []


def read_official(
    path: Path, split: str | None, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of an official file or data set, for `OFFICIAL_COLUMNS`.

    Args:
        path: As for `official_files`; JSON may be lines of objects, an array, or one object.
        split: Of a folder of `save_to_disk`.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: A file cannot be read, or is of another format.
    """
    files, described = official_files(path, split)
    if described:
        rows = read_arrow(files, _choose, progress)
    elif path.is_dir() or _begins_with(path, _PARQUET):
        rows = read_parquet(files, _choose, progress)
    else:
        rows = _read_json(path, progress)
    for row in rows:
        yield row._replace(values=_flat(row))


def _read_json(path: Path, progress: ReadProgress | None) -> Iterator[PlacedRow]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((line.strip() for _, line in read_lines(path) if line.strip()), b"")
    if first.startswith(b"{") and first.endswith(b"}"):
        for number, line in read_lines(path, progress):
            if line.strip():
                yield PlacedRow(str(path), number, json_object(line, f"{path}:{number}"))
        return
    value = json_file(path)
    for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
        if not isinstance(each, dict):
            raise SourceError(f"{path}:{number}: not a JSON object")
        yield PlacedRow(str(path), number, each)


def _flat(row: PlacedRow) -> Values:
    """Put the date and tags of the metadata where the columns look for them."""
    values = {name: row.values.get(name) for name in _READ}
    metadata = values.pop("metadata")
    if metadata is None:
        return values
    if not isinstance(metadata, dict):
        raise SourceError(f"{row.file}:{row.number}: metadata is no object of date and tags")
    return {**values, "asked_at": metadata.get("date"), "tags": metadata.get("tags")}


def _choose(present: list[str], file: str) -> list[str]:
    missing = [name for name in _NEEDED if name not in present]
    if missing:
        raise SourceError(
            f"{file}: has no column {missing[0]!r}; the official queries have {', '.join(_READ)}"
        )
    return [name for name in present if name in _READ]


def _begins_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
