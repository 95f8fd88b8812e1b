"""What a program is optimized by: the mean of a function's scores, or its agreement with people."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

import dspy

from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.calibration.examples import same_facts, verdict_on
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.measures.kappa import (
    LabelPair,
    Values,
    kappa,
    precision,
    recall,
    same_label,
    share_of,
    table_of,
)

MetricName = Literal["kappa", "agreement", "f1"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
Metric = Callable[..., Any]
"""`(example, prediction, trace=None, …)` to a score, higher is better, or to a `dspy.Prediction` of
`score` and `feedback`, as DSPy's optimizers take it."""

GOOD_ENOUGH = 0.8
"""From which score on an answer becomes a demonstration."""

LEAST_QUERIES = 10
"""With fewer test queries no interval is given: resamples of so few tell too little."""


class MeanMetric:
    """A metric of one's own: the mean of what it gives for each example."""

    top: float | None = None
    """The best value, if there is one."""

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
        """How many things a sum is over."""
        return int(tally[1])

    def value(self, tallies: Sequence[Any]) -> float | None:
        """The chosen metric of examples, None for those without an answer; None where undefined."""
        answered = [tally for tally in tallies if tally is not None]
        value = float(self.values(sum(answered))[self.name]) if answered else math.nan
        return None if math.isnan(value) else value


class AgreementMetric(MeanMetric):
    """A metric by name, of pairs: what program and person say; this one of compared answers."""

    top = 1.0
    names: ClassVar[tuple[MetricName, ...]] = METRICS
    shown: ClassVar[tuple[str, ...]] = ("kappa", "agreement", "precision", "recall")

    def __init__(self, metric: MetricName | None = None) -> None:
        check_name("metric of this program", metric or self.names[0], self.names)
        super().__init__(self.feedback)
        self.name: MetricName = metric or self.names[0]

    def tally(self, example: Any, answer: Any) -> Any:
        """The table of the pairs, program x person."""
        return table_of(self.pairs(*self._read(example, answer)), 2)

    def _read(self, example: Any, prediction: Any) -> tuple[Any, Any]:
        """What people said and what a program answered, both by the fields of our signature."""
        said = dspy.Example(**example.people, scale=example.scale)
        return said, dspy.Prediction(**self.answer_of(example, prediction))

    def size(self, tally: Any) -> int:
        """How many pairs a table has."""
        return int(tally.sum())

    def values(self, tallies: Any) -> dict[str, Values]:
        """All metrics of tables of pairs, the chosen one first."""
        hits, wrong = tallies[..., 1, 1], tallies[..., 0, 1] + tallies[..., 1, 0]
        values = {
            "kappa": kappa(tallies),
            "agreement": same_label(tallies),
            "f1": share_of(2 * hits, 2 * hits + wrong),
            "precision": precision(tallies, 1),
            "recall": recall(tallies, 1),
        }
        return {name: values[name] for name in dict.fromkeys((self.name, *self.shown))}

    def answer_of(self, example: Any, prediction: Any) -> dict[str, Any]:
        """What a program made of an example's inputs, as JSON by the fields of our signature.

        Raises:
            ReplyError: A part of it has no valid answer.
        """
        return {"agrees": "yes" if prediction.agrees else "no", "reason": prediction.reason}

    def pairs(self, said: Any, answer: Any) -> list[LabelPair]:
        """What program and person say, 1 or 0, of each part of an answer."""
        return [(int(answer.agrees == "yes"), int(said.agrees == "yes"))]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """What a person finds wrong with an answer."""
        if answer.agrees != said.agrees:
            yield f"A person says {said.agrees}, and not {answer.agrees}, as {answer.reason}"

    def feedback(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        _: Any = None,
    ) -> Any:
        """The share of pairs agreed on and the faults, as DSPy's optimizers take them.

        While demonstrations are collected (`trace` of all predictors), whether it is at least 0.8.
        """
        try:
            said, answer = self._read(example, prediction)
        except (AttributeError, ReplyError):
            return dspy.Prediction(score=0.0, feedback="There was no valid answer.")
        pairs = self.pairs(said, answer)
        share = fmean(program == person for program, person in pairs) if pairs else 1.0
        if trace is not None and pred_name is None:
            return share >= GOOD_ENOUGH
        faults = "\n".join(self.faults(said, answer)) or "All of it is right."
        return dspy.Prediction(score=share, feedback=faults)


