"""Data sets of Parquet, as `datasets` of Hugging Face loads them."""

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

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


def front_matter(files: Mapping[str, tuple[str, str]], about: str = "") -> str:
    """Say for `datasets` where the one split of each configuration is: name -> split, file."""
    configs = "".join(
        f"- config_name: {json.dumps(name)}\n"
        f"  data_files:\n  - split: {split}\n    path: {json.dumps(file)}\n"
        for name, (split, file) in files.items()
    )
    return f"---\n{about}configs:\n{configs}---\n"
