"""What `analyze` says of a run: the nuggets of each query that it found and missed, and why."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from freshstack_dspy.pages.html import html_fragment
from freshstack_dspy.pages.page import counted
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
    """The nuggets of all these queries."""
    kinds: tuple[KindCount, ...]
    """The kinds of miss over all queries, in the order of `KINDS`; the kinds that there are."""
    groups: tuple[GroupKinds, ...]
    """The kinds of miss by tag and by each column of their table; in each, the most missed first."""
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


def _listed(kinds: dict[Kind, int]) -> list[str]:
    return [f"{number:,} {kind.replace('_', ' ')}" for kind, number in kinds.items()]
