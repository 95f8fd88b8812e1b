"""Programs on disk: what `freshstack optimize` or DSPy's `save` wrote, and a build's config names.

A program file is DSPy's state of a program as JSON, with ours next to what DSPy reads. It is data:
nothing in it is executed, a model that it names is not read, the settings in it are those of
sampling, and anything else in it is refused.
"""

import copy
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import write_file
from freshstack_dspy.lm.dspy_parts import DecisionState, get_dependency_versions
from freshstack_dspy.lm.typed import SETTABLE, demonstrations, plain

OURS = "freshstack_dspy"
"""Under this name a file of ours says which program it is, and how it was made."""
_METADATA = "metadata"
_CONFIG = (SETTABLE - {"extensions"}) | {"rollout_id"}
"""What a file may set of a predictor's requests: no address, and nothing of one provider."""


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
    """Demonstrations of any form: adapters show those that have fields of the signature."""
    fields: dict[str, dict[str, Any]] = {}
    """The settings of its decision outputs, as cuts and thresholds that DSPy's ReAnchor fits."""
    config: dict[str, Any] = {}
    """What its requests set, as a temperature."""
    traces: list[Any] = []
    train: list[Any] = []
    lm: Any = None


class SavedOurs(_Saved):
    """What `save_program` says of a program."""

    program: str
    report: dict[str, Any] = {}
    """How it was made: an `OptimizationReport`."""


_PREDICTORS: TypeAdapter[dict[str, SavedPredictor]] = TypeAdapter(dict[str, SavedPredictor])


def state_of(program: Any) -> dict[str, dict[str, Any]]:
    """Everything but models that changes the answers of a program's predictors, as JSON, by name.

    It is DSPy's state of each, and the `config`, which DSPy does not save.
    """
    return {
        name: {
            "signature": predictor.signature.dump_state(),
            "demos": demonstrations(predictor),
            "fields": plain(predictor.fields),
            "config": plain(predictor.config),
        }
        for name, predictor in program.named_predictors()
    }


def copy_state(program: Any, to: Any) -> None:
    """Give the predictors of a program the state of those of a copy of it."""
    predictors = dict(to.named_predictors())
    for name, predictor in program.named_predictors():
        predictors[name].signature = predictor.signature
        predictors[name].demos = demonstrations(predictor)
        predictors[name].fields = copy.deepcopy(predictor.fields)
        predictors[name].config = dict(predictor.config)


def save_program(program: Any, path: Path, report: BaseModel | None = None) -> None:
    """Write the state of a program as JSON, which DSPy loads too.

    Raises:
        CollectionError: It cannot be written, or a setting in it cannot be saved.
    """
    state: dict[str, Any] = {
        name: {"traces": [], "train": [], **values, "lm": None}
        for name, values in state_of(program).items()
    }
    for name, values in state.items():
        _check_config(values["config"], f"{path}: {name}")
    details = {} if report is None else report.model_dump(mode="json")
    state[_METADATA] = {"dependency_versions": get_dependency_versions()}
    state[OURS] = SavedOurs(program=_kind(program), report=details).model_dump()
    try:
        write_file(path, json.dumps(state, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise CollectionError(f"{path}: the program cannot be written: {error}") from error


def _kind(program: Any) -> str:
    """The class of a program; of a judge with its scale, which instructions and answers are for."""
    scale = getattr(program, "scale", None)
    return type(program).__name__ + (f" of scale {scale}" if scale else "")


def load_program(program: Any, path: Path) -> Any:
    """Give a fresh program the state of a file, and return it.

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
    same = predictors.keys() == saved.keys() and all(
        _has_fields(predictor.signature, saved[name].signature)
        for name, predictor in predictors.items()
    )
    if not same or kind not in (None, _kind(program)):
        raise CollectionError(
            f"{path}: a saved {kind or 'program with other fields'}, and a {_kind(program)} is "
            f"needed here, with the predictors {', '.join(predictors)}"
        )
    signatures = {}
    for name, predictor in predictors.items():
        entry = saved[name]
        signatures[name] = predictor.signature.load_state(entry.signature.model_dump())
        _check_config(entry.config, f"{path}: {name}")
        try:
            DecisionState(signatures[name], entry.fields)
        except ValueError as error:
            raise CollectionError(f"{path}: {name}.fields: {error}") from None
    for name, predictor in predictors.items():
        entry = saved[name]
        predictor.signature, predictor.demos = signatures[name], entry.demos
        predictor.fields, predictor.config = entry.fields, entry.config
    return program


def _has_fields(signature: Any, saved: SavedSignature) -> bool:
    """Whether a saved signature has its inputs, by prefix, and as many outputs.

    DSPy's COPRO changes the prefix of an output.
    """
    prefixes = [field["prefix"] for field in signature.dump_state()["fields"]]
    saved_prefixes, inputs = [field.prefix for field in saved.fields], len(signature.input_fields)
    return len(prefixes) == len(saved_prefixes) and prefixes[:inputs] == saved_prefixes[:inputs]


def _check_config(config: dict[str, Any], where: str) -> None:
    if unknown := sorted(config.keys() - _CONFIG):
        raise CollectionError(
            f"{where}.config sets {', '.join(unknown)}; allowed in a program file: "
            f"{', '.join(sorted(_CONFIG))}"
        )
