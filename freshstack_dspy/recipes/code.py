"""Hashes of this package's code and of files: what a build depends on next to its settings."""

import functools
import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from freshstack_dspy.lm.request import sha256_of


@functools.cache
def code_sha256(folder: str = "", packages: str = ".*") -> str:
    """Fingerprint the files below a folder of this package, Python, and the versions of packages.

    Those are the packages that this one requires and whose names match.
    """
    root = Path(__file__).parents[1]
    files = sorted(path for path in (root / folder).rglob("*") if path.is_file())
    required = {re.split(r"[^\w.-]", line)[0] for line in requires("freshstack_dspy") or ()}
    return sha256_of(
        {
            "files": {
                path.relative_to(root).as_posix(): file_sha256(path)
                for path in files
                if path.suffix != ".pyc"
            },
            "python": platform.python_version_tuple()[:2],
            "versions": {
                name: _installed(name) for name in required if re.fullmatch(packages, name)
            },
        }
    )


def _installed(package: str) -> str | None:
    """The version of a package, or None where this system lacks it, as it may an extra."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
