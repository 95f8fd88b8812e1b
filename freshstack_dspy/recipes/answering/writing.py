"""The folder that answers are written to: the same records always as the same bytes."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import encode_records, names_in, staged_folder, standing_folder
from freshstack_dspy.recipes.answering.answering import SAMPLED_TEMPERATURE, Answering
from freshstack_dspy.recipes.answering.reteval import LLMRetEval
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.growing.run_holes import Look, Unknown
from freshstack_dspy.recipes.judging.window import context_of
from freshstack_dspy.recipes.provenance import prompt_hash
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Record, Scale, SliceName

ANSWERS, GOLD_ANSWERS = "answers.jsonl", "gold_answers.jsonl"
AGREEMENT = "agreement.jsonl"
ASSIGNMENTS, GOLD_ASSIGNMENTS = "assignments.jsonl", "gold_assignments.jsonl"
FAILURES = "failures.jsonl"
ANSWERING = "answering.json"
FILES = (ANSWERS, GOLD_ANSWERS, AGREEMENT, ASSIGNMENTS, GOLD_ASSIGNMENTS, FAILURES, ANSWERING)


class AnsweredRun(Record):
    """A run that was answered from."""

    run_id: str
    sha256: str
    """Of its file."""


class AnsweringInputs(Record):
    """What was to be answered, and by whom: answers of other inputs are not replaced unasked."""

    schema_version: Literal[1] = 1
    collection: str
    slices: tuple[SliceName, ...]
    """Whose queries were answered."""
    runs: tuple[AnsweredRun, ...]
    """By name."""
    depth: int = Field(ge=1)
    """How many chunks of each ranking, and of the gold ones, were shown at most."""
    unknown: Unknown
    """What became of chunks that the corpus lacks."""
    gold_answers: int = Field(ge=1)
    model: str

    def __str__(self) -> str:
        """For a message."""
        runs = ", ".join(repr(run.run_id) for run in self.runs)
        return (
            f"{self.collection}, runs {runs}, depth {self.depth}, slices "
            f"{', '.join(self.slices)}, {self.gold_answers} gold answers, unknown {self.unknown}, "
            f"by {self.model}"
        )


class AnsweringAccount(AnsweringInputs):
    """How answers were made; it names no secret and no machine."""

    content_hash: str
    temperature: float
    max_tokens: int
    context: int | None
    """Tokens of a request and its reply, as they were packed; None: no limit is known."""
    structured: str
    """How the shape of replies was asked for."""
    reasks: int
    """How often an invalid reply was sent back."""
    gold_temperature: float
    scale: Scale
    """Of the judge of nuggets."""
    prompts: dict[str, str]
    """SHA-256 of the prompt, by signature."""
    queries: int
    without_gold: tuple[str, ...]
    """Ids of the queries of which no chunk supports a nugget."""


def answering_inputs(
    looked: Look,
    config: BuildConfig,
    *,
    slices: tuple[SliceName, ...],
    gold_answers: int = 1,
    unknown: Unknown = "refuse",
) -> AnsweringInputs:
    """Tell what is to be answered; before anything is asked."""
    return AnsweringInputs(
        collection=looked.collection.manifest.name,
        slices=slices,
        runs=tuple(
            AnsweredRun(run_id=run.name, sha256=run.sha256)
            for run in sorted(looked.runs, key=lambda run: run.name)
        ),
        depth=looked.depth,
        unknown=unknown,
        gold_answers=gold_answers,
        model=config.model.name,
    )


def account(
    inputs: AnsweringInputs, looked: Look, session: Session, found: Answering
) -> AnsweringAccount:
    """Tell how answers were made."""
    config = session.config
    model = config.model
    judge = FreshStack(config).support_judge.predict
    asked = [*(predictor for _, predictor in LLMRetEval().named_predictors()), judge]
    several = inputs.gold_answers > 1
    return AnsweringAccount(
        **dict(inputs),
        content_hash=looked.collection.manifest.content_hash,
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        context=context_of(model),
        structured=model.structured,
        reasks=model.reasks,
        gold_temperature=SAMPLED_TEMPERATURE if several else model.temperature,
        scale=config.judge.graded,
        prompts=dict(sorted(prompt_hash(predictor) for predictor in asked)),
        queries=len({answer.topic_id for answer in found.answers}),
        without_gold=found.without_gold,
    )


def check_standing(folder: Path, inputs: AnsweringInputs, *, replace: bool = False) -> None:
    """Refuse a place where something stands that would be lost.

    Args:
        folder: Where answers are to be written.
        inputs: Of these. Answers of the same are replaced: their replies are kept, and come again.
        replace: Whether answers of other inputs may be replaced; nothing else ever is.

    Raises:
        ConfigError: Says what stands there.
    """
    standing = standing_folder(folder.absolute())
    if not standing.exists() and not standing.is_symlink():
        return
    if not standing.is_dir() or standing.is_symlink():
        raise ConfigError(f"{folder} is no folder; name one that does not stand, or one of answers")
    names = names_in(standing)
    if not names:
        return
    for name in sorted(names):
        path = standing / name
        if name not in FILES or path.is_symlink() or not path.is_file():
            raise ConfigError(
                f"{folder} holds {name!r} and is no folder of answers alone, and would be lost; "
                "name another"
            )
    there = AnsweringInputs(**_only_inputs(_told(standing / ANSWERING, folder)))
    if not replace and there != inputs:
        raise ConfigError(
            f"{folder} holds the answers of other inputs, which would be lost ({there}; now: "
            f"{inputs}); name another folder, or replace them with --replace"
        )


def _told(path: Path, folder: Path) -> AnsweringAccount:
    try:
        return AnsweringAccount.model_validate_json(path.read_bytes())
    except (OSError, ValueError):  # also pydantic's
        raise ConfigError(
            f"{folder} holds files and no {ANSWERING} that tells of answers, and would be lost; "
            "name another"
        ) from None


def _only_inputs(told: AnsweringInputs) -> dict[str, Any]:
    return {name: getattr(told, name) for name in AnsweringInputs.model_fields}


def write_answering(
    folder: Path, found: Answering, told: AnsweringAccount, *, replace: bool = False
) -> None:
    """Write all files; what stood there is replaced as a whole, or not at all.

    Args:
        folder: One that `check_standing` lets pass.
        found: What came of answering.
        told: How.
        replace: As for `check_standing`.

    Raises:
        ConfigError: Something else stands there.
        CollectionError: The folder cannot be written.
    """
    inputs = AnsweringInputs(**_only_inputs(told))
    check_standing(folder, inputs, replace=replace)
    records: dict[str, Any] = {
        ANSWERS: found.answers,
        GOLD_ANSWERS: found.gold_answers,
        AGREEMENT: found.agreements,
        ASSIGNMENTS: found.assignments,
        GOLD_ASSIGNMENTS: found.gold_assignments,
        FAILURES: found.failures,
    }
    with staged_folder(folder.absolute()) as partial:
        for name, rows in records.items():
            (partial / name).write_bytes(encode_records(rows))
        text = json.dumps(told.model_dump(mode="json"), ensure_ascii=False, indent=2)
        (partial / ANSWERING).write_bytes(f"{text}\n".encode())
