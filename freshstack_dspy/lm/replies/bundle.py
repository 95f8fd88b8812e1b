"""Bundles: recorded replies and figures as JSON Lines sorted by key, for git and colleagues.

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
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.json_text import MOST_STRUCTURE, is_dense
from freshstack_dspy.lm.replies.entries import Entry, entry_from_json, says_the_same
from freshstack_dspy.lm.replies.recorded import Line
from freshstack_dspy.lm.replies.zstandard import SUFFIX, decompressed, writing
from freshstack_dspy.lm.reply import Reply
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
    """The replies of one bundle, by key, and its figures beside them; shared by threads."""

    def __init__(self, path: Path) -> None:
        """Open a bundle and validate every line.

        Raises:
            StoreError: The file cannot be read, a line is not a recorded reply or figures, or a
                key comes twice.
        """
        self.path = path
        self._places: dict[str, _Place] = {}
        self._figures: dict[str, _Place] = {}
        with opened_bundle(path) as file:
            self._file = os.dup(file.fileno())
            self._open = weakref.finalize(self, os.close, self._file)
            for line in numbered_lines(path, file):
                entry = entry_of_line(path, line)
                places = self._places if isinstance(entry, Reply) else self._figures
                if entry.key in places:
                    raise StoreError(f"{path}:{line.number}: the key {entry.key} comes twice")
                places[entry.key] = _Place(line.offset, len(line.data))

    def __getitem__(self, key: str) -> Reply:
        """The reply to a request, read and validated again.

        Raises:
            KeyError: It is not in the bundle.
            StoreError: The file has changed since it was opened.
        """
        entry = self._entry(key, self._places[key])
        if not isinstance(entry, Reply):
            raise self._changed()
        return entry

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

    def figures(self, key: str) -> Figures | None:
        """The figures recorded for a key, read and validated again, or None.

        Raises:
            StoreError: The file has changed since it was opened.
        """
        place = self._figures.get(key)
        entry = None if place is None else self._entry(key, place)
        if isinstance(entry, Reply):
            raise self._changed()
        return entry

    def any_figures(self) -> Figures | None:
        """Some figures that are recorded, or None."""
        return self.figures(next(iter(self._figures), ""))

    def entries(self) -> Iterator[Entry]:
        """All that is recorded: the replies, then the figures."""
        yield from self.values()
        for key, place in self._figures.items():
            yield self._entry(key, place)

    def all_keys(self) -> set[str]:
        """The keys of the replies and of the figures."""
        return self._places.keys() | self._figures.keys()

    def entry(self, key: str) -> Entry:
        """The reply or the figures recorded for a key.

        Raises:
            KeyError: There are none in the bundle.
            StoreError: The file has changed since it was opened.
        """
        return self[key] if key in self._places else self._entry(key, self._figures[key])

    def close(self) -> None:
        """Close the file."""
        self._open()

    def _entry(self, key: str, place: _Place) -> Entry:
        try:
            entry = entry_from_json(self._read(place), str(self.path))
        except UnicodeDecodeError:
            raise self._changed() from None
        except StoreError as error:
            raise (self._changed() if self._open.alive else error) from None
        if entry.key != key:
            raise self._changed()
        return entry

    def _changed(self) -> StoreError:
        return StoreError(f"{self.path}: the bundle has changed since it was opened")

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

    def figures(self, key: str) -> Figures | None:
        """The figures recorded for a key, in the first bundle that has any; see `Bundle`."""
        found = (bundle.figures(key) for bundle in self._bundles)
        return next((figures for figures in found if figures is not None), None)

    def any_figures(self) -> Figures | None:
        """Some figures that are recorded, or None."""
        found = (bundle.any_figures() for bundle in self._bundles)
        return next((figures for figures in found if figures is not None), None)

    def close(self) -> None:
        """Close the files."""
        for bundle in self._bundles:
            bundle.close()

    @staticmethod
    def _refuse_conflicts(bundle: Bundle, others: Sequence[Bundle]) -> None:
        for other in others:
            for key in bundle.all_keys() & other.all_keys():
                if not says_the_same(bundle.entry(key), other.entry(key)):
                    raise StoreError(
                        f"{other.path} and {bundle.path} have different replies to the request "
                        f"{key}; name one of them"
                    )


def read_bundle(path: Path) -> Bundle:
    """Open one bundle; see `Bundle`."""
    return Bundle(path)


def write_bundle(replies: Iterable[Entry], path: Path) -> int:
    """Write replies and figures as a bundle, in the order of their keys, and return how many there are.

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


def entry_of_line(path: Path, line: NumberedLine) -> Entry:
    """The reply, or the figures, that a line of a bundle holds.

    Raises:
        StoreError: It holds none.
    """
    where = f"{path}:{line.number}"
    if is_dense(line.data):
        raise StoreError(f"{where}: more than {MOST_STRUCTURE:,} bytes of it are no text")
    try:
        return entry_from_json(line.data, where)
    except UnicodeDecodeError as error:
        raise StoreError(f"{where}: the bundle cannot be read: {error}") from None
