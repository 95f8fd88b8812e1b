"""The rows of Parquet and Arrow files, a batch at a time, with the wanted columns alone."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.arrow_sizes import in_bounded_parts
from freshstack_dspy.sources.questions.columns import PlacedRow
from freshstack_dspy.sources.questions.lines import ReadProgress
from freshstack_dspy.sources.questions.parquet_batches import parquet_batches

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Chooser = Callable[[list[str], str], list[str]]
"""Chooses columns from those of a file; see `Columns.choose`."""
_BATCH = 256


def parquet_files(path: Path) -> list[Path]:
    """Name the Parquet files of a folder, in order, or the one file that it is.

    Raises:
        SourceError: The folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if not files:
        raise SourceError(f"{path}: holds no file *.parquet; name the file, or its folder")
    return files


def read_parquet(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of Parquet files.

    Args:
        files: The files, in order.
        choose: Chooses the columns of each.
        progress: Is told how many bytes of files were read, of how many.

    Raises:
        SourceError: A file is missing, damaged or no Parquet, lacks a column or has it twice, or
            holds a row that is too long.
    """
    from pyarrow.parquet import ParquetFile

    for path in _in_turn(files, progress):
        with _faults_of(path, "Parquet"), path.open("rb") as opened:
            file = ParquetFile(opened)
            names = _chosen(choose, file.schema_arrow.names, path)
            yield from _rows_of(parquet_batches(file, opened, names), path)


def read_arrow(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of files in Arrow's stream format, as `datasets` writes them.

    Args:
        files: The files, in order.
        choose: Chooses the columns of each.
        progress: Is told how many bytes of files were read, of how many.

    Raises:
        SourceError: A file is missing, damaged or no Arrow stream, lacks a column or has it twice,
            or holds a row that is too long.
    """
    from pyarrow import ipc

    for path in _in_turn(files, progress):
        with _faults_of(path, "Arrow"), path.open("rb") as opened:
            stream = ipc.open_stream(opened)
            names = _chosen(choose, stream.schema.names, path)
            yield from _rows_of((batch.select(names) for batch in stream), path)


def _in_turn(files: list[Path], progress: ReadProgress | None) -> Iterator[Path]:
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]
    for number, path in enumerate(files, start=1):
        yield path
        if progress is not None:
            progress(sum(sizes[:number]), sum(sizes))


def _chosen(choose: Chooser, present: list[str], path: Path) -> list[str]:
    names = choose(present, str(path))
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SourceError(f"{path}: has two columns {twice[0]!r}; rename one")
    return names


def _rows_of(batches: Iterator["RecordBatch"], path: Path) -> Iterator[PlacedRow]:
    number = 0
    for batch in batches:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _BATCH):
            piece = batch.slice(start, _BATCH)
            for part in in_bounded_parts(piece, str(path), number + 1):
                for values in _plain(part, path):
                    number += 1
                    yield PlacedRow(str(path), number, values)


def _plain(batch: "RecordBatch", path: Path) -> list[dict[str, Any]]:
    """Give rows of Python's own values; Python knows no nanoseconds, so these are cut off."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("us", column.type.tz), safe=False)
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns"
        else column
        for column in batch.columns
    ]
    try:
        values = [column.to_pylist() for column in columns]
    except (KeyError, pa.ArrowException) as error:  # of pytz, zoneinfo and Arrow itself
        zones = {column.type.tz for column in columns if pa.types.is_timestamp(column.type)}
        raise SourceError(
            f"{path}: dates are in a time zone that nobody knows ({error}): "
            f"{', '.join(map(repr, filter(None, zones)))}"
        ) from None
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@contextmanager
def _faults_of(path: Path, kind: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except SourceError:
        raise
    except MemoryError:
        raise SourceError(
            f"{path}: cannot be read as {kind}: it needs more memory than there is"
        ) from None
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SourceError(
            f"{path}: cannot be read as {kind}: {' '.join(str(said).split())[:200]}"
        ) from None
