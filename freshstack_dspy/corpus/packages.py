"""The files of a wheel, and of an installed Python distribution."""

import csv
import json
import re
import stat
import zipfile
import zlib
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
_WHEEL_NAME = re.compile(r"[^-]+-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
_DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)
_LARGEST = 4 << 30
_LARGEST_RATIO = 200
_UNSUSPICIOUS = 100 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that Python unpacks in pieces of bounded size."""


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
            raise SourceError(
                f"package {name!r} has no list of its files; name its folder or its wheel as path"
            )
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


class Wheel(FileTree):
    """The files of a wheel; its revision is the version in its name."""

    def __init__(self, path: Path) -> None:
        named = _WHEEL_NAME.fullmatch(path.name)
        if named is None:
            raise SourceError(
                f"{path}: not the name of a wheel; it is NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
            )
        self.revision = named["version"]
        try:
            self._archive = zipfile.ZipFile(path)
        except _DAMAGED as error:
            raise SourceError(f"{path}: cannot be read as a wheel: {error}") from None
        size = sum(info.file_size for info in self._archive.infolist())
        if size > _LARGEST or size > max(_UNSUSPICIOUS, _LARGEST_RATIO * path.stat().st_size):
            self._archive.close()
            raise SourceError(
                f"{path}: would unpack to {size:,} bytes, more than any real wheel does"
            )

    def entries(self) -> Iterator[TreeEntry]:
        """List the files."""
        infos = {info.filename: info for info in self._archive.infolist() if not info.is_dir()}
        for name, info in infos.items():
            yield named_entry(name, info.file_size, _against(info), name)

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Read a file; the size that the archive states is not relied on."""
        try:
            with self._archive.open(entry.key) as file:
                return file.read(most)
        except _DAMAGED as error:
            return Skip("unreadable", f"damaged in the archive: {error}")

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


def _against(info: zipfile.ZipInfo) -> Skip | None:
    if info.compress_type not in _METHODS:
        return Skip("unreadable", "packed by a method that wheels have no use for")
    if stat.S_ISLNK(info.external_attr >> 16):
        return LINK
    parts = info.filename.split("/")
    if "\\" in info.filename or ":" in parts[0] or {"", ".", ".."} & set(parts):
        return Skip("unreadable", "its path leads out of the archive")
    return None
