"""Which questions a run fails, and why: the nuggets found and missed, and the top results.

The top of a ranking is the part that the measure looks at. A nugget is found if a chunk or passage
of the top supports it, as in the measures; each missed nugget has one kind of `KINDS`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from freshstack_dspy.collection.evaluating import runs_of
from freshstack_dspy.collection.grouping import GROUPINGS, groupings, query_groups
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.density import ChunkKind, mean_redundancy, redundancy
from freshstack_dspy.measures.evaluation import Evaluation, evaluate, read_run_of
from freshstack_dspy.measures.measure import Measure, MeasureSource, parse_measure
from freshstack_dspy.measures.passage_labels import (
    chunks_under,
    held_labels,
    judge_passages,
)
from freshstack_dspy.measures.qrels import ChunkLabels, NuggetQrels
from freshstack_dspy.measures.run import UNPLACED, PassageRun
from freshstack_dspy.measures.spans import Span, shared, size
from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    DRY_RUN,
    OF_THE_QUESTION,
    Importance,
    Record,
    SliceName,
    Spans,
    Technique,
)
from freshstack_dspy.rows import load_pandas
from freshstack_dspy.stored.folder import StoredCollection, find_query
from freshstack_dspy.stored.passages import File
from freshstack_dspy.stored.record_files import rows

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 20
"""How many results of a top are listed at most."""
_OPENING = 200


Kind = Literal["evidence_cut", "unjudged", "not_in_corpus", "ranked_low", "not_retrieved"]
KINDS: dict[Kind, str] = {
    "evidence_cut": "passages of the top hold its evidence, or half of it, together and not alone",
    "unjudged": "most of the top has no label for it, or no label supports it and a judgment failed",
    "not_in_corpus": "no judged chunk supports it",
    "ranked_low": "the run has what supports it, below the top",
    "not_retrieved": "the corpus has what supports it, and the run does not",
}
"""Why a nugget is missed: the first of these that holds, so that each missed nugget has one kind.

