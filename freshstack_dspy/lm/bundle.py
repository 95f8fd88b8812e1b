"""Bundles: recorded replies and figures as JSON Lines sorted by key, for git and colleagues.

A bundle is read once when it is opened, every line validated; after that only the places of its
lines are in memory, and a reply is read when it is asked for. A bundle whose name ends in `.zst`
is compressed.
"""

import functools
import os
import re
import secrets
import stat
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple, get_args

from pydantic_core import from_json

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.reply import Figures, Reply
from freshstack_dspy.lm.request import MOST_STRUCTURE, canonical_json, is_dense, sha256_of
from freshstack_dspy.lm.store import (
    FORMAT_ENTRY,
    Entry,
    Line,
    ReadOnlyStore,
    Recorded,
    ReplyStore,
    entry_from_json,
    recorded_reply,
    says_the_same,
    unsealed,
)
from freshstack_dspy.records import Record

SUFFIX = ".zst"
LARGEST = 8 * 2**30
"""Bytes after decompression; a million replies of 8 KB."""
LARGEST_RATIO = 200
"""Replies shrink to a tenth, where all have the same long prompt to a fiftieth."""
SMALLEST_BOUND = 64 * 2**20
"""Bytes that are decompressed whatever the ratio."""
_PIECE = 2**20


@contextmanager
def decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Decompress a file into a temporary one that has no name; memory stays flat.

    Raises:
        OSError: It cannot be read, is damaged or cut off.
        StoreError: It grows beyond the bounds.
    """
    import pyarrow as pa

    compressed = path.stat().st_size
    bound = min(LARGEST, max(SMALLEST_BOUND, LARGEST_RATIO * compressed))
    with tempfile.TemporaryFile() as plain:
        with pa.input_stream(str(path), compression="zstd") as pieces:
            while piece := pieces.read(_PIECE):
                _check_bomb(path, compressed, bound, plain.tell() + len(piece))
                plain.write(piece)
        plain.seek(0)
        yield plain


def _check_bomb(path: Path, compressed: int, bound: int, grown: int) -> None:
    if grown > bound:
        raise StoreError(
            f"{path}: {compressed:,} bytes become more than {bound:,}; if you trust it, decompress "
            "it with zstd -d, and name the file that this makes"
        )


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all, compressed if its name ends in `.zst`.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with unfinished.open("xb") as plain:
            if path.suffix == SUFFIX:
                import pyarrow as pa

                with pa.output_stream(plain, compression="zstd") as compressed:
                    yield compressed
            else:
                yield plain
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


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
                self._check_conflicts(self._bundles[-1], self._bundles[:-1])
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
    def _check_conflicts(bundle: Bundle, others: Sequence[Bundle]) -> None:
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


_LISTED = 5
_SHOWN = 16


class MergeReport(Record):
    """What became of the replies of a bundle."""

    added: int = 0
    same: int = 0
    """The store has a reply that says the same (see `says_the_same`), which stays."""
    repaired: int = 0
    """The store's entry was damaged; the bundle's reply is in its place."""
    conflicts: tuple[str, ...] = ()
    """Keys for which the store has another reply, which stays."""
    replaced: tuple[str, ...] = ()
    """Keys whose reply was replaced; the store keeps the old one under a number."""

    def __str__(self) -> str:
        parts = [f"{self.added} added", f"{self.same} there already"]
        if self.repaired:
            parts.append(f"{self.repaired} damaged ones repaired")
        if self.replaced:
            parts.append(f"{len(self.replaced)} replaced ({_listed(self.replaced)})")
        if self.conflicts:
            parts.append(
                f"{len(self.conflicts)} conflicts ({_listed(self.conflicts)}): the store has other "
                "replies to these requests and keeps them; --replace takes the bundle's"
            )
        return ", ".join(parts)


def merge_bundle(bundle: Bundle, store: ReplyStore, *, replace: bool = False) -> MergeReport:
    """Record the replies and figures of a bundle.

    Args:
        bundle: Validated when it was opened, so that nothing is recorded of a damaged one.
        store: Where to.
        replace: Whether the bundle's reply takes the place of another one in the store.

    Raises:
        StoreError: The store cannot be written.
    """
    counts = {"added": 0, "same": 0, "repaired": 0}
    conflicts: list[str] = []
    for reply in bundle.entries():
        if store.add(reply):
            counts["added"] += 1
            continue
        known = _trusted(store, reply)
        if known is None:
            store.put_entry(reply)
            counts["repaired"] += 1
        elif says_the_same(known, reply):
            counts["same"] += 1
        else:
            conflicts.append(reply.key)
            if replace:
                store.put_entry(reply)
    taken, kept = (tuple(conflicts), ()) if replace else ((), tuple(conflicts))
    return MergeReport(**counts, conflicts=kept, replaced=taken)


def _trusted(store: ReplyStore, entry: Entry) -> Entry | None:
    try:
        if isinstance(entry, Reply):
            return store.get(entry.key)
        return store.figures(entry.key)
    except DamagedReplyError:
        return None


def _listed(keys: tuple[str, ...]) -> str:
    shown = [key[:_SHOWN] for key in keys[:_LISTED]]
    return ", ".join(shown) + (", …" if len(keys) > _LISTED else "")


_TWO_REPLIES = "two replies in one run"


class UsedReplies:
    """The replies that a run was given, each hashed when it was used; shared by threads."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def enter(self, reply: Reply) -> None:
        """Enter a reply that is given out."""
        now = said(reply)
        if self._said.setdefault(reply.key, now) != now:
            # Asked again in one run: no single reply stands for all that was made from this key.
            self._said[reply.key] = _TWO_REPLIES

    def by_key(self) -> dict[str, str]:
        """The hash of what each reply said, by key, in the order of the keys."""
        return dict(sorted(self._said.copy().items()))


