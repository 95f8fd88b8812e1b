"""Optimize a program against what people say, and report the untouched test split."""

import copy
import importlib.util
import inspect
import json
import math
import operator
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Self, get_args

import dspy
from pydantic import Field

from freshstack_dspy.calibration.examples import (
    SUPPORT,
    Examples,
    LabelledExample,
    as_text,
    followed,
    labelled_examples,
    query_of,
    split_by_query,
)
from freshstack_dspy.calibration.scoring import (
    GOOD_ENOUGH,
    LEAST_QUERIES,
    AgreementMetric,
    JudgeAgreement,
    MeanMetric,
    Metric,
    MetricName,
    NuggetAgreement,
    check_name,
    own_name,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import Role
from freshstack_dspy.errors import (
    CollectionError,
    ConfigError,
    FatalModelError,
    FreshstackError,
    ReplyError,
)
from freshstack_dspy.lm.client import Client, RecordedLM, as_recorded, model_of
from freshstack_dspy.lm.dspy_parts import AdapterParseError, engine_of
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.typed import Program, TypedAdapter, plain
from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.measures.kappa import Values, share_of
from freshstack_dspy.measures.statistics import Interval, bootstrap
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.programs.answers import AnswerComparer
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.own import check_takes
from freshstack_dspy.programs.saved import copy_state, state_of
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.records import SCALES, AnswerLabel, HumanLabel, NuggetList, Record, Scale

OptimizerName = Literal["labeled", "bootstrap", "bootstrap_random", "mipro", "gepa", "simba"]
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)
WRITERS = ("mipro", "gepa", "simba")
"""The optimizers that let the model write instructions."""

_SAMPLES = 3
"""How often an optimizer's own question is asked at most, until there is a valid reply."""
_MOST_FAILURES = 10
"""How many of these questions may stay without a valid reply before the optimization ends."""


class OnTest(Record):
    """A metric on the examples of the test split that both programs answered."""

    before: Interval
    after: Interval
    difference: Interval
    """`after` minus `before`; all three intervals use the same draws of queries."""


