"""Rows in the order of their `chunk_id`: sorted in runs on disk, and merged.

Ids are ordered by code point, as Python and the bytes of UTF-8 order them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from freshstack_dspy.lm.workers import packed

if TYPE_CHECKING:
    import pyarrow as pa

RUN_BYTES = 64 << 20
"""Bytes of rows that are sorted in memory at a time."""
_ROWS_OF_RUN = 256
"""Rows of each run that are in memory while the runs are merged."""


def sorted_batches(
    batches: Iterable["pa.RecordBatch"], folder: Path | None = None, run_bytes: int = RUN_BYTES
) -> Iterator["pa.Table"]:
    """Sort rows of any number by `chunk_id`; in between they are in files below a folder."""
    with TemporaryDirectory(dir=folder) as place:
        packs = packed(batches, attrgetter("nbytes"), most_size=run_bytes)
        runs = [_write_run(pack, Path(place, str(number))) for number, pack in enumerate(packs)]
        yield from merged([_read_run(run) for run in runs])


def merged(runs: Sequence[Iterable["pa.RecordBatch | pa.Table"]]) -> Iterator["pa.Table"]:
    """Merge streams of rows, each in the order of `chunk_id`, into one."""
    import pyarrow as pa

    streams = dict(enumerate(map(iter, runs)))
    heads: dict[int, pa.Table] = {}
    while True:
        for number in streams.keys() - heads.keys():
            head = next((batch for batch in streams[number] if batch.num_rows), None)
            if head is None:
                del streams[number]
            else:
                heads[number] = head if isinstance(head, pa.Table) else pa.table(head)
        if not heads:
            return
        # Up to here, whatever else a stream has comes later.
        bound = min(head["chunk_id"][-1].as_py() for head in heads.values())
        parts: list[pa.Table] = []
        for number, head in sorted(heads.items()):
            end = bisect_right(head["chunk_id"], bound, key=lambda value: value.as_py())
            parts += [head.slice(0, end)] * (end > 0)
            heads[number] = head.slice(end)
        heads = {number: head for number, head in heads.items() if head.num_rows}
        yield parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by("chunk_id")


def regrouped(tables: Iterable["pa.Table"], rows: int) -> Iterator["pa.Table"]:
    """Give the same rows in tables of this size; the last may be smaller."""
    import pyarrow as pa

    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count >= rows:
            whole, full = pa.concat_tables(held), count - count % rows
            yield from (whole.slice(start, rows) for start in range(0, full, rows))
            held, count = [whole.slice(full)], count - full
    if count:
        yield pa.concat_tables(held)


def _write_run(batches: Sequence["pa.RecordBatch"], path: Path) -> Path:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).sort_by("chunk_id")
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=_ROWS_OF_RUN)
    return path


def _read_run(path: Path) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