class NuggetAgreement(AgreementMetric):
    """A listed nugget that was written is (1, 1), one that was missed (0, 1), another (1, 0).

    The metric is F1, as nuggets that are rightly left out cannot be counted.
    """

    names = ("f1",)
    shown = ("f1", "precision", "recall")

    def answer_of(self, example: Any, prediction: Any) -> dict[str, Any]:
        """The nuggets, with what they quote of the answer."""
        answer = example.query.answer
        return {
            "nuggets": [
                {
                    "quote": answer[slice(*nugget.answer_span)] if nugget.answer_span else "",
                    **nugget.model_dump(include={"text", "importance", "doubtful"}),
                }
                for nugget in prediction.nuggets
            ]
        }

    def pairs(self, said: Any, answer: Any) -> list[LabelPair]:
        """For each nugget, whether the program wrote it and whether a person listed it."""
        written, listed, same = self._matched(said, answer)
        missed, invented = len(listed) - len(same), len(written) - len(same)
        return [*[(1, 1)] * len(same), *[(0, 1)] * missed, *[(1, 0)] * invented]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """The nuggets that are missing, and those that are not wanted."""
        written, listed, same = self._matched(said, answer)
        yield from (f"Missing: {text}" for n, text in enumerate(listed) if n not in same.values())
        yield from (f"Not wanted: {text}" for n, text in enumerate(written) if n not in same)

    def _matched(self, said: Any, answer: Any) -> tuple[list[str], list[str], dict[int, int]]:
        written, listed = ([nugget["text"] for nugget in each.nuggets] for each in (answer, said))
        return written, listed, same_facts(written, listed)


class JudgeAgreement(AgreementMetric):
    """Labels of (nugget, chunk) pairs, read as support, from the threshold on, or none."""

    def answer_of(self, example: Any, prediction: Any) -> dict[str, Any]:
        """The verdict on each chunk, with the quotes that are in it."""
        by_pair = {
            (judgment.nugget_id, judgment.chunk_id): judgment for judgment in prediction.judgments
        }
        verdicts = []
        for number, passage in enumerate(example.chunks, 1):
            grades, quotes, reasons = [], [], [""]
            for nugget in example.nuggets:
                judged = by_pair.get((nugget.nugget_id, passage.chunk_id))
                if judged is None:
                    missing = f"no judgment of chunk {number}"
                    raise ReplyError(missing, status="failed", call_id=None)
                if judged.label is None:
                    status: Any = judged.status
                    raise ReplyError(judged.reason, status=status, call_id=judged.call_id)
                grades.append(judged.label)
                quotes.append([passage.chunk.text_at(*span) for span in judged.evidence])
                reasons.append(judged.reason)
            reason = reasons[:2][-1]  # of the first nugget, as of all
            verdicts.append(verdict_on(example.scale.name, number, reason, grades, quotes))
        return {"verdicts": verdicts}

    def pairs(self, said: Any, answer: Any) -> list[LabelPair]:
        """The judge's and the person's label of each pair, as support or none."""
        threshold = said.scale.threshold
        labels = self._labels(said, answer)
        return [
            (binary(judge, threshold), binary(person, threshold)) for *_, judge, person in labels
        ]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """The pairs that they do not agree on, with the judge's reason and quotes."""
        threshold = said.scale.threshold
        for number, verdict, judge, person in self._labels(said, answer):
            if binary(judge, threshold) != binary(person, threshold):
                quoted = _graded(verdict).get(number, {}).get("quotes", ())
                quotes = "".join(f' "{quote}"' for quote in quoted)
                yield (
                    f"Nugget {number}, chunk {verdict['chunk']}: a person's label is {person}, and "
                    f"the answer's {judge}. Its reason: {verdict['reason']} "
                    f"Its quotes:{quotes or ' none'}"
                )

    def _labels(self, said: Any, answer: Any) -> Iterable[tuple[int, Any, int, int]]:
        """Number of the nugget, verdict on the chunk, its grade, and the person's."""
        judged = {verdict["chunk"]: verdict for verdict in answer.verdicts}
        for person in said.verdicts:
            verdict = judged[person["chunk"]]
            for number in range(1, len(said.nuggets) + 1):
                grades = (
                    _graded(side).get(number, {}).get("grade", 0) for side in (verdict, person)
                )
                yield number, verdict, *grades


def _graded(verdict: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """The nuggets that a verdict lists, on any scale, by number."""
    listed = verdict.get("grades", verdict.get("supported", ()))
    graded = (
        entry if isinstance(entry, Mapping) else {"nugget": entry, "grade": 1} for entry in listed
    )
    return {entry["nugget"]: entry for entry in graded}


def agreement(
    example: dspy.Example,
    prediction: dspy.Prediction | None,
    trace: Any = None,
    pred_name: str | None = None,
    pred_trace: Any = None,
) -> Any:
    """How far a program agrees with people on an example of `examples`: a metric for DSPy.

    It is the share of the example's parts on which both say the same: pairs of a nugget and a
    chunk, read as support from the scale's threshold on, or not; nuggets; or the whole answer.
    What has no valid answer agrees on none.

    Returns:
        A `dspy.Prediction` of `score`, from 0 to 1, and `feedback`, what people find wrong. While
        demonstrations are collected (`trace` of all predictors), whether the share is at least 0.8.
    """
    measure = AgreementMetric
    if "verdicts" in example.people:
        measure = JudgeAgreement
    elif "nuggets" in example.people:
        measure = NuggetAgreement
    return measure().feedback(example, prediction, trace, pred_name, pred_trace)


def own_name(own: Any) -> str:
    """What an optimizer or metric, a name or an object of one's own, is called."""
    return own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)


def check_name(what: str, name: object, allowed: Sequence[str]) -> None:
    """Raise a ConfigError for a name that there is none of."""
    if name not in allowed:
        raise ConfigError(f"unknown {what} {name!r}; allowed: {', '.join(allowed)}")
