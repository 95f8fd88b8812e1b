"""Bundles: recorded entries as JSON Lines sorted by key, for git and colleagues.

A bundle comes from anybody: every line is validated when it is opened, and its entry checked against
the key of its request. After that only the places of the lines are in memory, and an entry is read
when it is asked for. A bundle whose name ends in `.zst` is compressed.
"""

import contextlib
import os
import secrets
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.reply import Entry, entry_from_json, same_content
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.store import (
    Line,
    Recorded,
    ReplyStore,
    recorded_entries,
    recorded_entry,
)
from freshstack_dspy.records import Record

LONGEST_LINE = 16 * 2**20
"""Bytes; a prompt and a reply of a million tokens each have half of them."""
LARGEST = 8 * 2**30
"""Bytes after decompression; a million replies of 8 KB."""
LARGEST_RATIO = 200
"""Replies shrink to a tenth, where all have the same long prompt to a fiftieth."""
SMALLEST_BOUND = 64 * 2**20
"""Bytes that are decompressed whatever the ratio."""
_PIECE = 2**20


class _Place(NamedTuple):
    offset: int
    length: int


class Bundle(Recorded):
    """The entries of one bundle, by key; shared by threads."""

    def __init__(self, path: Path) -> None:
        """Open a bundle and validate every line.

        Raises:
            StoreError: The file cannot be read, a line is not a recorded entry, or a key comes
                twice.
        """
        self.path = path
        self._places: dict[str, _Place] = {}
        file = _opened(path)
        self._file = file.fileno()
        self._close = weakref.finalize(self, file.close)
        for place, entry in _checked_lines(path, file):
            if isinstance(entry, StoreError):
                raise entry
            self._places[entry.key] = place

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> KeysView[str]:
        """The keys of all entries, in the order of the file."""
        return self._places.keys()

    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key, or None."""
        place = self._places.get(key)
        return None if place is None else entry_from_json(self._read(place), str(self.path))

    def entries(self) -> Iterator[Entry]:
        """All entries, in the order of the file."""
        for place in self._places.values():
            yield entry_from_json(self._read(place), str(self.path))

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries whose JSON holds some bytes; see `Recorded`."""
        for key, place in self._places.items():
            data = self._read(place)
            if holding in data:
                yield Line(key, data)

    def close(self) -> None:
        """Close the file."""
        self._close()

    def _read(self, place: _Place) -> bytes:
        return os.pread(self._file, place.length, place.offset)


class Several(Recorded):
    """Several places as one; of several entries of a key the first is served."""

    def __init__(self, sources: Iterable[Recorded]) -> None:
        self._sources = tuple(sources)

    def entry(self, key: str) -> Entry | None:
        """The entry recorded for a key in the first place that has one, or None."""
        return recorded_entry(key, self._sources)

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        """The entries whose JSON holds some bytes; see `Recorded`."""
        for source in self._sources:
            yield from source.lines(holding)

    def entries(self) -> Iterator[Entry]:
        """All entries of all places, each key once."""
        return recorded_entries({line.key for line in self.lines()}, self._sources)

    def close(self) -> None:
        """Close every place."""
        for source in self._sources:
            source.close()