Where none of the first four holds, and passages below the top hold half of the evidence together,
it is `evidence_cut` too. Evidence is that of one judged chunk."""
NEXT: dict[Kind, str] = {
    "evidence_cut": "longer chunks, or an overlap, would hold it whole",
    "unjudged": "judge what the run found: freshstack extend",
    "not_in_corpus": "add documents that say it",
    "ranked_low": "rerank, or look deeper",
    "not_retrieved": "search otherwise: by sub-questions, or with another retriever",
}
_IN_NOTEBOOK = 10
"""How many queries a notebook shows."""


class Support(Record):
    """A judged chunk that supports a nugget, and the words that show it."""

    chunk_id: str
    label: int
    words: tuple[str, ...]
    """The evidence, one or two quotes; none where the judgment names none."""
    text: str
    """The text of the chunk."""
    evidence: Spans
    """Where in `text` these words are, in characters."""


class Pieces(Record):
    """Passages of a run that hold the evidence of a chunk together, and none alone."""

    chunk_id: str
    ranks: tuple[int, ...]
    held: float
    """The share of the evidence, at least a half, or `covered` where that is less."""

    def __str__(self) -> str:
        ranks = ", ".join(map(str, self.ranks))
        return f"{self.held:.0%} of its evidence at rank{'s' * (len(self.ranks) > 1)} {ranks}"


class AnalyzedNugget(Record):
    """A nugget, and where a run has what supports it."""

    nugget_id: str
    text: str
    importance: Importance | None
    kind: Kind | None
    """Why it is missed; None where it is found."""
    rank: int | None
    """The first in the run at which a chunk or passage supports it, from 1, also below the top."""
    support: Support | None
    """The chunk that supports it at that rank, or whose evidence is cut. Where there is neither, the
    one with the highest label, of these the first that the pool found. None: the corpus has none."""
    pieces: Pieces | None = None
    """Where the evidence is, if it is cut."""
    against_rank: int | None = None
    """The first rank at which the other run has what supports it."""
    techniques: dict[Technique, int]
    """By technique that does not see the answer, the first rank at which its list, of all retrievers
    of the pool, has a chunk that supports it."""


class Result(Record):
    """A result in the top of a run."""

    rank: int
    document: str
    """The id of the chunk or passage."""
    labels: dict[str, int]
    """Its labels by nugget; empty if it is unjudged. For a passage, 0 if its evidence is already
    in one above."""
    supports: tuple[str, ...]
    """The nuggets that it supports."""
    opening: str
    """How its text begins; empty where it has no place in the corpus."""


def is_perfect(score: float | None, kinds: "Iterable[Kind | None]") -> bool:
    """Tell whether a query has nothing to look at: no nugget is missed, and the score is the best."""
    return score is not None and score > 1 - 1e-9 and not any(kinds)


class QueryAnalysis(Record):
    """What a run has for one query."""

    query_id: str
    question: str
    slice: SliceName
    score: float | None
    """By the measure; None where the query is not measured, for the corpus supports none of its
    nuggets."""
    against: float | None
    """That of the other run."""
    results: int
    """How many the run has."""
    top: tuple[Result, ...]
    """What the measure looks at, at most the first 20."""
    nuggets: tuple[AnalyzedNugget, ...]
    """All that are not doubtful, also those that the corpus does not support, in their order."""

    def __repr__(self) -> str:
        summary = f"{len(self.found)} of {counted(len(self.nuggets), 'nugget')} found"
        return f"QueryAnalysis({self.query_id!r}, {'; '.join((summary, *_listed(self.kinds)))})"

    __str__ = __repr__

    @property
    def difference(self) -> float | None:
        """The score minus that of the other run."""
        return None if None in (self.score, self.against) else self.score - self.against  # type: ignore[operator]

    @property
    def found(self) -> tuple[AnalyzedNugget, ...]:
        """The nuggets that the top supports."""
        return tuple(nugget for nugget in self.nuggets if nugget.kind is None)

    @property
    def missed(self) -> tuple[AnalyzedNugget, ...]:
        """The others."""
        return tuple(nugget for nugget in self.nuggets if nugget.kind is not None)

    @property
    def is_perfect(self) -> bool:
        """Whether nothing is missed and the score is 1."""
        return is_perfect(self.score, (nugget.kind for nugget in self.nuggets))

    @property
    def kinds(self) -> dict[Kind, int]:
        """How many nuggets are missed, by kind."""
        counts = Counter(nugget.kind for nugget in self.nuggets)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}


class KindCount(Record):
    """How many nuggets are missed for one reason."""

    kind: Kind
    nuggets: int
    lost: int
    """Those of them that the top of the other run has."""
    queries: tuple[str, ...]
    """With such a nugget, in the order of the analysis."""
    techniques: dict[Technique, int]
    """How many of them a technique's list, as deep as the top, would have found."""


class GroupKinds(Record):
    """The missed nuggets of a group of queries."""

    by: str
    """`tag`, or a column of the questions' table."""
    group: str
    queries: int
    nuggets: int
    kinds: dict[Kind, int]


class Analysis(Record, Shown):
    """What `analyze` found."""

    collection: str
    content_hash: str
    dry_run: bool
    """Whether a word counter made labels, so that nothing is concluded."""
    run: str
    against: str | None
    measure: str
    mean: float
    against_mean: float | None
    measured: int
    """How many queries have a score."""
    total: int
    """How many were looked at: all that have nuggets."""
    nuggets: int
    """The nuggets of all these queries."""
    top: dict[ChunkKind, float]
    """The shares of required, redundant and other chunks in the top, as means over the queries with
    a score and results; empty for runs of passages and for grades without nuggets."""
    kinds: tuple[KindCount, ...]
    """The kinds of miss over all queries, in the order of `KINDS`; the kinds that there are."""
    groups: tuple[GroupKinds, ...]
    """The kinds of miss by tag and by each column of their table; in each, the most missed first."""
    queries: tuple[QueryAnalysis, ...]
    """The worst first: by difference where two runs are given, else by score; then by how many
    nuggets are missed that the corpus has. Those without a score come last."""

    def __repr__(self) -> str:
        summary = f"{self.nuggets - self.missed:,} of {counted(self.nuggets, 'nugget')} found"
        kinds = _listed({kind.kind: kind.nuggets for kind in self.kinds})
        dry = (DRY_RUN,) if self.dry_run else ()
        return f"Analysis({self.run!r}, {'; '.join((summary, *kinds, *dry))})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        shown = self.model_copy(update={"queries": self.queries[:_IN_NOTEBOOK]})
        return html_fragment(shown.page())

    @property
    def missed(self) -> int:
        """How many nuggets are missed."""
        return sum(kind.nuggets for kind in self.kinds)

    @property
    def worst(self) -> tuple[QueryAnalysis, ...]:
        """The listed queries that its page shows: those that are not perfect."""
        return tuple(query for query in self.queries if not query.is_perfect)

    def to_rows(self) -> list[dict[str, Any]]:
        """Give a row for each nugget of the listed queries."""
        return [
            {
                **query.model_dump(include={"query_id", "question", "score", "against"}),
                **nugget.model_dump(include={"nugget_id", "text", "kind", "rank", "against_rank"}),
                "chunk_id": nugget.support.chunk_id if nugget.support else None,
                "evidence": " … ".join(nugget.support.words) if nugget.support else None,
            }
            for query in self.queries
            for nugget in query.nuggets
        ]

    def to_pandas(self) -> "pd.DataFrame":
        """Give a table with a row for each nugget of the listed queries."""
        return load_pandas().DataFrame(self.to_rows())


