"""Bundles: recorded entries as JSON Lines sorted by key, for git and colleagues.

A bundle may come from anyone. Opening it validates every line: the entry against the key of its
request, and the line against the checksum at its end, which bundles from before 0.3 lack. After
that, only the places of the lines are in memory, and an entry is read when it is asked for.
A bundle whose name ends in `.zst` is compressed.
"""

import contextlib
import hashlib
import itertools
import os
import re
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView
from contextlib import closing
from pathlib import Path
from typing import IO

from freshstack_dspy.errors import DamagedReplyError, StoreError, argument
from freshstack_dspy.files import LONGEST_LINE, check_keys_differ, replace_file
from freshstack_dspy.lm.reply import Entry, entry_json, entry_of_others, same_content
from freshstack_dspy.lm.store import FirstOf, Recorded, ReplyStore
from freshstack_dspy.records import Record

LARGEST = 8 * 2**30
"""Bytes after decompression; a million replies of 8 KB."""
LARGEST_RATIO = 200
"""Replies shrink to a tenth, where all have the same long prompt to a fiftieth."""
SMALLEST_BOUND = 64 * 2**20
"""Bytes that are decompressed at any ratio."""
_PIECE = 2**20
_CHECKSUM = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\n?\Z')


class Bundle(Recorded):
    """The entries of one bundle, by key; shared by threads."""

    def __init__(self, path: Path) -> None:
        """Open a bundle and validate every line; the first fault is a StoreError."""
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        """The length of every line, and where it begins."""
        file = _opened(path)
        self._file = file.fileno()
        self._close = weakref.finalize(self, file.close)
        for place, _, entry in _checked_lines(path, file):
            if isinstance(entry, StoreError):
                raise entry
            self._places[entry.key] = place

    def keys(self) -> KeysView[str]:
        """The keys of all entries, in the order of the file."""
        return self._places.keys()

    def read(self, key: str) -> bytes | None:
        """The JSON of the entry recorded for a key, or None."""
        place = self._places.get(key)
        return None if place is None else self._read(place)

    def lines(self, holding: bytes = b"") -> Iterator[tuple[str, bytes]]:
        """Key and JSON of the entries that hold some bytes; see `Recorded`."""
        for key, place in self._places.items():
            data = self._read(place)
            if holding in data:
                yield key, data

    def _read(self, place: tuple[int, int]) -> bytes:
        return _without_checksum(os.pread(self._file, *place), str(self.path))

    def close(self) -> None:
        """Close the file."""
        self._close()


