"""What each search of an agent adds: nuggets by step and by their union, and what they cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.passage_labels import judge_passages
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.searches import Search, SearchRun, read_searches
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import Record
from freshstack_dspy.stored.contents import Slices
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run


class Step(Record):
    """What the searches at one step add, over the queries of the collection."""

    step: int
    searches: int
    """How many queries have a search at this step."""
    alone: float
    """Mean share of the nuggets of these that this search alone supports."""
    union: float
    """Mean share of the nuggets of all queries that the searches so far support; of a query
    without searches none."""
    added: float
    """What this step adds to that share."""
    repeated: float
    """The share of its results that were shown before."""
    unjudged: float
    """The share of its results that no label covers; of passages by their bytes. What is not in the
    corpus is not judged."""
    empty: int
    """Searches without a result."""
    same: int
    """Searches in the words of an earlier one."""
    tokens: int | None
    """Tokens of all results so far, those shown twice counted twice; None where a chunk has no text."""
    per_thousand: float | None
    """Nuggets supported so far for each 1,000 of these tokens."""
    cost: float | None
    """In US dollars, of all searches so far; None where one of them has none."""
    per_dollar: float | None
    """Nuggets supported so far for each of these dollars."""


class Seen(Record):
    """One search of a query: what it showed, and what was then still missing."""

    search: str
    results: int
    repeated: int
    unplaced: int
    """Passages among its results that are not in the corpus."""
    found: tuple[str, ...]
    """Texts of the nuggets that no earlier search supported."""
    missing: tuple[str, ...]


class Steps(Record, Shown):
    """An agent's searches, measured step by step."""

    run: str
    collection: str
    queries: int
    dry_run: bool
    placed_share: float | None
    """For a run of passages, the share of its results that were found in the files of the corpus;
    the others are not judged. None of a run of chunk ids."""
    steps: tuple[Step, ...]
    trajectories: dict[str, tuple[Seen, ...]]
    """By query id."""


def steps(
    collection: StoredCollection | Path | str,
    run: SearchRun | Path | str,
    *,
    slices: Slices = None,
    covered: float = 1.0,
) -> Steps:
    """Measure the searches of an agent, step by step.

    `evaluate` and `compare` take the same file as one run, of all that was shown in its order.

    Args:
        collection: A collection, or its folder.
        run: The searches, or their file: JSON Lines with `query_id`, `search`, `results` (the ids
            of the chunks that were shown, or passages), and perhaps `step` and `cost` in dollars.
        slices: Which queries, as in `Collection.qrels`.
        covered: Of passages, the share of the evidence for a nugget that one must hold to support
            it, as in `evaluate`.

    Raises:
        SourceError: A line is no search.
        CollectionError: The run has none of the queries, or a chunk that the corpus does not have.
    """
    collection = StoredCollection.load(collection)
    qrels = collection.qrels(slices)
    run = run if isinstance(run, SearchRun) else read_searches(run, collection.files)
    if run.searches.keys().isdisjoint(qrels.nuggets):
        raise CollectionError(f"{run.name} has no search for a query of {collection.name}")
    union = run.union()
    shown = {id_ for query_id in qrels.nuggets for id_ in run.shown(query_id)}
    if isinstance(union, Run) and (unknown := sorted(shown - collection.corpus.ids)):
        raise CollectionError(
            f"{run.name}: {len(unknown)} chunks are not in the corpus, such as {unknown[0]!r:.200}; "
            'a passage is given as {"text": "…"}'
        )
    longest = max(len(run.searches.get(query_id, ())) for query_id in qrels.nuggets)
    judged = [_judged(qrels, run.at(number), covered) for number in range(1, longest + 1)]
    texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    taken = {
        query_id: list(_taken(query_id, qrels, run, judged, texts)) for query_id in qrels.nuggets
    }
    return Steps(
        run=run.name,
        collection=collection.name,
        queries=len(qrels.nuggets),
        dry_run=is_dry_run(collection.manifest),
        placed_share=union.placed_share if isinstance(union, PassageRun) else None,
        steps=tuple(_steps(qrels, run, taken, longest)),
        trajectories={
            query_id: tuple(search.seen for search in searches)
            for query_id, searches in taken.items()
            if query_id in run.searches
        },
    )


class _Judged(NamedTuple):
    """What the searches at one step bring by themselves."""

    supported: Mapping[str, frozenset[str]]
    """Ids of nuggets by query."""
    unjudged: Mapping[str, Mapping[str, float]]
    """By query, the share of each document that no label covers."""


