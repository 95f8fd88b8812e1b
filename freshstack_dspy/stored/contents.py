"""The records of a collection, in the order of their files, and what the measures take of them."""

from collections import Counter, defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import (
    SCALES,
    Candidate,
    Chunk,
    Contamination,
    Expansion,
    Failure,
    Judgment,
    LicenceFile,
    Note,
    Nugget,
    Query,
    QuerySlice,
    Scale,
    SkippedFile,
    SliceName,
)
from freshstack_dspy.stored.record_files import RECORD_FILES, rows

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import NuggetQrels

SLICES: tuple[SliceName, ...] = get_args(SliceName)
CONTAMINATED = 0.5
"""From which closed-book coverage on a query counts as contaminated by default."""
NuggetsName = Literal["supported", "all"]
"""On which of its nuggets a query is measured: those that the corpus supports, or all."""
Labels = dict[str, dict[str, int | None]]
"""Nugget id -> chunk id -> label, None where the judgment failed."""


@dataclass(frozen=True, repr=False)
class Contents:
    """The records of a collection, each kind in the order of its file; the chunks are apart.

    Those of a folder are read as they are asked for.

    Attributes:
        queries: Of all slices.
        slices: One for each query.
        threshold: The lowest label that counts as support.
        passages: Chunks that a step wrote, next to those of the corpus.
    """

    queries: tuple[Query, ...] = field(default_factory=tuple)
    nuggets: tuple[Nugget, ...] = field(default_factory=tuple)
    expansions: tuple[Expansion, ...] = field(default_factory=tuple)
    pool: Sequence[Candidate] = field(default_factory=tuple)
    judgments: Sequence[Judgment] = field(default_factory=tuple)
    contamination: tuple[Contamination, ...] = field(default_factory=tuple)
    failures: tuple[Failure, ...] = field(default_factory=tuple)
    slices: tuple[QuerySlice, ...] = field(default_factory=tuple)
    skipped: tuple[SkippedFile, ...] = field(default_factory=tuple)
    licences: tuple[LicenceFile, ...] = field(default_factory=tuple)
    notes: tuple[Note, ...] = field(default_factory=tuple)
    threshold: int = field(default=1)
    passages: tuple[Chunk, ...] = ()

    def __post_init__(self) -> None:
        for file in RECORD_FILES:
            object.__setattr__(self, file.name, file.sort(getattr(self, file.name)))

    def records(self) -> dict[str, Any]:
        """Give the records by the name of their file."""
        return {file.name: getattr(self, file.name) for file in RECORD_FILES}

    def queries_in(self, slices: Sequence[SliceName]) -> tuple[str, ...]:
        """List the ids of the queries in these slices that have nuggets, ascending."""
        return tuple(part.query_id for part in self.slices if part.slice in slices and part.nuggets)

    def supports(self, judgment: Judgment) -> bool:
        """Tell whether a judgment says that the chunk supports the nugget."""
        return judgment.label is not None and judgment.label >= self.threshold

    def labels_of_nuggets(self) -> Labels:
        """Give the label of every judgment."""
        labels: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
        for nugget_id, chunk_id, label in rows(self.judgments, "nugget_id", "chunk_id", "label"):
            labels[nugget_id][chunk_id] = label
        return dict(labels)

    def supported_nuggets(self, labels: Labels | None = None) -> frozenset[str]:
        """The ids of the nuggets that a chunk supports, by these `labels` or all."""
        of_nuggets = (self.labels_of_nuggets() if labels is None else labels).items()
        highest = ((id_, max(filter(None, of.values()), default=0)) for id_, of in of_nuggets)
        return frozenset(id_ for id_, label in highest if label >= self.threshold)

    def contaminated(self, coverage: float = CONTAMINATED) -> tuple[str, ...]:
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

    def measured(
        self,
        slices: Sequence[SliceName],
        nuggets: NuggetsName = "supported",
        *,
        doubtful: bool = False,
        labels: Labels | None = None,
    ) -> tuple[dict[str, list[str]], Labels]:
        """Give the nuggets on which the queries in these slices are measured, and their labels.

        A query with a supported nugget is measured on its supported nuggets alone, any other, or
        with `nuggets="all"`, on all its nuggets. Doubtful ones are left out, but with `doubtful`.

        Returns:
            The nugget ids of each query, and the labels of each of them, of all `labels` where
            these are known already.
        """
        every = self.labels_of_nuggets() if labels is None else labels
        supported = self.supported_nuggets(every) if nuggets == "supported" else frozenset[str]()
        with_support = {
            nugget.query_id
            for nugget in self.nuggets
            if nugget.nugget_id in supported and (doubtful or not nugget.doubtful)
        }
        ids: dict[str, list[str]] = {query_id: [] for query_id in self.queries_in(slices)}
        measured: Labels = {}
        for nugget in self.nuggets:
            counts = nugget.nugget_id in supported or nugget.query_id not in with_support
            if nugget.query_id in ids and counts and (doubtful or not nugget.doubtful):
                ids[nugget.query_id].append(nugget.nugget_id)
                measured[nugget.nugget_id] = every.get(nugget.nugget_id, {})
        return ids, measured

    def qrels_of(
        self,
        slices: Sequence[SliceName],
        tokens: Mapping[str, int] | None = None,
        nuggets: NuggetsName = "supported",
        given: Labels | None = None,
    ) -> "NuggetQrels":
        """Give the judgments of the queries in these slices as the measures read them.

        `tokens` are the lengths of chunks by id, and `given` all labels, where they are known.
        """
        from freshstack_dspy.measures.qrels import NuggetQrels

        measured, every = self.measured(slices, nuggets, labels=given)
        labels: dict[str, Any] = dict(every)
        failed: dict[str, frozenset[str]] = {}
        for nugget_id, by_chunk in every.items():
            if None in by_chunk.values():
                failed[nugget_id] = frozenset(c for c, label in by_chunk.items() if label is None)
                labels[nugget_id] = {c: n for c, n in by_chunk.items() if n is not None}
        return NuggetQrels(
            nuggets={query_id: tuple(ids) for query_id, ids in measured.items() if ids},
            labels=labels,
            failed=failed,
            threshold=self.threshold,
            tokens=tokens if tokens is not None else {},
        )


