"""Programs, steps and recipes of somebody else's, in builds."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dspy
import pytest

from freshstack_dspy import (
    FreshStack,
    Nugget,
    Nuggetizer,
    SupportJudge,
    build,
    connect,
    load_config,
    plan,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.recipes.flow import Work, ask
from freshstack_dspy.records import Note
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer
from freshstack_dspy.stored.contents import Contents

from .domain import domain, write_domain
from .scripted import ScriptedProvider, nuggetize


class Sentences(dspy.Module):
    """Asks nobody."""

    def forward(self, query: Any) -> dspy.Prediction:
        return dspy.Prediction(nuggets=[one.strip(" .") for one in query.answer.split(". ")])


class Judged(dspy.Signature):
    """Say whether the question is about software."""

    question: str = dspy.InputField()
    kind: Literal["software", "other"] = dspy.OutputField()


def kinds(work: Work, made: Contents) -> Contents:
    """A step that asks a program of its recipe."""

    def note(query: Any, reply: Any, call_id: str | None) -> Note:
        return Note(query_id=query.query_id, kind="about", value=reply.kind, call_id=call_id)

    class Asked(dspy.Module):
        def forward(self, query: Any) -> Any:
            return work.recipe.classifier(question=query.text)

    asked = [{"query": query} for query in made.queries]
    notes, failures = ask(work.session, "about", Asked(), asked, note)
    return replace(made, notes=tuple(notes), failures=(*made.failures, *failures))


class WithKinds(FreshStack):
    """With a step more in the first stage."""

    stages = ((*FreshStack.stages[0], kinds), *FreshStack.stages[1:])

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.classifier = dspy.Predict(Judged)


def about(inputs: Any) -> Any:
    return {"kind": "software" if "install" in str(inputs["question"]) else "other"}


@pytest.mark.parametrize(
    "program",
    [
        Sentences(),
        "tests.recipes.test_own:Sentences",
        {"program": Sentences()},
        {"program": "tests.recipes.test_own:Sentences"},
    ],
    ids=["object", "name", "dictionary of an object", "dictionary of a name"],
)
def test_a_program_of_ones_own_makes_the_nuggets(tmp_path: Path, program: Any) -> None:
    config, provider = domain(tmp_path), ScriptedProvider()

    made = build(config, provider=provider, programs={"nuggetizer": program})

    plain = build(domain(tmp_path / "plain"), provider=ScriptedProvider())
    assert [one.text for one in made.nuggets] == [one.text for one in plain.nuggets]
    assert "NuggetizeAnswer" not in provider.calls
    assert made.manifest.programs.keys() == {"nuggetizer"}
    assert plain.manifest.programs == {}


def test_other_programs_replace_a_collection_only_where_that_is_said(tmp_path: Path) -> None:
    config, provider = domain(tmp_path), ScriptedProvider()
    own = {"nuggetizer": Sentences()}
    plain = build(config, provider=provider)
    with pytest.raises(ConfigError, match="another program nuggetizer"):
        build(config, provider=provider, programs=own)
    assert build(config, provider=provider).manifest == plain.manifest

    mine = build(config, provider=provider, programs=own, replace=True)
    assert build(config, provider=provider, programs=own).manifest == mine.manifest
    with pytest.raises(ConfigError, match="another program nuggetizer"):
        build(config, provider=provider)


@pytest.mark.parametrize("kind", ["connected", "of DSPy"])
def test_a_program_with_a_model_of_its_own_is_recorded_with_the_others(
    tmp_path: Path, kind: str
) -> None:
    """One store, one account, one mode; and it is named as who answered, in a replay too."""
    config, program = domain(tmp_path), SupportJudge()
    engine: Any = ScriptedProvider()
    own: Any = dspy.LM("openai/own", engine=engine)
    if kind == "connected":
        own = connect("openai/own", store=tmp_path / "unused", provider=engine)
    program.set_lm(own)

    made = build(config, provider=ScriptedProvider(), programs={"support_judge": program})
    again = build(config, mode="replay", replace=True, programs={"support_judge": program})

    assert engine.calls.keys() == {"JudgeSupportLevel"}
    assert program.predict.lm is own
    for manifest in (made.manifest, again.manifest):
        assert manifest.model == "openai/own"
        assert manifest.models["support"] == manifest.models["contamination"] == ("openai/own",)
        assert manifest.models["nuggets"] == ("openai/scripted",)
    assert made.labels_by == "labels by openai/own"
    assert "openai/own" in (config.out / "README.md").read_text()
    assert made.manifest.ledger["support"].calls == engine.calls.total() - 3
    assert again.manifest.content_hash == made.manifest.content_hash


class Hinted(Nuggetizer):
    """With an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hints = ["short"]


