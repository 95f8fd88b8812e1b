"""The files of an installed Python distribution, and no others."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.folder import LINK, NO_FILE, read_regular
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import (
    Entry,
    Wanted,
    named_entry,
    not_readable,
    without_hidden,
)

_INSTALLERS_OWN = re.compile(
    r"(?:^|/)__pycache__/|(?:^|/)\.\./|"
    r"(?:^|/)[^/]+\.dist-info/(?:INSTALLER|REQUESTED|RECORD|direct_url\.json)$"
)
"""What installing adds to a distribution: it depends on how that was done."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class Package:
    """The files that an installer recorded; its revision is the installed version."""

    of_files = True

    def __init__(self, name: str) -> None:
        """Find a distribution.

        Raises:
            SourceError: It is not installed, is installed in editable mode, or has no list of
                its files.
        """
        found = _installed(name)
        place = _editable(found)
        if place is not None:
            raise SourceError(
                f"package {name!r} is installed in editable mode, so its files are not its own; "
                f"name its folder instead: path = {place!r}"
            )
        paths = _recorded(found)
        if paths is None:
            raise SourceError(
                f"package {name!r} has no list of its files; name its folder or its wheel as path"
            )
        self.revision: str | None = found.version
        self._root = Path(str(found.locate_file(""))).resolve()
        self._paths = sorted(paths)

    def entries(self) -> Iterator[Entry]:
        """List the recorded files; those outside of the folder of packages are not read."""
        return without_hidden(map(self._entry, self._paths))

    def _entry(self, path: str) -> Entry:
        skip, size = None, 0
        file = self._root / path
        try:
            if not file.parent.resolve().is_relative_to(self._root) or ".." in file.parts:
                outside = "/".join(part for part in path.split("/") if part != "..")
                path, skip = outside, Skip("not_chosen", "outside of the folder of packages")
            elif file.is_symlink():
                skip = LINK
            elif file.exists() and not file.is_file():
                skip = NO_FILE
            else:
                size = file.lstat().st_size
        except OSError as error:
            skip = not_readable(error)
        except ValueError:
            skip = Skip("unreadable", "its path is none")
        raw_path = path.lstrip("/").encode("utf-8", "surrogateescape")
        return named_entry(raw_path, size, skip, path)

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read the files."""
        for entry, most in wanted:
            yield read_regular(self._root / entry.key, most)

    def close(self) -> None:
        """Nothing is held."""


def _installed(name: str) -> Distribution:
    if not _NAME.fullmatch(name):
        raise SourceError(f"package is {name!r}; allowed: the name of an installed distribution")
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise SourceError(
            f"package {name!r} is not installed beside this program; install it with: "
            f"pip install {name}"
        ) from None


def _recorded(found: Distribution) -> set[str] | None:
    """The paths an installer recorded; `files` of a distribution leaves out those that are gone."""
    record = found.read_text("RECORD")
    if record is not None:
        try:
            rows = [row for row in csv.reader(record.splitlines()) if row]
        except csv.Error as error:
            raise SourceError(f"{found.name}: its RECORD is damaged: {error}") from None
        paths = {row[0].replace("\\", "/") for row in rows}
        return {path for path in paths if not _INSTALLERS_OWN.search(path)}
    return None if found.files is None else {file.as_posix() for file in found.files}


def _editable(found: Distribution) -> str | None:
    """Give the folder of an editable installation (PEP 610)."""
    text = found.read_text("direct_url.json")
    try:
        origin = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    folder = origin.get("dir_info") if isinstance(origin, dict) else None
    if not isinstance(folder, dict) or not folder.get("editable"):
        return None
    return str(origin.get("url", "")).removeprefix("file://")