class OptimizationReport(Record, Shown):
    """The result of `optimize`. Only the test split tells how good the program is."""

    optimizer: str
    """The optimizer's name, or the class of a user's own."""
    model: str
    """The model that the program was tuned for: its own, where it has one."""
    metric: str
    """The metric's name, or the name of a user's own."""
    labels: str
    """SHA-256 of the labels, independent of their order."""
    labels_by: str = Field(default="", exclude_if=operator.not_)
    """Who made the judgments that a reranker is tuned on."""
    queries: dict[str, int]
    examples: dict[str, int]
    """How many examples `train`, `dev` and `test` have."""
    candidates: int
    """The number of programs that the optimizer made."""
    dev: tuple[float | None, float | None]
    """The metric on the dev split, for the plain program and for the chosen one."""
    unchanged: str | None
    """Why the plain program was kept; None if another was chosen."""
    demonstrations: int
    new_instructions: bool
    new_settings: bool
    """Whether cuts, thresholds or weights of decisions, or the `config` of requests, changed."""
    test: dict[str, OnTest]
    """By metric: the one that programs were chosen by, and others. `answered` is the share of all
    test examples that a program answered. `… against NAME`: before is the value without a reranker, or in the best order."""
    pairs: int
    """The number of pairs on the test split; with a user's own metric, of examples."""
    failures: tuple[dict[str, int], dict[str, int]]
    """Test examples without a valid answer, before and after, by status."""
    unwritten: int
    """How many of the optimizer's own questions, as for an instruction, got no valid reply."""
    calls: int
    """The number of replies used, including recorded ones."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """By reason, how many labels are of no pair of the collection."""
    tokens: int
    cost: float | None
    """The cost of all replies used, including recorded ones; None if a price is not known."""

    @property
    def failed(self) -> tuple[int, int]:
        """The number of test examples without a valid answer, before and after."""
        before, after = self.failures
        return sum(before.values()), sum(after.values())

    def __repr__(self) -> str:
        summary = next(
            (
                f"{name} {result.before.value:.3f} to {result.after.value:.3f}"
                for name, result in self.test.items()
                if result.before.value is not None and result.after.value is not None
            ),
            "no metric",
        )
        return f"OptimizationReport({self.optimizer}, {self.model}: {summary})"

    __str__ = __repr__


class Optimized(NamedTuple):
    """The optimized program and how it compares with the plain one."""

    program: Any
    report: OptimizationReport


def optimize(  # noqa: PLR0913 - each is a choice of the caller's
    labels: Sequence[HumanLabel | NuggetList | AnswerLabel] | Sequence[dspy.Example],
    lm: dspy.LM | None = None,
    *,
    program: dspy.Module | None = None,
    optimizer: OptimizerName | Any = "bootstrap",
    metric: MetricName | Metric | MeanMetric | None = None,
    collection: Collection | None = None,
    scale: Scale | None = None,
    limit: int = 10,
    prompt_model: dspy.LM | None = None,
    compile_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
) -> Optimized:
    """Compile a program with a DSPy optimizer, on people's labels or on your own examples.

    The optimizer sees the train and dev splits. From the programs that it makes, the one with the
    best metric on dev is taken (its signatures, demonstrations, decision fields and config), or the
    plain program if none is better.

    Args:
        labels: `HumanLabel` for the judge, `NuggetList` for the nuggetizer, `AnswerLabel` for the
            comparer of answers; with their texts, or with ids of the collection. Or, for any
            program, `dspy.Example`s with its inputs and whatever the metric reads (for a reranker
            `ranking_examples`); examples with the same `query`, or else the same `query_id` or
            inputs, stay on one side of the split.
        lm: The model to optimize for, by default that of `dspy.configure`; a model that `connect`
            did not make is recorded in its default store.
        program: The `dspy.Module` to optimize, which may be a recipe; by default the program that
            the labels are for. Your own program in its place must have the same inputs and outputs.
            It is not changed.
        optimizer: One of `OPTIMIZERS`, see `docs/trust.md`; or one of DSPy's optimizers with your
            own settings, as `dspy.GEPA(…)`, or a function that makes it from a metric.
        metric: For labels `kappa` (the default), `agreement` (the share of pairs) or `f1`; for
            nuggets `f1`. Optimizers then credit each example with the share of its pairs on which
            program and person agree. Or a function, see `Metric`, of an example (for labels, as
            `examples` makes it) and the program's prediction; its mean counts. Or a `MeanMetric`,
            as `RankingMetric`.
        collection: The collection that was labelled, whose texts are shown; the nuggetizer needs it.
        scale: The judge's scale, and the lowest label that is support, also for people; by default
            `support` from 1 on. On that scale, labels that are all 0 or 1 mean no and yes.
        limit: The largest number of nuggets.
        prompt_model: The model that writes instructions for an optimizer given by name, with its
            own `max_tokens` and settings; by default `lm`. Your own optimizer names its own.
        compile_options: Further arguments of the optimizer's `compile`, as `{"num_trials": 20}` for
            `dspy.MIPROv2(auto=None, …)`.
        progress: Notified of every step and its score. True: bars, or lines in a pipe; False:
            nothing; by default bars on a terminal and in a notebook.

    Raises:
        ConfigError: The optimizer or metric is unknown, is not installed, or does not go with the
            program or model, or the labels are on another scale.
        CollectionError: There are no labels, or they cannot be split, or lack texts.
        ModelError: The model cannot be asked, or answered none of the train and dev examples.
    """
    lm = as_recorded(lm)
    writer = lm if prompt_model is None else as_recorded(prompt_model)
    _check_optimizer(optimizer, writer.model)
    tuned, split, measure, labels, lost = task_of(
        labels, program, optimizer, metric, collection, scale, limit
    )
    with showing(progress) as shown:
        run = _Run(lm, writer, measure, shown)
        student = _Student(tuned, dspy.settings.adapter or TypedAdapter())
        for predictor in student.predictors():
            if predictor.lm is not None:
                predictor.lm = run.guarded(predictor.lm)
        with dspy.context(
            lm=run.lm,
            adapter=_Reasking(run),
            disable_history=True,
            warn_on_type_mismatch=False,
            # An example with an invalid reply scores nothing; DSPy would give up after ten.
            max_errors=sys.maxsize,
        ):
            best, chosen = _choose(optimizer, student, split, run, compile_options or {})
            before = run.answers("test before", student, split.test)
            after = run.answers("test after", best, split.test)
    plain_state, best_state = state_of(tuned), state_of(best)

    def differs(part: str) -> bool:
        return any(best_state[name][part] != state[part] for name, state in plain_state.items())

    report = OptimizationReport(
        optimizer=own_name(optimizer),
        model=", ".join(sorted({(predictor.lm or lm).model for predictor in tuned.predictors()})),
        metric=measure.name,
        labels=sha256("\n".join(sorted(map(as_text, labels))).encode()).hexdigest(),
        labels_by=measure.labels_by,
        queries={
            part: len({query_of(example)[0] for example in part_examples})
            for part, part_examples in split._asdict().items()
        },
        examples={part: len(part_examples) for part, part_examples in split._asdict().items()},
        **chosen,
        demonstrations=sum(len(state["demos"]) for state in best_state.values()),
        new_instructions=differs("signature"),
        new_settings=differs("fields") or differs("config"),
        **_on_test(split.test, before, after, measure),
        unwritten=run.unwritten,
        left_out={why: len(group) for why, group in lost.items()},
        **run.spent(),
    )
    copy_state(best, to=tuned)
    return Optimized(tuned, report)


# What is optimized


class Task(NamedTuple):
    """What is tuned, by which examples and metric."""

    program: Any
    split: Examples
    measure: MeanMetric
    labels: Sequence[Any]
    """Those that are of the collection."""
    lost: Mapping[str, Sequence[Any]]
    """The others, by reason."""


def task_of(
    labels: Any,
    program: Any = None,
    optimizer: Any = "bootstrap",
    metric: Any = None,
    collection: Collection | None = None,
    scale: Scale | None = None,
    limit: int = 10,
) -> Task:
    """Give what `optimize` would do with these arguments; errors are those of `optimize`."""
    labels, lost = followed(labels, collection)
    tuned, examples, measure = _task(labels, program, metric, collection, scale, limit)
    split = split_by_query(examples)
    if optimizer == "labeled" and not _are_demonstrations(tuned, split.train):
        raise ConfigError(
            "labeled shows examples as they are, and these lack what the program answers: take "
            "the optimizer bootstrap, which shows its own good answers"
        )
    return Task(tuned, split, measure, labels, lost)


def _task(
    labels: Any,
    program: Any,
    metric: Any,
    collection: Collection | None,
    scale: Scale | None,
    limit: int,
) -> tuple[Any, Sequence[dspy.Example], MeanMetric]:
    """Give the program, examples of its inputs, and the metric."""
    if not labels:
        raise CollectionError("there are no labels; give those of at least three queries")
    if isinstance(labels[0], dspy.Example):
        if isinstance(program, dspy.Module) and isinstance(metric, MeanMetric):
            return program.deepcopy(), labels, metric
        if not isinstance(program, dspy.Module) or not callable(metric):
            raise ConfigError(
                "examples of your own need a program, the dspy.Module to optimize, and a metric, a "
                f"function of an example and a prediction, not {program!r:.40} and {metric!r:.40}"
            )
        return program.deepcopy(), labels, MeanMetric(metric)
    scale = scale or Scale(name=getattr(program, "scale", SUPPORT.name))
    name = next(
        (name for name, entry in TUNED.items() if isinstance(labels[0], entry.record)), None
    )
    if name is None:
        allowed = ", ".join(tuned.record.__name__ for tuned in TUNED.values())
        raise ConfigError(
            f"nothing is optimized on a {type(labels[0]).__name__}; give {allowed} records, or "
            "dspy.Example objects"
        )
    arguments: dict[str, Any] = {"support_judge": (scale.name,), "nuggetizer": (limit,)}
    own = TUNED[name].program(*arguments.get(name, ()))
    if isinstance(labels[0], HumanLabel):
        _check_scales(labels, collection, scale)
    if program is None:
        program = own
    elif getattr(program, "scale", own_scale := getattr(own, "scale", None)) != own_scale:
        raise ConfigError(
            f"the program judges on the scale {program.scale}, and the labels are read on {own_scale}"
        )
    else:
        check_takes(program, own, f"the program for {type(labels[0]).__name__} records")
        program = program.deepcopy()
    measure = MeanMetric(metric) if callable(metric) else TUNED[name].agreement(metric)
    return program, labelled_examples(labels, collection, scale, limit), measure


class Tuned(NamedTuple):
    """A program that is tuned on people's labels."""

    record: type[HumanLabel | NuggetList | AnswerLabel]
    """The record of the labels."""
    program: type[Program]
    agreement: type[AgreementMetric]
    role: Role

    @property
    def kind(self) -> str:
        """The kind of the labels."""
        return str(self.record.model_fields["kind"].default)


