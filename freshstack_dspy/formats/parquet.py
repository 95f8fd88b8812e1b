"""Data sets of Parquet, as `datasets` of Hugging Face loads them."""

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from freshstack_dspy.stored.corpus import write_rows

if TYPE_CHECKING:
    import pyarrow as pa


def parquet_file(
    split: str, schema: "pa.Schema", rows: Iterable[dict[str, Any]]
) -> tuple[str, bytes]:
    """Give the file of a split of a data set, `{split}-{hash}.parquet`.

    `datasets` caches what it reads under the names in the README and never looks whether the file
    behind them changed, so the name has the hash of the content.
    """
    file = io.BytesIO()
    write_rows(file, schema, rows)
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return f"{split}-{digest[:16]}.parquet", file.getvalue()


def schema_of(fields: Any) -> "pa.Schema":
    """Make an Arrow schema of a kind of record, or of types by name."""
    import pyarrow as pa

    if not isinstance(fields, dict):
        fields = kinds(fields)
    return pa.schema({name: _arrow_type(kind) for name, kind in fields.items()})


def kinds(record: Any) -> dict[str, Any]:
    """Give the type of each field of a record."""
    return {name: field.annotation for name, field in record.__pydantic_fields__.items()}


def _arrow_type(kind: Any) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow_type(kind[0]))
    if isinstance(kind, dict) or hasattr(kind, "__pydantic_fields__"):
        return pa.struct(list(schema_of(kind)))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if inner and origin is not Literal:  # annotated, or with None
        return _arrow_type(next(one for one in inner if one is not type(None)))
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}.get(kind, pa.string())


def front_matter(files: Mapping[str, tuple[str, str]], about: str = "") -> str:
    """Say for `datasets` where the one split of each configuration is: name -> split, file."""
    configs = "".join(
        f"- config_name: {json.dumps(name)}\n"
        f"  data_files:\n  - split: {split}\n    path: {json.dumps(file)}\n"
        for name, (split, file) in files.items()
    )
    return f"---\n{about}configs:\n{configs}---\n"
