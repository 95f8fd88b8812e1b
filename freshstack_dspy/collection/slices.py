"""The two filters of the paper, as labelled slices: nothing is thrown away (FreshStack §4)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from freshstack_dspy.collection.contamination import CONTAMINATED, asked, day_of
from freshstack_dspy.collection.contents import SLICES, Contents
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Judgment, Nugget, Query, QueryOrigin, QuerySlice, SliceName

if TYPE_CHECKING:
    from freshstack_dspy.measures.groups import QueryGroups

SUPPORTED: tuple[SliceName, ...] = ("answerable", "partly_supported")
"""The queries with a supported nugget, on which measures are taken by default."""
SlicesName = Literal[
    "supported", "all", "answerable", "partly_supported", "unanswerable", "undetermined"
]
Slices = SlicesName | Sequence[SliceName] | None
"""Which queries: a name, or the names of several slices; None: those with a supported nugget."""


def slices_of(slices: Slices) -> tuple[SliceName, ...]:
    """Give the slices that a name stands for, in their one order.

    Raises:
        CollectionError: A name is not that of a slice.
    """
    if slices is None or slices == "supported":
        return SUPPORTED
    if slices == "all":
        return SLICES
    given = [slices] if isinstance(slices, str) else slices
    if unknown := [name for name in given if name not in SLICES]:
        allowed = ", ".join(("supported", "all", *SLICES))
        raise CollectionError(f"{unknown[0]!r} is no slice; allowed: {allowed}")
    return tuple(name for name in SLICES if name in given)


def left_out(contents: Contents, slices: Slices = None) -> str:
    """Say in one line which queries and nuggets measures on these slices leave out; or nothing.

    Raises:
        CollectionError: A name is not that of a slice.
    """
    chosen = slices_of(slices)
    total = len(contents.slices)
    found = [part for part in contents.slices if part.slice in chosen and part.nuggets]
    ids = {part.query_id for part in found}
    nuggets = sum(part.nuggets for part in found)
    supported = sum(part.supported or part.nuggets for part in found)
    if len(found) == total and supported == nuggets:
        return ""
    others = Counter(
        part.slice if part.nuggets else "without nuggets"
        for part in contents.slices
        if part.query_id not in ids
    )
    reasons = [f"{others[name]:,} {name}" for name in (*SLICES, "without nuggets") if others[name]]
    line = f"{len(found):,} of {total:,} queries"
    if reasons:
        line += f" (left out: {', '.join(reasons)})"
    if supported < nuggets:
        line += f", on the {supported:,} of their {nuggets:,} nuggets that the corpus supports"
    return line


def check_any(contents: Contents, slices: Slices = None) -> None:
    """Check that some query is in these slices, so that there is something to measure.

    Raises:
        CollectionError: There is none; says where there are some.
    """
    if contents.queries_in(slices_of(slices)):
        return
    counts = Counter(part.slice for part in contents.slices if part.nuggets)
    there = ", ".join(f"{counts[name]:,} {name}" for name in SLICES if counts[name])
    if not any(counts[name] for name in SUPPORTED):
        raise CollectionError(
            "no query has a nugget that a chunk supports, so there is nothing to measure "
            f"({there or 'no query has nuggets'}); add documents that answer the questions, or "
            "look at the judgments with freshstack show"
        )
    raise CollectionError(
        f"no query is in the slices {', '.join(slices_of(slices))}; there are: {there}"
    )


GroupKind = Literal["tag", "slice", "date", "cutoff", "contamination", "difficulty", "origin"]
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)

DIFFICULTY_DEPTH = 20
"""To which rank of the question's own list the difficulty of a query looks: as Coverage@20."""


