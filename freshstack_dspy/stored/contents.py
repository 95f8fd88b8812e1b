"""The records of a collection: its slices, counts and references, and the labels for the measures."""

import operator
from collections import Counter
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from freshstack_dspy.errors import CollectionError, FailureStatus
from freshstack_dspy.measures.label_columns import LabelColumns
from freshstack_dspy.records import (
    RELEVANT,
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
    Record,
    Scale,
    SkipKind,
    SkippedFile,
    SliceName,
    StepName,
    Technique,
)
from freshstack_dspy.stored.record_files import (
    RECORD_FILES,
    coded,
    records_of,
    repeated,
    rows,
    tally,
)

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import NuggetQrels

SLICES: tuple[SliceName, ...] = get_args(SliceName)
SUPPORTED: tuple[SliceName, ...] = ("answerable", "partly_supported")
"""The queries with a supported nugget, on which measures are taken by default."""
SlicesName = Literal["supported", "all"] | SliceName
Slices = SlicesName | Sequence[SlicesName] | None
"""Which queries: a name, or several; None: those with a supported nugget."""
CONTAMINATED = 0.5
"""From which closed-book coverage on a query counts as contaminated by default."""
NuggetsName = Literal["supported", "all"]
"""On which of its nuggets a query is measured: those that the corpus supports, or all."""


def slices_of(slices: Slices) -> tuple[SliceName, ...]:
    """Give the slices of a name, in their one order."""
    names = [slices] if isinstance(slices, str) else ["supported"] if slices is None else slices
    allowed: dict[str, tuple[SliceName, ...]] = {"supported": SUPPORTED, "all": SLICES}
    allowed |= {name: (name,) for name in SLICES}
    if unknown := [name for name in names if name not in allowed]:
        raise CollectionError(f"{unknown[0]!r} is no slice; allowed: {', '.join(allowed)}")
    chosen = {part for name in names for part in allowed[name]}
    return tuple(name for name in SLICES if name in chosen)