def said(reply: Reply) -> str:
    """SHA-256 of all in a reply that can change what is made of it; the request is in its key."""
    return _hashed(reply.finish_reason, reply.text)


def recorded_says(
    key: str, store: ReadOnlyStore | None, recorded: Mapping[str, Reply]
) -> str | None:
    """What the reply of a key says, as the client would find it, or None where there is none.

    Of an entry in the store the seal is checked, and no more: it need not be believed, for only
    what says the same as a reply that was once believed counts.

    Raises:
        StoreError: The reply cannot be read, or its entry in the store is damaged.
    """
    entry = store.text(f"reply:{key}") if store is not None else None
    if entry is None:
        reply = recorded.get(key)
        return None if reply is None else said(reply)
    try:
        told = from_json(unsealed(entry))
        return _hashed(told["finish_reason"], told["text"])
    except (ValueError, KeyError, TypeError):
        raise DamagedReplyError(f"the entry {key} is not a recorded reply") from None


def replies_of(
    keys: Iterable[str], store: ReadOnlyStore | None, recorded: Recorded
) -> Iterator[Reply]:
    """The recorded replies of these keys, in the order of the keys.

    Raises:
        StoreError: One cannot be read or trusted.
    """
    for key in sorted(keys):
        reply = recorded_reply(key, store, recorded)
        if reply is not None:
            yield reply


def fingerprint_replies(
    keys: Iterable[str], store: ReadOnlyStore | None, recorded: Mapping[str, Reply]
) -> str | None:
    """The fingerprint of the recorded replies of these keys, or None where one is missing.

    Raises:
        StoreError: A reply cannot be read, or its entry in the store is damaged.
    """
    by_key: dict[str, str] = {}
    for key in keys:
        says = recorded_says(key, store, recorded)
        if says is None:
            return None
        by_key[key] = says
    return fingerprint_said(by_key)


def fingerprint_said(by_key: Mapping[str, str]) -> str:
    """The fingerprint of replies, from what each says by key."""
    return sha256_of(dict(by_key))


def _hashed(finish_reason: str, text: str) -> str:
    return sha256_of([finish_reason, text])


