"""A program that was optimized, saved and named in a build's configuration."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import (
    AnswerComparer,
    FreshStack,
    ModelConfig,
    ReplyStore,
    build,
    connect,
    optimize,
)
from freshstack_dspy.answering.comparing import answer_comparer
from freshstack_dspy.lm.bundle import Bundle
from freshstack_dspy.programs.saved import save_program
from freshstack_dspy.recipes.opening import open_session
from freshstack_dspy.recipes.provenance import export_replies
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .people import FACTS, Pupil, synthetic_labels


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the program file of a judge with demonstrations."""
    folder = tmp_path_factory.mktemp("optimized")
    store = ReplyStore(folder / "cache")
    lm = connect(ModelConfig(name="openai/pupil"), store=store, provider=Pupil())
    optimized = optimize(synthetic_labels(), lm, optimizer="labeled")
    save_program(optimized.program, folder / "judge.json", optimized.report)
    store.close()
    return (folder / "judge.json").read_text()


@pytest.mark.slow
def test_its_demonstrations_go_before_every_question_of_that_step(
    tmp_path: Path, saved: str
) -> None:
    """The manifest tells its prompt from the plain one."""
    plain = build(domain(tmp_path), provider=ScriptedProvider()).manifest
    (tmp_path / "judge.json").write_text(saved)
    bundle = tmp_path / "replies.jsonl"
    config = domain(tmp_path, programs={"support_judge": "judge.json"})

    tuned = build(config, provider=ScriptedProvider(), replace=True).manifest
    export_replies(config, bundle)

    replayed = build(config, mode="replay", replace=True)
    assert replayed.manifest.content_hash == tuned.content_hash
    for reply in Bundle(bundle).replies():
        roles = [message.role for message in reply.request.messages]
        shown = "".join(message.content for message in reply.request.messages[:-1])
        if reply.request.task == "JudgeSupportLevel":
            assert roles == ["system", *["user", "assistant"] * 3, "user"]
            assert all(fact in shown for fact in FACTS)
        else:
            assert roles == ["system", "user"]
    changed = {name for name in plain.prompts if plain.prompts[name] != tuned.prompts[name]}
    assert changed == {"JudgeSupportLevel"}
    named: Any = tuned.config["programs"]
    assert named["support_judge"]["state"] == "judge.json"
    assert tuned.programs["support_judge"].startswith("freshstack_dspy.programs.support_judge:")


def test_each_step_takes_the_program_that_is_named_for_it(tmp_path: Path) -> None:
    plain = FreshStack(domain(tmp_path))
    names = ("nuggetizer", "question_decomposer", "closed_book_answerer", "support_judge")
    for name in names:
        program = getattr(plain, name)
        program.predict.signature = program.predict.signature.with_instructions(f"Do {name}.")
        save_program(program, tmp_path / f"{name}.json")

    recipe = FreshStack(domain(tmp_path, programs={name: f"{name}.json" for name in names}))

    for name in names:
        assert getattr(recipe, name).predict.signature.instructions == f"Do {name}."


def test_answers_are_compared_by_the_program_that_is_named_for_it(tmp_path: Path) -> None:
    program = AnswerComparer()
    program.predict.signature = program.predict.signature.with_instructions("Compare.")
    save_program(program, tmp_path / "comparer.json")
    config = domain(tmp_path, programs={"comparer": "comparer.json"})

    with open_session(config, provider=ScriptedProvider(), searching=False) as session:
        assert answer_comparer(session, "yes_no").predict.signature.instructions == "Compare."
        assert answer_comparer(session, "graded").predict.signature.instructions != "Compare."
        assert session.recipe.support_judge, "a build passes it over"
