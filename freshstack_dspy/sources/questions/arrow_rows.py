"""The rows of Parquet and Arrow files, a batch at a time, with the wanted columns alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.columns import PlacedRow
from freshstack_dspy.sources.questions.lines import ReadProgress

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
        SourceError: A file is missing, damaged or no Parquet, or lacks a column.
    """
    from pyarrow.parquet import ParquetFile

    for path in _in_turn(files, progress):
        with _faults_of(path, "Parquet"), path.open("rb") as opened:
            file = ParquetFile(opened)
            names = choose(file.schema_arrow.names, str(path))
            yield from _rows_of(file.iter_batches(batch_size=_BATCH, columns=names), path)


def read_arrow(
    files: list[Path], choose: Chooser, progress: ReadProgress | None = None
) -> Iterator[PlacedRow]:
    """Give the rows of files in Arrow's stream format, as `datasets` writes them.

    Args:
        files: The files, in order.
        choose: Chooses the columns of each.
        progress: Is told how many bytes of files were read, of how many.

    Raises:
        SourceError: A file is missing, damaged or no Arrow stream, or lacks a column.
    """
    from pyarrow import ipc

    for path in _in_turn(files, progress):
        with _faults_of(path, "Arrow"), path.open("rb") as opened:
            stream = ipc.open_stream(opened)
            names = choose(stream.schema.names, str(path))
            yield from _rows_of((batch.select(names) for batch in stream), path)


def _in_turn(files: list[Path], progress: ReadProgress | None) -> Iterator[Path]:
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]
    for number, path in enumerate(files, start=1):
        yield path
        if progress is not None:
            progress(sum(sizes[:number]), sum(sizes))


def _rows_of(batches: Iterator["RecordBatch"], path: Path) -> Iterator[PlacedRow]:
    number = 0
    for batch in batches:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _BATCH):
            for values in _plain(batch.slice(start, _BATCH)):
                number += 1
                yield PlacedRow(str(path), number, values)


def _plain(batch: "RecordBatch") -> list[dict[str, Any]]:
    """Give rows of Python's own values; Python knows no nanoseconds, so these are cut off."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp("us", column.type.tz), safe=False)
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns"
        else column
        for column in batch.columns
    ]
    values = (column.to_pylist() for column in columns)
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@contextmanager
def _faults_of(path: Path, kind: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except SourceError:
        raise
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SourceError(
            f"{path}: cannot be read as {kind}: {' '.join(str(said).split())[:200]}"
        ) from None
