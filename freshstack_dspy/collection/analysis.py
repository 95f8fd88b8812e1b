"""What `analyze` says of a run: the nuggets of each query that it found and missed, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, Value, counted, cut, marked
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    DRY_RUN,
    Importance,
    Record,
    SliceName,
    Spans,
    Technique,
)
from freshstack_dspy.rows import load_pandas

if TYPE_CHECKING:
    import pandas as pd

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
_GROUPS = 5
"""How many groups are shown."""
_TOP = 5
"""How many results are shown of a query among others."""
_WORDS = 200
_AROUND = 300
"""How many characters of a chunk are shown around its evidence."""


class Support(Record):
    """A judged chunk that supports a nugget, and the words that show it."""

    chunk_id: str
    label: int
    words: tuple[str, ...]
    """The evidence, one or two quotes; none where the judgment names none."""
    text: str
    """Of the chunk."""
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
    """By nugget of which it has one; none: unjudged. Of a passage, 0 where its evidence is above."""
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
        found = f"{len(self.found)} of {counted(len(self.nuggets), 'nugget')} found"
        return f"QueryAnalysis({self.query_id!r}, {'; '.join((found, *_listed(self.kinds)))})"

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
    """Of all these queries."""
    kinds: tuple[KindCount, ...]
    """Of all queries, in the order of `KINDS`; the kinds that there are."""
    groups: tuple[GroupKinds, ...]
    """Of all queries by tag and by each column of their table; in each, the most missed first."""
    queries: tuple[QueryAnalysis, ...]
    """The worst first: by difference where two runs are given, else by score; then by how many
    nuggets are missed that the corpus has. Those without a score come last."""

    def __repr__(self) -> str:
        found = f"{self.nuggets - self.missed:,} of {counted(self.nuggets, 'nugget')} found"
        kinds = _listed({kind.kind: kind.nuggets for kind in self.kinds})
        dry = (DRY_RUN,) if self.dry_run else ()
        return f"Analysis({self.run!r}, {'; '.join((found, *kinds, *dry))})"

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

    def page(self, query_id: str | None = None) -> Page:
        """Give what is shown of it, or of one listed query with the evidence in its chunks."""
        rows = self.to_rows()
        cells = Table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else None
        if query_id is not None:
            query = next((each for each in self.queries if each.query_id == query_id), None)
            if query is None:
                raise CollectionError(
                    f"query {query_id!r} is not listed; analyze it with query_id={query_id!r}"
                )
            title = f"{self._dry_run}{self.run}, query {query_id}"
            return Page(title, tuple(self._query(query, whole=True)), self, cells)
        than = f", against {self.against}" if self.against else ""
        return Page(
            f"{self._dry_run}{self.collection}: what {self.run} misses{than}, by {self.measure}",
            (
                Text(self._summary),
                *self._kinds(),
                *self._groups(),
                *self._worst(),
                *(
                    Page(
                        f"{query.query_id}: {cut(query.question, 70)}",
                        tuple(self._query(query)),
                        anchor=query.query_id,
                    )
                    for query in self.worst
                ),
            ),
            self,
            cells,
        )

    @property
    def _dry_run(self) -> str:
        return f"{DRY_RUN}. " if self.dry_run else ""

    @property
    def _summary(self) -> str:
        than = ""
        if self.against_mean is not None:
            difference = self.mean - self.against_mean
            than = f", {self.against_mean:.4f} of {self.against} ({difference:+.4f})"
        queries = counted(self.measured, "query", "queries")
        return (
            f"mean {self.mean:.4f}{than} on {queries}; of {counted(self.nuggets, 'nugget')} of "
            f"{counted(self.total, 'query', 'queries')}, the top has {self.nuggets - self.missed:,} and misses {self.missed:,}"
        )

    def _kinds(self) -> Iterator[Table | Text]:
        if not self.kinds:
            return
        other = (f"found by\n{cut(self.against, 20)}",) if self.against else ()
        rows: list[tuple[Cell, ...]] = [
            (_words(of.kind), of.nuggets, *([of.lost] if other else []), len(of.queries))
            for of in self.kinds
        ]
        yield Table(("missed", "nuggets", *other, "queries"), rows)
        for of in self.kinds:
            found = ", ".join(
                f"{number} by {_TECHNIQUES[name]}"
                for name, number in of.techniques.items()
                if number
            )
            parts = (
                f": {KINDS[of.kind]}.",
                "" if self.dry_run else f" Next: {NEXT[of.kind]}.",
                f" In as deep a top the pool's retrievers had {found}." if found else "",
                f" Queries: {', '.join(of.queries[:10])}{', …' if len(of.queries) > 10 else ''}",
            )
            yield Text((Span(_words(of.kind), "strong"), *parts), "item")
        if any(of.kind == "not_in_corpus" for of in self.kinds):
            yield Text("What the corpus lacks is missed here, and counts in no score.", "note")

    def _groups(self) -> Iterator[Table]:
        """Tables of the groups that miss most."""
        for by in dict.fromkeys(of.by for of in self.groups):
            groups = [of for of in self.groups if of.by == by and of.kinds]
            rows = [
                (of.group, of.queries, of.nuggets, sum(of.kinds.values()), _lines(of.kinds))
                for of in groups[:_GROUPS]
            ]
            if rows:
                most = (
                    f", the {_GROUPS} of {len(groups)} that miss most"
                    if len(groups) > _GROUPS
                    else ""
                )
                yield Table((by, "queries", "nuggets", "missed", "why"), rows, f"by {by}{most}")

    def _worst(self) -> Iterator[Table]:
        if not self.worst:
            return
        rows: list[tuple[Cell, ...]] = [
            (
                (Span(query.query_id, href=f"#{query.query_id}"), cut(query.question, 30)),
                query.score,
                *([Value(query.difference, form="+.4f")] if self.against else []),
                f"{len(query.found)} of {len(query.nuggets)}",
                _lines(query.kinds),
            )
            for query in self.worst
        ]
        header = ("query", "score", *(["change"] if self.against else []), "found", "missed")
        yield Table(header, rows, f"the worst {len(rows):,} of {self.total:,}")

    def _query(self, query: QueryAnalysis, *, whole: bool = False) -> Iterator[Text | Table]:
        if whole:
            yield Text(query.question, "excerpt")
        score = "not measured, as the corpus supports none of its nuggets"
        if query.score is not None:
            score = f"{self.measure} {query.score:.4f}"
        if query.difference is not None:
            score += f", {query.against:.4f} of {self.against} ({query.difference:+.4f})"
        found = f"{len(query.found)} of {counted(len(query.nuggets), 'nugget')} found"
        yield Text(f"{score}; {found}; {counted(query.results, 'result')}")
        for nugget in (*query.missed, *query.found):
            yield from self._nugget(nugget, whole=whole)
        shown = query.top if whole else query.top[:_TOP]
        rows: list[tuple[Cell, ...]] = [
            (one.rank, (one.document, cut(one.opening, 50)), _labels(one, query)) for one in shown
        ]
        if rows:
            yield Table(("rank", "result", "supports"), rows, "on top", ids=(1, 2))

    def _nugget(self, nugget: AnalyzedNugget, *, whole: bool) -> Iterator[Text]:
        places = [] if nugget.pieces is None else [str(nugget.pieces)]
        if nugget.rank is not None:
            places.append(f"{'whole at ' if places else ''}rank {nugget.rank}")
        if nugget.against_rank is not None:
            places.append(f"rank {nugget.against_rank} of {self.against}")
        kind = Span(_words(nugget.kind) if nugget.kind else "found", "strong")
        place = f", {'; '.join(places)}" if places else ""
        yield Text((Span(nugget.nugget_id, "code"), " ", kind, f"{place}: {nugget.text}"), "item")
        if nugget.kind is not None and nugget.techniques:
            found = ", ".join(f"{_TECHNIQUES[name]} {at}" for name, at in nugget.techniques.items())
            yield Text(f"ranks in the pool's lists: {found}", "item", 1)
        if (support := nugget.support) is None:
            return
        if whole:
            yield Text(Span(support.chunk_id, "code"), "item", 1)
            yield Text(tuple(marked(support.text, support.evidence, _AROUND)), "excerpt", 1)
        else:
            quotes = [
                piece
                for one in support.words
                for piece in (" “", Span(cut(one, _WORDS), "mark"), "”")
            ]
            yield Text((Span(support.chunk_id, "code"), *quotes), "item", 1)


_TECHNIQUES: dict[Technique, str] = {
    "question": "the question",
    "sub_questions": "sub-questions",
    "closed_book_answer": "the closed-book answer",
}


def _words(kind: Kind) -> str:
    return kind.replace("_", " ")


def _listed(kinds: dict[Kind, int]) -> list[str]:
    return [f"{number:,} {_words(kind)}" for kind, number in kinds.items()]


def _lines(kinds: dict[Kind, int]) -> str:
    return ",\n".join(_listed(kinds))


def _labels(result: Result, query: QueryAnalysis) -> str:
    if result.supports:
        return "\n".join(result.supports)
    if not result.labels:
        return "unjudged"
    of = len(result.labels)
    return "none" if of == len(query.nuggets) else f"none of {of} judged"