@dataclass(frozen=True, repr=False)
class Contents:
    """The records of a collection, each kind in the order of its file; the chunks are apart.

    Records in a folder are read when they are needed.

    Attributes:
        queries: Of all slices.
        slices: One for each query.
        threshold: The lowest label that counts as support.
        passages: Chunks that a step wrote, next to those of the corpus.
    """

    queries: Sequence[Query] = ()
    nuggets: Sequence[Nugget] = ()
    expansions: Sequence[Expansion] = ()
    pool: Sequence[Candidate] = ()
    judgments: Sequence[Judgment] = ()
    contamination: Sequence[Contamination] = ()
    failures: Sequence[Failure] = ()
    slices: Sequence[QuerySlice] = ()
    skipped: Sequence[SkippedFile] = ()
    licences: Sequence[LicenceFile] = ()
    notes: Sequence[Note] = ()
    threshold: int = 1
    passages: tuple[Chunk, ...] = ()

    def __post_init__(self) -> None:
        for file in RECORD_FILES:
            object.__setattr__(self, file.name, file.sort(getattr(self, file.name)))

    def records(self) -> dict[str, Any]:
        """Give the records by the name of their file."""
        return {file.name: getattr(self, file.name) for file in RECORD_FILES}

    def query_ids(self, slices: Slices = None) -> tuple[str, ...]:
        """List the queries with nuggets in some slices, ascending.

        Args:
            slices: A name (`supported`, `all`, or a slice's) or several slices; None: `supported`,
                the queries with at least one supported nugget.

        Raises:
            CollectionError: A name is not that of a slice.
        """
        chosen = slices_of(slices)
        return tuple(part.query_id for part in self.slices if part.slice in chosen and part.nuggets)

    def check_any(self, slices: Slices = None) -> None:
        """Check that some query is in these slices, so that there is something to measure."""
        if self.query_ids(slices):
            return
        counts: Counter[SliceName] = Counter(part.slice for part in self.slices if part.nuggets)
        there = listed(_in_order(counts))
        if not any(counts[name] for name in SUPPORTED):
            raise CollectionError(
                "no query has a nugget that a chunk supports, so there is nothing to measure "
                f"({there or 'no query has nuggets'}); add documents that answer the questions, or "
                "look at the judgments with freshstack show"
            )
        raise CollectionError(
            f"no query is in the slices {', '.join(slices_of(slices))} and has nuggets; there are: "
            f"{there}"
        )

    def left_out(self, slices: Slices = None, nuggets: NuggetsName = "supported") -> str:
        """Say in one line what measures on these slices leave out; empty if nothing."""
        ids = set(self.query_ids(slices))
        chosen = [part for part in self.slices if part.query_id in ids]
        total = sum(part.nuggets for part in chosen)
        measured = sum(
            (nuggets == "supported" and part.supported) or part.nuggets for part in chosen
        )
        others: Counter[SliceName] = Counter(
            part.slice for part in self.slices if part.query_id not in ids
        )
        if not others and measured == total:
            return ""
        line = f"{len(chosen):,} of {len(self.slices):,} queries"
        if others:
            line += f" (left out: {listed(_in_order(others))})"
        if measured < total:
            line += f", on the {measured:,} of their {total:,} nuggets that the corpus supports"
        return line

    def supports(self, judgment: Judgment) -> bool:
        """Tell whether a judgment says that the chunk supports the nugget."""
        return judgment.label is not None and judgment.label >= self.threshold

    def supporting(self, *fields: str, query_id: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Give some fields of the judgments, of one query or all, whose label counts as support."""
        judgments = self.judgments if query_id is None else records_of(self.judgments, query_id)
        for label, *values in rows(judgments, "label", *fields):
            if label is not None and label >= self.threshold:
                yield tuple(values)

    def texts(self, queries: Iterable[Query]) -> dict[str, dict[Technique, tuple[str, ...]]]:
        """Give what each technique searches with, by query: sub-questions and nuggets are several.

        A technique whose text a model failed to give is left out, and so are doubtful nuggets.
        """
        texts: dict[str, dict[Technique, tuple[str, ...]]] = {}
        for query in queries:
            texts[query.query_id] = {"question": (query.text,)}
            if query.answer:
                texts[query.query_id]["answer"] = (query.answer,)
        for expansion in self.expansions:
            if expansion.query_id in texts:
                texts[expansion.query_id][expansion.kind] = expansion.texts
        for query_id, nuggets in nuggets_by_query(self.nuggets).items():
            if query_id in texts:
                texts[query_id]["nuggets"] = tuple(nugget.text for nugget in nuggets)
        return texts

    @cached_property
    def labels(self) -> LabelColumns:
        """The label of every judgment, None where it failed."""
        return LabelColumns(*coded(self.judgments, "nugget_id", "chunk_id", "label"))

    @cached_property
    def supported_nuggets(self) -> frozenset[str]:
        """The ids of the nuggets that some chunk supports."""
        by_nugget = zip(self.labels, self.labels.having(self.threshold), strict=True)
        return frozenset(id_ for id_, chunks in by_nugget if chunks)

    def contaminated(self, coverage: float = CONTAMINATED) -> tuple[str, ...]:
        """List the queries that a model can answer without the corpus, ascending.

        Args:
            coverage: The share of a query's nuggets that its closed-book answer supports at least.

        Raises:
            CollectionError: No closed-book answer was judged, so nothing is known of any query.
        """
        coverages = {part.query_id: part.closed_book_coverage for part in self.contamination}
        if not any(share is not None for share in coverages.values()):
            raise CollectionError(
                "no closed-book answer of this collection was judged; build it with "
                "closed_book_answer among [pool] techniques and [contamination] score = true"
            )
        return tuple(
            id_ for id_, share in coverages.items() if share is not None and share >= coverage
        )

    def measured(
        self,
        slices: Slices = None,
        nuggets: NuggetsName = "supported",
        *,
        doubtful: bool = False,
    ) -> tuple[dict[str, list[str]], LabelColumns]:
        """Give the nuggets on which the queries in these slices are measured, and their labels.

        A query with a supported nugget is measured on its supported nuggets alone; any other, or
        with `nuggets="all"` every one, on all its nuggets. Doubtful nuggets count with `doubtful`.

        Returns:
            The nugget ids of each query, and the labels of each nugget.
        """
        supported = self.supported_nuggets if nuggets == "supported" else frozenset[str]()
        counted = [nugget for nugget in self.nuggets if doubtful or not nugget.doubtful]
        with_support = {each.query_id for each in counted if each.nugget_id in supported}
        ids: dict[str, list[str]] = {query_id: [] for query_id in self.query_ids(slices)}
        for nugget in counted:
            in_supported = nugget.nugget_id in supported or nugget.query_id not in with_support
            if nugget.query_id in ids and in_supported:
                ids[nugget.query_id].append(nugget.nugget_id)
        return ids, self.labels.of(chain.from_iterable(ids.values()))

    def qrels_of(
        self,
        slices: Slices = None,
        tokens: Mapping[str, int] | None = None,
        nuggets: NuggetsName = "supported",
    ) -> "NuggetQrels":
        """Give the judgments of the queries in these slices as the measures read them.

        `tokens` are the lengths of chunks by id.
        """
        from freshstack_dspy.measures.qrels import NuggetQrels

        ids, measured = self.measured(slices, nuggets)
        return NuggetQrels(
            nuggets={query_id: tuple(of_query) for query_id, of_query in ids.items() if of_query},
            labels=measured.without_failed(),
            failed=dict(zip(measured, map(frozenset, measured.having(None)), strict=True)),
            threshold=self.threshold,
            tokens=tokens if tokens is not None else {},
            weights=self.weights,
        )

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the queries that have one, by id."""
        return {query.query_id: query.weight for query in self.queries if query.weight is not None}


def nuggets_by_query(
    nuggets: Iterable[Nugget], *, doubtful: bool = False
) -> dict[str, list[Nugget]]:
    """Give the nuggets of every query that has some, in the order in which they were made.

    Those that are doubtful are left out, unless `doubtful` is set.
    The ids of a query's nuggets differ in a number at their ends: the shorter was given first.
    """
    groups: dict[str, list[Nugget]] = {}
    for nugget in sorted(nuggets, key=lambda each: (len(each.nugget_id), each.nugget_id)):
        if doubtful or not nugget.doubtful:
            groups.setdefault(nugget.query_id, []).append(nugget)
    return groups


def searched(texts: tuple[str, ...], lists: Literal["concatenate", "fuse"]) -> tuple[str, ...]:
    """Give what is searched with, of the texts of a technique: each of them, or all as one."""
    return texts if lists == "fuse" else ("\n".join(texts),)


def slice_queries(
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Sequence[Judgment],
    threshold: int = 1,
    pool: Sequence[Candidate] = (),
) -> list[QuerySlice]:
    """Say for each query whether the corpus supports its nuggets: the two filters of FreshStack §4.

    A nugget is supported if one judgment's label is `threshold` or more. Otherwise it is unsupported
    if no judgment failed, and undetermined if one did, as that one could have been positive.
    Doubtful nuggets do not count. A query without nuggets is unanswerable if every passage of its
    pool was graded, and none as relevant.
    """
    grades: dict[str, int] = {}
    for query_id, relevance in rows(pool, "query_id", "relevance"):
        grade = RELEVANT if relevance is None else relevance.grade
        grades[query_id] = max(grade, grades.get(query_id, 0))
    judged = {*rows(judgments, "nugget_id", "label", "status")}
    supported = {id_ for id_, label, _ in judged if (label or 0) >= threshold}
    in_doubt = {id_ for id_, _, status in judged if status != "ok"} - supported
    nuggets_of: dict[str, set[str]] = {query.query_id: set() for query in queries}
    for nugget in nuggets:
        if not nugget.doubtful:
            nuggets_of[nugget.query_id].add(nugget.nugget_id)
    slices = []
    for query_id, own in nuggets_of.items():
        name: SliceName = "undetermined" if own & in_doubt else "unanswerable"
        if not own and grades.get(query_id, RELEVANT) >= RELEVANT:
            name = "without_nuggets"
        elif own & supported:
            name = "answerable" if own <= supported else "partly_supported"
        slices.append(
            QuerySlice(
                query_id=query_id,
                slice=name,
                nuggets=len(own),
                supported=len(own & supported),
                undetermined=len(own & in_doubt),
                unsupported_nuggets=tuple(sorted(own - supported - in_doubt)),
            )
        )
    return slices


# Counts


def _in_order(slices: Mapping[SliceName, int]) -> dict[SliceName, int]:
    return {name: slices.get(name, 0) for name in SLICES}


def count_kinds(skipped: Iterable[SkippedFile]) -> dict[SkipKind, int]:
    """Count skipped files by kind, in the order of its name."""
    counts: Counter[SkipKind] = Counter(file.kind for file in skipped)
    return dict(sorted(counts.items()))


def listed(counts: Mapping[Any, int]) -> str:
    """List the kinds with their counts, as `1,198 binary, 3 vendored`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)


def some_of(ids: Iterable[str]) -> str:
    """List ids in their order, the first ten by name."""
    ordered = sorted(ids)
    more = f" and {len(ordered) - 10} more" if len(ordered) > 10 else ""
    return ", ".join(ordered[:10]) + more


FROM_PASSAGES = (
    "nuggets were made from passages that the pool holds, and cannot hold what retrieval never "
    "found"
)
"""Said of each collection of the recipe `nuggets`."""


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
    followed: int = Field(default=0, ge=0, exclude_if=operator.not_)
    """Labels of support that followed their evidence into an edited chunk."""
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
    """Say what failed and can be asked again: pairs without a label, and failed steps."""
    unlabelled = tally(contents.judgments, "label")[(None,)]
    # A reply came, and a passage in it says what its document does not: that is final.
    failed = sum(
        failure.step != "passages" or failure.status != "failed" or failure.call_id is None
        for failure in contents.failures
    )
    parts = ((unlabelled, "pairs without a label:"), (failed, "failures:"))
    return ", ".join(f"{what} {number:,}" for number, what in parts if number)


def count(contents: Contents, chunks: int, rejected: Mapping[str, int]) -> Counts:
    """Count what a collection holds, given its number of chunks and the questions left out."""
    failures: dict[StepName, dict[FailureStatus, int]] = {}
    for failure in contents.failures:
        by_status = failures.setdefault(failure.step, {})
        by_status[failure.status] = by_status.get(failure.status, 0) + 1
    unlabelled = supported = evidence = 0
    for (label, spans), number in tally(contents.judgments, "label", "evidence").items():
        supports = label is not None and label >= contents.threshold
        unlabelled += number * (label is None)
        supported += number * supports
        evidence += number * (supports and spans > 0)
    contamination = contents.contamination
    scored = {part.query_id for part in contamination if part.closed_book_coverage is not None}
    asked = Counter(part.asked for part in contamination)
    return Counts(
        queries=len(contents.queries),
        nuggets=len(contents.nuggets),
        expansions=len(contents.expansions),
        pool=len(contents.pool),
        judgments=len(contents.judgments),
        unlabelled=unlabelled,
        shared=len(contents.judgments) - tally(contents.judgments, "same_as")[(None,)],
        followed=len(contents.judgments) - tally(contents.judgments, "followed_from")[(None,)],
        supported=supported,
        evidence=evidence,
        failures=failures,
        chunks=chunks,
        skipped=count_kinds(contents.skipped),
        licences=len(contents.licences),
        slices=_in_order(Counter(part.slice for part in contents.slices)),
        synthetic=sum(query.origin == "synthetic" for query in contents.queries),
        contamination=ContaminationCounts(
            scored=len(scored),
            nuggets=sum(each.query_id in scored and not each.doubtful for each in contents.nuggets),
            known=sum(len(part.known_nuggets or ()) for part in contamination),
            contaminated=sum(
                (part.closed_book_coverage or 0) >= CONTAMINATED for part in contamination
            ),
            before_cutoff=asked["before_cutoff"],
            after_cutoff=asked["after_cutoff"],
            overlapping=sum(bool(part.gold_overlap) for part in contamination),
            near_duplicates=sum(bool(part.near_duplicates) for part in contamination),
        ),
        rejected=dict(rejected),
    )


# References

_REFERENCES = {
    "query_id": "query",
    "near_duplicates": "query",
    "nugget_id": "nugget",
    "duplicate_of": "nugget",
    "unsupported_nuggets": "nugget",
    "known_nuggets": "nugget",
    "chunk_id": "chunk",
    "chunk_ids": "chunk",
    "same_as": "chunk",
    "seed_chunk_ids": "chunk",
}
"""Fields that name a record of another file, and what they name."""


def reference_faults(contents: Contents, chunk_ids: Ids[str], scale: Scale) -> Iterator[str]:
    """Say everything that is wrong with the ids and labels, one line for each id at fault."""
    owners = {nugget.nugget_id: nugget.query_id for nugget in contents.nuggets}
    queries = {query.query_id for query in contents.queries}
    existing: dict[str, Ids[str]] = {"query": queries, "nugget": owners.keys(), "chunk": chunk_ids}
    again = [("nuggets.jsonl", (nugget.nugget_id,)) for nugget in contents.nuggets]
    twice = [key for key, times in Counter(again).items() if times > 1]
    for file in RECORD_FILES:
        records = getattr(contents, file.name)
        if file.once:
            twice += dict.fromkeys((file.filename, key) for key in repeated(records, *file.order))
        for field, kind in _REFERENCES.items():
            if field in file.record.model_fields:
                read = tally if file.large else rows
                values = (value for (value,) in read(records, field) if value)
                named = ((value,) if isinstance(value, str) else value for value in values)
                ids = dict.fromkeys(chain.from_iterable(named))
                missing = ids.keys() - existing[kind]
                for id_ in filter(missing.__contains__, ids):
                    yield f"{file.filename} names {kind} {id_!r}, which does not exist"
    for filename, key in twice:
        yield f"{filename}: {', '.join(map(repr, key))} is there twice; keep one"
    if unsliced := sorted(queries - {part.query_id for part in contents.slices}):
        yield f"slices.jsonl: query {unsliced[0]!r} is in no slice ({len(unsliced)} such)"
    yield from _label_faults(contents.judgments, owners, SCALES[scale.name].highest)


def _label_faults(
    judgments: Sequence[Judgment], owners: Mapping[str, str], highest: int
) -> Iterator[str]:
    owned = tally(judgments, "nugget_id", "query_id")
    if all(
        (label or 0) <= highest and not votes for label, votes in tally(judgments, "label", "votes")
    ) and all(owners.get(nugget_id, query_id) == query_id for nugget_id, query_id in owned):
        return
    fields = "query_id", "nugget_id", "chunk_id", "label", "votes"
    for query_id, nugget_id, chunk_id, label, votes in rows(judgments, *fields):
        fault = ""
        if owners.get(nugget_id, query_id) != query_id:
            fault = f"the nugget belongs to query {owners[nugget_id]!r}"
        elif max(label or 0, *(vote.label or 0 for vote in votes), 0) > highest:
            fault = f"a label above {highest}, the highest of the scale"
        if fault:
            yield f"judgments.jsonl: nugget {nugget_id!r} and chunk {chunk_id!r}: {fault}"
