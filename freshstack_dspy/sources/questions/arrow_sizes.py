"""How large rows of Arrow become as Python's values: one that many rows share counts in each."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.questions.lines import LONGEST_LINE

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_SLOT = 8
"""Bytes that any value takes, a missing one too."""


def in_bounded_parts(batch: "RecordBatch", place: str, first: int) -> Iterator["RecordBatch"]:
    """Cut a batch into parts none of which unpacks to more than a line may have.

    Args:
        batch: Some rows.
        place: Of the file, for messages.
        first: The number of the first row.

    Raises:
        SourceError: A single row is longer, or a column is of a type that is not read.
    """
    size = sum(_size(column, f"{place}: column {name!r}") for name, column in _named(batch))
    if size <= LONGEST_LINE:
        yield batch
    elif batch.num_rows == 1:
        raise SourceError(f"{place}:{first}: longer than {LONGEST_LINE >> 20} MiB; no question is")
    else:
        half = batch.num_rows // 2
        yield from in_bounded_parts(batch.slice(0, half), place, first)
        yield from in_bounded_parts(batch.slice(half), place, first + half)


def longest_shared(batch: "RecordBatch") -> int:
    """Give the bytes of the longest value in the dictionaries of a batch."""
    return max((_longest(column) for column in batch.columns), default=0)


def _longest(array: Any) -> int:
    pc = _compute()
    from pyarrow import types

    if types.is_dictionary(array.type) and _is_text(array.dictionary.type):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    if types.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    return 0


def _named(batch: "RecordBatch") -> Iterator[tuple[str, Any]]:
    return zip(batch.schema.names, batch.columns, strict=True)


def _size(array: Any, place: str) -> int:
    """Give the bytes of all values in an array, without unpacking one."""
    pc = _compute()
    from pyarrow import types

    kind, own = array.type, len(array) * _SLOT
    if types.is_dictionary(kind) and _is_text(kind.value_type):
        return own + _total_of_shared(array)
    if _is_text(kind):
        return own + _total(pc.binary_length(array))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return own + _total_of_views(array)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return own + _size(array.flatten(), place)
    if types.is_struct(kind):
        return own + sum(_size(child, place) for child in array.flatten())
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise SourceError(f"{place} is of type {str(kind)[:100]!r}; save it as text")
    return own


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _total(lengths: Any) -> int:
    pc = _compute()

    return int(pc.sum(lengths.cast("int64")).as_py() or 0)


def _total_of_shared(array: Any) -> int:
    pc = _compute()

    used = array.indices.drop_null().value_counts()
    lengths = pc.binary_length(array.dictionary.take(used.field("values")))
    return _total(pc.multiply(lengths.cast("int64"), used.field("counts")))


def _total_of_views(array: Any) -> int:
    """Add up the lengths that begin each view of 16 bytes, for which Arrow has no function."""
    import numpy as np

    if not len(array):
        return 0
    views = np.frombuffer(array.buffers()[1], "<i4").reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0]
    return int(lengths.clip(0).sum(dtype=np.int64))


def _compute() -> Any:
    """The functions that pyarrow makes when it is imported, which no type checker sees."""
    import pyarrow.compute as pc

    return pc
