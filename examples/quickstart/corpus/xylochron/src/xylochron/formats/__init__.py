"""Reading and writing files: the registry of formats and the choice between them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from xylochron.chronology import Chronology
from xylochron.errors import EncodingFallbackWarning, FormatError, UnknownFormatError
from xylochron.series import Series

GROUP = "xylochron.formats"
"""The entry-point group in which formats are looked up, ours and those of plugins."""


class Reader(Protocol):
    """Turns text into series; keyword options are the format's own."""

    def __call__(self, text: str, **options: Any) -> list[Series]: ...


@dataclass(frozen=True)
class Format:
    """One file format. ``write`` and ``read_chronology`` may be absent."""

    name: str
    suffixes: tuple[str, ...]
    read: Reader
    sniff: Any
    """``sniff(head: str) -> bool``: whether the first 512 characters look like this format."""
    write: Any = None
    read_chronology: Any = None


@cache
def registered() -> dict[str, Format]:
    """All formats by name. Read once a process: restart Python after installing a plugin."""
    return {point.name: point.load() for point in sorted(entry_points(group=GROUP))}


def detect(path: Path, text: str) -> Format:
    """Choose a format: suffix and sniff first, then sniff alone.

    A matching suffix is not enough. A ``.csv`` whose first lines do not sniff as a ring
    table is refused rather than guessed at.

    Raises:
        UnknownFormatError: no format recognises the first 512 characters.
    """
    head = text[:512]
    formats = registered()
    for fmt in formats.values():
        if path.suffix.lower() in fmt.suffixes and fmt.sniff(head):
            return fmt
    for fmt in formats.values():
        if fmt.sniff(head):
            return fmt
    raise UnknownFormatError(
        f"{path.name}: no format recognises this file; known are {', '.join(formats)}. "
        "Name one with format=…"
    )


def read(
    path: str | Path, format: str | None = None, *, encoding: str | None = None, **options: Any
) -> list[Series]:
    """Read all series of a file.

    Args:
        path: The file.
        format: A name from ``xylochron formats``; detected when not given.
        encoding: Of the file; by default UTF-8, and Windows-1252 where that fails.
        **options: Passed on to the format, as ``units=`` for Tucson.
    """
    fmt, text = _open(Path(path), format, encoding)
    return fmt.read(text, **options)


def read_chronology(
    path: str | Path, format: str | None = None, *, encoding: str | None = None
) -> Chronology:
    """Read a file of chronology values and sample depths."""
    fmt, text = _open(Path(path), format, encoding)
    if fmt.read_chronology is None:
        raise FormatError(f"format {fmt.name!r} holds no chronologies")
    return fmt.read_chronology(text)


def write(
    series: Sequence[Series], path: str | Path, format: str | None = None, **options: Any
) -> None:
    """Write series as UTF-8, in the format named or the one of the file's suffix."""
    target = Path(path)
    formats = registered()
    suffix = target.suffix.lower()
    fmt = formats.get(format or "") or next(
        (fmt for fmt in formats.values() if suffix in fmt.suffixes), None
    )
    if fmt is None or fmt.write is None:
        raise UnknownFormatError(f"{target.name}: no format can write this file")
    target.write_text(fmt.write(list(series), **options), encoding="utf-8")


def _open(path: Path, name: str | None, encoding: str | None) -> tuple[Format, str]:
    text = _decode(path, encoding)
    if name is None:
        return detect(path, text), text
    if name not in registered():
        raise UnknownFormatError(f"format {name!r} is not one of {', '.join(registered())}")
    return registered()[name], text


def _decode(path: Path, encoding: str | None) -> str:
    data = path.read_bytes()
    if encoding is not None:
        return data.decode(encoding)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        warnings.warn(
            f"{path.name} is not UTF-8, read as cp1252; pass encoding=… to say what it is",
            EncodingFallbackWarning,
            stacklevel=4,
        )
        return data.decode("cp1252")
