"""What a program is optimized by: the mean of a function's scores, or its agreement with people."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

import dspy

from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.calibration.examples import LabelledExample, same_facts
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.kappa import (
    LabelPair,
    Tables,
    Values,
    kappa,
    precision,
    recall,
    share_of,
    table_of,
)
from freshstack_dspy.records import Scale
from freshstack_dspy.signatures.judge_support import verdicts_on

MetricName = Literal["kappa", "agreement", "f1", "balanced_accuracy", "expected_cost"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
OF_NUGGETS: tuple[MetricName, ...] = ("f1", "expected_cost")
"""The metrics that do without nuggets that are rightly left out, which cannot be counted."""
Metric = Callable[..., Any]
"""`(example, prediction, trace=None, …)` to a score, higher is better, or to a `dspy.Prediction` of
`score` and `feedback`, as DSPy's optimizers take it."""

GOOD_ENOUGH = 0.8
"""From which score on an answer becomes a demonstration."""

Tallies = list[Any]
"""For each example an array, which a metric sums over examples; None where there was no valid answer."""


class MeanMetric:
    """A metric of one's own: the mean of what it gives for each example."""

    sign = 1
    top: float | None = None
    """The best value, if there is one."""
    shape: ClassVar[tuple[int, ...]] = (2,)
    """Of a tally."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        """What optimizers get."""
        self.name = own_name(metric)

    def tally(self, example: Any, answer: Any) -> Any:
        """What is summed over examples, an array: here the score, and 1."""
        import numpy as np

        return np.array([float(self.metric(example, answer)), 1.0])

    def values(self, tallies: Any) -> dict[str, Values]:
        """All metrics of sums of tallies, the chosen one first."""
        return {self.name: share_of(tallies[..., 0], tallies[..., 1])}

    def size(self, tally: Any) -> int:
        """Of how many things a sum is."""
        return int(tally[1])

    def value(self, answers: Tallies) -> float | None:
        """The chosen metric, or None where it is undefined."""
        tallies = [one for one in answers if one is not None]
        value = float(self.values(sum(tallies))[self.name]) if tallies else math.nan
        return None if math.isnan(value) else value


class AgreementMetric(MeanMetric):
    """A metric by name, of pairs: what program and person say; this one of compared answers."""

    shape = (2, 2)
    names: ClassVar[tuple[MetricName, ...]] = METRICS
    shown: ClassVar[tuple[str, ...]] = ("kappa", "agreement", "precision", "recall")

    def __init__(self, metric: MetricName | None = None, miss_cost: float = 1.0) -> None:
        check_name("metric of this program", metric or self.names[0], self.names)
        super().__init__(self.feedback)
        self.name: MetricName = metric or self.names[0]
        self.miss_cost = miss_cost
        self.weights = (1.0, miss_cost if metric == "expected_cost" else 1.0)
        """What pairs count in an example's credit, by the person's label."""
        self.sign, self.top = (-1, 0) if metric == "expected_cost" else (1, 1)

    def weigh(self, train: Sequence[LabelledExample]) -> None:
        """For `balanced_accuracy`: weigh pairs by how rare the person's label is."""
        if self.name == "balanced_accuracy":
            given = [pair for one in train for pair in self.pairs(one.example, one.example)]
            supported = fmean(person for _, person in given)
            self.weights = (max(supported, 0.01), max(1 - supported, 0.01))

    def tally(self, example: Any, answer: Any) -> Any:
        """The table of the pairs, program x person."""
        return table_of(self.pairs(example, answer), 2)

    def size(self, tally: Any) -> int:
        """How many pairs a table has."""
        return int(tally.sum())

    def values(self, tallies: Any) -> dict[str, Values]:
        """All metrics of tables of pairs, the chosen one first."""
        tables: Tables = tallies
        found, missed, invented = tables[..., 1, 1], tables[..., 0, 1], tables[..., 1, 0]
        wrong, total = missed + invented, tables.sum((-1, -2))
        values = {
            "kappa": kappa(tables),
            "agreement": share_of(total - wrong, total),
            "f1": share_of(2 * found, 2 * found + wrong),
            "balanced_accuracy": (recall(tables, 0) + recall(tables, 1)) / 2,
            "expected_cost": share_of(self.miss_cost * missed + invented, total),
            "precision": precision(tables, 1),
            "recall": recall(tables, 1),
        }
        return {name: values[name] for name in dict.fromkeys((self.name, *self.shown))}

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        """What program and person say, 1 or 0, of each part of an answer."""
        return [(int(answer.agrees == "yes"), int(example.agrees == "yes"))]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
        """What a person finds wrong with an answer."""
        if answer.agrees != example.agrees:
            yield f"A person says {example.agrees}, and not {answer.agrees}, as {answer.reason}"

    def feedback(
        self, example: Any, answer: Any, trace: Any = None, of: str | None = None, _: Any = None
    ) -> Any:
        """The weighted share of pairs agreed on and the faults, as DSPy's optimizers take them.

        While demonstrations are collected (`trace` of all predictors), whether it is at least 0.8.
        """
        if answer is None:
            return dspy.Prediction(score=0.0, feedback="There was no valid answer.")
        pairs = self.pairs(example, answer)
        most = sum(self.weights[person] for _, person in pairs)
        agreed = sum(self.weights[person] for found, person in pairs if found == person)
        share = agreed / most if most else 1.0
        if trace is not None and of is None:
            return share >= GOOD_ENOUGH
        faults = "\n".join(self.faults(example, answer)) or "All of it is right."
        return dspy.Prediction(score=share, feedback=faults)


