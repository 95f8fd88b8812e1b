"""What each search of an agent adds: nuggets by step and by their union, and what they cost."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.searches import SearchRun, read_searches
from freshstack_dspy.pages.page import Page
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Record
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run
from freshstack_dspy.stored.slices import Slices


class Step(Record):
    """What the searches at one step add, over the queries of the collection."""

    step: int
    searches: int
    """Queries with so many searches."""
    alone: float
    """Mean share of the nuggets of these that this search alone supports."""
    union: float
    """Mean share of the nuggets of all queries that the searches so far support; of a query
    without searches none."""
    added: float
    """What this step adds to that share."""
    repeated: float
    """The share of its results that were shown before."""
    empty: int
    """Searches without a result."""
    same: int
    """Searches in the words of an earlier one."""
    tokens: int
    """Of all results so far, those shown twice counted twice."""
    per_thousand: float | None
    """Nuggets supported so far for each 1,000 of these tokens."""


class Seen(Record):
    """One search of a query: what it showed, and what was then still missing."""

    search: str
    results: int
    repeated: int
    found: tuple[str, ...]
    """Texts of the nuggets that no earlier search supported."""
    missing: tuple[str, ...]


class Steps(Record, Shown):
    """An agent's searches, measured step by step."""

    run: str
    collection: str
    queries: int
    dry_run: bool
    steps: tuple[Step, ...]
    trajectories: dict[str, tuple[Seen, ...]]
    """By query id."""

    def page(self, query_id: str | None = None) -> Page:
        """Give the curve over steps, or the searches of one query."""
        from freshstack_dspy.collection.steps_page import steps_page, trajectory_page

        if query_id is None:
            return steps_page(self)
        if query_id not in self.trajectories:
            raise CollectionError(f"{self.run} has no search for the query {query_id!r:.200}")
        return trajectory_page(self, query_id)


def steps(
    collection: StoredCollection | Path | str,
    run: SearchRun | Path | str,
    *,
    slices: Slices = None,
) -> Steps:
    """Measure the searches of an agent, step by step.

    `evaluate` and `compare` take the same file as one run, of all that was shown in its order.

    Args:
        collection: A collection, or its folder.
        run: The searches, or their file: JSON Lines with `query_id`, `search`, `results`, the ids
            of the chunks that were shown, and perhaps `step`.
        slices: Which queries, as in `Collection.qrels`.

    Raises:
        SourceError: A line is no search.
        CollectionError: The run has none of the queries, or a chunk that the corpus does not have.
    """
    collection = StoredCollection.load(collection)
    run = run if isinstance(run, SearchRun) else read_searches(run)
    qrels = collection.qrels(slices)
    if run.searches.keys().isdisjoint(qrels.nuggets):
        raise CollectionError(f"{run.name} has no search for a query of {collection.name}")
    shown = {id_ for query_id in qrels.nuggets for id_ in run.shown(query_id)}
    if unknown := sorted(shown - collection.corpus.ids):
        raise CollectionError(
            f"{run.name}: {len(unknown)} chunks are not in the corpus, as {unknown[0]!r:.200}"
        )
    longest = max(len(run.searches.get(query_id, ())) for query_id in qrels.nuggets)
    found: list[Step] = []
    for number in range(1, longest + 1):
        found.append(_step(qrels, run, number, found[-1].union if found else 0.0))
    texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    return Steps(
        run=run.name,
        collection=collection.name,
        queries=len(qrels.nuggets),
        dry_run=is_dry_run(collection.manifest),
        steps=tuple(found),
        trajectories={
            query_id: tuple(_seen(qrels, run, query_id, texts))
            for query_id in qrels.nuggets
            if query_id in run.searches
        },
    )


def _supported(qrels: NuggetQrels, query_id: str, chunk_ids: Sequence[str]) -> list[str]:
    """The nuggets of a query that one of these chunks supports."""
    return [
        nugget_id
        for nugget_id in qrels.nuggets[query_id]
        if any(qrels.labels[nugget_id].get(id_, 0) >= qrels.threshold for id_ in chunk_ids)
    ]


def _step(qrels: NuggetQrels, run: SearchRun, number: int, before: float) -> Step:
    alone: list[float] = []
    union: list[float] = []
    results = repeated = empty = same = tokens = supported = 0
    for query_id, nuggets in qrels.nuggets.items():
        searches = run.searches.get(query_id, ())[:number]
        covered = len(_supported(qrels, query_id, run.shown(query_id, number)))
        supported += covered
        union.append(covered / len(nuggets))
        tokens += sum(qrels.tokens[id_] for search in searches for id_ in search.chunk_ids)
        if len(searches) < number:
            continue
        *earlier, last = searches
        alone.append(len(_supported(qrels, query_id, last.chunk_ids)) / len(nuggets))
        old = set(run.shown(query_id, number - 1))
        results += len(last.chunk_ids)
        repeated += sum(id_ in old for id_ in last.chunk_ids)
        empty += not last.chunk_ids
        words = last.text.casefold().split()
        same += bool(words) and any(words == one.text.casefold().split() for one in earlier)
    return Step(
        step=number,
        searches=len(alone),
        alone=fmean(alone),
        union=fmean(union),
        added=fmean(union) - before,
        repeated=repeated / results if results else 0.0,
        empty=empty,
        same=same,
        tokens=tokens,
        per_thousand=1000 * supported / tokens if tokens else None,
    )


def _seen(qrels: NuggetQrels, run: SearchRun, query_id: str, texts: dict[str, str]) -> list[Seen]:
    found: list[Seen] = []
    for place, search in enumerate(run.searches[query_id]):
        old = run.shown(query_id, place)
        known = _supported(qrels, query_id, old)
        now = _supported(qrels, query_id, run.shown(query_id, place + 1))
        found.append(
            Seen(
                search=search.text,
                results=len(search.chunk_ids),
                repeated=len(set(search.chunk_ids) & set(old)),
                found=tuple(texts[id_] for id_ in now if id_ not in known),
                missing=tuple(texts[id_] for id_ in qrels.nuggets[query_id] if id_ not in now),
            )
        )
    return found
