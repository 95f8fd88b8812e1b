"""Optimizing any program: examples, metrics and optimizers of one's own."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.experimental import Noul, ReAnchor
from dspy.lm15 import Message
from dspy.utils.exceptions import AdapterParseError

from freshstack_dspy import (
    Chunk,
    ClosedBookAnswerer,
    FreshStack,
    ModelConfig,
    Nuggetizer,
    Query,
    QuerySynthesizer,
    ReplyStore,
    connect,
    optimize,
)
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.programs.saved import load_program, save_program, state_of
from tests.recipes.domain import domain
from tests.recipes.scripted import SCRIPTS, Inputs, ScriptedProvider, reply

THINGS = ("dial", "moon", "ring", "bell", "hinge", "lamp", "valve", "drum")
CAREFUL = "Be careful."


class Pupil(ScriptedProvider):
    """Answers well if its instructions say so, and writes that instruction."""

    def complete(self, request: Any) -> Any:
        if (request.config.response_format or {}).get("name") in WELL:
            careful = CAREFUL in str(request.system)
            self._scripts = dict(WELL if careful else BADLY)
            return super().complete(request)
        self.calls["instructions"] += 1
        self.asked.append({"question": str(request.messages[-1].text)})
        return reply(request, json.dumps({"new_instruction": CAREFUL}))


def _nuggets(inputs: Inputs, most: int) -> Any:
    found = SCRIPTS["NuggetizeAnswer"](inputs)["nuggets"][:most]
    return {"nuggets": found}


WELL: dict[str, Any] = {
    **SCRIPTS,
    "NuggetizeAnswer": lambda inputs: _nuggets(inputs, 1),
    "DecomposeQuestion": lambda _: {"sub_questions": ["one?", "two?"]},
    "AnswerClosedBook": lambda _: {"answer": "A good one."},
}
BADLY: dict[str, Any] = {
    **SCRIPTS,
    "DecomposeQuestion": lambda _: {"sub_questions": ["one?"]},
    "AnswerClosedBook": lambda _: {"answer": "None."},
    "SynthesizeQueries": lambda inputs: {
        "queries": [{"question": "What?", "answer": inputs["passages"][0]["text"]}]
    },
}

QUERIES = [
    Query(
        query_id=str(number),
        title=f"What of the {thing}?",
        body="",
        answer=f"The {thing} has {number + 2} parts. It is of tin. It is old.",
    )
    for number, thing in enumerate(THINGS)
]


def chunk_of(query: Query) -> Chunk:
    text = query.answer
    return Chunk(
        chunk_id=f"s/{query.query_id}.md_0_{len(text)}",
        source="s",
        path=f"{query.query_id}.md",
        start_byte=0,
        end_byte=len(text),
        text=text,
        tokens=9,
    )


def of_query(query: Query) -> dspy.Example:
    return dspy.Example(query=query, wanted=1).with_inputs("query")


def few(example: Any, prediction: Any, *_: Any) -> Any:
    """The fewer nuggets the better."""
    found = len(prediction.nuggets)
    return dspy.Prediction(score=example.wanted / found, feedback=f"{found} nuggets are too many")


def gepa(metric: Any, **settings: Any) -> Any:
    """GEPA of one's own settings, which asks the model of the context."""
    return dspy.GEPA(
        metric=lambda example, prediction, trace=None, pred_name=None, pred_trace=None: metric(
            example, prediction, trace
        ),
        reflection_lm=dspy.settings.lm,
        **{"max_metric_calls": 24, "num_threads": 1, **settings},
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    with_replies = ReplyStore(tmp_path / "replies")
    yield with_replies
    with_replies.close()


def lm_of(store: ReplyStore, provider: Any = None) -> RecordedLM:
    model = ModelConfig(name="openai/scripted", retries=0, reasks=1)
    return connect(model, mode="live" if provider else "replay", store=store, provider=provider)


def test_gepa_of_own_settings_by_an_own_metric_and_a_replay_of_it(
    store: ReplyStore, tmp_path: Path
) -> None:
    provider = Pupil()
    lm = lm_of(store, provider)
    plain = Nuggetizer()

    def with_reasons(example: Any, prediction: Any, trace=None, name=None, of=None):  # type: ignore[no-untyped-def]
        return few(example, prediction)

    def run(lm: RecordedLM) -> Any:
        own = dspy.GEPA(metric=with_reasons, max_metric_calls=24, reflection_lm=lm)
        examples = [of_query(one) for one in QUERIES]
        return optimize(examples, lm, program=plain, optimizer=own, metric=few)

    first = run(lm)
    report = first.report
    assert (report.optimizer, report.metric, report.pairs) == ("GEPA", "few", 3)
    assert (report.new_instructions, report.demonstrations) == (True, 0)
    assert report.test["few"].before.value == pytest.approx(1 / 3)
    assert report.test["few"].after.value == 1
    assert report.tokens == 110 * provider.calls.total()
    (asked,) = (one["question"] for one in provider.asked if isinstance(one["question"], str))
    assert "3 nuggets are too many" in asked
    assert first.program.predict.signature.instructions == CAREFUL
    assert plain.predict.signature.instructions != CAREFUL, "what was given is as it was"
    save_program(first.program, tmp_path / "nuggetizer.json", report)
    loaded = load_program(Nuggetizer(), tmp_path / "nuggetizer.json")
    assert loaded.predict.signature.instructions == CAREFUL

    again = lm_of(store)
    assert run(again).report == report
    assert all(account.calls == 0 for account in again.ledger.steps().values())


@pytest.mark.parametrize(
    ("program", "inputs", "metric"),
    [
        (
            ClosedBookAnswerer(),
            lambda query: {"query": query},
            lambda _, found, __=None: float("good" in found.expansion.texts[0]),
        ),
        (
            QuerySynthesizer(),
            lambda query: {"chunks": [chunk_of(query)]},
            lambda _, found, __=None: float("What about" in found.queries[0].title),
        ),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, dspy.Module) else "",
)
def test_every_program_is_optimized_by_a_metric_of_its_prediction(
    store: ReplyStore, program: Any, inputs: Any, metric: Any
) -> None:
    examples = [dspy.Example(**inputs(query)).with_inputs(*inputs(query)) for query in QUERIES]
    lm = lm_of(store, Pupil())

    optimized = optimize(examples, lm, program=program, optimizer=gepa, metric=metric)

    assert optimized.report.dev == (0, 1)
    assert optimized.program.predict.signature.instructions == CAREFUL
    assert sum(optimized.report.queries.values()) == len(QUERIES)


@pytest.mark.parametrize("optimizer", ["bootstrap", dspy.BootstrapFewShot])
def test_demonstrations_of_an_own_module_are_of_its_traces(
    store: ReplyStore, optimizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Twice(dspy.Module):
        """Asks two questions, one of them in DSPy's own words."""

        def __init__(self) -> None:
            super().__init__()
            self.nuggetizer = Nuggetizer()
            self.rate = dspy.Predict("fact -> rating: int")

        def forward(self, query: Query) -> Any:
            found = self.nuggetizer(query=query).nuggets
            return dspy.Prediction(rating=self.rate(fact=found[0].text).rating)

    class Rater(Pupil):
        def complete(self, request: Any) -> Any:
            if "rating" not in str(request.config.response_format):
                return super().complete(request)
            right = len(request.messages) > 1 or "5 parts" in str(request.messages)
            return reply(request, json.dumps({"rating": int(right)}))

    def rated(_: Any, prediction: Any, __: Any = None) -> Any:
        return prediction.rating

    examples = [of_query(one) for one in QUERIES]
    lm = lm_of(store, Rater())

    optimized = optimize(examples, lm, program=Twice(), optimizer=optimizer, metric=rated)

    assert optimized.report.demonstrations == 2, "one of each predictor"
    assert "and is not shown" not in caplog.text
    (demo,) = optimized.program.rate.demos
    assert demo == {"fact": "The bell has 5 parts", "rating": 1}
    assert optimized.program.nuggetizer.predict.demos[0]["question"] == {
        "title": "What of the bell?"
    }


def test_a_recipe_is_optimized_as_a_whole(store: ReplyStore, tmp_path: Path) -> None:
    from freshstack_dspy.index.hybrid import HybridIndex
    from freshstack_dspy.recipes.make import build

    config = domain(tmp_path)
    collection = build(config, provider=ScriptedProvider())
    index = HybridIndex.open(config.index.path / config.name)
    examples = [
        dspy.Example(query=one, index=index).with_inputs("query", "index")
        for one in collection.queries
    ]

    def searched_with(_: Any, prediction: Any, __: Any = None) -> float:
        assert prediction.judgments
        return sum(len(one.texts) for one in prediction.expansions) / 3

    lm, recipe = lm_of(store, Pupil()), FreshStack(config)
    optimized = optimize(
        examples, lm, program=recipe, optimizer=gepa, metric=searched_with, progress=False
    )

    assert optimized.report.dev == (2 / 3, 1)
    assert optimized.report.test["searched_with"].difference.value == pytest.approx(1 / 3)
    changed = {
        name
        for name, one in optimized.program.named_predictors()
        if one.signature.instructions == CAREFUL
    }
    assert changed == {"question_decomposer.predict"}
    mine = config.model_copy(update={"name": "mine", "out": tmp_path / "mine"})
    built = build(mine, recipe=optimized.program, provider=Pupil())
    found = (one.texts for one in built.expansions if one.kind == "sub_questions")
    assert set(found) == {("one?", "two?")}


def test_an_invalid_reply_is_feedback_to_gepa_that_asks_for_it(store: ReplyStore) -> None:
    class Talking(Pupil):
        def complete(self, request: Any) -> Any:
            response = super().complete(request)
            wrong = "the ring?" in str(request.messages) and CAREFUL not in str(request.system)
            if wrong and request.config.response_format:
                return replace(response, message=Message.assistant("Sure! A ring."))
            return response

    provider = Talking()
    lm = lm_of(store, provider)
    with dspy.context(lm=lm), pytest.raises(ReplyError) as caught:
        Nuggetizer()(query=QUERIES[THINGS.index("ring")])
    assert isinstance(caught.value, AdapterParseError)
    assert (caught.value.status, caught.value.lm_response) == ("unparsed", "Sure! A ring.")

    def own(metric: Any) -> Any:
        return gepa(metric, add_format_failure_as_feedback=True)

    examples = [of_query(one) for one in QUERIES]
    optimize(examples, lm, program=Nuggetizer(), optimizer=own, metric=few)

    asked = [one["question"] for one in provider.asked if isinstance(one["question"], str)]
    assert "The model's raw response was" in asked[0]
    assert "Sure! A ring." in asked[0]


class Deciding(dspy.Module):
    """Decides with a threshold, which starts at .5."""

    def __init__(self) -> None:
        super().__init__()
        self.decide = dspy.Predict(
            dspy.Signature(
                "query: Query -> old", custom_types={"Query": Query}
            ).with_updated_fields("old", type_=Noul, desc="Is it old?")
        )

    def forward(self, query: Query) -> Any:
        return dspy.Prediction(old=bool(self.decide(query=query).old))


class Unsure(ScriptedProvider):
    """Gives the number in the question as a probability, in hundredths."""

    def complete(self, request: Any) -> Any:
        self.calls["decide"] += 1
        (number,) = re.findall(r"of the (\d+)", str(request.messages[-1].text))
        return reply(request, json.dumps({"old": {"noul": int(number) / 100}}))


def test_the_threshold_that_reanchor_fits_is_kept_and_saved(
    store: ReplyStore, tmp_path: Path
) -> None:
    numbers = (1, 2, 3, 4, 5, 6, 7, 8, 43, 44, 45, 46, 47, 48, 49)
    examples = [
        dspy.Example(
            query=Query(query_id=str(number), title=f"What of the {number}?", body=""),
            wanted=number > 30,
        ).with_inputs("query")
        for number in numbers
    ]
    provider = Unsure()

    def right(example: Any, prediction: Any, *_: Any) -> float:
        return float(prediction.old == example.wanted)

    found = optimize(
        examples, lm_of(store, provider), program=Deciding(), optimizer=ReAnchor, metric=right
    )

    assert provider.calls["decide"] == len(numbers), "the same answers, read otherwise"
    assert found.report.dev[1] == found.report.test["right"].after.value == 1
    assert found.report.new_settings
    assert "new settings" in str(found.report.page().parts)
    (threshold,) = (of["threshold"] for of in found.program.decide.fields.values())
    assert 0.08 < threshold < 0.43
    save_program(found.program, tmp_path / "decide.json", found.report)
    loaded = load_program(Deciding(), tmp_path / "decide.json")
    assert state_of(loaded) == state_of(found.program)
