"""Conventions: what evaluation programs do differently with ties and with what is missing.

The formulas are the same everywhere; what differs is in `CONVENTIONS`, one row for each program.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.measure import Measure
from freshstack_dspy.measures.run import Run

Ties = Literal["ascending", "descending", "listed"]
"""Which of two chunks with one score comes first: the smaller id, the larger id, or the one that
was listed first. Ids are compared by code point, which is the order of their UTF-8 bytes too."""


@dataclass(frozen=True)
class Order:
    """A rule that puts the chunks of a ranking in order."""

    by: Literal["score", "rank"] = "score"
    """The score, or the `rank` column of the run's file; a run that is no file ranks as listed."""
    ties: Ties = "ascending"
    single: bool = False
    """Whether scores are rounded to single precision first, as by programs that keep them as a C
    `float`: near ones are then tied."""
    cut: int | None = None
    """How many chunks are left before ties are broken so, counted with the earlier listed of two
    tied chunks first; None: all."""

    def chunks(self, run: Run, query_id: str) -> Sequence[str]:
        """Give the chunk ids of a query, best first; none where the run does not have it."""
        ids = run.ids.get(query_id, ())
        if self == _OURS:
            return ids
        listed = run.listed.get(query_id) or ids
        if self.by == "rank":
            ranked = run.by_rank.get(query_id)
            if ranked == ():
                raise CollectionError(
                    f"run {run.name!r}, query {query_id!r}: two chunks have one rank, so the rank "
                    "column gives no order; take conventions that go by the score, as pyndeval"
                )
            return ranked or listed
        scores = run.scores.get(query_id, {})
        if self.single:
            scores = dict(zip(scores, array("f", scores.values()), strict=True))
        chunks = list(listed)
        if self.cut is not None:
            chunks = sorted(chunks, key=scores.__getitem__, reverse=True)[: self.cut]
        if self.ties != "listed":
            chunks.sort(reverse=self.ties == "descending")
        return sorted(chunks, key=scores.__getitem__, reverse=True)


_OURS = Order()


@dataclass(frozen=True)
class Rounding:
    """To how many decimals a program rounds a measure."""

    value: int | None = None
    """That of a query, before the mean is taken; None: not."""
    mean: tuple[int, ...] = (4,)
    """The mean, rounded so one after the other."""
    by_sum: bool = False
    """Whether the values are added up by `sum`, in the order of the qrels, or one by one, in the
    order of the run; the last bit, on which rounding can hang, may differ."""


@dataclass(frozen=True)
class Conventions:
    """What an evaluation program does with ties and with what is missing.

    A measure without a value for a query, as Recall where no chunk is relevant, counts 0 in all.
    """

    name: str
    order: Order = field(default_factory=Order)
    """The order of the chunks, for measures without an order of their own."""
    orders: Mapping[str, Order] = field(default_factory=dict)
    """By family, where the program has another order for it."""
    absent: Literal["zero", "skip"] = "zero"
    """What a query of the qrels counts that is not in the run: 0, or it is left out."""
    empty: Literal["zero", "skip"] = "zero"
    """What a query counts whose ranking is empty."""
    all_grades: frozenset[str] = frozenset()
    """Families whose gains are all grades of plain qrels above 0, whatever the lowest relevant one."""
    rounding: Mapping[str, Rounding] = field(default_factory=dict)
    """By family, how the program rounds; nothing is rounded otherwise."""

    def skips(self, run: Run, query_id: str) -> bool:
        """Whether a query is left out of all means of a run."""
        if query_id not in run:
            return self.absent == "skip"
        return self.empty == "skip" and not run.ids[query_id]

    def order_of(self, measure: Measure, cutoffs: Iterable[int | None]) -> Order:
        """Give the order that a measure sees.

        The official `freshstack` package cuts every ranking at the deepest of the cut-offs asked
        for that its library can do.
        """
        order = self.orders.get(measure.family, self.order)
        if order.cut is None:
            return order
        if measure.k is None or measure.k > order.cut:
            return replace(order, cut=None)
        return replace(order, cut=max(k for k in cutoffs if k is not None and k <= order.cut))

    def round_value(self, family: str, value: float) -> float:
        """Round the value of a query as the program does."""
        rounding = self.rounding.get(family)
        return value if rounding is None or rounding.value is None else round(value, rounding.value)

    def mean(self, family: str, in_qrels: Sequence[float], in_run: Sequence[float]) -> float:
        """Take the mean of a measure; 0 where no query has a value.

        The values are in the order of the queries of the qrels, and of the run, what it lacks last.
        """
        if not in_qrels:
            return 0.0
        rounding = self.rounding.get(family)
        if rounding is None:
            return fmean(in_qrels)
        total = 0.0
        for value in in_run:  # not `sum`, which compensates for rounding
            total += value
        mean = (sum(in_qrels) if rounding.by_sum else total) / len(in_qrels)
        for places in rounding.mean:
            mean = round(mean, places)
        return mean


ConventionsName = Literal[
    "ours", "trec_eval", "ndeval", "ndeval-traditional", "pyndeval", "freshstack"
]
_DESCENDING = Order(ties="descending", single=True)
_NDEVAL_DEPTH = 20

CONVENTIONS: dict[str, Conventions] = {
    each.name: each
    for each in (
        Conventions("ours"),
        Conventions("trec_eval", _DESCENDING, absent="skip", all_grades=frozenset({"nDCG"})),
        Conventions("ndeval", Order(by="rank"), absent="skip", empty="skip"),
        Conventions("ndeval-traditional", Order(ties="descending"), absent="skip", empty="skip"),
        Conventions("pyndeval", absent="skip", empty="skip"),
        Conventions(
            "freshstack",
            Order(ties="listed"),
            {
                "alpha_nDCG": Order(cut=_NDEVAL_DEPTH),
                "Recall": _DESCENDING,
                "nDCG": _DESCENDING,
            },
            rounding={
                "alpha_nDCG": Rounding(),
                "Coverage": Rounding(value=5, by_sum=True),
                "Recall": Rounding(),
                "nDCG": Rounding(mean=(5, 4)),
            },
        ),
    )
}
"""By name. `ndeval`: NIST's, by the rank column as it does by default, or with `-traditional`; `pyndeval` 0.0.8;
`trec_eval`, as pytrec_eval-terrier 0.5.11 runs it; `freshstack`: the official package, 0.0.6."""


def conventions_named(name: str) -> Conventions:
    """Give conventions by their name, or a ConfigError."""
    if name not in CONVENTIONS:
        listed = ", ".join(map(repr, CONVENTIONS))
        raise ConfigError(f"there are no conventions {name!r}; there are {listed}")
    return CONVENTIONS[name]
