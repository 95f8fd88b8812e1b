"""How much of everything a collection holds: counted from its records, and held against them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from freshstack_dspy.errors import FailureStatus
from freshstack_dspy.records import (
    Contamination,
    Nugget,
    Record,
    SkipKind,
    SkippedFile,
    SliceName,
    StepName,
)
from freshstack_dspy.stored.contents import CONTAMINATED, SLICES, Contents
from freshstack_dspy.stored.record_files import rows


def count_kinds(skipped: Iterable[SkippedFile]) -> dict[SkipKind, int]:
    """Count skipped files by kind, in the order of its name."""
    counts: Counter[SkipKind] = Counter(file.kind for file in skipped)
    return {kind: counts[kind] for kind in sorted(counts)}


def listed(counts: Mapping[Any, int]) -> str:
    """Say how many there are of each kind that there is, as `1,198 binary, 3 vendored`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)


_IDS_SHOWN = 10


FROM_PASSAGES = (
    "nuggets were made from passages that the pool holds, and cannot hold what retrieval never "
    "found"
)
"""Said of each collection of the recipe `nuggets`."""


def some_of(ids: Iterable[str]) -> str:
    """List ids in their order, the first ten by name."""
    ordered = sorted(ids)
    more = f" and {len(ordered) - _IDS_SHOWN} more" if len(ordered) > _IDS_SHOWN else ""
    return ", ".join(ordered[:_IDS_SHOWN]) + more


class ContaminationCounts(Record):
    """How far the queries can be known without the corpus."""

    scored: int = Field(ge=0)
    """Queries whose closed-book answer was judged."""
    nuggets: int = Field(ge=0)
    """The nuggets of these queries."""
    known: int = Field(ge=0)
    """Those of them that the closed-book answers support."""
    contaminated: int = Field(ge=0)
    """Queries of which at least half the nuggets are known."""
    before_cutoff: int = Field(ge=0)
    """Queries asked up to the model's cut-off."""
    after_cutoff: int = Field(ge=0)
    overlapping: int = Field(ge=0)
    """Queries with an n-gram that a supporting chunk holds too."""
    near_duplicates: int = Field(ge=0)
    """Queries that another asks nearly the same as."""


class Counts(Record):
    """How much of everything a collection holds."""

    queries: int = Field(ge=0)
    nuggets: int = Field(ge=0)
    expansions: int = Field(ge=0)
    pool: int = Field(ge=0)
    judgments: int = Field(ge=0)
    supported: int = Field(ge=0)
    """Judgments whose label is that of support."""
    evidence: int = Field(ge=0)
    """Those of them that say where in the file their evidence is."""
    unlabelled: int = Field(ge=0)
    """Judgments that failed, and have no label."""
    shared: int = Field(default=0, ge=0)
    """Judgments of a chunk that says the same as another, which was judged in its place."""
    failures: dict[StepName, dict[FailureStatus, int]]
    """By step, then by status."""
    chunks: int = Field(ge=0)
    skipped: dict[SkipKind, int]
    """Files that were not indexed, by kind."""
    licences: int = Field(ge=0)
    slices: dict[SliceName, int]
    """Queries by slice, each slice named."""
    synthetic: int = Field(ge=0)
    """Queries that a model made."""
    contamination: ContaminationCounts
    rejected: dict[str, int]
    """Questions of the source that did not become queries, by reason."""

    @property
    def missing_evidence(self) -> str:
        """How many labels of support name no place in the file, as a sentence without its end."""
        lacking = self.supported - self.evidence
        if not lacking:
            return f"all {self.supported:,} labels of support have an evidence span"
        return f"{lacking:,} of {self.supported:,} labels of support have no evidence span"


def missing_of(contents: Contents) -> str:
    """Say what failed and may be asked again: pairs without a label, and steps that failed."""
    unlabelled = sum(label is None for (label,) in rows(contents.judgments, "label"))
    # A reply came, and a passage in it says what its document does not: that is final.
    failed = sum(
        one.step != "passages" or one.status != "failed" or one.call_id is None
        for one in contents.failures
    )
    parts = ((unlabelled, "pairs without a label:"), (failed, "failures:"))
    return ", ".join(f"{what} {number:,}" for number, what in parts if number)


def count(contents: Contents, chunks: int, rejected: Mapping[str, int]) -> Counts:
    """Count what a collection holds, given its number of chunks and the questions left out."""
    failures: dict[StepName, dict[FailureStatus, int]] = {}
    for failure in contents.failures:
        by_status = failures.setdefault(failure.step, {})
        by_status[failure.status] = by_status.get(failure.status, 0) + 1
    slices = Counter(part.slice for part in contents.slices)
    unlabelled = shared = supported = evidence = 0
    for label, same_as, spans in rows(contents.judgments, "label", "same_as", "evidence"):
        supports = label is not None and label >= contents.threshold
        unlabelled += label is None
        shared += same_as is not None
        supported += supports
        evidence += supports and bool(spans)
    return Counts(
        queries=len(contents.queries),
        nuggets=len(contents.nuggets),
        expansions=len(contents.expansions),
        pool=len(contents.pool),
        judgments=len(contents.judgments),
        unlabelled=unlabelled,
        shared=shared,
        supported=supported,
        evidence=evidence,
        failures=failures,
        chunks=chunks,
        skipped=count_kinds(contents.skipped),
        licences=len(contents.licences),
        slices={name: slices[name] for name in SLICES},
        synthetic=sum(query.origin == "synthetic" for query in contents.queries),
        contamination=_count_contamination(contents.contamination, contents.nuggets),
        rejected=dict(rejected),
    )


def _count_contamination(
    records: Sequence[Contamination], nuggets: Sequence[Nugget]
) -> ContaminationCounts:
    scored = {one.query_id for one in records if one.closed_book_coverage is not None}
    asked = Counter(one.asked for one in records)
    return ContaminationCounts(
        scored=len(scored),
        nuggets=sum(one.query_id in scored and not one.doubtful for one in nuggets),
        known=sum(len(one.known_nuggets or ()) for one in records),
        contaminated=sum((one.closed_book_coverage or 0) >= CONTAMINATED for one in records),
        before_cutoff=asked["before_cutoff"],
        after_cutoff=asked["after_cutoff"],
        overlapping=sum(bool(one.gold_overlap) for one in records),
        near_duplicates=sum(bool(one.near_duplicates) for one in records),
    )