class Bundles(Several):
    """The entries of several bundles as of one."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        """Open bundles.

        Raises:
            StoreError: One cannot be opened, or two have different replies to one request.
        """
        bundles: list[Bundle] = []
        with contextlib.ExitStack() as stack:
            for path in paths:
                bundle = stack.enter_context(closing(Bundle(path)))
                for other in bundles:
                    _check_conflict(bundle, other)
                bundles.append(bundle)
            stack.pop_all()
        super().__init__(bundles)


def _check_conflict(bundle: Bundle, other: Bundle) -> None:
    for key in bundle.keys() & other.keys():
        mine, theirs = bundle.entry(key), other.entry(key)
        if mine and theirs and not same_content(mine, theirs):
            raise StoreError(
                f"{other.path} and {bundle.path} have different replies to the request {key}; "
                "name one of them"
            )


def write_bundle(entries: Iterable[Entry], path: Path) -> int:
    """Write entries as a bundle, in the order of their keys, and return how many there are.

    The file appears whole or not at all; memory holds the keys only.

    Raises:
        StoreError: It cannot be written, or two entries have one key.
    """
    places: dict[str, _Place] = {}
    try:
        with tempfile.TemporaryFile() as unsorted:
            for entry in entries:
                if entry.key in places:
                    raise StoreError(f"{path}: two replies have the key {entry.key}")
                text = canonical_json(entry.model_dump(mode="json", by_alias=True))
                line = text.encode() + b"\n"
                places[entry.key] = _Place(unsorted.tell(), len(line))
                unsorted.write(line)
            unsorted.flush()
            with _written(path) as file:
                for _, place in sorted(places.items()):
                    file.write(os.pread(unsorted.fileno(), place.length, place.offset))
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be written: {error}") from error
    return len(places)


class MergeReport(Record):
    """What became of the entries of a bundle."""

    added: int = 0
    same: int = 0
    """The store has an entry of the same content, which stays."""
    conflicts: tuple[str, ...] = ()
    """Keys for which the store has another reply, which stays."""
    replaced: tuple[str, ...] = ()
    """Keys whose reply was replaced; the store has the old one under a number."""

    def __str__(self) -> str:
        text = f"{self.added} added, {self.same} there already"
        if self.replaced:
            text += f", {len(self.replaced)} replaced ({_listed(self.replaced)})"
        if self.conflicts:
            text += (
                f", {len(self.conflicts)} conflicts ({_listed(self.conflicts)}): the store has "
                "other replies to these requests, which stay; --replace takes the bundle's"
            )
        return text


def merge_bundle(bundle: Bundle, store: ReplyStore, *, replace: bool = False) -> MergeReport:
    """Record the entries of a bundle.

    The bundle was validated when it was opened. With `replace` its reply takes the place of another
    one in the store.
    """
    added = same = 0
    conflicts: list[str] = []
    for entry in bundle.entries():
        if store.add(entry):
            added += 1
            continue
        known = store.entry(entry.key)
        if known is not None and same_content(known, entry):
            same += 1
            continue
        conflicts.append(entry.key)
        if replace:
            store.put(entry)
    found = {"replaced" if replace else "conflicts": tuple(conflicts)}
    return MergeReport(added=added, same=same, **found)


def _listed(keys: tuple[str, ...]) -> str:
    shown = [key[:16] for key in keys[:5]]
    return ", ".join(shown) + (", …" if len(keys) > len(shown) else "")


class DamagedEntry(Record):
    """One entry that is damaged."""

    entry: str
    """Its name in a store; `line 7` in a bundle."""
    reason: str


class VerifyReport(Record):
    """What a store or a bundle holds."""

    path: Path
    counts: dict[str, int]
    """Valid entries by kind."""
    damaged: tuple[DamagedEntry, ...]

    def __str__(self) -> str:
        found = ", ".join(f"{number:,} {kind}" for kind, number in self.counts.items())
        return f"{self.path}: {found or 'empty'}; {len(self.damaged):,} damaged"


def verify_store(path: Path) -> VerifyReport:
    """Validate every entry of a store, and its database.

    Raises:
        StoreError: There is none, it is of another schema, or cannot be read.
    """
    with closing(ReplyStore(path, read_only=True)) as store:
        return _report(path, store.check_rows())


def verify_bundle(path: Path) -> VerifyReport:
    """Validate every line of a bundle.

    Raises:
        StoreError: It cannot be read.
    """
    with _opened(path) as file:
        lines = enumerate(_checked_lines(path, file), 1)
        return _report(path, ((f"line {number}", entry) for number, (_, entry) in lines))


def _report(path: Path, found: Iterable[tuple[str, Entry | str | StoreError]]) -> VerifyReport:
    counts: Counter[str] = Counter()
    damaged: list[DamagedEntry] = []
    for name, item in found:
        if isinstance(item, StoreError):
            damaged.append(DamagedEntry(entry=name, reason=str(item)))
        else:
            counts[item if isinstance(item, str) else item.kind] += 1
    return VerifyReport(path=path, counts=dict(sorted(counts.items())), damaged=tuple(damaged))


def _opened(path: Path) -> IO[bytes]:
    """Open the file of a bundle, decompressed if its name says so."""
    try:
        return _decompressed(path) if path.suffix == ".zst" else path.open("rb")
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be read: {error}") from error


def _decompressed(path: Path) -> IO[bytes]:
    """Decompress a file into a temporary one that has no name; memory stays flat."""
    import pyarrow as pa

    compressed = path.stat().st_size
    bound = min(LARGEST, max(SMALLEST_BOUND, LARGEST_RATIO * compressed))
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(tempfile.TemporaryFile())
        with pa.input_stream(str(path), compression="zstd") as pieces:
            while piece := pieces.read(_PIECE):
                if plain.tell() + len(piece) > bound:
                    raise StoreError(
                        f"{path}: {compressed:,} bytes become more than {bound:,}; if you trust "
                        "it, decompress it with zstd -d, and name the file that this makes"
                    )
                plain.write(piece)
        plain.seek(0)
        stack.pop_all()
        return plain


def _checked_lines(path: Path, file: IO[bytes]) -> Iterator[tuple[_Place, Entry | StoreError]]:
    """Every line's place, with its entry or with what is wrong with it."""
    keys: set[str] = set()
    number, offset = 0, 0
    while data := file.readline(LONGEST_LINE + 1):
        number += 1
        place = _Place(offset, len(data))
        offset += len(data)
        if len(data) > LONGEST_LINE:
            raise StoreError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes")
        try:
            entry = entry_from_json(data, f"{path}:{number}")
        except StoreError as error:
            yield place, error
            continue
        if entry.key in keys:
            yield place, StoreError(f"{path}:{number}: the key {entry.key} comes twice")
        else:
            keys.add(entry.key)
            yield place, entry


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all, compressed if its name ends in `.zst`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with unfinished.open("xb") as plain:
            if path.suffix == ".zst":
                import pyarrow as pa

                with pa.output_stream(plain, compression="zstd") as compressed:
                    yield compressed
            else:
                yield plain
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
