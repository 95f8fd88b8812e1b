"""Optimizing a program: on labels of people, tested on queries that it never saw."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy import (
    HumanLabel,
    ModelConfig,
    Query,
    ReplyStore,
    SupportJudge,
    connect,
    optimize,
)
from freshstack_dspy.calibration.examples import judge_examples, split_by_query
from freshstack_dspy.calibration.optimization import OptimizationReport, Optimized
from freshstack_dspy.calibration.scoring import AgreementMetric, JudgeAgreement, NuggetAgreement
from freshstack_dspy.errors import (
    BudgetError,
    ConfigError,
    FatalModelError,
    ReplyError,
)
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.engine import Provider
from freshstack_dspy.lm.typed import messages_of, name_of
from freshstack_dspy.measures.kappa import table_of
from freshstack_dspy.programs.saved import load_program, save_program
from freshstack_dspy.records import SCALES, AnswerLabel, ListedNugget, NuggetList, Scale, ScaleName
from tests.collection.small import judgment
from tests.recipes.scripted import Inputs, ScriptedProvider, judge

from .people import Pupil, Taught, synthetic_labels

Connect = Callable[..., RecordedLM]


@pytest.fixture
def lm_to(tmp_path: Path) -> Iterator[Connect]:
    store = ReplyStore(tmp_path / "cache")

    def lm(provider: Provider | None = None, mode: Any = "live") -> RecordedLM:
        name = "openai/scripted" if provider or mode == "replay" else "extractive/baseline"
        model = ModelConfig(name=name, retries=0, concurrency=2)
        return connect(model, mode=mode, store=store, provider=provider)

    yield lm
    store.close()


def prompts(optimized: Optimized) -> list[dict[str, Any]]:
    """What the optimized judge sends for a question."""
    predict = optimized.program.predict
    inputs = {"question": "?", "nuggets": [], "chunks": []}
    return messages_of(predict.signature, predict.demos, inputs)


def texts_of(labels: tuple[HumanLabel, ...], query_ids: set[str]) -> set[str]:
    return {one.chunk or "" for one in labels if one.query_id in query_ids}


@pytest.mark.parametrize("optimizer", ["labeled", "bootstrap"])
def test_demonstrations_are_of_train_queries_and_both_programs_are_measured(
    lm_to: Connect, optimizer: Any
) -> None:
    """A model that only follows demonstrations is wrong before and right after."""
    labels = synthetic_labels()
    split = split_by_query(judge_examples(labels, None))

    optimized = optimize(labels, lm_to(Pupil()), optimizer=optimizer)

    report = optimized.report
    assert report.queries == report.examples == {"train": 3, "dev": 1, "test": 2}
    assert report.demonstrations == len(optimized.program.predict.demos) == 3
    assert OptimizationReport.model_validate_json(report.model_dump_json()) == report
    messages = prompts(optimized)
    roles = [message["role"] for message in messages]
    assert roles == ["system", *["user", "assistant"] * 3, "user"]
    shown = json.dumps(messages, ensure_ascii=False)
    train, dev, test = ({one.query.query_id for one in part} for part in split)
    assert all(text in shown for text in texts_of(labels, train))
    assert not any(text in shown for text in texts_of(labels, dev | test))
    own_words = "whether the words are there" in shown
    assert own_words == (optimizer == "bootstrap"), "the model's own, where people agree with it"
    # Per query 2 nuggets x 3 chunks, of which 2 are supported.
    assert report.pairs == 12
    assert list(report.test) == ["kappa", "agreement", "precision", "recall", "answered"]
    assert report.test["agreement"].before.value == pytest.approx(8 / 12)
    kappa = report.test["kappa"]
    assert (kappa.before.value, kappa.after.value, kappa.difference.value) == (0, 1, 1)
    assert kappa.difference.groups == 2
    assert report.dev == (0, 1)
    if optimizer == "labeled":
        # 6 queries plain (dev and train once), the candidate on dev and test; 110 tokens each.
        assert report.tokens == (6 + 3) * 110


@pytest.mark.parametrize(
    ("provider", "labels", "said"),
    [
        (
            ScriptedProvider(),
            synthetic_labels(),
            "kappa is 1 already on the train and dev queries",
        ),
        (
            Pupil(),
            [one.model_copy(update={"label": 1}) for one in synthetic_labels()],
            "none of the programs that labeled made (1) has a better kappa on the dev queries",
        ),
    ],
)
def test_a_metric_that_cannot_be_raised_leaves_the_plain_program_and_says_why(
    lm_to: Connect, provider: Any, labels: Any, said: str
) -> None:
    optimized = optimize(labels, lm_to(provider), optimizer="labeled")

    assert optimized.report.unchanged is not None
    assert optimized.report.unchanged.startswith(said)
    assert (optimized.program.predict.demos, optimized.report.new_instructions) == ([], False)
    assert all(of.before == of.after for of in optimized.report.test.values())


class Bounded(SupportJudge):
    """Looks again at what it finds, with words of its own."""

    def ask(self, **inputs: Any) -> Any:
        chunks = [one for one in inputs["chunks"] if "Unrelated" not in one.text]
        assert chunks
        return super().ask(**inputs)

    def forward(self, query: Any, nuggets: Any, chunks: Any, **options: Any) -> Any:
        judged = super().forward(query, nuggets, chunks, **options)
        judgments = (
            one.model_copy(update={"label": 2 if "a" in one.chunk_id else one.label})
            for one in judged.judgments
            if query.body.startswith("What is new")
        )
        return dspy.Prediction(judgments=(*judgments,), failure=judged.failure)


def test_a_judge_that_overrides_ask_and_forward_is_run_as_it_is(lm_to: Connect) -> None:
    """It calls every first chunk supported: of the three pairs that people say no to, one more."""
    report = optimize(
        synthetic_labels(), lm_to(ScriptedProvider()), program=Bounded(), optimizer="labeled"
    ).report

    assert report.test["precision"].before.value == pytest.approx(2 / 3)
    assert report.test["recall"].before.value == 1


def test_examples_without_a_valid_reply_are_counted_and_in_no_metric(lm_to: Connect) -> None:
    """The plain judge does not answer for one query; a demonstration lets it."""
    labels = synthetic_labels(12)
    number = split_by_query(judge_examples(labels, None)).test[0].query.query_id.removeprefix("q")

    class Shaky(Pupil):
        def complete(self, request: Any) -> Any:
            asked, plain = str(request.messages[-1].text), len(request.messages) == 1
            response = super().complete(request)
            is_cut = plain and f"version {number}?" in asked
            return replace(response, finish_reason="length") if is_cut else response

    lm = lm_to(Shaky())
    report = optimize(labels, lm, optimizer="labeled").report

    assert (report.failures, report.pairs) == (({"truncated": 1}, {}), 4 * 6)
    answered = report.test["answered"]
    assert (answered.before.value, answered.after.value) == (4 / 5, 1)
    assert answered.difference.reason == "fewer than 10 queries", "no interval of so few"
    assert lm.ledger.steps()["test before"].failed == 1


@pytest.mark.parametrize("optimizer", ["bootstrap_random", "gepa"])
def test_every_call_is_counted_and_optimizing_again_asks_nobody(
    lm_to: Connect, optimizer: Any
) -> None:
    """Under its step, whatever thread makes it; a replay gives the same program and report."""
    provider = Pupil()
    live = lm_to(provider)  # concurrency 2
    first = optimize(synthetic_labels(8), live, optimizer=optimizer)
    steps = live.ledger.steps()
    assert "other" not in steps
    assert sum(one.calls for one in steps.values()) == provider.calls.total()
    assert steps[f"compile with {optimizer}"].calls > 0
    assert first.report.calls == provider.calls.total()

    replayed = lm_to(mode="replay")
    second = optimize(synthetic_labels(8), replayed, optimizer=optimizer)

    assert second.report == first.report
    assert prompts(second) == prompts(first)
    assert all(account.calls == 0 for account in replayed.ledger.steps().values())
    assert first.report.test["kappa"].after.value == 1
    assert first.report.new_instructions == (optimizer == "gepa")
    if optimizer == "gepa":
        (asked,) = (one["question"] for one in provider.asked if isinstance(one["question"], str))
        assert "a person's label is 2, and the answer's 0. Its reason: whether the words" in asked


def test_a_writer_and_a_judge_may_have_models_of_their_own_which_are_counted(
    lm_to: Connect,
) -> None:
    provider, writer, own = Pupil(), Pupil(), Pupil()
    lm, judge = lm_to(provider), SupportJudge()
    store = lm.client.access.store

    def model(name: str, answers: Provider) -> RecordedLM:
        return connect(ModelConfig(name=name, retries=0), store=store, provider=answers)

    written = optimize(
        synthetic_labels(8), lm, optimizer="gepa", prompt_model=model("openai/writer", writer)
    ).report
    assert written.new_instructions
    assert (provider.calls["instructions"], writer.calls["instructions"]) == (0, 1)
    assert written.calls == provider.calls.total() + writer.calls.total()

    judge.set_lm(model("openai/own", own))
    before = provider.calls.total()
    report = optimize(synthetic_labels(), lm, program=judge, optimizer="labeled").report
    assert provider.calls.total() == before
    assert report.model == "openai/own"
    assert report.calls == own.calls.total() > 0
    assert (report.test["kappa"].before.value, report.test["kappa"].after.value) == (0, 1)


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [("bootstrap", FatalModelError), ("mipro", FatalModelError), ("gepa", BudgetError)],
)
def test_what_stops_the_model_stops_the_optimizer(
    lm_to: Connect, optimizer: Any, kind: type[Exception]
) -> None:
    """DSPy would count each refused call as a failed example, and report a program all the same."""

    class Ending(Pupil):
        def complete(self, request: Any) -> Any:
            if self.calls.total() >= 10:
                raise kind("[budget] calls = 10 is used up")
            return super().complete(request)

    provider = Ending()

    with pytest.raises(kind, match="used up"):
        optimize(synthetic_labels(12), lm_to(provider), optimizer=optimizer)

    assert provider.calls.total() == 10


def test_a_model_that_writes_no_instruction_ends_it(lm_to: Connect) -> None:
    """A truncated instruction is none; GEPA would go on with the next, hundreds of times."""

    class Rambling(Pupil):
        def complete(self, request: Any) -> Any:
            response = super().complete(request)
            if request.config.response_format is None:
                return replace(response, finish_reason="length")
            return response

    provider = Rambling()

    with pytest.raises(ReplyError, match=r"no valid instruction in 3 attempts; .* was truncated"):
        optimize(synthetic_labels(8), lm_to(provider), optimizer="gepa")

    assert provider.calls["instructions"] <= 30


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["mipro", "simba"])
def test_the_other_writers_run_to_the_end(lm_to: Connect, optimizer: Any) -> None:
    class Unsteady(Pupil):
        """Right in some of its samples, from which SIMBA learns."""

        def complete(self, request: Any) -> Any:
            system = str(request.system) + (" Be careful" if self.calls.total() % 3 == 0 else "")
            changed = optimizer == "simba" and request.config.response_format is not None
            return super().complete(replace(request, system=system) if changed else request)

    provider = Unsteady()
    optimized = optimize(synthetic_labels(8), lm_to(provider), optimizer=optimizer)

    assert provider.calls["instructions"] > 0 or optimizer == "simba", "it may add demonstrations"
    assert optimized.report.candidates > 0
    assert name_of(optimized.program.predict.signature) == "JudgeSupportLevel"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimizer": "copro"}, "unknown optimizer 'copro'; allowed: labeled, bootstrap, boot"),
        ({"optimizer": "gepa"}, "gepa needs a model that can write instructions"),
        ({"metric": "auc"}, "unknown metric of this program 'auc'; allowed: kappa, agreement, f1"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_asked(
    lm_to: Connect, options: Any, said: str
) -> None:
    lm = lm_to()

    with pytest.raises(ConfigError, match=said):
        optimize(synthetic_labels(), lm, **options)

    assert lm.ledger.steps() == {}


@pytest.mark.parametrize("name", SCALES)
def test_the_judge_of_every_scale_is_optimized_and_saved(
    lm_to: Connect, name: ScaleName, tmp_path: Path
) -> None:
    """It finds nothing where there is no demonstration."""
    top = SCALES[name].highest
    labels = [one.model_copy(update={"label": one.label * top}) for one in synthetic_labels()]

    def verdicts(inputs: Inputs, shown: bool) -> Any:
        said = judge(inputs)["verdicts"]
        for verdict in said:
            found = verdict.pop("supported") if shown else verdict.pop("supported")[:0]
            if name in ("binary", "support"):
                verdict["supported"] = found
                continue
            numbers = (nugget["number"] for nugget in inputs["nuggets"])
            verdict["grades"] = [{"nugget": n, "grade": top * (n in found)} for n in numbers]
        return {"verdicts": said}

    strict = Taught(**{SupportJudge(name).predict.signature.__name__: verdicts})
    optimized = optimize(labels, lm_to(strict), optimizer="labeled", scale=Scale(name=name))

    save_program(optimized.program, tmp_path / "judge.json", optimized.report)
    loaded = load_program(SupportJudge(name), tmp_path / "judge.json")
    assert len(loaded.predict.demos) == 3
    assert optimized.report.test["kappa"].after.value == 1
    saved = json.loads((tmp_path / "judge.json").read_text())
    assert saved["freshstack_dspy"]["report"]["labels"] == optimized.report.labels


def test_the_credit_of_an_example_is_the_share_of_pairs_agreed_on() -> None:
    (example,) = judge_examples(synthetic_labels(1), None, Scale(name="binary"))

    def judged(*supported: str) -> Any:
        """A prediction in which the chunks with these ends support the two nuggets."""
        ids = [one.nugget_id for one in example.nuggets]
        return dspy.Prediction(
            judgments=[
                judgment(id_, one.chunk_id, int(one.chunk_id[-1] in supported[place]))
                for one in example.chunks
                for place, id_ in enumerate(ids)
            ]
        )

    task = JudgeAgreement()
    right, half = judged("a", "b"), judged("ac", "a")
    assert [task.metric(example, one).score for one in (right, half)] == [1, 3 / 6]
    assert [task.metric(example, one, []) for one in (right, half)] == [True, False]
    assert len(task.feedback(example, half).feedback.splitlines()) == 3


def test_nuggets_are_matched_one_to_one_by_their_words() -> None:
    listed = ["The dial shows the phase.", "Reset needs 2 calls.", "It is made of tin."]
    found = ["Reset needs 3 calls.", "The dial shows the phase of it.", "A dial shows the phase."]
    task = NuggetAgreement()
    example, answer = (
        dspy.Example(nuggets=[{"text": text} for text in texts]) for texts in (listed, found)
    )

    assert sorted(task.pairs(example, answer)) == [(0, 1), (0, 1), (1, 0), (1, 0), (1, 1)]
    assert "Missing: Reset needs 2 calls." in task.faults(example, answer)
    assert task.values(table_of(task.pairs(example, answer), 2))["f1"] == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("kappa", (0.7 - 0.5) / (1 - 0.5)),
        ("agreement", 0.7),
        ("f1", 6 / 9),
    ],
)
def test_metrics_by_hand(metric: Any, value: float) -> None:
    task = AgreementMetric(metric)
    pairs = [(1, 1)] * 3 + [(0, 1)] * 2, [(1, 0), *[(0, 0)] * 4]

    assert task.value([None, *(table_of(of, 2) for of in pairs)]) == pytest.approx(value)
    assert task.value([None]) is None


def test_the_nuggetizer_is_optimized_on_peoples_lists(lm_to: Connect) -> None:
    facts = [
        f"The {word} shows the phase. It is of tin" for word in ("dial", "bell", "ring", "hub")
    ]
    queries = tuple(
        Query(query_id=str(n), title=f"What of {n * 7}?", body="", answer=f"{fact}.")
        for n, fact in enumerate(facts)
    )
    lists = [
        NuggetList(
            query_id=one.query_id,
            annotator="ada",
            nuggets=(ListedNugget(text=one.answer.split(".")[0] + "."),),
        )
        for one in queries
    ]

    def nuggets(inputs: Inputs, shown: bool) -> Any:
        texts = inputs["answer"].rstrip(".").split(". ")[: 1 if shown else 2]
        about = {"importance": "vital", "doubtful": False}
        return {"nuggets": [{"quote": text, "text": text, **about} for text in texts]}

    collection = type("Given", (), {"name": "given", "queries": queries})()
    lm = lm_to(Taught(NuggetizeAnswer=nuggets))
    report = optimize(lists, lm, optimizer="labeled", collection=collection).report

    assert report.metric == "f1"
    assert list(report.test) == ["f1", "precision", "recall", "answered"]
    f1 = report.test["f1"]
    assert f1.before.value == pytest.approx(2 / 3), "every second one is invented"
    assert f1.after.value == 1
    with pytest.raises(ConfigError):
        optimize(lists, lm, metric="kappa", collection=collection)


def test_the_comparer_is_optimized_on_labels_of_answers(lm_to: Connect) -> None:
    labels = [
        AnswerLabel(
            query_id=str(n),
            annotator="ada",
            run_id=run_id,
            agrees=run_id == "good",
            question=f"What of {n * 7}?",
            answer=f"It is {n}." if run_id == "good" else "No idea.",
            gold_answer=f"It is {n}.",
        )
        for n in range(5)
        for run_id in ("good", "bad")
    ]

    def compare(inputs: Inputs, shown: bool) -> Any:
        same = inputs["answer"] == inputs["references"][0]["text"]
        return {"reason": "Why.", "agrees": "yes" if same and shown else "no"}

    lm = lm_to(Taught(CompareAnswers=compare))
    optimized = optimize(labels, lm, optimizer="labeled", metric="agreement")

    chosen = optimized.report.test["agreement"]
    assert (chosen.before.value, chosen.after.value) == (0.5, 1)