TUNED = {
    "support_judge": Tuned(HumanLabel, SupportJudge, JudgeAgreement, "judge"),
    "nuggetizer": Tuned(NuggetList, Nuggetizer, NuggetAgreement, "nuggets"),
    "comparer": Tuned(AnswerLabel, AnswerComparer, AgreementMetric, "judge"),
}


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


class _Student(dspy.Module):
    """A program as seen by optimizers, which copy it and change its predictors.

    It uses its own adapter, not the one for the optimizers' questions. Its traces, which become
    demonstrations and are shown to models, are plain JSON without the keys of replies; for examples
    that serve as demonstrations, what people said is shown.
    """

    def __init__(self, program: Any, adapter: Any) -> None:
        super().__init__()
        self.program, self._adapter = program.deepcopy(), adapter

    def named_parameters(self) -> Any:
        """The program's parameters, by its own names."""
        return self.program.named_parameters()

    def forward(self, **inputs: Any) -> Any:
        _show_people(self.program)
        outer = [] if dspy.settings.trace is None else dspy.settings.trace
        with dspy.context(adapter=self._adapter, trace=[]):
            try:
                return self.program(**inputs)
            finally:
                for predictor, sent, reply in dspy.settings.trace or ():
                    said = {k: v for k, v in reply.items() if k not in ("call_id", "call_ids")}
                    outer.append((predictor, plain(sent), dspy.Prediction(**plain(said))))


