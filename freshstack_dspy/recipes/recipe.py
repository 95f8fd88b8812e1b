"""Which recipe is run, with which programs: ours, or those of others."""

import hashlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dspy

from freshstack_dspy.config import BuildConfig, ProgramConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.typed import instructions, plain
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.registry import imported, is_imported

if TYPE_CHECKING:
    from freshstack_dspy.recipes.freshstack import FreshStack

Programs = Mapping[str, "dspy.Module | ProgramConfig | Path | str"]
"""By the name of a recipe's program: a module, the name of one to import, or a file of its state."""


def recipe_of(config: BuildConfig, programs: Programs | None = None) -> "FreshStack":
    """Make the recipe that a configuration names, with its programs and, in their place, these.

    Raises:
        CollectionError: A saved program cannot be read.
        ConfigError: There is no such recipe or program, or it is none.
    """
    from freshstack_dspy.recipes.crux import Crux
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.nuggets import WithoutAnswers

    ours: dict[str, Any] = {"freshstack": FreshStack, "nuggets": WithoutAnswers, "crux": Crux}
    made = ours.get(config.recipe) or imported(config.recipe, "recipe", config.file.parent)
    return with_programs(made(config), programs or {})


def with_programs(recipe: Any, programs: Programs) -> "FreshStack":
    """A copy of a recipe with these programs; the recipe itself where there are none."""
    from freshstack_dspy.recipes.freshstack import FreshStack

    if not isinstance(recipe, FreshStack):
        raise ConfigError(
            f"{recipe!r:.80} is no recipe; make an object of a subclass of "
            "freshstack_dspy.recipes.freshstack.FreshStack with stages of its own"
        )
    if not programs:
        return recipe
    copied = cast("FreshStack", recipe.deepcopy())
    put_programs(copied, programs, recipe.config.file.parent)
    return copied


def put_programs(recipe: "FreshStack", programs: Programs, folder: Path) -> None:
    """Put programs in the place of a recipe's own; `folder` is that of the configuration.

    Raises:
        CollectionError: A saved program cannot be read.
        ConfigError: The recipe has no such program, or what is given cannot be one.
    """
    for name, given in programs.items():
        plain = getattr(recipe, name, None)
        if not isinstance(plain, dspy.Module):
            there = (key for key, one in vars(recipe).items() if isinstance(one, dspy.Module))
            raise ConfigError(
                f"programs.{name}: {type(recipe).__name__} has no such program; it has: "
                f"{', '.join(there)}"
            )
        setattr(recipe, name, program_in_place_of(plain, given, name, folder))


def program_in_place_of(own: Any, given: Any, name: str, folder: Path) -> Any:
    """Make the program that is given by itself, its name, or its state, and check what it takes."""
    named = given
    if isinstance(given, str | Path):
        named = ProgramConfig.model_validate(
            {"program": given} if is_imported(given) else {"state": Path(given)}
        )
    program = given
    if isinstance(named, ProgramConfig):
        program = own
        if named.program is not None:
            program = imported(named.program, f"programs.{name}", folder)
            program = program if isinstance(program, dspy.Module) else program()
    if not isinstance(program, dspy.Module):
        raise ConfigError(f"programs.{name} is {program!r:.80}, and no dspy.Module")
    # Of the classes: DSPy warns of whoever looks at an object's `forward`.
    _, *taken = inspect.signature(type(own).forward).parameters.values()
    needed = {one.name: None for one in taken if one.default is inspect.Parameter.empty}
    try:
        inspect.signature(type(program).forward).bind(program, **needed)
    except TypeError as error:
        raise ConfigError(
            f"programs.{name}: {type(program).__name__}.forward must take {', '.join(needed)}, as "
            f"that of {type(own).__name__} does: {error}"
        ) from None
    state = named.state if isinstance(named, ProgramConfig) else None
    return program if state is None else load_program(program, state)


def identities(recipe: "FreshStack", programs: Iterable[str]) -> dict[str, str]:
    """Say what a recipe that is not ours, and each of these programs of it, is.

    An identity is where the class is found, and a hash of the source of its module and of those of
    the modules inside, and of their prompts. DSPy's and our code is known by its version.
    """
    names = [name for name in programs if hasattr(recipe, name)]
    found = {name: _identity(getattr(recipe, name)) for name in sorted(names)}
    return found if _is_known(type(recipe)) else {"recipe": _identity(recipe), **found}


def _identity(module: Any) -> str:
    kinds = {type(one) for _, one in module.named_sub_modules()} | {type(module)}
    sources = {kind.__module__: _source(kind) for kind in kinds if not _is_known(kind)}
    prompts = [
        [name, instructions(one.signature), [dict(demo) for demo in one.demos]]
        for name, one in module.named_predictors()
    ]
    digest = hashlib.sha256(
        repr([sorted(sources.items()), sha256_of(plain({"prompts": prompts}))]).encode()
    )
    return f"{type(module).__module__}:{type(module).__qualname__} {digest.hexdigest()[:16]}"


def _is_known(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("freshstack_dspy", "dspy")


def _source(kind: type) -> str:
    try:
        return inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError):  # typed into a notebook
        try:
            return inspect.getsource(kind)
        except (OSError, TypeError):
            return kind.__qualname__
