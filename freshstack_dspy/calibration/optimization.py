"""Optimize a program against people's labels, and report the untouched test split."""

import contextlib
import importlib.util
import io
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self, get_args

import dspy

from freshstack_dspy.calibration.agreement import JudgeMetrics, binary, judge_metrics
from freshstack_dspy.calibration.examples import LabelledExample, judge_examples, split_by_query
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError, FreshstackError, ReplyError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.lm.usage import step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.measures.agreement import LabelPair
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.records import SCALES, HumanLabel, Record, Scale
from freshstack_dspy.signatures.judge_support import JUDGES

OptimizerName = Literal["labeled", "bootstrap", "mipro"]
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)

_CHUNKS, _TEST_SHARE = 5, 0.4
_DEMONSTRATIONS = 8
_BOOTSTRAPPED = 4
_GOOD_ENOUGH = 0.8
_FEWEST_FOR_MIPRO = 2
"""It keeps some of them for choosing among its candidates."""


class SplitMetrics(Record):
    """How a judge does on the test split."""

    metrics: JudgeMetrics
    failed: int
    """Examples without a valid answer; they are left out."""


class OptimizationReport(Record):
    """What `optimize` did. Only the test split says how good the program is."""

    optimizer: OptimizerName
    model: str
    """The model that the program was tuned for."""
    train_queries: int
    train_examples: int
    test_queries: int
    test_examples: int
    demonstrations: int
    before: SplitMetrics
    after: SplitMetrics


class Optimized(NamedTuple):
    """The optimized program and how it compares with the plain one."""

    program: SupportJudge
    report: OptimizationReport


def optimize(
    labels: Sequence[HumanLabel],
    lm: RecordedLM,
    *,
    optimizer: OptimizerName = "bootstrap",
    collection: Collection | None = None,
    scale: Scale | None = None,
) -> Optimized:
    """Compile the support judge with one of DSPy's optimizers.

    Of the queries 40 % are for the test and never seen by the optimizer; an example has at most
    five chunks.

    Args:
        labels: With their texts, or with ids of the collection.
        lm: The model to optimize for.
        optimizer: `labeled` (LabeledFewShot), `bootstrap` (BootstrapFewShot) or `mipro` (MIPROv2).
        collection: Where texts are looked up first.
        scale: Of the judge, `support` or `binary`, and the lowest label, also of people, that is
            support; by default `support` from 1 on. Labels that are all 0 or 1 mean no and yes.

    Raises:
        ConfigError: The optimizer is unknown, is not installed, or does not go with the model, or
            the scale is another.
        CollectionError: The labels cannot be split, or lack texts.
        ModelError: The model cannot be asked.
    """
    _check_optimizer(optimizer, lm.model)
    scale = scale or Scale()
    _check_scales(labels, collection, scale)
    metric = partial(share_agreed, threshold=scale.threshold)
    examples = judge_examples(labels, collection, _CHUNKS, scale)
    split = split_by_query(examples, _TEST_SHARE, 0)
    trainset = [example.example for example in split.train]
    if optimizer == "mipro" and len(trainset) < _FEWEST_FOR_MIPRO:
        raise CollectionError(
            f"mipro needs {_FEWEST_FOR_MIPRO} examples to train on, and here is {len(trainset)}: "
            "label more questions or chunks, or take --optimizer bootstrap or labeled"
        )
    student = _StoppingPredict(JUDGES[scale.name])
    # An example whose reply is no answer scores nothing; DSPy would give up after ten of them.
    with dspy.context(lm=lm, disable_history=True, max_errors=sys.maxsize):
        with step("optimize: test before"):
            before = _measured(student, split.test, lm, scale.threshold)
        with step("optimize: compile"):
            chosen = _optimizer(optimizer, lm, metric)
            compiled = _compile(student, trainset, chosen, JUDGES[scale.name].__name__)
            student.stop.raise_if_set()
        with step("optimize: test after"):
            after = _measured(compiled, split.test, lm, scale.threshold)
    judge = SupportJudge(scale.name)
    judge.predict.signature = compiled.signature
    judge.predict.demos = compiled.demos
    report = OptimizationReport(
        optimizer=optimizer,
        model=lm.model,
        train_queries=len({one.query_id for one in split.train}),
        train_examples=len(split.train),
        test_queries=len({one.query_id for one in split.test}),
        test_examples=len(split.test),
        demonstrations=len(compiled.demos),
        before=before,
        after=after,
    )
    return Optimized(judge, report)


class _Stop:
    """The first error that ends an optimization; copies of a program share it."""

    error: FreshstackError | None = None

    def __deepcopy__(self, _: object) -> Self:
        return self

    def raise_if_set(self) -> None:
        if self.error is not None:
            raise self.error