# How programs are measured


def _show_people(program: Any) -> None:
    for predictor in program.predictors():
        predictor.demos = [
            dspy.Example(**demo.people) if isinstance(demo, LabelledExample) else demo
            for demo in predictor.demos
        ]


class _Answers(NamedTuple):
    """A program's answers on a part of the examples."""

    tallies: list[Any]
    """For each example; None if there was no valid answer."""
    failures: Counter[str]
    """Examples without a valid answer, by status."""
    first: str
    """The message of the first failure."""

    @property
    def failed(self) -> int:
        return self.failures.total()


class _Run:
    """One optimization: the models that it asks, the errors that end it, and how it measures."""

    def __init__(
        self, lm: RecordedLM, writer: RecordedLM, measure: MeanMetric, progress: Progress
    ) -> None:
        self.measure, self.progress = measure, progress
        self.clients: dict[int, Client] = {}
        self.used: dict[str, Client] = {}
        """The keys of all replies, and of recorded failures."""
        self.errors: list[FreshstackError] = []
        """Errors of a model itself, after which nothing more is asked."""
        self.unwritten, self.has_written = 0, False
        """How many of the optimizer's own questions got no valid reply, and whether any got one."""
        self.answered: Callable[[], None] = lambda: None
        """Called after each reply."""
        self.lm = self.guarded(lm)
        self.writer = self.lm if writer is lm else self.guarded(writer)
        """The model that writes instructions."""

    def guarded(self, lm: Any) -> Any:
        """Wrap a model so that it is recorded and counted, and its own errors end the optimization."""
        if isinstance(lm, RecordedLM) and isinstance(lm.client, _Guarded):
            return lm
        if isinstance(lm, RecordedLM):
            client = lm.client
        else:
            client = Client(model_of(lm), self.lm.client.access, provider=engine_of(lm))
        self.clients[id(client)] = client
        guarded = RecordedLM(_Guarded(client, self), lm.callbacks)  # type: ignore[arg-type]
        guarded.kwargs = lm.kwargs if isinstance(lm, RecordedLM) else guarded.kwargs
        return guarded

    def raise_if_ended(self) -> None:
        """Raise the first error that is not about one reply."""
        if self.errors:
            raise self.errors[0]

    def account(self, name: str) -> StepLedger:
        """Sum up what a step asked of all models."""
        accounts = [client.ledger.of(name) for client in self.clients.values()]
        return StepLedger(
            **{
                key: sum(getattr(account, key) for account in accounts)
                for key in StepLedger.model_fields
            }
        )

    def spent(self) -> dict[str, Any]:
        """Count all replies that were used, with their tokens and dollars."""
        recorded = [client.reusable(key) for key, client in self.used.items()]
        replies = [reply for reply in recorded if reply is not None and not reply.is_dead_end]
        costs = [reply.cost for reply in replies]
        return {
            "calls": len(recorded),
            "tokens": sum(reply.tokens for reply in replies),
            "cost": None if None in costs else sum(cost or 0.0 for cost in costs),
        }

    def answers(self, part: str, program: Any, examples: Sequence[dspy.Example]) -> _Answers:
        """Run a program on a part of the examples."""
        self.progress.start(part, len(examples))

        def run(example: dspy.Example) -> Any:
            try:
                return self.measure.tally(example, program(**example.inputs()))
            except (ReplyError, AdapterParseError, FatalModelError) as error:
                self.raise_if_ended()  # the model itself; else it is about this example
                self.lm.ledger.enter(failed=1)
                return error

        def advance() -> None:
            self.progress.advance(part, self.account(part).spent)

        with step(part):
            workers = self.lm.client.model.concurrency
            outcomes = map_in_order(run, examples, workers=workers, done=advance)
        errors = [each for each in outcomes if isinstance(each, Exception)]
        tallies = [None if isinstance(each, Exception) else each for each in outcomes]
        value = self.measure.value(tallies)
        score = "undefined" if value is None else f"{value:.3f}"
        self.progress.finish(part, f"{self.measure.name} {score}; {self.account(part).line}")
        failures = Counter[str](map(_status_of, errors))
        return _Answers(tallies, failures, " ".join(str(errors[0]).split()) if errors else "")