def query_groups(
    contents: Contents,
    by: str,
    *,
    at: str | None = None,
    contaminated_from: float = CONTAMINATED,
) -> "QueryGroups":
    """Group the queries of a collection, of all slices; without groups that have no query.

    Args:
        contents: The records of a collection.
        by: `tag`: a query with several tags is in several groups. `slice`: by answerability.
            `date`: by the year in which it was asked, or up to `at` and after it. `cutoff`: asked
            up to the model's cut-off, or after it. `contamination`: by the share of its nuggets
            that the closed-book answer holds. `difficulty`: by the share of its supported nuggets
            that the question alone found for the pool. `origin`: who asked it.
        at: With `date` only: an ISO 8601 date.
        contaminated_from: With `contamination`: the share from which on a query is known.

    Raises:
        CollectionError: The kind is unknown, `at` is not a date or is given with another kind, or
            the collection says of no query what it is to be grouped by.
    """
    from freshstack_dspy.measures.groups import QueryGroups

    if by not in GROUP_KINDS:
        raise CollectionError(f"queries are grouped by {', '.join(GROUP_KINDS)}, not by {by!r}")
    if at is not None and by != "date":
        raise CollectionError(f"a date divides queries by date, not by {by}")
    if by == "date" and at is not None:
        at = _day(at)
        rule, names, pairs = _by_day(contents, at)
    elif by == "contamination":
        rule, names, pairs = _by_known_share(contents, contaminated_from)
    else:
        rule, names, pairs = _GROUPED[by](contents)
    if not pairs:
        raise CollectionError(_NOTHING_KNOWN[by])
    members = {name: sorted({id_ for group, id_ in pairs if group == name}) for name in names}
    return QueryGroups(
        by=f"date={at}" if at else by,
        rule=rule,
        members={name: tuple(ids) for name, ids in members.items() if ids},
    )


_NOTHING_KNOWN = {
    "tag": "no query of the collection has a tag",
    "date": "no query of the collection has a date",
    "cutoff": "the collection does not say which queries were asked before the model's cut-off; "
    "build it with [contamination] cutoff, or name a day: date=2024-06-30",
    "difficulty": "no query of the collection has a supported nugget",
    "slice": "the collection has no query",
    "origin": "the collection has no query",
}
_Grouping = tuple[str, Iterable[str], list[tuple[str, str]]]
"""What the queries are grouped by, the groups in their order, and (group, query id) pairs."""


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise CollectionError(f"{text!r} is not a date; type one as 2024-06-30") from None


def _by_tag(contents: Contents) -> _Grouping:
    pairs = [(tag, query.query_id) for query in contents.queries for tag in query.tags]
    rule = "the tags of the question; one with several tags counts in each"
    return rule, sorted({tag for tag, _ in pairs}), pairs


def _by_slice(contents: Contents) -> _Grouping:
    pairs: list[tuple[str, str]] = [(part.slice, part.query_id) for part in contents.slices]
    return "whether chunks support all, some or none of the nuggets", SLICES, pairs


def _by_year(contents: Contents) -> _Grouping:
    days = ((day_of(query.asked_at), query.query_id) for query in contents.queries)
    pairs = [(f"{day.year:04}", query_id) for day, query_id in days if day is not None]
    return "the year of the question, in UTC", sorted({year for year, _ in pairs}), pairs


def _by_day(contents: Contents, last: str) -> _Grouping:
    names = {"before_cutoff": f"up to {last}", "after_cutoff": f"after {last}"}
    found = ((asked(query.asked_at, last), query.query_id) for query in contents.queries)
    pairs = [(names[when], query_id) for when, query_id in found if when is not None]
    return "the day of the question, in UTC", names.values(), pairs


def _by_cutoff(contents: Contents) -> _Grouping:
    names = {"before_cutoff": "up to the cut-off", "after_cutoff": "after the cut-off"}
    pairs = [(names[one.asked], one.query_id) for one in contents.contamination if one.asked]
    return "the day up to which the model has read", names.values(), pairs


def _by_known_share(contents: Contents, coverage: float) -> _Grouping:
    known = set(contents.contaminated(coverage))
    names = (f"known below {coverage:.0%}", f"known {coverage:.0%} or more")
    pairs = [
        (names[one.query_id in known], one.query_id)
        for one in contents.contamination
        if one.closed_book_coverage is not None
    ]
    return "the share of the nuggets that the model's closed-book answer holds", names, pairs


