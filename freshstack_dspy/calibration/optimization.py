"""Optimize a program against people's labels, and report the untouched test split."""

import importlib.util
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from statistics import fmean
from typing import Any, Literal, NamedTuple, Self, get_args

import dspy

from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.calibration.examples import (
    LabelledExample,
    Split,
    answer_examples,
    judge_examples,
    nugget_examples,
    same_facts,
    split_by_query,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError, FreshstackError, ReplyError
from freshstack_dspy.lm.client import Client, RecordedLM
from freshstack_dspy.lm.dspy_parts import AdapterParseError
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.typed import TypedAdapter, plain
from freshstack_dspy.lm.usage import step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.measures.agreement import (
    LabelPair,
    Tables,
    Values,
    kappa,
    precision,
    recall,
    share_of,
    table_of,
)
from freshstack_dspy.measures.statistics import Interval, bootstrap_sums
from freshstack_dspy.programs.answers import AnswerComparer
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.saved import is_demonstration
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.progress import NoProgress, Progress, showing
from freshstack_dspy.records import SCALES, AnswerLabel, HumanLabel, NuggetList, Record, Scale
from freshstack_dspy.signatures.judge_support import verdicts_on

OptimizerName = Literal["labeled", "bootstrap", "bootstrap_random", "mipro", "gepa", "simba"]
MetricName = Literal["kappa", "agreement", "f1", "balanced_accuracy", "expected_cost"]
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)
METRICS: tuple[MetricName, ...] = get_args(MetricName)
OF_NUGGETS: tuple[MetricName, ...] = ("f1", "expected_cost")
"""The metrics that do without nuggets that are rightly left out, which cannot be counted."""
WRITERS = ("mipro", "gepa", "simba")
"""The optimizers that let the model write instructions."""

_CHUNKS = 5
_FEW_SHOT = {"max_bootstrapped_demos": 4, "max_labeled_demos": 8}
_GOOD_ENOUGH = 0.8
_SAMPLES = 3
"""How often an optimizer's own question is asked until there is a valid reply."""
_MOST_FAILURES = 10
"""How many of these questions may end without one before the optimization does."""


class OnTest(Record):
    """A metric on the examples of the test split that both programs answered."""

    before: Interval
    after: Interval
    difference: Interval
    """After less before; all three by the same draws of queries."""


class OptimizationReport(Record):
    """What `optimize` did. Only the test split says how good the program is."""

    optimizer: OptimizerName
    model: str
    """The model that the program was tuned for."""
    metric: MetricName
    miss_cost: float
    """Of `expected_cost`."""
    labels: str
    """SHA-256 of the labels, the same in any order."""
    queries: dict[str, int]
    examples: dict[str, int]
    """Of `train`, `dev` and `test`."""
    candidates: int
    """Programs that the optimizer made."""
    dev: tuple[float | None, float | None]
    """The metric on the dev split, of the plain program and of the one that was chosen by it."""
    unchanged: str | None
    """Why the program is the plain one; None if it is another."""
    demonstrations: int
    new_instructions: bool
    test: dict[str, OnTest]
    """By metric: the one that programs were chosen by, and others."""
    pairs: int
    """On the test split."""
    failed: tuple[int, int]
    """Examples of it without a valid answer, before and after."""
    tokens: int
    cost: float | None
    """Of all replies used, recorded ones too; None where the price is not known."""


class Optimized(NamedTuple):
    """The optimized program and how it compares with the plain one."""

    program: Any
    report: OptimizationReport