def _status_of(error: Exception) -> str:
    if isinstance(error, ReplyError):
        return error.status
    return "unparsed" if isinstance(error, AdapterParseError) else "failed"


class _Guarded:
    """A client that stops answering after an error that is not about one reply.

    DSPy's optimizers count every error as a failed example and go on, so with the budget used up
    they would report a program that was tuned on nothing. Truncated replies are errors, even for an
    optimizer's own questions.
    """

    def __init__(self, client: Client, run: _Run) -> None:
        self._client, self._run = client, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __deepcopy__(self, _: object) -> Self:
        return self

    def complete(self, request: Any) -> Any:
        self._run.raise_if_ended()
        try:
            response = self._client.complete(request)
        except ReplyError as error:
            if error.call_id:
                self._run.used[error.call_id] = self._client
            raise
        except FreshstackError as error:
            self._run.errors.append(error)
            raise
        self._run.used[str(response.id)] = self._client
        if response.finish_reason == "length":
            message = "the reply was truncated: set [model] max_tokens to more"
            raise ReplyError(message, status="truncated", call_id=response.id)
        self._run.answered()
        return response


class _Reasking(dspy.ChatAdapter):
    """Asks again if an optimizer's own question got no valid reply."""

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run = run

    def __call__(self, lm: Any, lm_kwargs: Any, *args: Any, **question: Any) -> Any:
        run, failed = self._run, Exception()
        first = lm_kwargs.get("rollout_id") or lm.kwargs.get("rollout_id") or 0
        for sample in range(1, 1 + _SAMPLES):
            try:
                answer = super().__call__(lm, lm_kwargs, *args, **question)
            except (AdapterParseError, ReplyError) as error:
                failed = error
            else:
                run.has_written = True
                return answer
            lm_kwargs = {**lm_kwargs, "rollout_id": first + sample, "temperature": 1.0}
        run.lm.ledger.enter(failed=1)
        run.unwritten += 1
        fault = " ".join(str(failed).split())[:200]
        message = f"no valid instruction in {_SAMPLES} attempts; the last reply: {fault}"
        unwritten = ReplyError(message, status="unparsed", call_id=None)
        if run.unwritten >= _MOST_FAILURES and not run.has_written:
            run.errors.append(unwritten)
        if instruction := question["inputs"].get("basic_instruction"):
            return [{"proposed_instruction": instruction}]  # MIPROv2 would end at the first
        raise unwritten