@pytest.mark.parametrize("what", ["config", "fields", "attribute", "frozen", "adapter"])
def test_what_changes_the_answers_of_a_program_is_another_collection(
    tmp_path: Path, what: str
) -> None:
    config, provider = domain(tmp_path), ScriptedProvider()
    program = Hinted()
    before = build(config, provider=provider, programs={"nuggetizer": program})
    if what == "config":
        program.predict.config = {"temperature": 0.9}
    elif what == "fields":
        program.predict.fields = {"nuggets": {"cut": 0.4}}
    elif what == "attribute":
        program.hints = ["long"]
    elif what == "frozen":
        program.predict.demos = [dspy.Example(answer="A dial.", nuggets=[])]
        program.predict._compiled = program._compiled = True

    with (
        dspy.context(adapter=dspy.JSONAdapter() if what == "adapter" else None),
        pytest.raises(ConfigError, match="built with other settings"),
    ):
        build(config, provider=provider, programs={"nuggetizer": program})
    assert (
        build(config, provider=provider, programs={"nuggetizer": Hinted()}).manifest
        == before.manifest
    )


def test_a_state_that_dspy_saved_and_a_class_are_named_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thinking_steps.py").write_text(
        "import dspy\n"
        "from freshstack_dspy import Nuggetizer\n"
        "from freshstack_dspy.signatures.nuggets import NuggetizeAnswer\n"
        "class Thinking(Nuggetizer):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.predict = dspy.ChainOfThought(NuggetizeAnswer)\n"
    )
    program = Nuggetizer()
    program.predict = dspy.ChainOfThought(NuggetizeAnswer)
    inner = program.predict.predict
    inner.signature = inner.signature.with_instructions("Think, and list.")
    program.save(tmp_path / "thinking.json")
    named = {"program": "thinking_steps:Thinking", "state": "thinking.json"}
    config = load_config(write_domain(tmp_path, **{"programs.nuggetizer": named}))
    shown: list[str] = []

    def think(inputs: Any) -> Any:
        shown.append(inputs["answer"])
        return {"reasoning": "They are the sentences.", **nuggetize(inputs)}

    made = build(config, provider=ScriptedProvider(NuggetizeAnswer=think))
    replayed = build(config, mode="replay", replace=True)

    assert len(shown) == 3
    assert replayed.manifest.content_hash == made.manifest.content_hash
    assert made.manifest.programs["nuggetizer"].startswith("thinking_steps:Thinking ")


def test_a_step_of_ones_own_has_records_calls_and_a_place_in_the_plan(tmp_path: Path) -> None:
    config = domain(tmp_path)
    provider = ScriptedProvider(answer=about)

    made = build(config, provider=provider, recipe=WithKinds(config))

    assert {one.query_id: one.value for one in made.notes} == {
        "10": "other",
        "2": "software",
        "x": "other",
    }
    assert made.manifest.ledger["about"].calls == 3
    assert made.groups("about").members == {"other": ("10", "x"), "software": ("2",)}
    assert made.manifest.programs["recipe"].startswith("tests.recipes.test_own:WithKinds ")
    replayed = build(config, mode="replay", replace=True, recipe=WithKinds(config))
    assert replayed.manifest.content_hash == made.manifest.content_hash
    planned = plan(config, recipe=WithKinds(config))
    assert {one.step: one.recorded for one in planned.steps}["about"] == 3