def _listed(kinds: dict[Kind, int]) -> list[str]:
    return [f"{number:,} {kind.replace('_', ' ')}" for kind, number in kinds.items()]


def analyze(
    collection: StoredCollection | Path | str,
    run: Any,
    against: Any = None,
    *,
    measure: MeasureSource = "alpha_nDCG@10",
    covered: float = 1.0,
    limit: int | None = None,
    query_id: str | None = None,
) -> Analysis:
    """Say on which queries a run does worst, and why.

    Args:
        collection: The collection, or its folder.
        run: As for `Collection.evaluate`: of chunks or of passages.
        against: Another run, as the one in use: the queries that lost most against it come first.
        measure: Says what a query scores and how much of a ranking is its top, as in `evaluate`.
        covered: For runs of passages, as in `evaluate`.
        limit: How many queries are listed; None: all. Kinds and groups always count all.
        query_id: List this query alone.

    Raises:
        CollectionError: As for `evaluate`; or there is no such query, or it has no nuggets.
        ConfigError: The measure is unknown.
    """
    analyzer = Analyzer(StoredCollection.load(collection), parse_measure(measure), covered)
    return analyzer.analyze(run, against, limit, query_id)


class _Seen(NamedTuple):
    """A run's result for one nugget."""

    kind: Kind | None
    rank: int | None
    chunk_id: str | None
    """The judged chunk to show with it."""
    pieces: Pieces | None = None


@dataclass(frozen=True)
class _Looked:
    """A run as the measure looks at it."""

    evaluation: Evaluation
    labels: NuggetQrels
    """The labels of its chunks or passages, for all nuggets."""
    rankings: Mapping[str, Sequence[str]]
    tops: Mapping[str, Sequence[str]]
    of_passages: bool

    @property
    def mean(self) -> float:
        return self.evaluation.means[self.evaluation.measures[0]]

    def score(self, query: str) -> float | None:
        return next(iter(self.evaluation.per_query.get(query, {}).values()), None)

    def rank(self, query: str, nugget: str, rel: int) -> int | None:
        """The first rank at which something supports a nugget."""
        labels = self.labels.labels[nugget]
        ranks = enumerate(self.rankings[query], 1)
        return next((rank for rank, document in ranks if labels.get(document, -1) >= rel), None)

    def has(self, query: str, nugget: str, rel: int) -> bool:
        """Whether the top supports a nugget."""
        rank = self.rank(query, nugget, rel)
        return rank is not None and rank <= len(self.tops[query])


class _Label(NamedTuple):
    """A judgment that a chunk supports a nugget."""

    label: int
    evidence: Spans


