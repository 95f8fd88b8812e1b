"""The records of a collection, file by file, each file in its one order."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, get_args

from freshstack_dspy.collection.jsonl import canonical_line
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import (
    Candidate,
    Contamination,
    Expansion,
    Failure,
    Judgment,
    LicenceFile,
    Nugget,
    Query,
    QuerySlice,
    Record,
    SkippedFile,
    SliceName,
)

if TYPE_CHECKING:
    from freshstack_dspy.measures.groups import QueryGroups
    from freshstack_dspy.measures.qrels import NuggetQrels

SLICES: tuple[SliceName, ...] = get_args(SliceName)


class RecordFile(NamedTuple):
    """One JSON Lines file of a collection."""

    name: str
    """The file's stem, and the attribute of `Contents` that holds its records."""
    record: type[Record]
    order: tuple[str, ...]
    """The fields that order the lines, compared as text by code point."""
    once: bool = True
    """Whether these fields name at most one record; where not, the lines themselves break ties."""

    @property
    def filename(self) -> str:
        """The file's name in the folder."""
        return f"{self.name}.jsonl"

    def sort(self, records: Iterable[Record]) -> tuple[Record, ...]:
        """Put records into the order of the file, which is total."""
        given = tuple(records)
        positions = list(self.identities(given))
        if not self.once:
            positions = [
                (*ids, canonical_line(record)) for ids, record in zip(positions, given, strict=True)
            ]
        return tuple(given[row] for row in sorted(range(len(given)), key=positions.__getitem__))

    def identities(self, records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
        """Give the ids of each record, in the order of the file's sorting."""
        return zip(*(map(attrgetter(name), records) for name in self.order), strict=True)


RECORD_FILES: tuple[RecordFile, ...] = (
    RecordFile("queries", Query, ("query_id",)),
    RecordFile("nuggets", Nugget, ("query_id", "nugget_id")),
    RecordFile("expansions", Expansion, ("query_id", "kind")),
    RecordFile("pool", Candidate, ("query_id", "chunk_id")),
    RecordFile("judgments", Judgment, ("query_id", "nugget_id", "chunk_id")),
    RecordFile("single_judgments", Judgment, ("query_id", "nugget_id", "chunk_id")),
    RecordFile("contamination", Contamination, ("query_id",)),
    RecordFile("failures", Failure, ("query_id", "step", "status"), once=False),
    RecordFile("slices", QuerySlice, ("query_id",)),
    RecordFile("skipped", SkippedFile, ("source", "path"), once=False),
    RecordFile("licences", LicenceFile, ("source", "path")),
)


@dataclass(frozen=True)
class Contents:
    """The records of a collection; the chunks of its corpus are kept apart.

    However the records are handed in, each tuple is kept in the order of its file.
    No record has a default in the class: a `Collection` may read its records later.

    Attributes:
        queries: All queries, whatever slice they are in; by query_id.
        nuggets: By query_id, then nugget_id.
        expansions: By query_id, then kind.
        pool: By query_id, then chunk_id.
        judgments: By query_id, nugget_id, then chunk_id.
        single_judgments: Of the sample that was also judged one chunk at a time; as judgments.
        contamination: By query_id.
        failures: By query_id, step, status, then the whole line.
        slices: One for each query; by query_id.
        skipped: By source, path, then the whole line.
        licences: By source, then path.
        threshold: The lowest label that counts as support.
    """

    queries: tuple[Query, ...] = field(default_factory=tuple)
    nuggets: tuple[Nugget, ...] = field(default_factory=tuple)
    expansions: tuple[Expansion, ...] = field(default_factory=tuple)
    pool: tuple[Candidate, ...] = field(default_factory=tuple)
    judgments: tuple[Judgment, ...] = field(default_factory=tuple)
    single_judgments: tuple[Judgment, ...] = field(default_factory=tuple)
    contamination: tuple[Contamination, ...] = field(default_factory=tuple)
    failures: tuple[Failure, ...] = field(default_factory=tuple)
    slices: tuple[QuerySlice, ...] = field(default_factory=tuple)
    skipped: tuple[SkippedFile, ...] = field(default_factory=tuple)
    licences: tuple[LicenceFile, ...] = field(default_factory=tuple)
    threshold: int = 1

    def __post_init__(self) -> None:
        for file in RECORD_FILES:
            object.__setattr__(self, file.name, file.sort(getattr(self, file.name)))

    def queries_in(self, slices: Sequence[SliceName]) -> tuple[str, ...]:
        """List the ids of the queries in these slices that have nuggets, ascending.

        A query without nuggets cannot be evaluated, whatever slice it is in.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        if unknown := [name for name in slices if name not in SLICES]:
            raise CollectionError(f"{unknown[0]!r} is no slice; allowed: {', '.join(SLICES)}")
        with_nuggets = Counter(nugget.query_id for nugget in self.nuggets)
        return tuple(
            part.query_id
            for part in self.slices
            if part.slice in slices and part.query_id in with_nuggets
        )

    def contaminated(self, coverage: float = 0.5) -> tuple[str, ...]:
        """List the queries that a model can answer without the corpus, ascending.

        Args:
            coverage: The share of a query's nuggets that its closed-book answer supports at least.

        Raises:
            CollectionError: No closed-book answer was judged, so nothing is known of any query.
        """
        scored = [one for one in self.contamination if one.closed_book_coverage is not None]
        if not scored:
            raise CollectionError(
                "no closed-book answer of this collection was judged; build it with "
                "closed_book_answer among [pool] techniques and [contamination] score = true"
            )
        return tuple(one.query_id for one in scored if (one.closed_book_coverage or 0) >= coverage)

    def groups(
        self, by: str, *, at: str | None = None, contaminated_from: float = 0.5
    ) -> "QueryGroups":
        """Group the queries, of all slices, as by `tag`; see `query_groups`.

        Args:
            by: `tag`, `slice`, `date`, `cutoff`, `contamination`, `difficulty` or `origin`.
            at: With `date` only: the last day of the first group; None: a group for each year.
            contaminated_from: With `contamination` only: as `coverage` in `contaminated`.

        Raises:
            CollectionError: The kind is unknown, or nothing of it is known of any query.
        """
        from freshstack_dspy.collection.groups import query_groups

        return query_groups(self, by, at=at, contaminated_from=contaminated_from)

    def qrels_of(
        self, slices: Sequence[SliceName], tokens: Mapping[str, int] | None = None
    ) -> "NuggetQrels":
        """Give the judgments of the queries in these slices as the measures read them.

        Only a judgment that is `ok` is a label; any other is counted as failed. Labels are as the
        judge gave them, with the threshold of support beside them.

        Args:
            slices: Their names.
            tokens: Chunk id -> its length in tokens; None: no lengths are known.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        from freshstack_dspy.measures.qrels import NuggetQrels

        nuggets: dict[str, list[str]] = {query_id: [] for query_id in self.queries_in(slices)}
        for nugget in self.nuggets:
            if nugget.query_id in nuggets:
                nuggets[nugget.query_id].append(nugget.nugget_id)
        labels: dict[str, dict[str, int]] = defaultdict(dict)
        failed: dict[str, set[str]] = defaultdict(set)
        for judgment in self.judgments:
            if judgment.query_id not in nuggets:
                continue
            if judgment.label is not None:
                labels[judgment.nugget_id][judgment.chunk_id] = judgment.label
            else:
                failed[judgment.nugget_id].add(judgment.chunk_id)
        return NuggetQrels(
            nuggets={query_id: tuple(ids) for query_id, ids in nuggets.items()},
            labels=labels,
            failed={nugget_id: frozenset(chunks) for nugget_id, chunks in failed.items()},
            threshold=self.threshold,
            tokens={} if tokens is None else tokens,
        )
