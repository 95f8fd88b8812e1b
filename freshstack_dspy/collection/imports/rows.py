"""The rows of foreign files: JSON Lines, JSON or Parquet, each value asked for by name and type."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.collection.imports.layout import inside
from freshstack_dspy.collection.imports.lines import begins_with, read_lines
from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.arrow_rows import read_arrow, read_parquet
from freshstack_dspy.sources.questions.columns import PlacedRow
from freshstack_dspy.sources.questions.huggingface import dataset_files
from freshstack_dspy.sources.questions.json_objects import json_file, json_value
from freshstack_dspy.sources.questions.lines import decoded

_PARQUET = b"PAR1"
_GZIP = b"\x1f\x8b"
_LONGEST_QUOTE = 80
_LONGEST_SHOWN = 120
DATA_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json")
"""Of files with rows, in the order in which a folder is looked through for them."""


def shown(id_: str) -> str:
    """Quote an id for a message, cut where it is long."""
    return repr(id_ if len(id_) <= _LONGEST_SHOWN else f"{id_[:_LONGEST_SHOWN]}…")


class Row(NamedTuple):
    """One row, and where it stands."""

    file: str
    number: int
    """From 1; of JSON Lines the line, of an array or Parquet the row."""
    values: dict[str, Any]

    @property
    def place(self) -> str:
        """File and number, for messages."""
        return f"{self.file}:{self.number}"

    def fault(self, name: str, allowed: str) -> SourceError:
        """Say that a value is not what it should be."""
        found = repr(self.values.get(name))
        if len(found) > _LONGEST_QUOTE:
            found = f"{found[:_LONGEST_QUOTE]}…"
        what = f"{name} is {found}" if name in self.values else f"has no {name!r}"
        return SourceError(f"{self.place}: {what}; allowed: {allowed}")

    def name_of(self, *names: str) -> str:
        """Give the first of these names that the row has; the first of all where it has none."""
        return next((name for name in names if self.values.get(name) is not None), names[0])

    def id(self, *names: str) -> str:
        """Give an id: text, kept as it is to the last space, or a whole number.

        Raises:
            SourceError: There is none, or it is neither.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value:
            raise self.fault(name, "text that is not empty, or a whole number")
        return value

    def text(self, *names: str, default: str | None = None) -> str:
        """Give a text, which may be empty.

        Args:
            names: Under which it may stand; the first that is there is taken.
            default: In its place where it is missing or null; None: it must be there.

        Raises:
            SourceError: It is missing, or no text.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.fault(name, "text")
        return value

    def optional(self, *names: str) -> str | None:
        """Give a text, or None where it is missing, null or empty.

        Raises:
            SourceError: It is there, and no text.
        """
        return self.text(*names, default="") or None

    def list(self, *names: str) -> list[Any]:
        """Give a list.

        Raises:
            SourceError: It is missing, or no list.
        """
        name = self.name_of(*names)
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self.fault(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts; none where it is missing or null.

        Raises:
            SourceError: It is there, and something else.
        """
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fault(name, "a list of texts")
        return tuple(value)

    def number_of(self, name: str, default: int) -> int:
        """Give a whole number that is not negative, or the default where it is missing or null.

        Raises:
            SourceError: It is there, and no such number.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fault(name, "a whole number from 0")
        return value

    def inner(self, name: str) -> "Row":
        """Give an object within the row; an empty one where it is missing or null.

        Raises:
            SourceError: It is there, and no object.
        """
        value = self.values.get(name)
        if value is None:
            return Row(self.file, self.number, {})
        if not isinstance(value, dict):
            raise self.fault(name, "an object")
        return Row(self.file, self.number, value)

    def inners(self, *names: str) -> Iterator["Row"]:
        """Give the objects of a list within the row.

        Raises:
            SourceError: It is no list, or something in it is no object.
        """
        name = self.name_of(*names)
        for each in self.list(name):
            if not isinstance(each, dict):
                raise self.fault(name, "a list of objects")
            yield Row(self.file, self.number, each)

    def has(self, *names: str) -> bool:
        """Tell whether the row has all of these."""
        return all(name in self.values for name in names)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Give the rows of a file or a folder, a row at a time.

    Args:
        path: JSON Lines (also gzip), JSON (an array or one object) or Parquet; or a folder of
            one of these kinds, or of `datasets.Dataset.save_to_disk`.
        columns: Of Parquet and Arrow, the columns that are read where they are there; None: all.

    Raises:
        SourceError: A file cannot be read, or is of another format.
    """

    def choose(present: list[str], _: str) -> list[str]:
        return [name for name in present if columns is None or name in columns]

    if (path.is_dir() and (path / "state.json").is_file()) or (
        path / "dataset_dict.json"
    ).is_file():
        arrow, described = dataset_files(path, None)
        for file in (*described, *arrow):
            inside(path, file)
        yield from _rows(read_arrow(arrow, choose))
        return
    for file in row_files(path):
        if begins_with(file, _PARQUET):
            yield from _rows(read_parquet([file], choose))
        else:
            yield from _read_json(file)


def row_files(path: Path) -> list[Path]:
    """Name the files with rows in a folder: all of one kind, by name; or the file itself.

    Raises:
        SourceError: There is none, or a link leads out of the folder.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise SourceError(f"{path}: there is no such file or folder")
    for ending in DATA_ENDINGS:
        found = sorted(each for each in path.rglob(f"*{ending}") if each.is_file())
        if found:
            return [inside(path, each) for each in found]
    raise SourceError(f"{path}: holds none of *{', *'.join(DATA_ENDINGS)}")


def _rows(rows: Iterator[PlacedRow]) -> Iterator[Row]:
    return (Row(row.file, row.number, dict(row.values)) for row in rows)


def _read_json(path: Path) -> Iterator[Row]:
    """Read lines of objects, or a document that is an array or a single object."""
    first = next((line.strip() for _, line in read_lines(path) if line.strip()), b"")
    if (first.startswith(b"{") and first.endswith(b"}")) or begins_with(path, _GZIP):
        for number, line in read_lines(path):
            if line.strip():
                place = f"{path}:{number}"
                yield Row(
                    str(path), number, _object(json_value(decoded(line, place), place), place)
                )
        return
    if not first:
        return
    value = json_file(path)
    for number, each in enumerate(value if isinstance(value, list) else [value], start=1):
        yield Row(str(path), number, _object(each, f"{path}:{number}"))


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{place}: not a JSON object")
    return value