class Analyzer:
    """Looks at runs with the nuggets and labels of a collection."""

    def __init__(self, collection: StoredCollection, measure: Measure, covered: float) -> None:
        self.collection, self.measure, self.covered = collection, measure, covered
        self.spans, self.qrels = collection.files, collection.qrels()
        self._all = collection.qrels("all", "all")
        self.nuggets = self._all.nuggets
        self.rel = measure.rel or self._all.threshold
        self.supports: defaultdict[str, dict[str, _Label]] = defaultdict(dict)
        fields = "nugget_id", "chunk_id", "label", "evidence"
        for nugget_id, chunk_id, label, evidence in rows(collection.judgments, *fields):
            if label is not None and label >= self.rel:
                self.supports[nugget_id][chunk_id] = _Label(label, evidence)
        self._slices: dict[str, SliceName] = {
            part.query_id: part.slice for part in collection.slices
        }
        self._nuggets = {nugget.nugget_id: nugget for nugget in collection.nuggets}
        self._ranks: dict[tuple[str, str], dict[Technique, int]] = {
            (query_id, chunk_id): {by.technique: by.rank for by in chain(*ranked)}
            for query_id, chunk_id, *ranked in rows(
                collection.pool, "query_id", "chunk_id", "pooled_by", "ranked_below"
            )
        }

    def analyze(
        self,
        run: Any,
        against: Any = None,
        limit: int | None = None,
        query_id: str | None = None,
        *,
        evaluation: Evaluation | None = None,
    ) -> Analysis:
        """Analyze a run; arguments and errors are those of `analyze`.

        `evaluation`: of the run, of all queries, with the measure as its first, where it is there.
        """
        new = self.looked_at(run, evaluation)
        old = None if against is None else self.looked_at(against)
        seen = {query: self.seen(new, query) for query in self.nuggets}
        order = sorted(self.nuggets, key=lambda query: _badness(query, new, old, seen[query]))
        listed = order[:limit]
        if query_id is not None:
            listed = [find_query(self.collection, query_id).query_id]
            if query_id not in self.nuggets:
                raise CollectionError(f"query {query_id!r} has no nuggets, so none can be missed")
        return Analysis(
            collection=self.collection.name,
            content_hash=self.collection.manifest.content_hash,
            dry_run=self.qrels.dry_run,
            run=new.evaluation.run,
            against=None if old is None else old.evaluation.run,
            measure=self.measure.name,
            mean=new.mean,
            against_mean=None if old is None else old.mean,
            measured=len(new.evaluation.per_query),
            total=len(order),
            nuggets=sum(map(len, seen.values())),
            top=self.redundancy(new),
            kinds=tuple(_counted(self, new, old, {query: seen[query] for query in order})),
            groups=tuple(_by_group(self.collection, seen)),
            queries=tuple(self.analysis(query, new, old, seen[query]) for query in listed),
        )

    def looked_at(self, run: Any, evaluation: Evaluation | None = None) -> _Looked:
        """Evaluate a run that is not, and give it with its tops."""
        loaded = read_run_of(self._all, runs_of(self.collection, run))
        evaluation = evaluation or evaluate(self.qrels, loaded, self.measure, covered=self.covered)
        if isinstance(loaded, PassageRun):
            labels, placed = judge_passages(loaded, self._all, self.covered)
        else:
            labels, placed = self._all, loaded
        rankings = {
            query: [document for document, _ in placed.rankings.get(query, ())]
            for query in self.nuggets
        }
        tops = {
            query: self.measure.top(ranking, labels.judged(query))
            for query, ranking in rankings.items()
        }
        return _Looked(evaluation, labels, rankings, tops, isinstance(loaded, PassageRun))

    def redundancy(self, run: _Looked) -> dict[ChunkKind, float]:
        """Give the mean shares of the kinds of chunks in the tops of a run."""
        if run.of_passages or self.qrels.plain:
            return {}
        return mean_redundancy(
            redundancy(run.tops[query], self.qrels.judged(query, self.measure.rel))
            for query in self.qrels.nuggets
        )

    def seen(self, run: _Looked, query: str) -> dict[str, _Seen]:
        """Give a run's result for each nugget of a query."""
        return {nugget: self._nugget(run, query, nugget) for nugget in self.nuggets[query]}

    def _nugget(self, run: _Looked, query: str, nugget: str) -> _Seen:
        ranking, top = run.rankings[query], run.tops[query]
        rank = run.rank(query, nugget, self.rel)
        by = None if rank is None else self._chunk_of(run, query, nugget, ranking[rank - 1])
        if rank is not None and rank <= len(top):
            return _Seen(None, rank, by)
        supports = self.supports[nugget]
        labelled = sum(self._labelled(run, query, nugget, document) for document in top)
        kind: Kind
        if pieces := self._pieces(run, query, nugget, top):
            kind = "evidence_cut"
        elif 2 * labelled < len(top) or (not supports and self._all.failed[nugget]):
            kind = "unjudged"
        elif not supports:
            kind = "not_in_corpus"
        elif rank is not None:
            kind = "ranked_low"
        else:
            pieces = self._pieces(run, query, nugget, ranking)
            kind = "evidence_cut" if pieces else "not_retrieved"
        if pieces:
            by = pieces.chunk_id
        elif rank is None:
            by = min(supports, key=lambda id_: self._order(query, nugget, id_), default=None)
        return _Seen(kind, rank, by, pieces)

    def _labelled(self, run: _Looked, query: str, nugget: str, document: str) -> float:
        """The share of a document with a label for a nugget: 0 or 1, or a share of its bytes."""
        if document in run.labels.labels[nugget]:
            return 1.0
        if not run.of_passages or document.startswith(UNPLACED):
            return 0.0
        span, near = self._near(query, document)
        judged = [chunk.span for chunk in near if chunk.labels.get(nugget) is not None]
        return shared([span], judged) / (span[1] - span[0])

    def _near(self, query: str, document: str) -> tuple[Span, Sequence[ChunkLabels]]:
        """Give the span of a document, and the labels of the query in its file."""
        place = self.spans.place(document)
        labels = self.spans.labels(query).get((place.source, place.path), ())
        return (place.start, place.end), labels

    def _chunk_of(self, run: _Looked, query: str, nugget: str, document: str) -> str:
        """The judged chunk through which a chunk or passage supports a nugget: itself, or the best."""
        if not run.of_passages:
            return document
        span, near = self._near(query, document)
        held = held_labels(chunks_under(span, near), nugget, span, self.covered)
        return min((-label, chunk_id) for chunk_id, label in held)[1]

    def _pieces(
        self, run: _Looked, query: str, nugget: str, documents: Sequence[str]
    ) -> Pieces | None:
        """Give the passages that hold most of the evidence of one chunk, if half of it or more."""
        by_file: defaultdict[File, list[tuple[int, Span]]] = defaultdict(list)
        for rank, document in enumerate(documents, 1):
            if run.of_passages and not document.startswith(UNPLACED):
                place = self.spans.place(document)
                by_file[place.source, place.path].append((rank, (place.start, place.end)))
        pieces = []
        for file, spans in by_file.items():
            for chunk in self.spans.labels(query).get(file, ()):
                if chunk.chunk_id in self.supports[nugget]:
                    evidence = chunk.evidence[nugget]
                    held = shared([span for _, span in spans], evidence) / size(evidence)
                    ranks = tuple(rank for rank, span in spans if shared([span], evidence))
                    pieces.append(Pieces(chunk_id=chunk.chunk_id, ranks=ranks, held=held))
        best = min(pieces, key=lambda each: (-each.held, each.ranks, each.chunk_id), default=None)
        return best if best and best.held >= min(self.covered, 0.5) else None

    def _order(self, query: str, nugget: str, chunk_id: str) -> tuple[float, float, str]:
        """The order of a nugget's chunks: the highest label first, then what the pool found first."""
        ranks = self._ranks.get((query, chunk_id), {}).values()
        label = self.supports[nugget][chunk_id].label
        return -label, min(ranks, default=math.inf), chunk_id

    def techniques(self, query: str, nugget: str) -> dict[Technique, int]:
        """The first rank of a chunk that supports a nugget in the list of each blind technique."""
        by_chunk = [self._ranks.get((query, id_), {}) for id_ in self.supports[nugget]]
        ranks = {
            name: [ranks[name] for ranks in by_chunk if name in ranks] for name in OF_THE_QUESTION
        }
        return {name: min(ranks[name]) for name in OF_THE_QUESTION if ranks[name]}

    def analysis(
        self, query_id: str, run: _Looked, other: _Looked | None, seen: Mapping[str, _Seen]
    ) -> QueryAnalysis:
        """Give the analysis of a query."""
        query = find_query(self.collection, query_id)
        return QueryAnalysis(
            query_id=query_id,
            question=query.text,
            slice=self._slices[query_id],
            score=run.score(query_id),
            against=None if other is None else other.score(query_id),
            results=len(run.rankings[query_id]),
            top=tuple(
                self._result(run, query_id, rank, document)
                for rank, document in enumerate(run.tops[query_id][:_SHOWN], 1)
            ),
            nuggets=tuple(
                AnalyzedNugget(
                    nugget_id=nugget_id,
                    text=self._nuggets[nugget_id].text,
                    importance=self._nuggets[nugget_id].importance,
                    kind=view.kind,
                    rank=view.rank,
                    support=self._support(nugget_id, view.chunk_id),
                    pieces=view.pieces,
                    against_rank=other and other.rank(query_id, nugget_id, self.rel),
                    techniques=self.techniques(query_id, nugget_id),
                )
                for nugget_id, view in seen.items()
            ),
        )

    def _result(self, run: _Looked, query: str, rank: int, document: str) -> Result:
        labels = {
            nugget: label
            for nugget in self.nuggets[query]
            if (label := run.labels.labels[nugget].get(document)) is not None
        }
        return Result(
            rank=rank,
            document=document,
            labels=labels,
            supports=tuple(nugget for nugget, label in labels.items() if label >= self.rel),
            opening=" ".join(self._text(run, document)[: 2 * _OPENING].split())[:_OPENING],
        )

    def _text(self, run: _Looked, document: str) -> str:
        if not run.of_passages:
            return self.collection.chunk(document).text
        if document.startswith(UNPLACED):
            return ""
        return self.spans.passage(self.spans.place(document))

    def _support(self, nugget: str, chunk_id: str | None) -> Support | None:
        if chunk_id is None:
            return None
        chunk, (label, evidence) = self.collection.chunk(chunk_id), self.supports[nugget][chunk_id]
        return Support(
            chunk_id=chunk_id,
            label=label,
            words=tuple(chunk.text_at(*span) for span in evidence),
            text=chunk.text,
            evidence=tuple((chunk.place_at(start), chunk.place_at(end)) for start, end in evidence),
        )