def _by_difficulty(contents: Contents) -> _Grouping:
    rule = (
        f"the share of the supported nuggets that the pool found with the question alone, to rank "
        f"{DIFFICULTY_DEPTH}: easy 2/3 or more, hard below 1/3"
    )

    def band(share: float) -> str:
        return "easy" if share >= 2 / 3 else "medium" if share >= 1 / 3 else "hard"

    pairs = [(band(share), query_id) for query_id, share in found_shares(contents).items()]
    return rule, ("easy", "medium", "hard"), pairs


def _by_origin(contents: Contents) -> _Grouping:
    pairs: list[tuple[str, str]] = [(query.origin, query.query_id) for query in contents.queries]
    return "who asked: people or a model", get_args(QueryOrigin), pairs


_GROUPED: Mapping[str, Callable[[Contents], _Grouping]] = MappingProxyType(
    {
        "tag": _by_tag,
        "slice": _by_slice,
        "date": _by_year,
        "cutoff": _by_cutoff,
        "difficulty": _by_difficulty,
        "origin": _by_origin,
    }
)


def found_shares(contents: Contents, depth: int = DIFFICULTY_DEPTH) -> dict[str, float]:
    """Give the share of each query's supported nuggets that the pool found with the question alone.

    What the technique `question` holds to this rank, all retrievers of the pool fused: it is the
    same for every run. Queries without a supported nugget are left out.

    Raises:
        CollectionError: No chunk of the pool was found with the question, as in an import.
    """
    ranks = {
        (candidate.query_id, candidate.chunk_id): by.rank
        for candidate in contents.pool
        for by in (*candidate.pooled_by, *candidate.ranked_below)
        if by.technique == "question"
    }
    if not ranks:
        raise CollectionError(
            "the collection does not say what the question alone found, so the difficulty of its "
            "queries is not known; build it with question among [pool] techniques"
        )
    supported: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for one in filter(contents.supports, contents.judgments):
        supported.setdefault(one.query_id, set()).add(one.nugget_id)
        if ranks.get((one.query_id, one.chunk_id), depth + 1) <= depth:
            found.setdefault(one.query_id, set()).add(one.nugget_id)
    return {
        query_id: len(found.get(query_id, ())) / len(supported[query_id])
        for query_id in sorted(supported)
    }


def slice_queries(
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Sequence[Judgment],
    threshold: int = 1,
) -> list[QuerySlice]:
    """Say for each query whether the corpus supports its nuggets.

    A nugget is supported by one judgment whose label is `threshold` or more. One without any is
    unsupported only if all its judgments were made: a failed one could have been the positive, so
    it is undetermined.
    """
    supported = {
        judgment.nugget_id
        for judgment in judgments
        if judgment.label is not None and judgment.label >= threshold
    }
    in_doubt = {judgment.nugget_id for judgment in judgments if judgment.status != "ok"} - supported
    nuggets_of: dict[str, list[str]] = {query.query_id: [] for query in queries}
    for nugget in nuggets:
        nuggets_of[nugget.query_id].append(nugget.nugget_id)
    slices = []
    for query_id, own in nuggets_of.items():
        yes, undetermined = len(supported.intersection(own)), len(in_doubt.intersection(own))
        slices.append(
            QuerySlice(
                query_id=query_id,
                slice=_slice(len(own), yes, undetermined),
                nuggets=len(own),
                supported=yes,
                undetermined=undetermined,
                unsupported_nuggets=tuple(sorted(set(own) - supported - in_doubt)),
            )
        )
    return slices


def _slice(nuggets: int, supported: int, undetermined: int) -> SliceName:
    if nuggets == 0:
        return "undetermined"
    if supported == nuggets:
        return "answerable"
    if supported:
        return "partly_supported"
    return "undetermined" if undetermined else "unanswerable"