def optimize(  # noqa: PLR0913 - each is a choice of the caller's
    labels: Sequence[HumanLabel] | Sequence[NuggetList] | Sequence[AnswerLabel],
    lm: RecordedLM,
    *,
    optimizer: OptimizerName = "bootstrap",
    metric: MetricName | None = None,
    miss_cost: float = 1.0,
    collection: Collection | None = None,
    scale: Scale | None = None,
    limit: int = 10,
    progress: Progress | bool | None = None,
) -> Optimized:
    """Compile the program that labels are of, with one of DSPy's optimizers.

    It sees the train and dev splits, and credits each example with the share of its pairs on which
    program and person agree. Of the programs that it makes the one with the best metric on dev is
    taken, and the plain one if none is better.

    Args:
        labels: `HumanLabel` for the judge, `NuggetList` for the nuggetizer, `AnswerLabel` for the
            comparer of answers; with their texts, or with ids of the collection.
        lm: The model to optimize for.
        optimizer: One of `OPTIMIZERS`; see `docs/trust.md`.
        metric: `kappa` (the default), `agreement` (the share of pairs), `f1`, `balanced_accuracy`
            or `expected_cost` of a pair; of nuggets `f1` (the default) or `expected_cost`.
        miss_cost: For `expected_cost`: what a missed support costs where a false one costs 1.
        collection: Where texts are looked up first; the nuggetizer needs one.
        scale: Of the judge, and the lowest label, also of people, that is support; by default
            `support` from 1 on. There, labels that are all 0 or 1 mean no and yes.
        limit: The largest number of nuggets.
        progress: Notified of every step and its score. True: bars, or lines in a pipe; False:
            nothing; by default bars on a terminal and in a notebook.

    Raises:
        ConfigError: The optimizer or metric is unknown, is not installed, or does not go with the
            program or model, or the labels are on another scale.
        CollectionError: The labels cannot be split, or lack texts.
        ModelError: The model cannot be asked.
    """
    allowed = OF_NUGGETS if isinstance(labels[0], NuggetList) else METRICS
    metric = metric or allowed[0]
    _check(optimizer, metric, allowed, lm.model)
    task = _task(labels, collection, scale or Scale(), limit)
    split = Split(*([_plain(one) for one in part] for part in split_by_query(task.examples)))
    task.choose_by(metric, miss_cost, split.train)
    student = _Student(task.program.predict.signature)
    asking = _EndingLM(lm.client)
    with (
        showing(progress) as task.progress,
        dspy.context(
            lm=asking,
            adapter=_Reasking(),
            disable_history=True,
            warn_on_type_mismatch=False,
            # An example whose reply is no answer scores nothing; DSPy would give up after ten.
            max_errors=sys.maxsize,
        ),
    ):
        best, chosen = _choose(optimizer, student, split, task, asking)
        before = task.answers("test before", student, split.test, lm)
        after = task.answers("test after", best, split.test, lm)
    used = [lm.client.reusable(key) for key in lm.client.used_replies()]
    replies = [one for one in used if one is not None and not one.is_dead_end]
    costs = [reply.cost for reply in replies]
    plain_predict, best_predict = task.program.predict, best.predict
    report = OptimizationReport(
        optimizer=optimizer,
        model=lm.model,
        metric=task.metric,
        miss_cost=miss_cost,
        labels=sha256(
            "\n".join(sorted(one.model_dump_json() for one in labels)).encode()
        ).hexdigest(),
        queries={part: len({one.query_id for one in of}) for part, of in split._asdict().items()},
        examples={part: len(of) for part, of in split._asdict().items()},
        **chosen,
        demonstrations=len(best_predict.demos),
        new_instructions=best_predict.signature.instructions
        != plain_predict.signature.instructions,
        **_on_test(split.test, before, after, task),
        tokens=sum(reply.tokens for reply in replies),
        cost=None if None in costs else sum(cost or 0.0 for cost in costs),
    )
    plain_predict.signature, plain_predict.demos = best_predict.signature, best_predict.demos
    return Optimized(task.program, report)


