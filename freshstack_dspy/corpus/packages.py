"""The files of an installed Python distribution, and no others."""

import csv
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from freshstack_dspy.corpus.tree import (
    LINK,
    NO_FILE,
    Entry,
    Skip,
    Wanted,
    named_entry,
    not_readable,
    read_regular,
    without_hidden,
)
from freshstack_dspy.errors import SourceError

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


_NAME_wheel = re.compile(r"[^-]+-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
_DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError)
_UNSUPPORTED = (NotImplementedError, RuntimeError)
_LARGEST = 4 << 30
_LARGEST_RATIO = 200
_UNSUSPICIOUS = 100 << 20
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that Python unpacks in pieces of bounded size."""


class Wheel:
    """The files of a wheel; its revision is the version in its name."""

    of_files = True

    def __init__(self, path: Path) -> None:
        """Open a wheel.

        Raises:
            SourceError: It is none, is damaged, or would unpack to far more than it is.
        """
        named = _NAME_wheel.fullmatch(path.name)
        if named is None:
            raise SourceError(
                f"{path}: not the name of a wheel; it is NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
            )
        self._path = path
        self.revision: str | None = named["version"]
        try:
            self._archive = zipfile.ZipFile(path)
        except (*_DAMAGED, *_UNSUPPORTED) as error:
            raise SourceError(f"{path}: cannot be read as a wheel: {error}") from None
        size = sum(info.file_size for info in self._archive.infolist())
        if size > _LARGEST or size > max(_UNSUSPICIOUS, _LARGEST_RATIO * path.stat().st_size):
            self._archive.close()
            raise SourceError(
                f"{path}: would unpack to {size:,} bytes, which no honest wheel of its size does; "
                "it is not read"
            )

    def entries(self) -> Iterator[Entry]:
        """List the files; what lies in a hidden folder is one entry."""
        return without_hidden(self._listed())

    def _listed(self) -> Iterator[Entry]:
        seen: set[str] = set()
        for number, info in enumerate(self._archive.infolist()):
            if info.is_dir():
                continue
            skip = _against(info)
            if skip is None and info.filename in seen:
                skip = Skip("unreadable", "its path is there twice")
            seen.add(info.filename)
            raw_path = info.filename.encode("utf-8", "surrogateescape")
            yield named_entry(raw_path, info.file_size, skip, str(number))

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read the files; what an archive says of their sizes is not believed."""
        infos = self._archive.infolist()
        for entry, most in wanted:
            try:
                with self._archive.open(infos[int(entry.key)]) as file:
                    yield file.read(most)
            except (*_DAMAGED, *_UNSUPPORTED) as error:
                yield Skip("unreadable", f"damaged in the archive: {error}")

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


def _against(info: zipfile.ZipInfo) -> Skip | None:
    if info.flag_bits & _ENCRYPTED:
        return Skip("unreadable", "encrypted")
    if info.compress_type not in _METHODS:
        return Skip("unreadable", "packed by a method that wheels have no use for")
    if stat.S_ISLNK(info.external_attr >> 16):
        return LINK
    parts = info.filename.split("/")
    if (
        "\\" in info.orig_filename
        or ":" in parts[0]
        or any(part in ("", ".", "..") for part in parts)
    ):
        return Skip("unreadable", "its path leads out of the archive")
    return None