class Bundles(FirstOf):
    """Several bundles as one."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        """Open bundles; two with different replies to one request are a StoreError."""
        bundles = [Bundle(path) for path in paths]
        super().__init__(*bundles)
        for bundle, other in itertools.combinations(bundles, 2):
            for key in bundle.keys() & other.keys():
                mine, theirs = bundle.entry(key), other.entry(key)
                if mine and theirs and not same_content(mine, theirs):
                    raise StoreError(
                        f"{bundle.path} and {other.path} have different replies to the request {key}; "
                        "name one of them"
                    )


def write_bundle(keys: Iterable[str], recorded: Recorded, path: Path) -> int:
    """Write what is recorded for these keys, in their order; return how many entries there are.

    The file appears whole or not at all.
    """
    import pyarrow as pa

    written = 0
    compression = "zstd" if path.suffix == ".zst" else None
    try:
        with (
            replace_file(path) as partial,
            pa.output_stream(str(partial), compression=compression) as file,
        ):
            for key in sorted(set(keys)):
                if (entry := recorded.entry(key)) is not None:
                    file.write(_with_checksum(entry_json(entry).encode()))
                    written += 1
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be written: {error}") from error
    return written


class MergeReport(Record):
    """The outcome of merging a bundle."""

    added: int = 0
    same: int = 0
    """The store has an entry of the same content, which stays."""
    conflicts: tuple[str, ...] = ()
    """Keys for which the store has another reply, which stays."""
    replaced: tuple[str, ...] = ()
    """Keys whose reply was replaced; the store has the old one under a number."""

    def __str__(self) -> str:
        text = f"{self.added} added, {self.same} there already"
        for name in ("conflicts", "replaced"):
            if keys := getattr(self, name):
                listed = ", ".join(key[:16] for key in keys[:5])
                text += f", {len(keys)} {name} ({listed}{', …' if len(keys) > 5 else ''})"
        if self.conflicts:
            text += (
                ": the store has other replies to these requests, which stay; "
                f"{argument('replace')} takes the bundle's"
            )
        return text


def merge_bundle(bundle: Bundle, store: ReplyStore, *, replace: bool = False) -> MergeReport:
    """Record the entries of a bundle, with `replace` also where the store has another reply."""
    added = same = 0
    others: list[str] = []
    for entry in bundle.entries():
        if store.add(entry):
            added += 1
        elif (existing := store.entry(entry.key)) is not None and same_content(existing, entry):
            same += 1
        else:
            others.append(entry.key)
            if replace:
                store.put(entry)
    conflicts = {"replaced" if replace else "conflicts": tuple(others)}
    return MergeReport(added=added, same=same, **conflicts)


class VerifyReport(Record):
    """What a store or a bundle holds."""

    path: Path
    counts: dict[str, int]
    """Valid entries by kind."""
    damaged: dict[str, str]
    """What is wrong with an entry, by its name in a store, or by `line 7` in a bundle."""
    without_checksum: int = 0
    """Lines of a bundle without a checksum, where a changed character goes unnoticed."""

    def __str__(self) -> str:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in self.counts.items())
        text = f"{self.path}: {counts or 'empty'}; {len(self.damaged):,} damaged"
        if self.without_checksum:
            text += (
                f"; {self.without_checksum:,} without a checksum, as bundles of before 0.3 are: "
                "freshstack replies export adds them"
            )
        return text


def verify(path: Path) -> VerifyReport:
    """Validate every entry of a store, which is a folder, and its database; or of a bundle."""
    counts: Counter[str] = Counter()
    damaged: dict[str, str] = {}
    unsigned = 0
    if path.is_dir():
        with closing(ReplyStore(path, read_only=True)) as store:
            for name, kind in store.check_rows():
                if isinstance(kind, StoreError):
                    damaged[name] = str(kind)
                else:
                    counts[kind] += 1
    else:
        with _opened(path) as file:
            for number, (_, signed, entry) in enumerate(_checked_lines(path, file), 1):
                if isinstance(entry, StoreError):
                    damaged[f"line {number}"] = str(entry)
                else:
                    counts[entry.kind] += 1
                    unsigned += not signed
    return VerifyReport(
        path=path, counts=dict(sorted(counts.items())), damaged=damaged, without_checksum=unsigned
    )


def _with_checksum(data: bytes) -> bytes:
    """Make the line of an entry: its JSON, with the SHA-256 of that as its last key."""
    return b'%b,"sha256":"%b"}\n' % (data[:-1], hashlib.sha256(data).hexdigest().encode())


def _without_checksum(line: bytes, where: str) -> bytes:
    """Give the JSON of the entry in a line, which must fit its checksum, if it has one."""
    if (checksum := _CHECKSUM.search(line)) is None:
        return line
    data = line[: checksum.start()] + b"}"
    if hashlib.sha256(data).hexdigest().encode() != checksum[1]:
        raise DamagedReplyError(f"{where}: damaged: it does not fit its checksum")
    return data


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


def _checked_lines(
    path: Path, file: IO[bytes]
) -> Iterator[tuple[tuple[int, int], bool, Entry | StoreError]]:
    """Every line's place, whether it has a checksum, and its entry or what is wrong with it."""
    keys: set[str] = set()
    number, offset = 0, 0
    while data := file.readline(LONGEST_LINE + 1):
        number += 1
        where, place = f"{path}:{number}", (len(data), offset)
        offset += len(data)
        if len(data) > LONGEST_LINE:
            raise StoreError(f"{where}: a line of more than {LONGEST_LINE:,} bytes")
        signed = _CHECKSUM.search(data) is not None
        entry: Entry | StoreError
        try:
            data = _without_checksum(data, where)
            entry = entry_of_others(data, where)
            check_keys_differ(data)
            if entry.key in keys:
                entry = StoreError(f"{where}: the key {entry.key} comes twice")
            else:
                keys.add(entry.key)
        except StoreError as error:
            entry = error
        except ValueError as error:
            entry = StoreError(f"{where}: {error}")
        yield place, signed, entry