def _choose(
    optimizer: OptimizerName, student: Any, split: Split, task: "_Task", lm: "_EndingLM"
) -> tuple[Any, dict[str, Any]]:
    """Make candidates, and take the best on dev; a tie leaves the one that is there."""
    metric, dev = task.metric, task.answers("dev", student, split.dev, lm)
    known = task.value([*dev, *task.answers("train", student, split.train, lm)])
    best, best_value, candidates = student, (plain_value := task.value(dev)), []
    sign, top = (-1, 0) if metric == "expected_cost" else (1, 1)
    if plain_value is None:
        unchanged = f"{metric} is undefined on the dev queries: label more, or name another metric"
    elif known == top:
        unchanged = f"{metric} is {known:g} already on the train and dev queries"
    else:
        name = f"compile with {optimizer}"
        task.progress.start(name, 0)
        with step(name):
            lm.answered = lambda: task.progress.advance(name, lm.ledger.of(name).spent)
            candidates = _candidates(optimizer, student, split, task, lm)
        lm.answered = lambda: None
        note = f"{len(candidates)} programs; {lm.ledger.of(name).line}"
        task.progress.finish(name, note)
        for number, candidate in enumerate(candidates, 1):
            part = f"dev, {number} of {len(candidates)}"
            answers = task.answers(part, candidate, split.dev, lm)
            value, fails_more = task.value(answers), answers.count(None) > dev.count(None)
            if value is not None and sign * value > sign * (best_value or 0) and not fails_more:
                best, best_value = candidate, value
        made = f"programs that {optimizer} made ({len(candidates)})"
        unchanged = f"none of the {made} has a better {metric} on the dev queries"
    return best, {
        "candidates": len(candidates),
        "dev": (plain_value, best_value),
        "unchanged": unchanged if best is student else None,
    }


def _check(optimizer: str, metric: str, metrics: Sequence[str], model: str) -> None:
    of_program = ("metric of this program", metric, metrics)
    for what, given, allowed in (("optimizer", optimizer, OPTIMIZERS), of_program):
        if given not in allowed:
            raise ConfigError(f"unknown {what} {given!r}; allowed: {', '.join(allowed)}")
    if optimizer in WRITERS and model == BASELINE:
        raise ConfigError(
            f"{optimizer} needs a model that can write instructions, and {BASELINE} cannot; "
            "take the optimizer bootstrap_random, bootstrap or labeled, or another model"
        )
    if optimizer == "mipro" and importlib.util.find_spec("optuna") is None:
        raise ConfigError("mipro needs optuna: pip install 'freshstack_dspy[optimize]'")


# Programs and what people say of their answers


_Answers = list[list[LabelPair] | None]
"""For each example its pairs; None where there was no valid answer."""


