"""The files of an installed Python distribution."""

import csv
import json
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from freshstack_dspy.corpus.tree import (
    LINK,
    FileTree,
    Skip,
    TreeEntry,
    named_entry,
    not_readable,
    read_file,
)
from freshstack_dspy.errors import SourceError

_INSTALLERS_OWN = re.compile(
    r"(?:^|/)__pycache__/|(?:^|/)\.\./|"
    r"(?:^|/)[^/]+\.dist-info/(?:INSTALLER|REQUESTED|RECORD|direct_url\.json)$"
)
"""What installing adds to a distribution: it depends on how that was done."""


class Package(FileTree):
    """The files that an installer recorded; its revision is the installed version."""

    def __init__(self, name: str) -> None:
        try:
            found = distribution(name)
        except (PackageNotFoundError, ValueError):
            raise SourceError(
                f"package {name!r} is not installed next to this program; install it with: "
                f"pip install {name}"
            ) from None
        place = _editable(found)
        if place is not None:
            raise SourceError(
                f"package {name!r} is installed in editable mode, so its files are not its own; "
                f"name its folder instead: path = {place!r}"
            )
        record = found.read_text("RECORD")
        if record is None:
            raise SourceError(f"package {name!r} has no list of its files; name its folder as path")
        paths = {row[0].replace("\\", "/") for row in csv.reader(record.splitlines()) if row}
        self._paths = sorted(path for path in paths if not _INSTALLERS_OWN.search(path))
        self._root = Path(str(found.locate_file(""))).resolve()
        self.revision = found.version

    def entries(self) -> Iterator[TreeEntry]:
        """List the recorded files; those outside of the folder of packages are not read."""
        return map(self._entry, self._paths)

    def _entry(self, path: str) -> TreeEntry:
        file = self._root / path
        skip, size = None, 0
        try:
            if not file.parent.resolve().is_relative_to(self._root) or ".." in file.parts:
                skip = Skip("not_chosen", "outside of the folder of packages")
            elif file.is_symlink():
                skip = LINK
            else:
                size = file.stat().st_size
        except OSError as error:
            skip = not_readable(error)
        shown = "/".join(part for part in path.split("/") if part not in ("", ".."))
        return named_entry(shown, size, skip, path)

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Read a file."""
        return read_file(self._root / entry.key, most)


def _editable(found: Distribution) -> str | None:
    """Give the folder of an editable installation (PEP 610)."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return str(origin.get("url", "")).removeprefix("file://")
