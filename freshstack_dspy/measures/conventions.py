"""Conventions: what evaluation programs do differently with ties and with what is missing.

The formulas are the same everywhere; what differs stands here, by program. Ours are one order for
every measure, and a choice for everything that is missing.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import fmean
from typing import Literal

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.measure import Measure, Value
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


Counts = Literal["zero", "skip"]
"""What a query counts that has nothing to be measured: 0, or it is left out of the mean."""

OUR_CONVENTIONS = "freshstack_dspy"
_DEEPEST = 20
"""The compiled-in depth of ndeval."""


@dataclass(frozen=True)
class Known:
    """What a program has of a family of measures.

    Attributes:
        parameters: Those it has as well.
        required: What they must be, where that is not as by default.
        exact: Of a parameter, the values with which it computes the formula; others it takes, and
            gives something else.
        shallowest: The least cut-off at which it computes the formula.
        deepest: The greatest; None: any; 0: it has the measure without a cut-off only.
        without_cutoff: Whether it has the measure without a cut-off.
    """

    parameters: frozenset[str] = frozenset({"rel"})
    required: frozenset[tuple[str, Value]] = frozenset()
    exact: Mapping[str, frozenset[Value]] = field(default_factory=dict)
    shallowest: int = 1
    deepest: int | None = None
    without_cutoff: bool = False

    def has(self, measure: Measure) -> bool:
        """Whether the program can compute the measure, as its formula says."""
        if any(name not in self.parameters for name, _ in measure.parameters):
            return False
        if any(value not in self.exact.get(name, {value}) for name, value in measure.parameters):
            return False
        if not self.required.issubset(measure.parameters):
            return False
        if measure.k is None:
            return self.without_cutoff
        return self.shallowest <= measure.k and (self.deepest is None or measure.k <= self.deepest)


@dataclass(frozen=True)
class Decimals:
    """To how many decimals a program rounds a measure.

    Attributes:
        value: That of a query, before the mean is taken; None: not.
        mean: The mean, rounded so one after the other.
        by_sum: Whether the values are added up by `sum`, in the order of the qrels, or one by
            one, in the order of the run; the last bit, on which rounding can hang, may differ.
    """

    value: int | None = None
    mean: tuple[int, ...] = (4,)
    by_sum: bool = False


@dataclass(frozen=True)
class Conventions:
    """What an evaluation program does with ties and with what is missing.

    Attributes:
        name: By which they are asked for.
        order: Of the chunks, for measures without an order of their own.
        orders: By family, where the program has another order for it.
        absent: What a query of the qrels counts that is not in the run.
        empty: What a query counts whose ranking is empty.
        undefined: What a query counts where a measure has no value, as Recall where no chunk is
            relevant.
        known: By family, what of it the program has; None: everything.
        decimals: By family, how the program rounds; nothing is rounded otherwise.
    """

    name: str
    order: Order = OURS
    orders: Mapping[str, Order] = field(default_factory=dict)
    absent: Counts = "zero"
    empty: Counts = "zero"
    undefined: Counts = "zero"
    known: Mapping[str, Known] | None = None
    decimals: Mapping[str, Decimals] = field(default_factory=dict)

    def order_of(self, measure: Measure, cutoffs: Iterable[int | None]) -> Order:
        """Give the order that a measure sees.

        Args:
            measure: The measure.
            cutoffs: Those of all measures asked for: the official `freshstack` package cuts every
                ranking at the deepest of them that its library can do.
        """
        order = self.orders.get(measure.family, self.order)
        if order.cut is None:
            return order
        if measure.k is None or measure.k > order.cut:
            return replace(order, cut=None)
        return replace(order, cut=max(k for k in cutoffs if k is not None and k <= order.cut))

    def mean(self, family: str, in_qrels: Sequence[float], in_run: Sequence[float]) -> float:
        """Take the mean of a measure; 0 where no query has a value.

        Args:
            family: A key of `FAMILIES`.
            in_qrels: The values, in the order of the queries of the qrels.
            in_run: The same, in the order of the queries of the run, those it has not last.
        """
        if not in_qrels:
            return 0.0
        decimals = self.decimals.get(family)
        if decimals is None:
            return fmean(in_qrels)
        total = 0.0
        for value in in_run:
            total += value
        mean = (sum(in_qrels) if decimals.by_sum else total) / len(in_qrels)
        for places in decimals.mean:
            mean = round(mean, places)
        return mean

    def has(self, measure: Measure) -> bool:
        """Whether the program itself can compute the measure, as its formula says."""
        if self.known is None:
            return True
        return measure.family in self.known and self.known[measure.family].has(measure)


_ALPHA = frozenset({"rel", "alpha"})
# With any other alpha ndeval rounds as it adds up gains, so that of chunks that gain the same, not
# the one with the largest id stands first in its ideal ranking, and the rest of it differs.
_EXACT: dict[str, frozenset[Value]] = {"alpha": frozenset({0.0, 0.25, 0.5, 0.75, 1.0})}
_PYNDEVAL = {
    "alpha_nDCG": Known(_ALPHA, exact=_EXACT, deepest=_DEEPEST),
    # At 1 ndeval leaves out the division by what is highest possible, of these two.
    "alpha_DCG": Known(_ALPHA, shallowest=2, deepest=_DEEPEST),
    "ERR_IA": Known(_ALPHA, shallowest=2, deepest=_DEEPEST),
    "nERR_IA": Known(_ALPHA, exact=_EXACT, deepest=_DEEPEST),
    "P_IA": Known(deepest=_DEEPEST),
    "StRecall": Known(deepest=_DEEPEST),
    "NRBP": Known(_ALPHA | {"beta"}, deepest=0, without_cutoff=True),
    "nNRBP": Known(_ALPHA | {"beta"}, exact=_EXACT, deepest=0, without_cutoff=True),
    "AP_IA": Known(deepest=0, without_cutoff=True),
}
_TREC_EVAL = {
    "nDCG": Known(frozenset({"grade"}), without_cutoff=True),
    "P": Known(),
    "Recall": Known(without_cutoff=True),
    "Success": Known(),
    "AP": Known(without_cutoff=True),
    "RR": Known(deepest=0, without_cutoff=True),
    "Rprec": Known(deepest=0, without_cutoff=True),
}
_FRESHSTACK = {
    "alpha_nDCG": Known(deepest=_DEEPEST),
    "Coverage": Known(),
    "Recall": Known(),
    "nDCG": Known(frozenset({"grade"}), required=frozenset({("grade", "count")})),
}
_DESCENDING = Order(ties="descending", single=True)
_NDEVAL = Conventions("ndeval", Order(by="rank"), absent="skip", empty="skip", known=_PYNDEVAL)
_TREC = Conventions("trec_eval", _DESCENDING, absent="skip", known=_TREC_EVAL)

CONVENTIONS: dict[str, Conventions] = {
    each.name: each
    for each in (
        Conventions(OUR_CONVENTIONS),
        Conventions("pyndeval", absent="skip", empty="skip", known=_PYNDEVAL),
        _NDEVAL,
        replace(_NDEVAL, name="ndeval -c", absent="zero", empty="zero"),
        _TREC,
        replace(_TREC, name="trec_eval -c", absent="zero"),
        Conventions(
            "freshstack",
            Order(ties="listed"),
            {
                "alpha_nDCG": Order(cut=_DEEPEST),
                "Recall": _DESCENDING,
                "nDCG": _DESCENDING,
            },
            known=_FRESHSTACK,
            decimals={
                "alpha_nDCG": Decimals(),
                "Coverage": Decimals(value=5, by_sum=True),
                "Recall": Decimals(),
                "nDCG": Decimals(mean=(5, 4)),
            },
        ),
    )
}
"""By name. `freshstack_dspy`: ours. `pyndeval` 0.0.8. `ndeval`: NIST's, by the rank column as it
does unless told otherwise; with `-c`, a topic that the run has not counts 0. `trec_eval`, as
pytrec_eval-terrier 0.5.11 runs it, and with `-c`. `freshstack`: the official package, 0.0.6."""


def conventions_named(name: str) -> Conventions:
    """Give conventions by their name.

    Raises:
        ConfigError: There are none of this name; the message lists those there are.
    """
    if name not in CONVENTIONS:
        listed = ", ".join(map(repr, CONVENTIONS))
        raise ConfigError(f"there are no conventions {name!r}; there are {listed}")
    return CONVENTIONS[name]
