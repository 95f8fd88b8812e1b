"""The records of a collection, file by file, each file in its one order."""

from collections import defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import canonical_line
from freshstack_dspy.records import (
    SCALES,
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
    Scale,
    SkippedFile,
    SliceName,
    Vote,
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
        """List the ids of the queries in these slices that have nuggets, ascending."""
        with_nuggets = {nugget.query_id for nugget in self.nuggets}
        return tuple(
            part.query_id
            for part in self.slices
            if part.slice in slices and part.query_id in with_nuggets
        )

    def supported_nuggets(self) -> frozenset[str]:
        """The ids of the nuggets that a chunk supports."""
        return frozenset(
            one.nugget_id
            for one in self.judgments
            if one.label is not None and one.label >= self.threshold
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
        from freshstack_dspy.collection.slices import query_groups

        return query_groups(self, by, at=at, contaminated_from=contaminated_from)

    def qrels_of(
        self, slices: Sequence[SliceName], tokens: Mapping[str, int] | None = None
    ) -> "NuggetQrels":
        """Give the judgments of the queries in these slices as the measures read them.

        A query with a supported nugget is measured on its supported nuggets alone, any other on
        all its nuggets. Only a judgment that is `ok` is a label; any other is counted as failed.

        Args:
            slices: Their names.
            tokens: Chunk id -> its length in tokens; None: no lengths are known.
        """
        from freshstack_dspy.measures.qrels import NuggetQrels

        supported = self.supported_nuggets()
        some = {one.query_id for one in self.nuggets if one.nugget_id in supported}
        nuggets: dict[str, list[str]] = {query_id: [] for query_id in self.queries_in(slices)}
        for nugget in self.nuggets:
            measured = nugget.nugget_id in supported or nugget.query_id not in some
            if nugget.query_id in nuggets and measured:
                nuggets[nugget.query_id].append(nugget.nugget_id)
        measured_nuggets = {nugget_id for ids in nuggets.values() for nugget_id in ids}
        labels: dict[str, dict[str, int]] = defaultdict(dict)
        failed: dict[str, set[str]] = defaultdict(set)
        for judgment in self.judgments:
            if judgment.nugget_id not in measured_nuggets:
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


def nuggets_by_query(nuggets: Iterable[Nugget]) -> dict[str, list[Nugget]]:
    """Give the nuggets of every query that has some, in the order in which they were made.

    The ids of a query's nuggets differ in a number at their ends: the shorter was given first.
    """
    groups: dict[str, list[Nugget]] = {}
    for nugget in sorted(nuggets, key=lambda one: (len(one.nugget_id), one.nugget_id)):
        groups.setdefault(nugget.query_id, []).append(nugget)
    return groups


class _References(NamedTuple):
    file: str
    kind: str
    """What the ids should name."""
    ids: Iterable[str]


def check_references(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> None:
    """Check that ids are unique, none dangles, every query has its slice, and labels their scale.

    Raises:
        CollectionError: In one line, naming the file and the first id at fault.
    """
    for fault in reference_faults(contents, chunk_ids, scale):
        raise CollectionError(fault)


def reference_faults(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> Iterator[str]:
    """Say everything that is wrong with the ids and labels, one line for each id at fault.

    Args:
        contents: The records.
        chunk_ids: Those of the corpus.
        scale: What the labels mean.
    """
    yield from _twice(contents)
    known: dict[str, Ids[str]] = {
        "query": {query.query_id for query in contents.queries},
        "nugget": {nugget.nugget_id for nugget in contents.nuggets},
        "chunk": chunk_ids,
    }
    for references in _references(contents):
        there = known[references.kind]
        # Most ids stand many times; in their order all the same, so that the first is named.
        dangling = (id_ for id_ in dict.fromkeys(references.ids) if id_ not in there)
        for id_ in dangling:
            yield (
                f"{references.file}.jsonl names {references.kind} {id_!r}, "
                f"and the collection has no such {references.kind}"
            )
    for file in ("judgments", "single_judgments"):
        yield from _foreign(file, contents)
        yield from _off_scale(file, contents, scale)
    if missing := sorted(set(known["query"]) - {part.query_id for part in contents.slices}):
        yield (
            f"slices.jsonl: query {missing[0]!r} is in no slice ({len(missing)} such); "
            "every query belongs to one"
        )


def _twice(contents: Contents) -> Iterator[str]:
    for file in RECORD_FILES:
        if file.once:
            yield from _each_twice(file.filename, file.identities(getattr(contents, file.name)))
    ids = ((nugget.nugget_id,) for nugget in contents.nuggets)
    yield from _each_twice("nuggets.jsonl", ids)


def _each_twice(filename: str, identities: Iterable[tuple[str, ...]]) -> Iterator[str]:
    seen = set()
    for identity in identities:
        if identity in seen:
            named = ", ".join(map(repr, identity))
            yield f"{filename}: {named} stands twice; keep one"
        seen.add(identity)


def _references(contents: Contents) -> Iterator[_References]:
    for file in RECORD_FILES:
        if "query_id" in file.record.model_fields and file.name != "queries":
            records = getattr(contents, file.name)
            yield _References(file.name, "query", (record.query_id for record in records))
    pool, failures = contents.pool, contents.failures
    yield _References("pool", "chunk", (candidate.chunk_id for candidate in pool))
    for name in ("judgments", "single_judgments"):
        judgments: tuple[Judgment, ...] = getattr(contents, name)
        yield _References(name, "nugget", (judgment.nugget_id for judgment in judgments))
        yield _References(name, "chunk", (judgment.chunk_id for judgment in judgments))
    chunks = (chunk_id for failure in failures for chunk_id in failure.chunk_ids)
    yield _References("failures", "chunk", chunks)
    seeds = (chunk_id for query in contents.queries for chunk_id in query.seed_chunk_ids)
    yield _References("queries", "chunk", seeds)
    originals = (nugget.duplicate_of for nugget in contents.nuggets)
    yield _References("nuggets", "nugget", filter(None, originals))
    lacking = (nugget_id for part in contents.slices for nugget_id in part.unsupported_nuggets)
    yield _References("slices", "nugget", lacking)
    known = (nugget_id for one in contents.contamination for nugget_id in one.known_nuggets or ())
    yield _References("contamination", "nugget", known)
    alike = (query_id for one in contents.contamination for query_id in one.near_duplicates)
    yield _References("contamination", "query", alike)


def _foreign(file: str, contents: Contents) -> Iterator[str]:
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    judgments: tuple[Judgment, ...] = getattr(contents, file)
    for judgment in judgments:
        owner = owners.get(judgment.nugget_id)
        if owner is not None and owner != judgment.query_id:
            yield (
                f"{file}.jsonl gives nugget {judgment.nugget_id!r} to query "
                f"{judgment.query_id!r}, but it belongs to query {owner!r}"
            )


def _off_scale(file: str, contents: Contents, scale: Scale) -> Iterator[str]:
    highest = SCALES[scale.name].highest
    judgments: tuple[Judgment, ...] = getattr(contents, file)
    for judgment in judgments:
        said: tuple[Judgment | Vote, ...] = (judgment, *judgment.votes)
        if any(one.label is not None and one.label > highest for one in said):
            yield (
                f"{file}.jsonl labels nugget {judgment.nugget_id!r} and chunk "
                f"{judgment.chunk_id!r} above {highest}, the highest of scale {scale.name}"
            )
