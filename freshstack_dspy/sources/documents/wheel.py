"""A Python wheel, read as the archive that it is: nothing is unpacked to disk."""

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from freshstack_dspy.errors import SourceError
from freshstack_dspy.sources.documents.folder import LINK
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import Entry, Wanted, named_entry, without_hidden

_NAME = re.compile(r"[^-]+-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
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
        named = _NAME.fullmatch(path.name)
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