class _Task:
    """A program with labels; this one is the comparer of answers."""

    shown: tuple[str, ...] = ("kappa", "agreement", "precision", "recall")

    def __init__(self, program: Any, examples: list[LabelledExample]) -> None:
        self.program, self.examples = program, examples
        self.progress: Progress = NoProgress()
        self.choose_by("agreement", 1.0, ())

    def choose_by(
        self, metric: MetricName, miss_cost: float, train: Sequence[LabelledExample]
    ) -> None:
        """Set the metric, and what pairs count in an example's credit, by the person's label."""
        self.metric: MetricName = metric
        self.miss_cost = miss_cost
        self.weights = (1.0, miss_cost if metric == "expected_cost" else 1.0)
        if metric == "balanced_accuracy":
            given = [pair for one in train for pair in self.pairs(one.example, one.example)]
            supported = fmean(person for _, person in given)
            self.weights = (max(supported, 0.01), max(1 - supported, 0.01))

    def values(self, tables: Tables) -> dict[str, Values]:
        """All metrics of tables of pairs, program x person, the chosen one first."""
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
        return {name: values[name] for name in dict.fromkeys((self.metric, *self.shown))}

    def value(self, answers: _Answers) -> float | None:
        """The chosen metric, or None where it is undefined."""
        pairs = [pair for of_example in answers for pair in of_example or ()]
        value = float(self.values(table_of(pairs, 2))[self.metric])
        return None if math.isnan(value) else value

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        """What program and person say, 1 or 0, of each part of an answer."""
        return [(int(answer.agrees == "yes"), int(example.agrees == "yes"))]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
        """What a person finds wrong with an answer."""
        if answer.agrees != example.agrees:
            yield f"A person says {example.agrees}, and not {answer.agrees}, as {answer.reason}"

    def credit(self, example: Any, answer: Any, trace: Any = None) -> float | bool:
        """The weighted share of pairs agreed on, for DSPy's optimizers.

        While demonstrations are collected (`trace` is given), whether it is at least 0.8.
        """
        pairs = self.pairs(example, answer)
        most = sum(self.weights[person] for _, person in pairs)
        agreed = sum(self.weights[person] for found, person in pairs if found == person)
        share = agreed / most if most else 1.0
        return share if trace is None else share >= _GOOD_ENOUGH

    def feedback(self, example: Any, answer: Any, *_: Any) -> Any:
        """The credit and the faults."""
        if answer is None:
            return dspy.Prediction(score=0.0, feedback="There was no valid answer.")
        faults = "\n".join(self.faults(example, answer)) or "All of it is right."
        return dspy.Prediction(score=self.credit(example, answer), feedback=faults)

    def answers(
        self, part: str, program: Any, examples: Sequence[LabelledExample], lm: RecordedLM
    ) -> _Answers:
        """Run a program on a part of the examples."""
        self.progress.start(part, len(examples))

        def run(labelled: LabelledExample) -> list[LabelPair] | None:
            try:
                answer = program(**labelled.example.inputs())
            except ReplyError:
                lm.ledger.enter(failed=1)
                return None
            return self.pairs(labelled.example, answer)

        def advance() -> None:
            self.progress.advance(part, lm.ledger.of(part).spent)

        with step(part):
            answers = map_in_order(run, examples, workers=lm.client.model.concurrency, done=advance)
        value = self.value(answers)
        score = "undefined" if value is None else f"{value:.3f}"
        self.progress.finish(part, f"{self.metric} {score}; {lm.ledger.of(part).line}")
        return answers


class _NuggetTask(_Task):
    """A nugget found is (1, 1), one that was missed (0, 1), one that is not listed (1, 0)."""

    shown = ("f1", "precision", "recall")

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        found, listed, same = self._matched(example, answer)
        missed, invented = len(listed) - len(same), len(found) - len(same)
        return [*[(1, 1)] * len(same), *[(0, 1)] * missed, *[(1, 0)] * invented]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
        found, listed, same = self._matched(example, answer)
        yield from (f"Missing: {text}" for n, text in enumerate(listed) if n not in same.values())
        yield from (f"Not wanted: {text}" for n, text in enumerate(found) if n not in same)

    def _matched(self, example: Any, answer: Any) -> tuple[list[str], list[str], dict[int, int]]:
        found, listed = ([one["text"] for one in each.nuggets] for each in (answer, example))
        return found, listed, same_facts(found, listed)


class _JudgeTask(_Task):
    """Labels of (nugget, chunk) pairs, read as support, from the threshold on, or none."""

    def __init__(self, scale: Scale, examples: list[LabelledExample]) -> None:
        super().__init__(SupportJudge(scale.name), examples)
        self._threshold = scale.threshold
        self._read = verdicts_on(scale.name).validate_python

    def pairs(self, example: Any, answer: Any) -> list[LabelPair]:
        labels = self._labels(example, answer)
        return [(binary(a, self._threshold), binary(b, self._threshold)) for *_, a, b in labels]

    def faults(self, example: Any, answer: Any) -> Iterable[str]:
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


def _task(labels: Any, collection: Collection | None, scale: Scale, limit: int) -> _Task:
    if isinstance(labels[0], AnswerLabel):
        return _Task(AnswerComparer(), answer_examples(labels, collection))
    if isinstance(labels[0], HumanLabel):
        _check_scales(labels, collection, scale)
        return _JudgeTask(scale, judge_examples(labels, collection, _CHUNKS, scale))
    if collection is None:
        raise ConfigError("nuggets are of the answers of a collection; name it")
    return _NuggetTask(Nuggetizer(limit), nugget_examples(labels, collection, limit))