class NuggetAgreement(AgreementMetric):
    """A nugget found is (1, 1), one that was missed (0, 1), one that is not listed (1, 0)."""

    names = OF_NUGGETS
    shown = ("f1", "precision", "recall")

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        """Of each nugget, whether the program wrote it and whether a person listed it."""
        found, listed, same = self._matched(example, answer)
        missed, invented = len(listed) - len(same), len(found) - len(same)
        return [*[(1, 1)] * len(same), *[(0, 1)] * missed, *[(1, 0)] * invented]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
        """The nuggets that are missing, and those that are not wanted."""
        found, listed, same = self._matched(example, answer)
        yield from (f"Missing: {text}" for n, text in enumerate(listed) if n not in same.values())
        yield from (f"Not wanted: {text}" for n, text in enumerate(found) if n not in same)

    def _matched(self, example: Any, answer: Any) -> tuple[list[str], list[str], dict[int, int]]:
        found, listed = ([one["text"] for one in each.nuggets] for each in (answer, example))
        return found, listed, same_facts(found, listed)


class JudgeAgreement(AgreementMetric):
    """Labels of (nugget, chunk) pairs, read as support, from the threshold on, or none."""

    def __init__(
        self, scale: Scale, metric: MetricName | None = None, miss_cost: float = 1.0
    ) -> None:
        super().__init__(metric, miss_cost)
        self._threshold = scale.threshold
        self._read = verdicts_on(scale.name).validate_python

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        """The judge's and the person's label of each pair, as support or none."""
        labels = self._labels(example, answer)
        return [(binary(a, self._threshold), binary(b, self._threshold)) for *_, a, b in labels]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
        """The pairs that they do not agree on, with the judge's reason and quotes."""
        for nugget, verdict, judge, person in self._labels(example, answer):
            if binary(judge, self._threshold) != binary(person, self._threshold):
                quotes = "".join(f' "{quote}"' for quote in verdict.quotes_of(nugget))
                yield (
                    f"Nugget {nugget}, chunk {verdict.chunk}: a person's label is {person}, and the "
                    f"answer's {judge}. Its reason: {verdict.reason} Its quotes:{quotes or ' none'}"
                )

    def _labels(self, example: Any, answer: Any) -> Iterable[tuple[int, Any, int, int]]:
        judged = {one.chunk: one for one in self._read(answer.verdicts)}
        for verdict in self._read(example.verdicts):
            found = judged[verdict.chunk]
            for number in (nugget["number"] for nugget in example.nuggets):
                yield number, found, found.label_of(number), verdict.label_of(number)


def own_name(own: Any) -> str:
    """What an optimizer or metric, a name or an object of one's own, is called."""
    return own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)


def check_name(what: str, given: object, allowed: Sequence[str]) -> None:
    """Raise a ConfigError for a name that there is none of."""
    if given not in allowed:
        raise ConfigError(f"unknown {what} {given!r}; allowed: {', '.join(allowed)}")