def _choose(
    optimizer: Any,
    student: _Student,
    split: Examples,
    run: _Run,
    options: Mapping[str, Any],
) -> tuple[_Student, dict[str, Any]]:
    """Make candidates, and take the best on dev; a tie keeps the earlier program."""
    measure, metric = run.measure, run.measure.name
    dev = run.answers("dev", student, split.dev)
    train = run.answers("train", student, split.train)
    _raise_if_unanswered([dev, train])
    plain_value = measure.value(dev.tallies)
    plain_on_both = measure.value([*dev.tallies, *train.tallies])
    best, best_value, fewest, candidates = student, plain_value, dev.failed, []
    if plain_value is None and dev.failed < len(split.dev):
        unchanged = f"{metric} is undefined on the dev queries: label more, or name another metric"
    elif plain_on_both == measure.top and not dev.failed + train.failed:
        unchanged = f"{metric} is {plain_on_both:g} already on the train and dev queries"
    else:
        name = f"compile with {own_name(optimizer)}"
        run.progress.start(name, 0)
        with step(name):
            run.answered = lambda: run.progress.advance(name, run.account(name).spent)
            candidates = _candidates(optimizer, student, split, run, options)
        run.answered = lambda: None
        note = f"{len(candidates)} programs; {run.account(name).line}"
        run.progress.finish(name, note)
        for number, candidate in enumerate(candidates, 1):
            answers = run.answers(f"dev, {number} of {len(candidates)}", candidate, split.dev)
            value = measure.value(answers.tallies)
            if value is None or answers.failed > fewest:
                continue
            ahead = math.inf if best_value is None else value - best_value
            if ahead > 0 or (ahead == 0 and answers.failed < fewest):
                best, best_value, fewest = candidate, value, answers.failed
        tried = f"programs that {own_name(optimizer)} made ({len(candidates)})"
        unchanged = f"none of the {tried} has a better {metric} on the dev queries"
    return best, {
        "candidates": len(candidates),
        "dev": (plain_value, best_value),
        "unchanged": unchanged if best is student else None,
    }


def _raise_if_unanswered(parts: Sequence[_Answers]) -> None:
    """Raise a FatalModelError if no example has an answer, because nothing can be chosen then."""
    failures = sum((answers.failures for answers in parts), Counter[str]())
    count = sum(len(answers.tallies) for answers in parts)
    if failures.total() == count:
        kinds = ", ".join(f"{number} {status}" for status, number in failures.most_common())
        first = next(answers.first for answers in parts if answers.first)
        raise FatalModelError(
            f"none of the {count} examples to train and to choose by was answered: {kinds}; the "
            f"first: {first}"
        )


