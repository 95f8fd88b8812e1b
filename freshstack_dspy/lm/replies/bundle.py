"""Bundles: recorded replies as JSON Lines sorted by key, for git, colleagues and replay.

A bundle is read once when it is opened, every line validated; after that only the places of its
lines are in memory, and a reply is read when it is asked for. A bundle whose name ends in `.zst`
is compressed.
"""

import os
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.json_text import MOST_STRUCTURE, is_dense
from freshstack_dspy.lm.replies.recorded import Line, says_the_same
from freshstack_dspy.lm.replies.zstandard import SUFFIX, decompressed, writing
from freshstack_dspy.lm.reply import Reply, reply_from_json
from freshstack_dspy.lm.request import canonical_json

LONGEST_LINE = 64 * 2**20
"""Bytes; a reply of a million tokens has a tenth of them."""


class _Place(NamedTuple):
    offset: int
    length: int


class NumberedLine(NamedTuple):
    """One line of a bundle's file."""

    number: int
    offset: int
    data: bytes


class Bundle(Mapping[str, Reply]):
    """The replies of one bundle, by key; shared by threads."""

    def __init__(self, path: Path) -> None:
        """Open a bundle and validate every line.

        Raises:
            StoreError: The file cannot be read, a line is not a recorded reply, or a key comes
                twice.
        """
        self.path = path
        self._places: dict[str, _Place] = {}
        with opened_bundle(path) as file:
            self._file = os.dup(file.fileno())
            self._open = weakref.finalize(self, os.close, self._file)
            for line in numbered_lines(path, file):
                reply = reply_of_line(path, line)
                if reply.key in self._places:
                    raise StoreError(f"{path}:{line.number}: the key {reply.key} comes twice")
                self._places[reply.key] = _Place(line.offset, len(line.data))

    def __getitem__(self, key: str) -> Reply:
        """The reply to a request, read and validated again.

        Raises:
            KeyError: It is not in the bundle.
            StoreError: The file has changed since it was opened.
        """
        data = self._read(self._places[key])
        try:
            reply = reply_from_json(data.decode(), str(self.path))
        except (StoreError, UnicodeDecodeError):
            reply = None
        if reply is None or reply.key != key:
            raise StoreError(f"{self.path}: the bundle has changed since it was opened")
        return reply

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The replies whose JSON holds some bytes; see `Recorded`."""
        for key, place in self._places.items():
            data = self._read(place)
            if holding in data:
                yield Line(key, data)

    def close(self) -> None:
        """Close the file."""
        self._open()

    def _read(self, place: _Place) -> bytes:
        if not self._open.alive:
            raise StoreError(f"{self.path}: the bundle is closed")
        try:
            return os.pread(self._file, place.length, place.offset)
        except OSError as error:
            raise StoreError(f"{self.path}: the bundle cannot be read: {error}") from error


class Bundles(Mapping[str, Reply]):
    """The replies of several bundles as of one."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        """Open bundles.

        Raises:
            StoreError: One cannot be opened, or two have different replies to one request.
        """
        self._bundles: list[Bundle] = []
        try:
            for path in paths:
                self._bundles.append(Bundle(path))
                self._refuse_conflicts(self._bundles[-1], self._bundles[:-1])
        except BaseException:
            self.close()
            raise

    def __getitem__(self, key: str) -> Reply:
        for bundle in self._bundles:
            if key in bundle:
                return bundle[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for bundle in self._bundles for key in bundle))

    def __contains__(self, key: object) -> bool:
        return any(key in bundle for bundle in self._bundles)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The replies whose JSON holds some bytes; see `Recorded`."""
        for bundle in self._bundles:
            yield from bundle.lines(holding)

    def close(self) -> None:
        """Close the files."""
        for bundle in self._bundles:
            bundle.close()

    @staticmethod
    def _refuse_conflicts(bundle: Bundle, others: Sequence[Bundle]) -> None:
        for other in others:
            for key in bundle.keys() & other.keys():
                if not says_the_same(bundle[key], other[key]):
                    raise StoreError(
                        f"{other.path} and {bundle.path} have different replies to the request "
                        f"{key}; name one of them"
                    )


def read_bundle(path: Path) -> Bundle:
    """Open one bundle; see `Bundle`."""
    return Bundle(path)


def write_bundle(replies: Iterable[Reply], path: Path) -> int:
    """Write replies as a bundle, in the order of their keys, and return how many there are.

    The file appears whole or not at all; memory holds the keys only.

    Raises:
        StoreError: It cannot be written, or two replies have one key.
    """
    places: dict[str, _Place] = {}
    try:
        with tempfile.TemporaryFile() as unsorted:
            for reply in replies:
                if reply.key in places:
                    raise StoreError(f"{path}: two replies have the key {reply.key}")
                line = canonical_json(reply.model_dump(mode="json")).encode() + b"\n"
                places[reply.key] = _Place(unsorted.tell(), len(line))
                unsorted.write(line)
            unsorted.flush()
            with writing(path) as file:
                for key in sorted(places):
                    place = places[key]
                    file.write(os.pread(unsorted.fileno(), place.length, place.offset))
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be written: {error}") from error
    return len(places)


@contextmanager
def opened_bundle(path: Path) -> Iterator[IO[bytes]]:
    """Open the file of a bundle, decompressed if its name says so.

    Raises:
        StoreError: It cannot be read.
    """
    try:
        # A pipe or a device would have no places to come back to, or no end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreError(f"{path}: the bundle cannot be read: it is no plain file")
        with decompressed(path) if path.suffix == SUFFIX else path.open("rb") as file:
            yield file
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be read: {error}") from error


def numbered_lines(path: Path, file: IO[bytes]) -> Iterator[NumberedLine]:
    """The lines of a bundle, one at a time.

    Raises:
        StoreError: A line is too long.
    """
    offset, number = 0, 1
    while data := file.readline(LONGEST_LINE + 1):
        if len(data) > LONGEST_LINE:
            raise StoreError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes")
        yield NumberedLine(number, offset, data)
        offset, number = offset + len(data), number + 1


def reply_of_line(path: Path, line: NumberedLine) -> Reply:
    """The reply that a line of a bundle holds.

    Raises:
        StoreError: It holds none.
    """
    where = f"{path}:{line.number}"
    if is_dense(line.data):
        raise StoreError(f"{where}: more than {MOST_STRUCTURE:,} bytes of it are no text")
    try:
        return reply_from_json(line.data.decode(), where)
    except UnicodeDecodeError as error:
        raise StoreError(f"{where}: the bundle cannot be read: {error}") from None