def nuggets_by_query(
    nuggets: Iterable[Nugget], *, doubtful: bool = False
) -> dict[str, list[Nugget]]:
    """Give the nuggets of every query that has some, in the order in which they were made.

    Those that are doubtful are left out, unless `doubtful` is set.
    The ids of a query's nuggets differ in a number at their ends: the shorter was given first.
    """
    groups: dict[str, list[Nugget]] = {}
    for nugget in sorted(nuggets, key=lambda one: (len(one.nugget_id), one.nugget_id)):
        if doubtful or not nugget.doubtful:
            groups.setdefault(nugget.query_id, []).append(nugget)
    return groups


_REFERENCES = (
    ("query_id", "query"),
    ("near_duplicates", "query"),
    ("nugget_id", "nugget"),
    ("duplicate_of", "nugget"),
    ("unsupported_nuggets", "nugget"),
    ("known_nuggets", "nugget"),
    ("chunk_id", "chunk"),
    ("chunk_ids", "chunk"),
    ("same_as", "chunk"),
    ("seed_chunk_ids", "chunk"),
)
"""Fields that name a record of another file, and what they name."""


def reference_faults(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> Iterator[str]:
    """Say everything that is wrong with the ids and labels, one line for each id at fault."""
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    queries = {query.query_id for query in contents.queries}
    known: dict[str, Ids[str]] = {"query": queries, "nugget": owners.keys(), "chunk": chunk_ids}
    for nugget_id, times in Counter(one.nugget_id for one in contents.nuggets).items():
        if times > 1:
            yield _repeated("nuggets.jsonl", nugget_id)
    for file in RECORD_FILES:
        records: Sequence[Any] = getattr(contents, file.name)
        if file.once:
            same = (one for one, other in pairwise(rows(records, *file.order)) if one == other)
            yield from (_repeated(file.filename, *ids) for ids in dict.fromkeys(same))
        for field_name, kind in _REFERENCES:
            if field_name not in file.record.model_fields:
                continue
            named = dict.fromkeys(id_ for (ids,) in rows(records, field_name) for id_ in _ids(ids))
            for id_ in named:
                if id_ not in known[kind]:
                    yield f"{file.filename} names {kind} {id_!r}, which does not exist"
    if missing := sorted(queries - {part.query_id for part in contents.slices}):
        yield f"slices.jsonl: query {missing[0]!r} is in no slice ({len(missing)} such)"
    yield from _label_faults(contents.judgments, owners, SCALES[scale.name].highest)


def _label_faults(
    judgments: Sequence[Judgment], owners: Mapping[str, str], highest: int
) -> Iterator[str]:
    fields = "query_id", "nugget_id", "chunk_id", "label", "votes"
    for query_id, nugget_id, chunk_id, label, votes in rows(judgments, *fields):
        pair = f"judgments.jsonl: nugget {nugget_id!r} and chunk {chunk_id!r}"
        if owners.get(nugget_id, query_id) != query_id:
            yield f"{pair}: the nugget belongs to query {owners[nugget_id]!r}"
        if max(label or 0, *(vote.label or 0 for vote in votes), 0) > highest:
            yield f"{pair}: a label above {highest}, the highest of the scale"


def _ids(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value or ()


def _repeated(filename: str, *ids: str) -> str:
    return f"{filename}: {', '.join(map(repr, ids))} is there twice; keep one"
