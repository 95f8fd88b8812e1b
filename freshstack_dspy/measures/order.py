"""The order of a ranking by the rule of a program: what decides, and how ties are broken."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.run import Run

_SCORE = attrgetter("score")
Ties = Literal["ascending", "descending", "listed"]
"""Which of two chunks with one score comes first: the smaller id, the larger id, or the one that
was listed first. Ids are compared by code point, which is the order of their UTF-8 bytes too, so
that C programs see the same."""


@dataclass(frozen=True)
class Order:
    """A rule that puts the chunks of a ranking in order.

    Attributes:
        by: The `score`, or the `rank` column of the run's file; a run that is no file ranks as it
            was listed.
        ties: How equal scores are broken.
        single: Whether scores are rounded to single precision first, as by programs that keep
            them as a C `float`: near ones are then tied.
        cut: How many chunks are left before ties are broken so, counted with the earlier listed of
            two tied chunks first; None: all.
    """

    by: Literal["score", "rank"] = "score"
    ties: Ties = "ascending"
    single: bool = False
    cut: int | None = None

    def chunks(self, run: Run, query_id: str, depth: int | None = None) -> Sequence[str]:
        """Give the chunk ids of a query, best first; none where the run does not have it.

        Args:
            run: The rankings.
            query_id: The query.
            depth: How many chunks are given; None: all.

        Raises:
            CollectionError: Ranks decide, and one stands twice for the query.
        """
        if self == OURS:
            return [chunk_id for chunk_id, _ in run.rankings.get(query_id, ())[:depth]]
        return self._chunks(run, query_id)[:depth]

    def breaks_ties(self, run: Run, query_id: str, depth: int | None = None) -> bool:
        """Tell whether two of the first chunks have one score, so that it did not order them.

        Args:
            run: The rankings.
            query_id: The query.
            depth: How many chunks are looked at, and the one after them, which the cut-off parts
                from the last; None: all.
        """
        if self.by == "rank":
            return False
        ranking = run.rankings.get(query_id, ())[: None if depth is None else depth + 1]
        scores: Iterable[float] = map(_SCORE, ranking)
        if self.single:
            scores = array("f", scores)
        return len(set(scores)) < len(ranking)

    def _chunks(self, run: Run, query_id: str) -> Sequence[str]:
        listed = run.listed.get(query_id)
        if self.by == "rank":
            return _by_rank(run, query_id)
        scores = dict(run.rankings.get(query_id, ()))
        if self.single:
            scores = dict(zip(scores, array("f", scores.values()), strict=True))
        chunks = list(listed or scores)
        if self.cut is not None:
            chunks = sorted(chunks, key=scores.__getitem__, reverse=True)[: self.cut]
        if self.ties != "listed":
            chunks.sort(reverse=self.ties == "descending")
        return sorted(chunks, key=scores.__getitem__, reverse=True)


OURS = Order()
"""Score descending, then id ascending; scores in double precision."""


def _by_rank(run: Run, query_id: str) -> Sequence[str]:
    ranked = run.by_rank.get(query_id)
    if ranked == ():
        raise CollectionError(
            f"run {run.name!r}, query {query_id!r}: a rank stands twice, so the rank column gives "
            "no order; take conventions that go by the score, as pyndeval"
        )
    listed = run.listed.get(query_id)
    return ranked or listed or [chunk_id for chunk_id, _ in run.rankings.get(query_id, ())]
