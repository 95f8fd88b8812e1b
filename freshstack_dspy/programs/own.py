"""Programs of somebody else's in the place of ours."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy

from freshstack_dspy.config import ProgramConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.registry import imported, is_imported

Programs = Mapping[str, dspy.Module | ProgramConfig | Mapping[str, Any] | Path | str]
"""By the name of a recipe's program: a module, the name of one to import, or a file of its state;
or a dictionary with `program`, one of the former two, and `state`, the file."""


def put_programs(recipe: dspy.Module, programs: Programs, folder: Path) -> None:
    """Put programs in the place of a recipe's own; `folder` is that of the configuration.

    Raises:
        CollectionError: A saved program cannot be read.
        ConfigError: The recipe has no such program, or what is given cannot be one.
    """
    for name, program in programs.items():
        plain = getattr(recipe, name, None)
        if not isinstance(plain, dspy.Module):
            there = (key for key, value in vars(recipe).items() if isinstance(value, dspy.Module))
            raise ConfigError(
                f"programs.{name}: {type(recipe).__name__} has no such program; it has: "
                f"{', '.join(there)}"
            )
        setattr(recipe, name, program_in_place_of(plain, program, name, folder))


def program_in_place_of(own: Any, source: Any, name: str, folder: Path) -> Any:
    """Make the program from an object, its name, or its state file, and check what it takes."""
    parts = source
    if isinstance(source, ProgramConfig):
        parts = source.model_dump(exclude_none=True)
    elif isinstance(source, str | Path):
        parts = {"program" if is_imported(source) else "state": source}
    elif not isinstance(source, Mapping):
        parts = {"program": source}
    if unknown := parts.keys() - {"program", "state"}:
        raise ConfigError(
            f"programs.{name} has {min(unknown)!r}; allowed: program, and state, a file that "
            "DSPy's save wrote"
        )
    program, state = parts.get("program", own), parts.get("state")
    if isinstance(program, str):
        program = imported(program, f"programs.{name}", folder)
    if inspect.isclass(program) and issubclass(program, dspy.Module):
        program = program()
    if not isinstance(program, dspy.Module):
        raise ConfigError(f"programs.{name} is {program!r:.80}, and no dspy.Module")
    check_takes(program, own, f"programs.{name}")
    return program if state is None else load_program(program.deepcopy(), Path(state))


def check_takes(program: dspy.Module, own: dspy.Module, what: str) -> None:
    """Raise a ConfigError where a program does not take what ours takes, in whose place it is."""
    # Classes are compared: DSPy warns of whoever looks at an object's `forward`.
    kind: Any = type(program)
    ours: Any = type(own)
    _, *taken = inspect.signature(ours.forward).parameters.values()
    needed = {parameter.name: None for parameter in taken}
    try:
        inspect.signature(kind.forward).bind(program, **needed)
    except TypeError as error:
        raise ConfigError(
            f"{what}: {kind.__name__}.forward must take {', '.join(needed)}, as "
            f"that of {type(own).__name__} does: {error}"
        ) from None