def _on_test(
    examples: Sequence[dspy.Example],
    before: _Answers,
    after: _Answers,
    measure: MeanMetric,
) -> dict[str, Any]:
    import numpy as np

    by_query: dict[str, Any] = {}
    answered: dict[str, Any] = {}
    for example, *sides in zip(examples, before.tallies, after.tallies, strict=True):
        query_id, _ = query_of(example)
        counts = np.array([[float(side is not None), 1.0] for side in sides])
        answered[query_id] = answered.get(query_id, 0) + counts
        if all(side is not None for side in sides):
            by_query[query_id] = by_query.get(query_id, 0) + np.stack(sides)
    share = _paired(
        [*answered.values()], lambda sums: {"answered": share_of(sums[..., 0], sums[..., 1])}
    )
    both = [*by_query.values()]
    test = _paired(both, measure.values) if both else {}
    for place, other in enumerate(measure.against if both else ()):
        pairs = [np.stack([measure.without(after, place), after]) for _, after in both]
        test |= {
            f"{name} against {other}": result
            for name, result in _paired(pairs, measure.values).items()
        }
    return {
        "test": {**test, **share},
        "pairs": sum(measure.size(before) for before, _ in both),
        "failures": (dict(before.failures), dict(after.failures)),
    }


def _paired(sums: Sequence[Any], metrics: Callable[[Any], dict[str, Values]]) -> dict[str, OnTest]:
    """Compare metrics before and after over queries; without intervals if there are few."""
    import numpy as np

    def values(sums: Any) -> dict[str, Values]:
        old, new = (metrics(sums[:, side]) for side in (0, 1))
        sides = {"before": old, "after": new}
        sides["difference"] = {name: new[name] - old[name] for name in old}
        return {
            f"{side} {name}": results[name] for side, results in sides.items() for name in results
        }

    intervals = bootstrap(np.stack(sums), values)
    if len(sums) < LEAST_QUERIES:
        without = {"low": None, "high": None, "reason": f"fewer than {LEAST_QUERIES} queries"}
        intervals = {
            name: interval.model_copy(update=without) for name, interval in intervals.items()
        }
    return {
        name: OnTest(**{side: intervals[f"{side} {name}"] for side in OnTest.model_fields})
        for name in metrics(sums[0][0])
    }


# DSPy's optimizers


def _check_optimizer(optimizer: Any, model: str) -> None:
    if not isinstance(optimizer, str):
        if not callable(getattr(optimizer, "compile", optimizer)):
            raise ConfigError(f"the optimizer {optimizer!r:.80} has no compile, as DSPy's have")
        return
    check_name("optimizer", optimizer, OPTIMIZERS)
    if optimizer in WRITERS and model == BASELINE:
        raise ConfigError(
            f"{optimizer} needs a model that can write instructions, and {BASELINE} cannot; "
            "take the optimizer bootstrap_random, bootstrap or labeled, or another model"
        )
    if optimizer == "mipro" and importlib.util.find_spec("optuna") is None:
        raise ConfigError("mipro needs optuna: pip install 'freshstack_dspy[optimize]'")


def _are_demonstrations(program: Any, train: Sequence[Any]) -> bool:
    """Tell whether examples have all fields of every predictor's signature."""
    first = train[0].people if isinstance(train[0], LabelledExample) else train[0]
    asked = program.predictors()
    return all(set(predictor.signature.fields) <= set(first.keys()) for predictor in asked)


def _candidates(
    optimizer: Any,
    student: _Student,
    split: Examples,
    run: _Run,
    options: Mapping[str, Any],
) -> list[Any]:
    """Give the programs that an optimizer makes, its best first, without the plain one."""
    try:
        optimizer = _prepared(optimizer, student, split.train, run)
        arguments: dict[str, Any] = {}
        if "valset" in inspect.signature(optimizer.compile).parameters:
            arguments["valset"] = split.dev
        if isinstance(optimizer, dspy.MIPROv2):
            arguments["program_aware_proposer"] = False  # it would show the source of our student
        compiled = optimizer.compile(student, trainset=split.train, **{**arguments, **options})
    finally:  # also where DSPy goes on after an error
        run.raise_if_ended()
    if not isinstance(compiled, _Student) or "forward" in vars(compiled):
        raise ConfigError(
            f"{own_name(optimizer)} makes a program of another kind, not one with other "
            "instructions, demonstrations or settings: compile with it directly, and give the "
            "result to a build as a program"
        )
    programs = [
        compiled,
        *(each["program"] for each in getattr(compiled, "candidate_programs", ())),
    ]
    if details := getattr(compiled, "detailed_results", None):
        programs += details.candidates
    return _distinct([student, *programs])[1:]


