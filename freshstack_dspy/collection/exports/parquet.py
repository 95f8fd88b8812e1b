"""Parquet files whose names hold the hash of their content, and Arrow schemas of our records."""

import hashlib
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from freshstack_dspy.collection.corpus import write_rows
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    import pyarrow as pa


def write_split(
    folder: Path, split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> str:
    """Write a split of a data set and give the name of its file, `{split}-{hash}.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    unnamed = folder / f"{split}.parquet"
    write_rows(unnamed, schema, rows)
    with unnamed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return unnamed.rename(folder / f"{split}-{digest[:16]}.parquet").name


def record_schema(record: type[Record]) -> "pa.Schema":
    """Give the Arrow schema of a record: its fields, in their order."""
    import pyarrow as pa

    return pa.schema(
        {name: _arrow_type(field.annotation) for name, field in record.model_fields.items()}
    )


def _arrow_type(annotation: Any) -> "pa.DataType":
    import pyarrow as pa

    plain = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return pa.string()
    if origin is Annotated:
        return _arrow_type(inner[0])
    if origin in (Union, types.UnionType):
        (given,) = (each for each in inner if each is not type(None))
        return _arrow_type(given)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return pa.struct(list(record_schema(annotation)))
    raise TypeError(f"no Arrow type for {annotation!r}")