def _check_scales(
    labels: Sequence[HumanLabel], collection: Collection | None, scale: Scale
) -> None:
    theirs = collection.manifest.scale.name if collection else scale.name
    if theirs != scale.name and {theirs, scale.name} != {"binary", "support"}:
        raise ConfigError(
            f"[judge] is on the scale {scale.name}, and the labels are of a collection on "
            f"{theirs}: set [judge] scale to {theirs}"
        )
    highest, top = max(label.label for label in labels), SCALES[scale.name].highest
    if scale.name != "binary" and highest > top:
        raise CollectionError(
            f"a label is {highest}, and the scale {scale.name} ends at {top}: set [judge] scale to "
            "that of the labels, or to binary, where any label from 1 on is support"
        )


def _plain(labelled: LabelledExample) -> LabelledExample:
    """An example of plain JSON, which optimizers can show a model."""
    example = labelled.example
    values = dspy.Example(**plain(dict(example.items())))
    return labelled._replace(example=values.with_inputs(*example.inputs().keys()))


def _on_test(
    examples: Sequence[LabelledExample], before: _Answers, after: _Answers, task: _Task
) -> dict[str, Any]:
    import numpy as np

    tables: dict[str, Any] = {}
    for one, old, new in zip(examples, before, after, strict=True):
        if old is not None and new is not None:
            counted = np.stack([table_of(old, 2), table_of(new, 2)])
            tables[one.query_id] = tables.get(one.query_id, 0) + counted

    def values(sums: Tables) -> dict[str, Values]:
        old, new = (task.values(sums[:, side]) for side in (0, 1))
        sides = {"before": old, "after": new}
        sides["difference"] = {name: new[name] - old[name] for name in old}
        return {f"{side} {name}": of[name] for side, of in sides.items() for name in of}

    stacked = np.stack([*tables.values()] or [np.zeros((2, 2, 2))])
    found = bootstrap_sums(stacked, values)
    return {
        "test": {
            name: OnTest(**{side: found[f"{side} {name}"] for side in OnTest.model_fields})
            for name in task.values(stacked[0, 0])
        },
        "pairs": int(stacked[:, 0].sum()),
        "failed": (before.count(None), after.count(None)),
    }


# DSPy's optimizers


class _Student(dspy.Module):
    """Asks one question of a model, on plain JSON.

    Optimizers copy it, change its instructions and demonstrations, and show a model this class,
    what it was given and what it answered.
    """

    def __init__(self, signature: Any) -> None:
        super().__init__()
        self.predict: Any = dspy.Predict(signature)

    def forward(self, **inputs: Any) -> Any:
        with dspy.context(adapter=TypedAdapter()):  # the optimizers ask by another
            reply = self.predict(**inputs)
        for name in list(reply.keys()):  # in place: traces hold this prediction
            if name in self.predict.signature.output_fields:
                reply[name] = plain({name: reply[name]})[name]
            else:
                del reply[name]
        return reply


class _EndingLM(RecordedLM):
    """Asks nothing more after an error that is not about one reply.

    DSPy's optimizers count every error as a failed example and go on: with the budget used up
    they would report a program that was tuned on nothing.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(_Whole(client))  # type: ignore[arg-type]
        self.answered: Callable[[], None] = lambda: None
        """Called after each reply."""
        self.errors: list[FreshstackError] = []
        self.failures: list[ReplyError] = []

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.raise_if_ended()
        try:
            reply = super().__call__(*args, **kwargs)
        except ReplyError:
            raise
        except FreshstackError as error:
            self.errors.append(error)
            raise
        self.answered()
        return reply

    def raise_if_ended(self) -> None:
        """Raise the first such error; copies share it."""
        if self.errors:
            raise self.errors[0]


class _Whole:
    """A client whose truncated replies are errors, also those to an optimizer's own questions."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def complete(self, request: Any) -> Any:
        response = self._client.complete(request)
        if response.finish_reason == "length":
            message = "the reply was truncated: raise [model] max_tokens"
            raise ReplyError(message, status="truncated", call_id=response.id)
        return response


