"""Programs on disk: what `freshstack optimize` or DSPy's `save` wrote, and a build's config names.

A program file is DSPy's state of a program as JSON, with ours next to what DSPy reads. It is data:
nothing in it is executed, a model that it names is not read, a demonstration is a question and an
answer that the program could have had, and anything else in it is refused.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import write_file
from freshstack_dspy.lm.dspy_parts import get_dependency_versions
from freshstack_dspy.lm.reask import itemized_output
from freshstack_dspy.lm.typed import answer_model, plain, validating_against

OURS = "freshstack_dspy"
"""Under this name a file of ours says which program it is, and how it was made."""
_METADATA = "metadata"


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SavedField(_Saved):
    """A field of a signature."""

    prefix: str
    description: str


class SavedSignature(_Saved):
    """A signature: its instructions, and its fields in their order."""

    instructions: str
    fields: list[SavedField]


class SavedPredictor(_Saved):
    """The optimizable part of a predictor; its model, traces and training examples are not read."""

    signature: SavedSignature
    demos: list[dict[str, Any]]
    traces: list[Any] = []
    train: list[Any] = []
    lm: Any = None


class SavedOurs(_Saved):
    """What `save_program` says of a program."""

    program: str
    report: dict[str, Any] = {}
    """How it was made: an `OptimizationReport`."""


_PREDICTORS: TypeAdapter[dict[str, SavedPredictor]] = TypeAdapter(dict[str, SavedPredictor])


def save_program(program: Any, path: Path, report: BaseModel | None = None) -> None:
    """Write a program's instructions and complete demonstrations as JSON, which DSPy loads too."""
    state: dict[str, Any] = {}
    for name, predictor in program.named_predictors():
        fields = predictor.signature.fields
        demos = [
            plain({field: demo[field] for field in fields})
            for demo in predictor.demos
            if all(field in demo for field in fields)
        ]
        signature = predictor.signature.dump_state()
        state[name] = {
            "traces": [],
            "train": [],
            "demos": demos,
            "signature": signature,
            "lm": None,
        }
    made = {} if report is None else report.model_dump(mode="json")
    state[_METADATA] = {"dependency_versions": get_dependency_versions()}
    state[OURS] = SavedOurs(program=_kind(program), report=made).model_dump()
    try:
        write_file(path, json.dumps(state, ensure_ascii=False, indent=1) + "\n")
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
        state = json.loads(path.read_bytes())
        if not isinstance(state, dict) or _METADATA not in state:
            raise CollectionError(
                f"{path}: not a program that DSPy or this version of freshstack_dspy saved as JSON"
            )
        del state[_METADATA]
        ours = state.pop(OURS, None)
        kind = None if ours is None else SavedOurs.model_validate(ours, strict=True).program
        saved = _PREDICTORS.validate_python(state, strict=True)
    except (OSError, RecursionError) as error:
        raise CollectionError(f"{path}: the program cannot be read: {error}") from error
    except ValidationError as error:
        raise CollectionError(f"{path}: not a saved program: {first_fault(error)}") from None
    except ValueError as error:
        raise CollectionError(f"{path}: not JSON: {error}") from None
    predictors = dict(program.named_predictors())
    asked = {name: _prefixes(one.signature.dump_state()) for name, one in predictors.items()}
    given = {name: _prefixes(one.signature.model_dump()) for name, one in saved.items()}
    if asked != given or kind not in (None, _kind(program)):
        raise CollectionError(
            f"{path}: a saved {kind or 'program with other fields'}, and a {_kind(program)} is "
            f"needed here, with the predictors {', '.join(predictors)}"
        )
    signatures, demos = {}, {}
    for name, predictor in predictors.items():
        signature = predictor.signature.load_state(saved[name].signature.model_dump())
        for number, demo in enumerate(saved[name].demos, 1):
            try:
                _check_demonstration(demo, signature)
            except ValueError as error:
                fault = first_fault(error) if isinstance(error, ValidationError) else error
                raise CollectionError(f"{path}: demonstration {number}: {fault}") from None
        signatures[name], demos[name] = signature, saved[name].demos
    for name, predictor in predictors.items():
        predictor.signature, predictor.demos = signatures[name], demos[name]
    return program


def _prefixes(signature: dict[str, Any]) -> list[str]:
    """What the fields of a signature are called, which no instructions change."""
    return [field["prefix"] for field in signature["fields"]]


def _check_demonstration(demo: dict[str, Any], signature: Any) -> None:
    """Raise a ValueError for a demonstration that is not an input and a valid answer to it."""
    if lacking := [name for name in signature.fields if name not in demo]:
        raise ValueError(f"it lacks {', '.join(lacking)}")
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
