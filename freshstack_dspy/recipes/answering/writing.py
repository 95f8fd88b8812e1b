"""The folder that answers are written to: the same records always as the same bytes."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from freshstack_dspy.collection.jsonl import encode_records
from freshstack_dspy.collection.staging import names_in, staged_folder, standing_folder
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.recipes.answering.answering import SAMPLED_TEMPERATURE, Answering
from freshstack_dspy.recipes.answering.reteval import LLMRetEval
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.growing.run_holes import Look
from freshstack_dspy.recipes.opening import Opened
from freshstack_dspy.recipes.provenance import prompt_hash
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


class AnsweringAccount(Record):
    """How answers were made; it names no secret and no machine."""

    schema_version: Literal[1] = 1
    collection: str
    content_hash: str
    slices: tuple[SliceName, ...]
    """Whose queries were answered."""
    runs: tuple[AnsweredRun, ...]
    depth: int = Field(ge=1)
    """How many chunks of each ranking, and of the gold ones, were shown at most."""
    model: str
    temperature: float
    max_tokens: int
    gold_answers: int = Field(ge=1)
    gold_temperature: float
    scale: Scale
    """Of the judge of nuggets."""
    prompts: dict[str, str]
    """SHA-256 of the prompt, by signature."""
    queries: int
    without_gold: tuple[str, ...]
    """Ids of the queries of which no chunk supports a nugget."""


def refuse_standing(folder: Path) -> None:
    """Refuse a place where something else than answers stands, which would be lost.

    Raises:
        ConfigError: Says what stands there.
    """
    standing = standing_folder(folder.absolute())
    if not standing.exists() and not standing.is_symlink():
        return
    if not standing.is_dir() or standing.is_symlink():
        raise ConfigError(f"{folder} is no folder; name one that does not stand, or one of answers")
    names = names_in(standing)
    if foreign := sorted(names - set(FILES)) or (names and ANSWERING not in names):
        what = f"{foreign[0]!r}" if isinstance(foreign, list) else "other files"
        raise ConfigError(
            f"{folder} holds {what} and is no folder of answers alone, and would be lost; name "
            "another"
        )


def account(
    looked: Look,
    asking: Opened,
    found: Answering,
    *,
    slices: tuple[SliceName, ...],
    gold_answers: int,
) -> AnsweringAccount:
    """Tell how answers were made."""
    config, manifest = asking.config, looked.collection.manifest
    judge = FreshStack(config).support_judge.predict
    asked = [*(predictor for _, predictor in LLMRetEval().named_predictors()), judge]
    return AnsweringAccount(
        collection=manifest.name,
        content_hash=manifest.content_hash,
        slices=slices,
        runs=tuple(
            AnsweredRun(run_id=run.name, sha256=run.sha256)
            for run in sorted(looked.runs, key=lambda run: run.name)
        ),
        depth=looked.depth,
        model=config.model.name,
        temperature=config.model.temperature,
        max_tokens=config.model.max_tokens,
        gold_answers=gold_answers,
        gold_temperature=SAMPLED_TEMPERATURE if gold_answers > 1 else config.model.temperature,
        scale=config.judge.graded,
        prompts=dict(sorted(prompt_hash(predictor) for predictor in asked)),
        queries=len({answer.topic_id for answer in found.answers}),
        without_gold=found.without_gold,
    )


def write_answering(folder: Path, found: Answering, told: AnsweringAccount) -> None:
    """Write all files; what stood there is replaced as a whole, or not at all.

    Args:
        folder: One that `refuse_standing` lets pass.
        found: What came of answering.
        told: How.

    Raises:
        ConfigError: Something else stands there.
        CollectionError: The folder cannot be written.
    """
    refuse_standing(folder)
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