class _Reasking(dspy.ChatAdapter):
    """Asks again where an optimizer's own question brought no valid reply."""

    def __call__(self, lm: Any, lm_kwargs: Any, *args: Any, **question: Any) -> Any:
        failed: Exception | None = None
        for sample in range(1, 1 + _SAMPLES):
            try:
                return super().__call__(lm, lm_kwargs, *args, **question)
            except (AdapterParseError, ReplyError) as error:
                failed = error
            lm_kwargs = {**lm_kwargs, "rollout_id": sample, "temperature": 1.0}
        lm.ledger.enter(failed=1)
        fault = " ".join(str(failed).split())[:200]
        message = f"no valid instruction in {_SAMPLES} attempts; the last reply: {fault}"
        unwritten = ReplyError(message, status="unparsed", call_id=None)
        lm.failures.append(unwritten)
        if len(lm.failures) == _MOST_FAILURES:
            lm.errors.append(unwritten)
        raise unwritten


def _candidates(
    name: OptimizerName, student: _Student, split: Split, task: _Task, lm: _EndingLM
) -> list[Any]:
    """The programs that an optimizer makes, its best first, without the plain one."""
    train, dev = ([one.example for one in part] for part in (split.train, split.dev))
    try:
        compiled = _compiled(name, student, train, dev, task, lm)
    finally:  # also where DSPy goes on after an error
        lm.raise_if_ended()
    made = [compiled, *(one["program"] for one in getattr(compiled, "candidate_programs", ()))]
    if details := getattr(compiled, "detailed_results", None):
        made += details.candidates
    distinct: dict[str, Any] = {}
    for program in [student, *made]:
        predict = program.predict
        predict.signature = predict.signature.with_instructions(predict.signature.instructions)
        demos = (
            plain({field: demo.get(field) for field in predict.signature.fields})
            for demo in predict.demos
        )
        predict.demos = [demo for demo in demos if is_demonstration(demo, predict.signature)]
        distinct.setdefault(repr((predict.signature.instructions, predict.demos)), program)
    return list(distinct.values())[1:]


def _compiled(
    name: OptimizerName, student: Any, train: list[Any], dev: list[Any], task: _Task, lm: _EndingLM
) -> Any:
    from dspy import teleprompt
    from dspy.teleprompt.gepa import InstructionProposer

    def over(state: Any) -> bool:
        return bool(lm.errors) or max(state.program_full_scores_val_set) >= 1

    credit: dict[str, Any] = {"metric": task.credit, **_FEW_SHOT}
    feedback: dict[str, Any] = {"metric": task.feedback}
    threads = {"num_threads": lm.client.model.concurrency}
    small = {"bsize": min(len(train), 8), "num_candidates": 4, "max_steps": 4}
    gepa = {
        "auto": "light",
        "reflection_lm": lm,
        "instruction_proposer": InstructionProposer(adapter=_Reasking()),
        "track_stats": True,
        "gepa_kwargs": {"stop_callbacks": [over]},
    }
    # The class, what it is made with, and what it compiles next to the program and train.
    table: dict[OptimizerName, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "labeled": ("LabeledFewShot", {"k": _FEW_SHOT["max_labeled_demos"]}, {}),
        "bootstrap": ("BootstrapFewShot", credit, {}),
        "bootstrap_random": (
            "BootstrapFewShotWithRandomSearch",
            {"num_candidate_programs": 8, **credit, **threads},
            {"valset": dev},
        ),
        "mipro": (
            "MIPROv2",
            {"auto": "light", "seed": 0, **credit, **threads},
            {"valset": dev, "program_aware_proposer": False},
        ),
        "gepa": ("GEPA", {**gepa, **feedback, **threads}, {"valset": dev}),
        "simba": ("SIMBA", {"demo_input_field_maxlen": 0, **small, **feedback, **threads}, {}),
    }
    made_of, settings, given = table[name]
    return getattr(teleprompt, made_of)(**settings).compile(student, trainset=train, **given)
