"""The batches of a Parquet file, where a value that many rows share is not copied for each.

A page of 2 kB can hold one value of 16 MiB and name it for a million rows. Reading every column
by its dictionary would tell, but costs much where a writer gave dictionaries up, as for long texts.
"""

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from freshstack_dspy.sources.questions.arrow_sizes import longest_shared

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

_BATCH = 256
_LONGEST_COPIED = 1 << 20
"""Bytes of a value of a dictionary that is copied for each row of a batch."""


def parquet_batches(
    file: "ParquetFile", opened: IO[bytes], names: list[str]
) -> Iterator["RecordBatch"]:
    """Give the rows in batches; values that are long or in lists are shared by their rows.

    Args:
        file: To read.
        opened: The same, to read it in other ways.
        names: The columns to read.
    """
    from pyarrow.parquet import ParquetFile

    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    texts = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    in_lists = [leaf.path for leaf in texts if leaf.max_repetition_level]
    usual = ParquetFile(opened, metadata=file.metadata, read_dictionary=in_lists)
    careful = ParquetFile(
        opened, metadata=file.metadata, read_dictionary=[leaf.path for leaf in texts]
    )
    for group in range(file.num_row_groups):
        row = next(careful.iter_batches(batch_size=1, row_groups=[group], columns=names), None)
        shares = row is not None and longest_shared(row) > _LONGEST_COPIED
        reader = careful if shares else usual
        yield from reader.iter_batches(batch_size=_BATCH, row_groups=[group], columns=names)