def _badness(
    query: str, run: _Looked, other: _Looked | None, seen: Mapping[str, _Seen]
) -> tuple[bool, bool, float, int, str]:
    """The sort key of queries: the worst first, those that miss nothing last."""
    score, than = run.score(query), 0.0 if other is None else other.score(query)
    missed = sum(view.kind not in (None, "not_in_corpus") for view in seen.values())
    perfect = is_perfect(score, (view.kind for view in seen.values()))
    return perfect, score is None, (score or 0.0) - (than or 0.0), -missed, query


def _counted(
    analyzer: Analyzer,
    run: _Looked,
    other: _Looked | None,
    seen: Mapping[str, Mapping[str, _Seen]],
) -> Iterator[KindCount]:
    for kind in KINDS:
        missed = [
            (query, nugget)
            for query, views in seen.items()
            for nugget, view in views.items()
            if view.kind == kind
        ]
        techniques: Counter[Technique] = Counter()
        for query, nugget in missed:
            for technique, rank in analyzer.techniques(query, nugget).items():
                techniques[technique] += rank <= (analyzer.measure.k or len(run.tops[query]))
        if missed:
            yield KindCount(
                kind=kind,
                nuggets=len(missed),
                lost=sum(other is not None and other.has(*pair, analyzer.rel) for pair in missed),
                queries=tuple(dict.fromkeys(query for query, _ in missed)),
                techniques={
                    name: techniques[name] for name in OF_THE_QUESTION if name in techniques
                },
            )


def _by_group(
    collection: StoredCollection, seen: Mapping[str, Mapping[str, _Seen]]
) -> Iterator[GroupKinds]:
    """Count by tag and by the columns of the questions' table."""
    own = [name for name in groupings(collection) if name not in GROUPINGS]
    for by in (["tag"] if any(query.tags for query in collection.queries) else []) + own:
        counts = []
        for group, ids in query_groups(collection, by).members.items():
            views = [view for query in ids for view in seen.get(query, {}).values()]
            kinds = Counter(view.kind for view in views)
            counts.append(
                GroupKinds(
                    by=by,
                    group=group,
                    queries=sum(query in seen for query in ids),
                    nuggets=len(views),
                    kinds={kind: kinds[kind] for kind in KINDS if kinds[kind]},
                )
            )
        yield from sorted(counts, key=lambda count: (-sum(count.kinds.values()), count.group))
