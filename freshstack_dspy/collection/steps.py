"""What each search of an agent adds: nuggets by step and by their union, and what they cost."""

from collections.abc import Iterable, Mapping, Sequence
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
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run
from freshstack_dspy.stored.slices import Slices


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
    run = run if isinstance(run, SearchRun) else read_searches(run, qrels.spans)
    if run.searches.keys().isdisjoint(qrels.nuggets):
        raise CollectionError(f"{run.name} has no search for a query of {collection.name}")
    union = run.union()
    shown = {id_ for query_id in qrels.nuggets for id_ in run.shown(query_id)}
    known = collection.corpus.ids
    if isinstance(union, Run) and (unknown := sorted(shown - known)):
        raise CollectionError(
            f"{run.name}: {len(unknown)} chunks are not in the corpus, as {unknown[0]!r:.200}; "
            'a passage is given as {"text": "…"}'
        )
    longest = max(len(run.searches.get(query_id, ())) for query_id in qrels.nuggets)
    alone = [_alone(qrels, run.at(number), covered) for number in range(1, longest + 1)]
    so_far = {query_id: _SoFar() for query_id in qrels.nuggets}
    found: list[Step] = []
    for number in range(1, longest + 1):
        found.append(_step(qrels, run, number, alone[number - 1], so_far, found[-1:]))
    texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    return Steps(
        run=run.name,
        collection=collection.name,
        queries=len(qrels.nuggets),
        dry_run=is_dry_run(collection.manifest),
        placed_share=union.placed_share if isinstance(union, PassageRun) else None,
        steps=tuple(found),
        trajectories={
            query_id: tuple(_seen(qrels, run, query_id, alone, texts))
            for query_id in qrels.nuggets
            if query_id in run.searches
        },
    )


class _Alone(NamedTuple):
    """What the searches at one step bring by themselves."""

    supported: Mapping[str, frozenset[str]]
    """Ids of nuggets by query."""
    unjudged: Mapping[str, Mapping[str, float]]
    """By query, the share of each document that no label covers."""


def _alone(qrels: NuggetQrels, run: SearchRun, covered: float) -> _Alone:
    judged, given = qrels, run.union()
    if isinstance(given, PassageRun):
        judged, given = judge_passages(given, qrels, covered)
    supported: dict[str, frozenset[str]] = {}
    unjudged: dict[str, Mapping[str, float]] = {}
    for query_id, nuggets in qrels.nuggets.items():
        ids = given.ids.get(query_id, ())
        supported[query_id] = frozenset(
            nugget_id
            for nugget_id in nuggets
            if any(judged.labels[nugget_id].get(id_, 0) >= judged.threshold for id_ in ids)
        )
        if judged.passages is not None:
            unjudged[query_id] = judged.passages.unjudged.get(query_id, {})
        else:
            chunks = judged.judged(query_id).chunks
            unjudged[query_id] = {id_: float(id_ not in chunks) for id_ in ids}
    return _Alone(supported, unjudged)


class _SoFar:
    """What the searches of a query have shown so far."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self.texts: set[tuple[str, ...]] = set()
        self.supported: frozenset[str] = frozenset()

    def add(self, search: Search, supported: Iterable[str]) -> None:
        """Add the next search, and the nuggets that it supports by itself."""
        self.shown.update(search.documents)
        self.texts.add(_words(search))
        self.supported = self.supported.union(supported)


def _words(search: Search) -> tuple[str, ...]:
    return tuple(search.text.casefold().split())


def _step(
    qrels: NuggetQrels,
    run: SearchRun,
    number: int,
    now: _Alone,
    so_far: Mapping[str, _SoFar],
    before: Sequence[Step],
) -> Step:
    """Measure the searches at one step, which are added to those `so_far`."""
    alone: list[float] = []
    union: list[float] = []
    unjudged: list[float] = []
    last: list[Search] = []
    results = repeated = empty = same = supported = 0
    for query_id, nuggets in qrels.nuggets.items():
        known = so_far[query_id]
        for search in run.searches.get(query_id, ())[number - 1 : number]:
            last.append(search)
            alone.append(len(now.supported[query_id]) / len(nuggets))
            # A document that one search showed twice was read twice, as its tokens count.
            shares = now.unjudged[query_id]
            unjudged += [shares.get(id_, 1.0) for id_ in search.documents]
            results += len(search.documents)
            repeated += sum(id_ in known.shown for id_ in search.documents)
            empty += not search.documents
            same += bool(words := _words(search)) and words in known.texts
            known.add(search, now.supported[query_id])
        supported += len(known.supported)
        union.append(len(known.supported) / len(nuggets))
    tokens, cost = _tokens(qrels, run, last), _cost(last)
    if before:
        tokens = _sum(before[-1].tokens, tokens)
        cost = _sum(before[-1].cost, cost)
    return Step(
        step=number,
        searches=len(alone),
        alone=fmean(alone),
        union=fmean(union),
        added=fmean(union) - (before[-1].union if before else 0.0),
        repeated=repeated / results if results else 0.0,
        unjudged=fmean(unjudged) if unjudged else 0.0,
        empty=empty,
        same=same,
        tokens=tokens,
        per_thousand=1000 * supported / tokens if tokens else None,
        cost=cost,
        per_dollar=supported / cost if cost else None,
    )


def _sum(before: Any, now: Any) -> Any:
    return None if before is None or now is None else before + now


def _cost(searches: Iterable[Search]) -> float | None:
    costs = [search.cost for search in searches]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _tokens(qrels: NuggetQrels, run: SearchRun, searches: Iterable[Search]) -> int | None:
    """The tokens of all results shown; a result outside the corpus counts by its own text."""
    lengths = qrels.spans.lengths if run.has_passages and qrels.spans else qrels.tokens
    shown = (id_ for search in searches for id_ in search.documents)
    try:
        return sum(
            count_tokens(run.unplaced[id_]) if id_ in run.unplaced else lengths[id_]
            for id_ in shown
        )
    except KeyError:
        return None


def _seen(
    qrels: NuggetQrels,
    run: SearchRun,
    query_id: str,
    alone: Sequence[_Alone],
    texts: Mapping[str, str],
) -> list[Seen]:
    found: list[Seen] = []
    so_far = _SoFar()
    for search, at in zip(run.searches[query_id], alone, strict=False):
        old, known = set(search.documents) & so_far.shown, so_far.supported
        so_far.add(search, at.supported[query_id])
        now, nuggets = so_far.supported, qrels.nuggets[query_id]
        found.append(
            Seen(
                search=search.text,
                results=len(search.documents),
                repeated=len(old),
                unplaced=sum(id_ in run.unplaced for id_ in search.documents),
                found=tuple(texts[id_] for id_ in nuggets if id_ in now - known),
                missing=tuple(texts[id_] for id_ in nuggets if id_ not in now),
            )
        )
    return found
