"""Going through a store or a bundle, and telling what in it cannot be trusted."""

import functools
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, get_args

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.replies.bundle import (
    NumberedLine,
    entry_of_line,
    numbered_lines,
    opened_bundle,
)
from freshstack_dspy.lm.replies.entries import Entry
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.store_format import FORMAT_ENTRY
from freshstack_dspy.records import Record

Kind = Literal["replies", "figures", "replaced", "set_aside", "deferred", "accounts", "unknown"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
_LISTED = 100
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
        if len(self._listed) < _LISTED:
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
            findings.check(kind, f"line {line.number}", functools.partial(_refuse_faulty, found))
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


def _refuse_faulty(found: Entry | StoreError) -> None:
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
    return "unknown", functools.partial(_refuse_unknown, name)


def _refuse_unknown(name: str) -> None:
    raise DamagedReplyError(f"{name!r} is no entry of a replies store")
