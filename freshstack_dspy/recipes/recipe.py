"""Which recipe is run, with which programs: ours, or those of others."""

import json
from collections.abc import Iterable
from typing import Any, cast

import dspy
from pydantic import TypeAdapter

from freshstack_dspy.config import TRANSPORT, BuildConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.request import endpoint_identity, sha256_of
from freshstack_dspy.lm.typed import TypedAdapter, instructions
from freshstack_dspy.programs.own import Programs, put_programs
from freshstack_dspy.programs.saved import load_program, state_of
from freshstack_dspy.recipes.crux import Crux
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.without_answers import WithoutAnswers
from freshstack_dspy.registry import imported, source_of


def recipe_of(config: BuildConfig) -> FreshStack:
    """Make the recipe that a configuration names, with its programs.

    Raises:
        CollectionError: A saved program cannot be read.
        ConfigError: There is no such recipe or program, or it is none.
    """
    ours: dict[str, Any] = {"freshstack": FreshStack, "nuggets": WithoutAnswers, "crux": Crux}
    name, state = config.recipe.program, config.recipe.state
    made = ours.get(name) or imported(name, "recipe", config.file.parent)
    recipe = with_programs(made(config), {})
    return recipe if state is None else load_program(recipe, state)


def with_programs(recipe: Any, programs: Programs) -> FreshStack:
    """A copy of a recipe with these programs; the recipe itself where there are none."""
    if not isinstance(recipe, FreshStack):
        raise ConfigError(
            f"{type(recipe).__name__} {recipe!r:.80} is not a recipe; pass an object of a subclass of "
            "freshstack_dspy.recipes.freshstack.FreshStack with stages of its own"
        )
    if not hasattr(recipe, "query_synthesizer"):
        raise ConfigError(
            f"{type(recipe).__name__} lacks the programs of a recipe; begin its __init__ with "
            "super().__init__(config)"
        )
    if programs:
        folder = recipe.config.file.parent
        recipe = cast("FreshStack", recipe.deepcopy())
        put_programs(recipe, programs, folder)
    return recipe


def identities(recipe: FreshStack, programs: Iterable[str]) -> dict[str, str]:
    """Say what a recipe that is not ours, and each of these programs of it, is.

    An identity is where the class is found, and a hash of all that changes its answers: the source
    of its module and of those of the modules inside, their public attributes, and of each predictor
    the prompt, what it decides by, its settings and its own model. DSPy's and our code is known by
    its version. Programs that replace those of our own recipes are named too, and an adapter that
    DSPy is configured with.
    """
    names = {name for name in programs if hasattr(recipe, name)}
    if _is_known(type(recipe)):
        made = vars(type(recipe)(recipe.config))
        own = {name: one for name, one in vars(recipe).items() if isinstance(one, dspy.Module)}
        names |= {name for name, one in own.items() if identity_of(one) != identity_of(made[name])}
    found = {name: identity_of(getattr(recipe, name)) for name in sorted(names)}
    adapter = dspy.settings.adapter
    if adapter is not None and type(adapter) is not TypedAdapter:
        found["adapter"] = _named(adapter, [_source_of(type(adapter)), _attributes(adapter)])
    return found if _is_known(type(recipe)) else {"recipe": identity_of(recipe), **found}


def identity_of(module: Any) -> str:
    """Where the class of a program is found, and a hash of all that changes its answers."""
    sources, predictors, others = {}, [], []
    for name, inside in module.named_sub_modules():
        sources[type(inside).__module__] = _source_of(type(inside))
        if isinstance(inside, dspy.Predict):
            own = {"name": name, "prompt": instructions(inside.signature), "lm": inside.lm}
            predictors.append({**state_of(inside)["self"], **own})
        else:
            others.append([name, _attributes(inside)])
    return _named(module, [sources, predictors, others])


def _named(thing: Any, parts: list[Any]) -> str:
    values = _JSON.dump_python(parts, mode="json", fallback=_described)
    digest = sha256_of(json.dumps(values, sort_keys=True))
    return f"{type(thing).__module__}:{type(thing).__qualname__} {digest[:16]}"


_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_OF_DSPY = frozenset(vars(dspy.Module()))


def _attributes(thing: Any) -> dict[str, Any]:
    """Its public attributes, without the modules and predictors that it is made of."""
    return {
        name: sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        for name, value in sorted(vars(thing).items())
        if not name.startswith("_")
        and name not in _OF_DSPY
        and not isinstance(value, dspy.Module | BuildConfig)
    }


def _described(value: Any) -> Any:
    """What stands for a value that JSON has no form for."""
    if isinstance(value, RecordedLM):
        model = value.client.model.model_dump(mode="json", exclude=set(TRANSPORT))
        return {**model, "api_base": value.client.endpoint, "kwargs": value.kwargs}
    if isinstance(value, dspy.BaseLM):
        secret = ("api_key", "api_base", "base_url")
        kwargs = {name: one for name, one in value.kwargs.items() if name not in secret}
        base = value.kwargs.get("api_base") or value.kwargs.get("base_url")
        return [value.model, endpoint_identity(value.model, base), kwargs]
    if isinstance(value, dspy.Example):
        return value.toDict()
    kind = value if isinstance(value, type) or callable(value) else type(value)
    return f"{kind.__module__}:{getattr(kind, '__qualname__', kind)}"


def _is_known(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("freshstack_dspy", "dspy")


def _source_of(kind: type) -> str:
    return "" if _is_known(kind) else source_of(kind)
