"""What a validation finds: faults, warnings, and how much of everything there is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from freshstack_dspy.collection.imports.rows import shown


class Finding(NamedTuple):
    """One thing that is wrong, or that may be."""

    place: str
    """The file, with the line where there is one."""
    message: str
    is_fault: bool
    """Whether it makes the data wrong; a warning does not."""


@dataclass(frozen=True)
class Report:
    """What was validated, and what was found.

    Attributes:
        format: `collection`, or the layout of an export.
        findings: Faults first, each kind in the order in which it was found.
        counts: How many records of each kind were read.
    """

    format: str
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What is wrong."""
        return tuple(finding for finding in self.findings if finding.is_fault)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may be wrong."""
        return tuple(finding for finding in self.findings if not finding.is_fault)


@dataclass
class Findings:
    """Takes what is found while data are read."""

    found: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def fault(self, place: str, message: str) -> None:
        """Take a fault."""
        self.found.append(Finding(place, message, is_fault=True))

    def warn(self, place: str, message: str) -> None:
        """Take a warning."""
        self.found.append(Finding(place, message, is_fault=False))

    def warn_of(self, place: str, what: str, ids: Iterable[str]) -> None:
        """Warn once of many ids, naming the first."""
        if named := sorted(ids):
            self.warn(place, f"{len(named)} {what}, as {shown(named[0])}")

    def report(self, format_: str) -> Report:
        """Give everything that was found."""
        ordered = sorted(self.found, key=lambda finding: not finding.is_fault)
        return Report(format_, tuple(ordered), dict(self.counts))