def test_a_recipe_that_was_compiled_builds_and_replays(tmp_path: Path) -> None:
    from freshstack_dspy.index.hybrid import HybridIndex
    from freshstack_dspy.recipes.opening import open_session

    config, provider = domain(tmp_path), ScriptedProvider()
    made = build(config, provider=provider)
    index = HybridIndex.open(config.index.path / config.name)
    examples = [
        dspy.Example(query=one, index=index).with_inputs("query", "index") for one in made.queries
    ]
    optimizer = dspy.BootstrapFewShot(metric=lambda *_: True, max_bootstrapped_demos=1)
    with open_session(config, "replay"):
        compiled = optimizer.compile(FreshStack(config), trainset=examples[:1])
    assert compiled.nuggetizer.predict.demos

    other = build(config, provider=provider, recipe=compiled, replace=True)
    replayed = build(config, mode="replay", recipe=compiled, replace=True)

    assert other.manifest.prompts.items().isdisjoint(made.manifest.prompts.items())
    assert replayed.manifest.content_hash == other.manifest.content_hash


@pytest.mark.parametrize("name", ["freshstack", "tests.recipes.test_own:WithKinds"])
def test_the_state_of_a_whole_recipe_is_one_entry(tmp_path: Path, name: str) -> None:
    plain = write_domain(tmp_path)
    tuned = (FreshStack if name == "freshstack" else WithKinds)(load_config(plain))
    states = tmp_path / "few.json", tmp_path / "fewer.json"
    for state, prompt in zip(states, ("List few facts.", "List one fact."), strict=True):
        predict = tuned.nuggetizer.predict
        predict.signature = predict.signature.with_instructions(prompt)
        tuned.save(state)
    provider = ScriptedProvider(answer=about)

    def stated(state: str) -> Path:
        entry = f'recipe = {{program = "{name}", state = "{state}"}}\n'
        toml = tmp_path / "stated.toml"
        toml.write_text(entry + plain.read_text())
        return toml

    made = [build(stated(one.name), provider=provider, replace=True) for one in states]
    given = build(plain, mode="replay", recipe=tuned, replace=True)
    asked = provider.calls.total()
    again = build(stated(states[0].name), provider=provider, replace=True)

    assert made[0].manifest.programs != made[1].manifest.programs == given.manifest.programs
    assert made[0].manifest.programs.keys() >= {"recipe" if ":" in name else "nuggetizer"}
    assert made[0].manifest.recipe == name
    assert made[1].manifest.content_hash == given.manifest.content_hash
    assert again.manifest.programs == made[0].manifest.programs, "it was not called unchanged"
    assert provider.calls.total() == asked
    with pytest.raises(ConfigError, match=r"recipe.state is the state of every program"):
        build(stated('few.json"}\nprograms.nuggetizer.state = "few.json"  #'))
    Nuggetizer().save(states[0])
    with pytest.raises(CollectionError, match=r"a saved program with other fields"):
        build(stated("few.json"), provider=provider, replace=True)


class NoModule:
    """Not a program."""


class OtherInputs(dspy.Module):
    def forward(self, text: str) -> Any:
        """Take something else."""


