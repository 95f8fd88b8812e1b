"""Bounds: what a measure would be if the holes of a ranking were judged.

A hole is a chunk of the top k that has no label for the query. Judged relevant, it supports every
nugget of the query, with the highest label of the collection; judged not relevant, none.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean

from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.measure import Measure
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.records import Record

RISING = frozenset({"Coverage", "F1", "P", "RR", "Recall", "StRecall", "Success"})
"""No hole that is judged relevant lowers them, so the two ends are the bounds."""
RISING_WITH_PLACE = frozenset(
    {
        *("AP", "AP_IA", "ERR_IA", "NRBP", "P_IA", "Rprec", "alpha_DCG"),
        *("alpha_nDCG", "nDCG", "nERR_IA", "nNRBP"),
    }
)
"""Of as many relevant holes, the higher they stand the higher the value; but one more relevant
hole can lower it, for the ideal or the number of relevant chunks that it is divided by grows too.
The bounds are then found by trying every number of relevant holes, all at the top or all at the
bottom."""


class Bounds(Record):
    """What a measure would be if the holes of the top k were judged.

    Holes below the top k, and chunks that were never found, stay as they are: a chunk that is
    found to be relevant there can still lower Recall or an nDCG.

    Attributes:
        measure: Its name.
        none_relevant: By query, the value if no hole were relevant.
        all_relevant: By query, the value if every hole were relevant.
        lowest: By query, the lowest value that judging the holes can give, each as relevant to
            every nugget or to none; a hole that supports some nuggets only can give a lower one.
            None for a measure for which it is not known, and with `judged_only`.
        highest: The same, the highest.
        mean_none_relevant: The mean over the queries that count in the mean of the measure.
        mean_all_relevant: As before.
        mean_lowest: As before; None where `lowest` is.
        mean_highest: As before; None where `highest` is.
    """

    measure: str
    none_relevant: dict[str, float]
    all_relevant: dict[str, float]
    lowest: dict[str, float] | None
    highest: dict[str, float] | None
    mean_none_relevant: float
    mean_all_relevant: float
    mean_lowest: float | None
    mean_highest: float | None


def find_bounds(
    qrels: NuggetQrels, measure: Measure, rankings: Mapping[str, Sequence[str]]
) -> Bounds:
    """Find what a measure would be if the holes of the rankings were judged.

    For Coverage, P, Recall, F1, reciprocal rank, subtopic recall and Success the value rises with
    every relevant hole. For measures that are divided by an ideal ranking or by how many chunks or
    nuggets are relevant (nDCG, alpha-nDCG, ERR-IA, P-IA, average precision, R-precision), the
    ideal grows as well, and `all_relevant` can be less than `none_relevant`; their bounds take
    two evaluations for each hole. For any other measure only the two values are given, and with
    `judged_only` as well: there a hole that is judged, as whatever, comes into the ranking, and
    the value before it did need not lie between.

    The bounds are over all ways to judge each hole relevant to all nuggets or to none. A hole
    that supports some of the nuggets of its query can take the value of the query far beyond
    them, in all measures with a second evaluation but AP and Rprec: on small random queries by up
    to .33 for nNRBP, .28 for nERR_IA, .25 for alpha_DCG, .19 for alpha_nDCG and .17 for nDCG.
    Without a cut-off, every hole of the ranking is judged.

    Args:
        qrels: The judgments.
        measure: The measure.
        rankings: Chunk ids, best first, by query; those of the queries that count.
    """
    highest_label = max(
        chain.from_iterable(labels.values() for labels in qrels.labels.values()), default=1
    )
    by_query = {
        query: _Query(qrels, query, measure, ranking, highest_label).bounds()
        for query, ranking in rankings.items()
    }
    known = _is_known(measure)
    columns: list[dict[str, float]] = [
        {query: values[place] for query, values in by_query.items()} for place in range(4)
    ]
    means = [fmean(column.values()) if column else 0.0 for column in columns]
    return Bounds(
        measure=measure.name,
        none_relevant=columns[0],
        all_relevant=columns[1],
        lowest=columns[2] if known else None,
        highest=columns[3] if known else None,
        mean_none_relevant=means[0],
        mean_all_relevant=means[1],
        mean_lowest=means[2] if known else None,
        mean_highest=means[3] if known else None,
    )


def _is_known(measure: Measure) -> bool:
    """Whether it is known how a measure moves with every hole that is judged."""
    known = measure.family in RISING or measure.family in RISING_WITH_PLACE
    return known and "judged_only" not in dict(measure.parameters)


class _Query:
    """One query, whose holes are judged in one way after the other."""

    def __init__(
        self,
        qrels: NuggetQrels,
        query_id: str,
        measure: Measure,
        ranking: Sequence[str],
        highest_label: int,
    ) -> None:
        self._measure = measure
        self._ranking = ranking
        labels = qrels.labels_of(query_id)
        self._rel = measure.rel or qrels.threshold
        self._tokens = qrels.tokens
        self._relevant = max(highest_label, self._rel)
        judged = Judged(labels).chunks
        self._holes = [chunk for chunk in ranking[: measure.k] if chunk not in judged]
        self._unsupported = (
            # Labels that are no support can be left out, of which there are many.
            {} if _is_known(measure) else dict.fromkeys((*judged, *self._holes), 0)
        )
        self._labels = {
            nugget: {chunk: label for chunk, label in of.items() if label >= self._rel}
            for nugget, of in labels.items()
        }

    def bounds(self) -> tuple[float, float, float, float]:
        """Give the values if none or all are relevant, and the lowest and the highest."""
        none, every = self._value(()), self._value(self._holes)
        values = [none, every]
        if self._measure.family in RISING_WITH_PLACE and _is_known(self._measure):
            for many in range(1, len(self._holes)):
                values += [self._value(self._holes[:many]), self._value(self._holes[-many:])]
        return none, every, min(values), max(values)

    def _value(self, relevant: Iterable[str]) -> float:
        judged = dict.fromkeys(relevant, self._relevant)
        labels = {
            nugget: {**self._unsupported, **of, **judged} for nugget, of in self._labels.items()
        }
        return self._measure(self._ranking, Judged(labels, self._rel, self._tokens)) or 0.0