Kind = Literal["replies", "figures", "replaced", "set_aside", "deferred", "accounts", "unknown"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
_LISTED_verify = 100
_KEY = re.compile(r"[0-9a-f]{64}")
_REPLACED = re.compile(r"([0-9a-f]{64}):([1-9][0-9]{0,8})")


class DamagedEntry(Record):
    """One entry that cannot be trusted."""

    entry: str
    """Its name in a store; `line 7` in a bundle."""
    reason: str


class VerifyReport(Record):
    """What a store or a bundle holds."""

    path: Path
    counts: dict[Kind, int]
    """Entries by kind, damaged ones too."""
    damaged: int
    listed: tuple[DamagedEntry, ...]
    """The damaged ones, the first hundred."""

    def __str__(self) -> str:
        found = ", ".join(
            f"{number:,} {kind.replace('_', ' ')}" for kind, number in self.counts.items() if number
        )
        return f"{self.path}: {found or 'empty'}; {self.damaged:,} damaged"


class _Findings:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: Counter[Kind] = Counter()
        self._damaged = 0
        self._listed: list[DamagedEntry] = []

    def check(self, kind: Kind, entry: str, validate: Callable[[], object]) -> None:
        """Count an entry, and whether its validation fails."""
        self._counts[kind] += 1
        try:
            validate()
        except StoreError as error:
            self.fault(entry, str(error))

    def fault(self, entry: str, reason: str) -> None:
        """Enter something that is damaged."""
        self._damaged += 1
        if len(self._listed) < _LISTED_verify:
            self._listed.append(DamagedEntry(entry=entry, reason=reason))

    def report(self) -> VerifyReport:
        """All that was found."""
        return VerifyReport(
            path=self._path,
            counts={kind: self._counts[kind] for kind in _KINDS},
            damaged=self._damaged,
            listed=tuple(self._listed),
        )


def verify_store(path: Path) -> VerifyReport:
    """Validate every entry of a store, and its database.

    Raises:
        StoreError: It is no store of ours, of another schema version, or cannot be read.
    """
    findings = _Findings(path)
    with closing(ReadOnlyStore(path)) as store:
        try:
            for fault in store.faults():
                findings.fault("database", fault)
            for name in store.names(""):
                if name != FORMAT_ENTRY:
                    kind, validate = _kind_of(store, name)
                    findings.check(kind, name, validate)
        except StoreError as error:
            findings.fault("database", str(error))
    return findings.report()


def verify_bundle(path: Path) -> VerifyReport:
    """Validate every line of a bundle.

    Raises:
        StoreError: It cannot be read.
    """
    findings = _Findings(path)
    keys: set[str] = set()
    with opened_bundle(path) as file:
        for line in numbered_lines(path, file):
            found = _entry(path, line, keys)
            kind: Kind = "figures" if isinstance(found, Figures) else "replies"
            findings.check(kind, f"line {line.number}", functools.partial(_check_faulty, found))
    return findings.report()


def _entry(path: Path, line: NumberedLine, keys: set[str]) -> Entry | StoreError:
    """What a line holds, or what is wrong with it."""
    try:
        entry = entry_of_line(path, line)
    except StoreError as error:
        return error
    if entry.key in keys:
        return StoreError(f"{path}:{line.number}: the key {entry.key} comes twice")
    keys.add(entry.key)
    return entry


def _check_faulty(found: Entry | StoreError) -> None:
    if isinstance(found, StoreError):
        raise found


def _kind_of(store: ReadOnlyStore, name: str) -> tuple[Kind, Callable[[], object]]:
    """What an entry is by its name, and what validates it."""
    prefix, _, rest = name.partition(":")
    of_a_key: dict[str, tuple[Kind, Callable[[str], object]]] = {
        "reply": ("replies", store.get),
        "figures": ("figures", store.figures),
        "ask": ("deferred", store.asked),
    }
    of_a_number: dict[str, tuple[Kind, Callable[[str, int], object]]] = {
        "reply": ("replaced", store.replaced),
        "figures": ("replaced", store.replaced_figures),
        "damaged": ("set_aside", lambda _key, _number: None),
    }
    if prefix in of_a_key and _KEY.fullmatch(rest):
        kind, validate = of_a_key[prefix]
        return kind, functools.partial(validate, rest)
    if prefix in of_a_number and (found := _REPLACED.fullmatch(rest)):
        kind, validate_one = of_a_number[prefix]
        return kind, functools.partial(validate_one, found[1], int(found[2]))
    if prefix == "spent":
        return "accounts", functools.partial(store.spent, rest)
    return "unknown", functools.partial(_check_unknown, name)


def _check_unknown(name: str) -> None:
    raise DamagedReplyError(f"{name!r} is no entry of a replies store")