def _prepared(optimizer: Any, student: _Student, train: list[Any], run: _Run) -> Any:
    """Give the optimizer as a new object whose models are recorded."""
    if isinstance(optimizer, str):
        optimizer = _by_name(optimizer, student, train, run)
    elif isinstance(optimizer, type) or not hasattr(optimizer, "compile"):
        optimizer = optimizer(metric=run.measure.metric)
    else:
        optimizer = copy.copy(optimizer)
    for name, value in vars(optimizer).items():
        if isinstance(value, dspy.BaseLM):
            setattr(optimizer, name, run.guarded(value))
        elif isinstance(value, dict) and isinstance(value.get("lm"), dspy.BaseLM):
            setattr(optimizer, name, {**value, "lm": run.guarded(value["lm"])})
    if hasattr(optimizer, "require_cache"):
        optimizer.require_cache = False  # every reply is recorded
    return optimizer


def _distinct(programs: Sequence[Any]) -> list[Any]:
    """Drop programs with a repeated state; restore the models, which DSPy's copies may lose."""
    distinct: dict[str, Any] = {}
    models = {name: predict.lm for name, predict in programs[0].named_predictors()}
    for program in programs:
        _show_people(program)
        for name, predict in program.named_predictors():
            predict.lm = models[name]
            predict.signature = predict.signature.with_instructions(predict.signature.instructions)
        distinct.setdefault(json.dumps(state_of(program)), program)
    return list(distinct.values())


def _by_name(name: str, student: _Student, train: list[Any], run: _Run) -> Any:
    """Make one of `OPTIMIZERS`."""
    from dspy import teleprompt
    from dspy.teleprompt.gepa import InstructionProposer

    writer, measure = run.writer, run.measure

    def over(state: Any) -> bool:
        best = max(state.program_full_scores_val_set)
        return bool(run.errors) or (measure.top is not None and best >= 1)

    most = measure.most_demonstrations
    credit: dict[str, Any] = {
        "metric": measure.metric,
        "metric_threshold": GOOD_ENOUGH,
        "max_bootstrapped_demos": min(4, most),
        "max_labeled_demos": most if _are_demonstrations(student, train) else 0,
    }
    feedback: dict[str, Any] = {"metric": measure.metric}
    threads = {"num_threads": run.lm.client.model.concurrency}
    small = {"bsize": min(len(train), 8), "num_candidates": 4, "max_steps": 4}
    gepa = {
        "auto": "light",
        "reflection_lm": writer,
        "instruction_proposer": InstructionProposer(adapter=_Reasking(run)),
        "track_stats": True,
        "gepa_kwargs": {"stop_callbacks": [over]},
    }
    table: dict[str, tuple[str, dict[str, Any]]] = {
        "labeled": ("LabeledFewShot", {"k": most}),
        "bootstrap": ("BootstrapFewShot", credit),
        "bootstrap_random": (
            "BootstrapFewShotWithRandomSearch",
            {"num_candidate_programs": 8, **credit, **threads},
        ),
        "mipro": (
            "MIPROv2",
            {"auto": "light", "seed": 0, "prompt_model": writer, **credit, **threads},
        ),
        "gepa": ("GEPA", {**gepa, **feedback, **threads}),
        "simba": (
            "SIMBA",
            {"demo_input_field_maxlen": 0, "prompt_model": writer, **small, **feedback, **threads},
        ),
    }
    made_of, settings = table[name]
    return getattr(teleprompt, made_of)(**settings)