class Gives(dspy.Module):
    """Gives this for every question."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given

    def forward(self, query: Any) -> Any:
        return self.given


class GivesNuggets(Gives):
    def forward(self, query: Any) -> Any:
        return dspy.Prediction(nuggets=self.given)


class Judges(dspy.Module):
    """Judges nothing."""

    def forward(self, query: Any, nuggets: Any, chunks: Any, vote: int, step: str) -> Any:
        return dspy.Prediction(judgments=())


class JudgesOnce(dspy.Module):
    def forward(self, query: Any, nuggets: Any, chunks: Any) -> Any:
        """Cannot be told which vote it is."""


STRANGE = Nugget(nugget_id="q_0", query_id="q", text="It is of another.", call_id=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"programs": {"nugetizer": Sentences()}}, "FreshStack has no such program; it has: nugg"),
        ({"programs": {"nuggetizer": NoModule()}}, "no dspy.Module"),
        ({"programs": {"nuggetizer": OtherInputs()}}, "OtherInputs.forward must take query"),
        ({"programs": {"nuggetizer": "nowhere:Sentences"}}, "No module named 'nowhere'"),
        ({"programs": {"nuggetizer": Gives(dspy.Prediction(facts=[]))}}, "no attribute 'nuggets'"),
        ({"programs": {"nuggetizer": GivesNuggets("One. Two.")}}, "a list"),
        ({"programs": {"nuggetizer": GivesNuggets([{"text": "One."}])}}, "text: Input should be"),
        ({"programs": {"nuggetizer": GivesNuggets([STRANGE])}}, "nuggets of query 'q'"),
        (
            {"programs": {"question_decomposer": Gives(dspy.Prediction(texts="a b"))}},
            "texts: Input should be",
        ),
        ({"programs": {"support_judge": Judges()}}, "a judgment of each nugget is needed"),
        ({"programs": {"support_judge": JudgesOnce()}}, "must take query, nuggets, chunks, vote"),
        ({"recipe": Sentences()}, "recipe"),
    ],
)
def test_what_cannot_be_a_program_is_named_at_the_start(
    tmp_path: Path, options: Any, said: str
) -> None:
    provider = ScriptedProvider()
    with pytest.raises(ConfigError, match=said):
        build(domain(tmp_path), provider=provider, **options)


class Facts(dspy.Signature):
    """List the facts of an answer."""

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    facts: list[str] = dspy.OutputField()


class SeveralTimes(dspy.Module):
    """Asks by a module of DSPy's that asks three times."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.best = module(dspy.Predict(Facts), N=3, reward_fn=lambda *_: 0.5, threshold=1.0)

    def forward(self, query: Any) -> Any:
        best = self.best(question="?", answer=query.answer)
        return dspy.Prediction(nuggets=best.facts, call_id=best.call_id)


@pytest.mark.parametrize("module", [dspy.BestOfN, dspy.Refine])
def test_a_build_asks_several_times_for_each_question(tmp_path: Path, module: Any) -> None:
    config, own = domain(tmp_path), {"nuggetizer": SeveralTimes(module)}

    def answer(inputs: Any) -> Any:
        if "module_names" in inputs:
            return {"discussion": "None.", "advice": {}}
        return {"facts": [one.strip(" .") for one in inputs["answer"].split(". ")]}

    made = build(config, provider=ScriptedProvider(answer=answer), programs=own)
    replayed = build(config, mode="replay", replace=True, programs=own)

    assert len({one.call_id for one in made.nuggets}) == len(made.queries)
    assert replayed.manifest.content_hash == made.manifest.content_hash


def test_a_build_runs_in_an_event_loop_and_in_threads(tmp_path: Path) -> None:
    async def here() -> Any:
        return build(domain(tmp_path / "loop"), provider=ScriptedProvider())

    def there(number: int) -> Any:
        return build(domain(tmp_path / str(number)), provider=ScriptedProvider())

    with ThreadPoolExecutor(2) as pool:
        made = [asyncio.run(here()), *pool.map(there, range(2))]

    assert len({one.manifest.content_hash for one in made}) == 1
    assert all(isinstance(one, Nugget) for one in made[0].nuggets)


def forgets(work: Work, made: Contents) -> Any:
    """Return nothing."""


class GivesNothing(FreshStack):
    stages = ((forgets,), *FreshStack.stages)


class WithoutPrograms(FreshStack):
    def __init__(self, config: Any) -> None:
        self.config = config


@pytest.mark.parametrize("recipe", [GivesNothing, WithoutPrograms])
def test_what_is_no_step_or_no_recipe_stops_before_anything_is_asked(
    tmp_path: Path, recipe: Any
) -> None:
    config, provider = domain(tmp_path), ScriptedProvider()
    with pytest.raises(ConfigError):
        build(config, provider=provider, recipe=recipe(config))
    assert not provider.calls
