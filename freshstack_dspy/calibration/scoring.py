"""The metrics of optimization: the mean of a function's scores, or agreement with people."""

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
"""From `(example, prediction, trace=None, …)` to a score (higher is better), or to a
`dspy.Prediction` with `score` and `feedback`, as for DSPy's optimizers."""

GOOD_ENOUGH = 0.8
"""The score from which on an answer becomes a demonstration."""

LEAST_QUERIES = 10
"""With fewer test queries there is no interval, because their resamples say too little."""


class MeanMetric:
    """A user's metric: the mean of its scores over examples."""

    top: float | None = None
    """The best possible value, if there is one."""
    most_demonstrations = 8
    """How many an optimizer given by name shows at most."""
    labels_by = ""
    """Who made the judgments that it reads, where they are not the labels themselves."""
    against: tuple[str, ...] = ()
    """What the programs are compared with besides each other; see `without`."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        """The function that optimizers get."""
        self.name = own_name(metric)

    def tally(self, example: Any, answer: Any) -> Any:
        """Give the array that is summed over examples: here the score, and 1."""
        import numpy as np

        return np.array([float(self.metric(example, answer)), 1.0])

    def values(self, tallies: Any) -> dict[str, Values]:
        """Compute all metrics from sums of tallies, the chosen one first."""
        return {self.name: share_of(tallies[..., 0], tallies[..., 1])}

    def without(self, tally: Any, place: int) -> Any:
        """Give the tally of one of `against`, on the same examples."""
        raise NotImplementedError

    def size(self, tally: Any) -> int:
        """Count the items in a sum of tallies."""
        return int(tally[1])

    def value(self, tallies: Sequence[Any]) -> float | None:
        """Compute the chosen metric (None: undefined) from tallies (None: no answer)."""
        answered = [tally for tally in tallies if tally is not None]
        value = float(self.values(sum(answered))[self.name]) if answered else math.nan
        return None if math.isnan(value) else value


class AgreementMetric(MeanMetric):
    """A named metric of pairs (program's label, person's label); this class compares answers."""

    top = 1.0
    names: ClassVar[tuple[MetricName, ...]] = METRICS
    shown: ClassVar[tuple[str, ...]] = ("kappa", "agreement", "precision", "recall")

    def __init__(self, metric: MetricName | None = None) -> None:
        check_name("metric of this program", metric or self.names[0], self.names)
        super().__init__(self.feedback)
        self.name: MetricName = metric or self.names[0]

    def tally(self, example: Any, answer: Any) -> Any:
        """Give the table of the pairs, program x person."""
        return table_of(self.pairs(*self._read(example, answer)), 2)

    def _read(self, example: Any, prediction: Any) -> tuple[Any, Any]:
        """Give people's and the program's answers, both with the fields of our signature."""
        said = dspy.Example(**example.people, scale=example.scale)
        return said, dspy.Prediction(**self.answer_of(example, prediction))

    def size(self, tally: Any) -> int:
        """Count the pairs in a table."""
        return int(tally.sum())

    def values(self, tallies: Any) -> dict[str, Values]:
        """Compute all metrics of tables of pairs, the chosen one first."""
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
        """Give a program's prediction as JSON, with the fields of our signature.

        Raises:
            ReplyError: A part of it has no valid answer.
        """
        return {"agrees": "yes" if prediction.agrees else "no", "reason": prediction.reason}

    def pairs(self, said: Any, answer: Any) -> list[LabelPair]:
        """Give the program's and the person's label, 1 or 0, for each part of an answer."""
        return [(int(answer.agrees == "yes"), int(said.agrees == "yes"))]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """Describe what a person finds wrong with an answer."""
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
        """Give the share of pairs agreed on and the faults, as for DSPy's optimizers.

        While demonstrations are collected (`trace` of all predictors), tell whether the share is at
        least 0.8.
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
    """A listed nugget that was written is (1, 1), a missed one (0, 1), an unlisted one (1, 0).

    The metric is F1, because nuggets that are rightly left out cannot be counted.
    """

    names = ("f1",)
    shown = ("f1", "precision", "recall")

    def answer_of(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Give the nuggets, with their quotes from the answer."""
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
        """Tell for each nugget whether the program wrote it and whether a person listed it."""
        written, listed, same = self._matched(said, answer)
        missed, invented = len(listed) - len(same), len(written) - len(same)
        return [*[(1, 1)] * len(same), *[(0, 1)] * missed, *[(1, 0)] * invented]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """List the nuggets that are missing, and those that are not wanted."""
        written, listed, same = self._matched(said, answer)
        yield from (f"Missing: {text}" for n, text in enumerate(listed) if n not in same.values())
        yield from (f"Not wanted: {text}" for n, text in enumerate(written) if n not in same)

    def _matched(self, said: Any, answer: Any) -> tuple[list[str], list[str], dict[int, int]]:
        written, listed = ([nugget["text"] for nugget in each.nuggets] for each in (answer, said))
        return written, listed, same_facts(written, listed)


class JudgeAgreement(AgreementMetric):
    """Labels of (nugget, chunk) pairs, read as support (from the threshold on) or no support."""

    def answer_of(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Give the verdict on each chunk, with the quotes that are in it."""
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
        """Give the judge's and the person's label of each pair, as support or no support."""
        threshold = said.scale.threshold
        labels = self._labels(said, answer)
        return [
            (binary(judge, threshold), binary(person, threshold)) for *_, judge, person in labels
        ]

    def faults(self, said: Any, answer: Any) -> Iterable[str]:
        """Describe the pairs that they do not agree on, with the judge's reason and quotes."""
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
        """Give the number of the nugget, the verdict on the chunk, its grade, and the person's."""
        judged = {verdict["chunk"]: verdict for verdict in answer.verdicts}
        for person in said.verdicts:
            verdict = judged[person["chunk"]]
            for number in range(1, len(said.nuggets) + 1):
                grades = (
                    _graded(side).get(number, {}).get("grade", 0) for side in (verdict, person)
                )
                yield number, verdict, *grades


def _graded(verdict: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Give the nuggets that a verdict lists, on any scale, by number."""
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
    """Measure how far a program agrees with people on an example of `examples`: a metric for DSPy.

    It is the share of the example's parts on which both agree: pairs of a nugget and a chunk, read
    as support (from the scale's threshold on) or not; nuggets; or the whole answer. An invalid
    answer agrees on no part.

    Returns:
        A `dspy.Prediction` with `score`, from 0 to 1, and `feedback`, what people find wrong. While
        demonstrations are collected (`trace` of all predictors), whether the share is at least 0.8.
    """
    measure = AgreementMetric
    if "verdicts" in example.people:
        measure = JudgeAgreement
    elif "nuggets" in example.people:
        measure = NuggetAgreement
    return measure().feedback(example, prediction, trace, pred_name, pred_trace)


def own_name(own: Any) -> str:
    """Give the name of an optimizer or metric, which is a name already or a user's object."""
    return own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)


def check_name(what: str, name: object, allowed: Sequence[str]) -> None:
    """Raise a ConfigError for a name that is not allowed."""
    if name not in allowed:
        raise ConfigError(f"unknown {what} {name!r}; allowed: {', '.join(allowed)}")