class _StoppingPredict(TypedPredict):
    """Asks nothing more after an error that is not about one reply.

    DSPy's optimizers count every error as a failed example and go on: with the budget used up
    they would report a program that was tuned on nothing.
    """

    def __init__(self, signature: Any) -> None:
        super().__init__(signature)
        self.stop = _Stop()

    def forward(self, **inputs: Any) -> Any:
        self.stop.raise_if_set()
        try:
            return super().forward(**inputs)
        except ReplyError:
            raise
        except FreshstackError as error:
            self.stop.error = error
            raise


def _check_optimizer(optimizer: str, model: str) -> None:
    if optimizer not in OPTIMIZERS:
        raise ConfigError(f"unknown optimizer {optimizer!r}; allowed: {', '.join(OPTIMIZERS)}")
    if optimizer == "mipro" and model == BASELINE:
        raise ConfigError(
            f"mipro needs a model that can write instructions, and {BASELINE} cannot; "
            "take --optimizer bootstrap or labeled, or name another [model]"
        )
    if optimizer == "mipro" and importlib.util.find_spec("optuna") is None:
        raise ConfigError(
            "mipro needs optuna: pip install 'freshstack_dspy[optimize]', or take "
            "--optimizer bootstrap or labeled"
        )


def _check_scales(
    labels: Sequence[HumanLabel], collection: Collection | None, scale: Scale
) -> None:
    theirs = (
        [(f"the collection {collection.name!r}", collection.manifest.scale)] if collection else []
    )
    for what, found in [("[judge]", scale), *theirs]:
        if found.name not in ("binary", "support"):
            raise ConfigError(
                f"{what} is on the scale {found.name}, and support_judge is optimized on support or "
                "binary: set [judge] scale to one of them, and give labels of such a collection or "
                "with their texts"
            )
    highest, top = max((label.label for label in labels), default=0), SCALES["support"].highest
    if scale.name == "support" and highest > top:
        raise CollectionError(
            f"a label is {highest}, and the scale support ends at {top}: give labels of 0, 1 and 2, "
            "or of 0 and 1"
        )


def share_agreed(
    example: dspy.Example, prediction: Any, trace: Any = None, *, threshold: int = 1
) -> float | bool:
    """The optimizers' metric: the share of (nugget, chunk) pairs on which judge and person agree.

    Labels are read as support, from the threshold on, or none. While demonstrations are collected (`trace` is given), whether it is at least 0.8.
    """
    pairs = _pairs(example, prediction, threshold)
    share = sum(judge == person for judge, person in pairs) / len(pairs)
    return share if trace is None else share >= _GOOD_ENOUGH


def _compile(student: TypedPredict, trainset: list[Any], optimizer: Any, task: str) -> Any:
    # The optimizers print their progress; what they found is in the report.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        compiled = optimizer.compile(student, trainset=trainset)
    # With new instructions DSPy makes a signature without a name; the request is known by it.
    compiled.signature = compiled.signature.with_instructions(compiled.signature.instructions)
    compiled.signature.__name__ = task
    # Bootstrapped demonstrations also carry what the call brought next to the answer.
    compiled.demos = [
        {field: demo[field] for field in compiled.signature.fields} for demo in compiled.demos
    ]
    return compiled


def _optimizer(name: OptimizerName, lm: RecordedLM, metric: Any) -> Any:
    from dspy.teleprompt import BootstrapFewShot, LabeledFewShot, MIPROv2

    if name == "labeled":
        return LabeledFewShot(k=_DEMONSTRATIONS)
    if name == "bootstrap":
        return BootstrapFewShot(
            metric=metric,
            max_bootstrapped_demos=_BOOTSTRAPPED,
            max_labeled_demos=_DEMONSTRATIONS,
        )
    return MIPROv2(
        metric=metric,
        auto="light",
        max_bootstrapped_demos=_BOOTSTRAPPED,
        max_labeled_demos=_DEMONSTRATIONS,
        num_threads=lm.client.model.concurrency,
        seed=0,
    )


def _measured(
    judge: Any, examples: Sequence[LabelledExample], lm: RecordedLM, threshold: int
) -> SplitMetrics:
    def run(labelled: LabelledExample) -> list[LabelPair] | None:
        try:
            return _pairs(labelled.example, judge(**labelled.example.inputs()), threshold)
        except ReplyError:
            lm.ledger.enter(failed=1)
            return None

    results = map_in_order(run, examples, workers=lm.client.model.concurrency)
    pairs: dict[str, list[LabelPair]] = {}
    for labelled, result in zip(examples, results, strict=True):
        pairs.setdefault(labelled.query_id, []).extend(result or [])
    return SplitMetrics(
        metrics=judge_metrics(pairs), failed=sum(result is None for result in results)
    )


def _pairs(example: dspy.Example, prediction: Any, threshold: int) -> list[LabelPair]:
    """Whether the judge and the person see support, for every pair of an example."""
    judged = {verdict.chunk: verdict for verdict in prediction.verdicts}
    return [
        (
            binary(judged[verdict.chunk].label_of(nugget.number), threshold),
            binary(verdict.label_of(nugget.number), threshold),
        )
        for verdict in example.verdicts
        for nugget in example.nuggets
    ]
