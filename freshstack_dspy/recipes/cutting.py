"""What decides how files are cut and indexed: by it an update tells which chunks it can keep."""

import functools
import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.lm.request import sha256_of

_PACKAGE = "freshstack_dspy"
_FOLDER = "chunking"
_CUTTER = re.compile(r"tiktoken|tree-sitter.*")
"""Packages that cut files."""


def cut_by(config: BuildConfig) -> str:
    """Fingerprint what the chunks of a file depend on beside its content, and what an index does.

    How files are read is left out: of each file the index knows the content that was read, and
    its encoding.

    Returns:
        SHA-256 of the settings, the code that cuts files, and the versions of the packages that it
        does so with.
    """
    return sha256_of(
        {
            "max_tokens": config.chunking.max_tokens,
            "index": config.index.model_dump(mode="json", exclude={"path"}),
            "code": _code(),
        }
    )


@functools.cache
def _code() -> dict[str, object]:
    root = Path(__file__).parents[1]
    files = sorted((root / _FOLDER).rglob("*.py"))
    required = {re.split(r"[^\w.-]", line)[0] for line in requires(_PACKAGE) or ()}
    return {
        "files": {
            path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        },
        "python": list(platform.python_version_tuple()[:2]),
        "versions": {name: _version(name) for name in required if _CUTTER.fullmatch(name)},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None  # of an extra that is not installed
