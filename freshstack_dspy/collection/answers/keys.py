"""Which answer a row is of: one row for each run and query, in however many files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from freshstack_dspy.collection.imports.rows import Row, read_rows, shown
from freshstack_dspy.errors import SourceError

_RUN = ("run_id", "run", "runtag")
_QUERY = ("query_id", "qid", "topic_id", "narrative_id")


class Keys:
    """The runs and queries that were read, and where."""

    def __init__(self) -> None:
        """Begin with none."""
        self._places: dict[tuple[str, str], str] = {}

    def take(self, row: Row, *names: str) -> tuple[str, str]:
        """Give the run and the query of a row.

        Args:
            row: Of a file.
            names: Under which the run's name stands, if not those of a run.

        Raises:
            SourceError: It has none, or both stood in an earlier row.
        """
        key = run, query = row.id(*(names or _RUN)), row.id(*_QUERY)
        if (first := self._places.setdefault(key, row.place)) != row.place:
            raise SourceError(
                f"{row.place}: {shown(run)} and query {shown(query)} stood already at {first}; "
                "keep one"
            )
        return key


def rows_of(paths: Iterable[Path]) -> Iterator[Row]:
    """Give the rows of several files: JSON Lines (also gzip), JSON or Parquet.

    Raises:
        SourceError: A file cannot be read, is named twice, or is of another format.
    """
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise SourceError(f"{path}: named twice; name each file once")
        seen.add(path.resolve())
        yield from read_rows(path)
