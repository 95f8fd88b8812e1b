"""The rows of a CSV file: quoted as RFC 4180 has it, delimited as its first line shows."""

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.columns import Columns, PlacedRow
from freshstack_dspy.sources.questions.lines import LONGEST_LINE, ReadProgress, decoded, read_lines

_DELIMITERS = (",", ";", "\t", "|")


def read_csv(
    path: Path, columns: Columns, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of a CSV file, as texts by column; an empty cell is None.

    The delimiter is the comma, semicolon, tab or bar that yields the most names that are known.

    Args:
        path: The file, in UTF-8 with or without a byte order mark; its first line names columns.
        columns: Which columns are wanted.
        progress: Is told how many bytes were read, of how many.

    Raises:
        SourceError: The file cannot be read, is not UTF-8, lacks a column, or `file:row: …` for a
            row that is too long, is not closed, or has more or fewer cells than there are columns.
    """
    with _wide_cells():
        records = _Records(path, progress)
        header = records.header(columns)
        wanted = set(columns.choose(header, str(path)))
        for number, cells in enumerate(records, start=2):
            if not cells:
                continue
            if len(cells) != len(header):
                raise SourceError(
                    f"{path}:{number}: has {len(cells)} cells under {len(header)} names; "
                    "quote cells that hold the delimiter or line breaks"
                )
            values = {
                name: cell or None
                for name, cell in zip(header, cells, strict=True)
                if name in wanted
            }
            yield PlacedRow(str(path), number, values)


class _Records:
    """The records of a file, none longer than a line may be."""

    def __init__(self, path: Path, progress: ReadProgress | None) -> None:
        self._path = path
        self._number = 0
        self._size = 0
        self._lines = self._texts(progress)
        self._reader = csv.reader(self._lines, strict=True)

    def header(self, columns: Columns) -> list[str]:
        """Read the names of the columns, and find the delimiter by them."""
        first = next(self._lines, None)
        if first is None or not first.strip():
            raise SourceError(f"{self._path}: the first line is empty; allowed: names of columns")
        try:
            headers = {
                delimiter: next(csv.reader([first], delimiter=delimiter, strict=True))
                for delimiter in _DELIMITERS
            }
        except csv.Error as error:
            raise SourceError(f"{self._path}:1: not a line of names: {error}") from None
        # The earlier delimiter wins where two yield as many.
        delimiter = max(_DELIMITERS, key=lambda mark: columns.known(headers[mark]))
        names = headers[delimiter]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise SourceError(f"{self._path}: has two columns {twice[0]!r}; rename one")
        self._reader = csv.reader(self._lines, delimiter=delimiter, strict=True)
        self._number = 1
        return names

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            self._number += 1
            self._size = 0
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise SourceError(f"{self._path}:{self._number}: not CSV: {error}") from None
            yield cells

    def _texts(self, progress: ReadProgress | None) -> Iterator[str]:
        for number, line in read_lines(self._path, progress):
            self._size += len(line)
            if self._size > LONGEST_LINE:
                raise SourceError(
                    f"{self._path}:{self._number}: a row longer than {LONGEST_LINE >> 20} MiB; "
                    "is a quotation mark left open?"
                )
            yield decoded(line, f"{self._path}:{number}")


@contextmanager
def _wide_cells() -> Iterator[None]:
    """Let a cell be as long as a row may be; Python's limit for all readers is 128 KiB."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)
