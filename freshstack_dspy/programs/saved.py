"""Programs on disk: what `freshstack optimize` saves and a build's config names.

A program file is data: instructions and demonstrations as JSON. Nothing in it is executed, no
model is named in it, a demonstration is a question and an answer that the program could have had,
and anything else in it is refused.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.reask import itemized_output
from freshstack_dspy.lm.typed import answer_model, plain, validating_against

SCHEMA = 1


class SavedField(BaseModel):
    """How a field is introduced in the prompt."""

    model_config = ConfigDict(extra="forbid")

    prefix: str
    description: str


class SavedSignature(BaseModel):
    """The optimizable part of a signature."""

    model_config = ConfigDict(extra="forbid")

    instructions: str
    fields: list[SavedField]


class SavedPredictor(BaseModel):
    """The optimizable part of a predictor, as DSPy dumps it."""

    model_config = ConfigDict(extra="forbid")

    traces: list[Any] = Field(max_length=0)
    train: list[Any] = Field(max_length=0)
    demos: list[dict[str, Any]]
    signature: SavedSignature
    lm: None


class SavedProgram(BaseModel):
    """A program file."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int
    program: str
    predictors: dict[str, SavedPredictor]


def save_program(program: Any, path: Path) -> None:
    """Write a program's instructions and demonstrations as JSON."""
    predictors = {
        name: {
            "traces": [],
            "train": [],
            "demos": _complete(predictor.demos, predictor.signature.fields),
            "signature": predictor.signature.dump_state(),
            "lm": None,
        }
        for name, predictor in program.named_predictors()
    }
    saved = {
        "schema_version": SCHEMA,
        "program": type(program).__name__,
        "predictors": predictors,
    }
    text = json.dumps(saved, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CollectionError(f"{path}: the program cannot be written: {error}") from error


def _complete(demos: Iterable[Any], fields: Any) -> list[dict[str, Any]]:
    """The demonstrations that are ever sent, without what optimizers write beside the fields."""
    return [
        plain({field: demo[field] for field in fields})
        for demo in demos
        if all(field in demo for field in fields)
    ]


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
            f"{path}: not a program that `freshstack optimize` saved: {first_fault(error)}"
        ) from None
    expected = dict(program.named_predictors())
    if saved.schema_version != SCHEMA:
        raise CollectionError(
            f"{path}: a program file of schema {saved.schema_version}; this one reads {SCHEMA}"
        )
    if saved.program != type(program).__name__ or saved.predictors.keys() != expected.keys():
        raise CollectionError(
            f"{path}: a saved {saved.program}, and a {type(program).__name__} is needed here"
        )
    for name, predictor in expected.items():
        state = saved.predictors[name]
        if len(state.signature.fields) != len(predictor.signature.fields):
            raise CollectionError(f"{path}: {name} was saved with other fields than it has now")
        for number, demo in enumerate(state.demos, 1):
            _check_demonstration(demo, predictor.signature, f"{path}: demonstration {number}")
        name_of_question = predictor.signature.__name__
        predictor.load_state(state.model_dump())
        predictor.signature.__name__ = name_of_question  # DSPy's copy has none of its own
    return program


def _check_demonstration(demo: dict[str, Any], signature: Any, where: str) -> None:
    """Refuse a demonstration that is not an input and a valid answer to it."""
    if demo.keys() != signature.fields.keys():
        raise CollectionError(
            f"{where}: its fields are {', '.join(demo)}; needed: {', '.join(signature.fields)}"
        )
    try:
        for name, field in signature.input_fields.items():
            TypeAdapter(field.annotation).validate_json(json.dumps(demo[name]), strict=True)
        inputs = {name: demo[name] for name in signature.input_fields}
        answer = {name: demo[name] for name in signature.output_fields}
        with validating_against(inputs):
            valid = answer_model(signature).model_validate_json(json.dumps(answer), strict=True)
    except ValidationError as error:
        raise CollectionError(f"{where}: {first_fault(error)}") from None
    name, each = itemized_output(signature) or ("", None)
    if each is not None and each.left_out(inputs, getattr(valid, name)):
        raise CollectionError(f"{where}: its {name} leave out some of its {each.given}")