def _judged(qrels: NuggetQrels, run: SearchRun, covered: float) -> _Judged:
    labels, union = qrels, run.union()
    if isinstance(union, PassageRun):
        labels, union = judge_passages(union, qrels, covered)
    supported: dict[str, frozenset[str]] = {}
    unjudged: dict[str, Mapping[str, float]] = {}
    for query_id, nuggets in qrels.nuggets.items():
        ids = union.ids.get(query_id, ())
        supported[query_id] = frozenset(
            nugget_id
            for nugget_id in nuggets
            if any(labels.labels[nugget_id].get(id_, 0) >= labels.threshold for id_ in ids)
        )
        if labels.passages is not None:
            unjudged[query_id] = labels.passages.unjudged.get(query_id, {})
        else:
            chunks = labels.judged(query_id).chunks
            unjudged[query_id] = {id_: float(id_ not in chunks) for id_ in ids}
    return _Judged(supported, unjudged)


class _Taken(NamedTuple):
    """A search, and what it adds to those before it."""

    search: Search
    seen: Seen
    alone: float
    """The share of the query's nuggets that it supports by itself."""
    supported: int
    """How many it supports with those before it."""
    unjudged: list[float]
    """The share of each result that no label covers."""
    same: bool


def _taken(
    query_id: str,
    qrels: NuggetQrels,
    run: SearchRun,
    judged: Sequence[_Judged],
    texts: Mapping[str, str],
) -> Iterator[_Taken]:
    """Follow the searches of a query. A document that one search shows twice is read twice."""
    nuggets, shown = qrels.nuggets[query_id], set[str]()
    supported, asked = frozenset[str](), set[tuple[str, ...]]()
    for search, at in zip(run.searches.get(query_id, ()), judged, strict=False):
        before, supported = supported, supported | at.supported[query_id]
        words = tuple(search.text.casefold().split())
        yield _Taken(
            search,
            Seen(
                search=search.text,
                results=len(search.documents),
                repeated=sum(id_ in shown for id_ in search.documents),
                unplaced=sum(id_ in run.unplaced for id_ in search.documents),
                found=tuple(texts[id_] for id_ in nuggets if id_ in supported - before),
                missing=tuple(texts[id_] for id_ in nuggets if id_ not in supported),
            ),
            alone=len(at.supported[query_id]) / len(nuggets),
            supported=len(supported),
            unjudged=[at.unjudged[query_id].get(id_, 1.0) for id_ in search.documents],
            same=bool(words) and words in asked,
        )
        shown.update(search.documents)
        asked.add(words)


def _steps(
    qrels: NuggetQrels, run: SearchRun, taken: Mapping[str, Sequence[_Taken]], longest: int
) -> Iterator[Step]:
    """Sum up the searches of all queries, step by step."""
    union: float = 0
    shown, paid = 0, 0.0  # None from the first step on where that is not known
    for number in range(longest):
        now = [searches[number] for searches in taken.values() if number < len(searches)]
        so_far = {
            query_id: searches[min(number, len(searches) - 1)].supported if searches else 0
            for query_id, searches in taken.items()
        }
        before = union
        union = fmean(so_far[query_id] / len(ids) for query_id, ids in qrels.nuggets.items())
        results = sum(each.seen.results for each in now)
        shown = _sum(shown, _tokens(qrels, run, [each.search for each in now]))
        costs = [each.search.cost for each in now]
        paid = _sum(paid, None if None in costs else sum(filter(None, costs)))
        yield Step(
            step=number + 1,
            searches=len(now),
            alone=fmean(each.alone for each in now),
            union=union,
            added=union - before,
            repeated=sum(each.seen.repeated for each in now) / results if results else 0.0,
            unjudged=fmean(chain.from_iterable(each.unjudged for each in now)) if results else 0.0,
            empty=sum(not each.search.documents for each in now),
            same=sum(each.same for each in now),
            tokens=shown,
            per_thousand=1000 * sum(so_far.values()) / shown if shown else None,
            cost=paid,
            per_dollar=sum(so_far.values()) / paid if paid else None,
        )


def _sum(before: Any, now: Any) -> Any:
    return None if before is None or now is None else before + now


def _tokens(qrels: NuggetQrels, run: SearchRun, searches: Iterable[Search]) -> int | None:
    """The tokens of all results shown; a result outside the corpus counts by its own text."""
    lengths = qrels.spans().lengths if run.has_passages and qrels.spans else qrels.tokens
    shown = (id_ for search in searches for id_ in search.documents)
    try:
        return sum(
            count_tokens(run.unplaced[id_]) if id_ in run.unplaced else lengths[id_]
            for id_ in shown
        )
    except KeyError:
        return None
