"""Programs on disk: what `freshstack optimize` saves and a build's config names.

A program file is data: instructions and demonstrations as JSON. Nothing in it is executed, no
model is named in it, a demonstration is a question and an answer that the program could have had,
and anything else in it is refused.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.reask import itemized_output
from freshstack_dspy.lm.typed import answer_model, plain, validating_against


class SavedPredictor(BaseModel):
    """The optimizable part of a predictor."""

    model_config = ConfigDict(extra="forbid")

    instructions: str
    demos: list[dict[str, Any]]


class SavedProgram(BaseModel):
    """A program file."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[2] = 2
    program: str
    predictors: dict[str, SavedPredictor]
    report: dict[str, Any] = {}
    """How it was made: an `OptimizationReport`."""


def save_program(program: Any, path: Path, report: BaseModel | None = None) -> None:
    """Write a program's instructions and complete demonstrations as JSON; see `load_program`."""
    predictors = {}
    for name, predictor in program.named_predictors():
        fields = predictor.signature.fields
        predictors[name] = SavedPredictor(
            instructions=predictor.signature.instructions,
            demos=[
                plain({field: demo[field] for field in fields})
                for demo in predictor.demos
                if all(field in demo for field in fields)
            ],
        )
    made = {} if report is None else report.model_dump(mode="json")
    saved = SavedProgram(program=_kind(program), predictors=predictors, report=made).model_dump()
    text = json.dumps(saved, ensure_ascii=False, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CollectionError(f"{path}: the program cannot be written: {error}") from error


def _kind(program: Any) -> str:
    """The class of a program; of a judge with its scale, which instructions and answers are for."""
    scale = getattr(program, "scale", None)
    return type(program).__name__ + (f" of scale {scale}" if scale else "")


def load_program(program: Any, path: Path) -> Any:
    """Give a fresh program the instructions and demonstrations of a file, and return it.

    Raises:
        CollectionError: The file is not a program, or one of another kind.
    """
    try:
        saved = SavedProgram.model_validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise CollectionError(f"{path}: the program cannot be read: {error}") from error
    except ValidationError as error:
        raise CollectionError(
            f"{path}: not a program that this version of `freshstack optimize` saves: "
            f"{first_fault(error)}"
        ) from None
    predictors = dict(program.named_predictors())
    if saved.program != _kind(program) or saved.predictors.keys() != predictors.keys():
        raise CollectionError(
            f"{path}: a saved {saved.program}, and a {_kind(program)} is needed here"
        )
    for name, predictor in predictors.items():
        for number, demo in enumerate(saved.predictors[name].demos, 1):
            try:
                _check_demonstration(demo, predictor.signature)
            except ValueError as error:
                fault = first_fault(error) if isinstance(error, ValidationError) else error
                raise CollectionError(f"{path}: demonstration {number}: {fault}") from None
    for name, predictor in predictors.items():
        given, asked = saved.predictors[name], predictor.signature
        predictor.signature = asked.with_instructions(given.instructions)
        predictor.demos = given.demos
    return program


def _check_demonstration(demo: dict[str, Any], signature: Any) -> None:
    """Raise a ValueError for a demonstration that is not an input and a valid answer to it."""
    if demo.keys() != signature.fields.keys():
        raise ValueError(f"its fields are {', '.join(demo)}; needed: {', '.join(signature.fields)}")
    for name, field in signature.input_fields.items():
        TypeAdapter(field.annotation).validate_json(json.dumps(demo[name]), strict=True)
    inputs = {name: demo[name] for name in signature.input_fields}
    answer = {name: demo[name] for name in signature.output_fields}
    with validating_against(inputs):
        valid = answer_model(signature).model_validate_json(json.dumps(answer), strict=True)
    name, each = itemized_output(signature) or ("", None)
    if each is not None and each.left_out(inputs, getattr(valid, name)):
        raise ValueError(f"its {name} leave out some of its {each.given}")


def is_demonstration(demo: dict[str, Any], signature: Any) -> bool:
    """Whether `load_program` would accept a demonstration."""
    try:
        _check_demonstration(demo, signature)
    except ValueError:
        return False
    return True
