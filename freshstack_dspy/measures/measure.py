"""A measure by its name, as `alpha_nDCG(alpha=0.9)@10`, in the notation of ir_measures."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.families import EVERY, FAMILIES, Family, Parameter, Value
from freshstack_dspy.measures.judged import Judged

_LONGEST_NAME = 200
_BY_ANY_NAME = {
    name: canonical
    for canonical, family in FAMILIES.items()
    for name in (canonical, *family.aliases)
}


@dataclass(frozen=True)
class Measure:
    """A measure of one query's ranking.

    Attributes:
        family: A key of `FAMILIES`.
        k: How many chunks are looked at; None: all.
        parameters: Those that are not as by default, in the order of the family's table.
    """

    family: str
    k: int | None = None
    parameters: tuple[tuple[str, Value], ...] = ()

    @cached_property
    def name(self) -> str:
        """The name that `parse_measure` reads."""
        given = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        at = "" if self.k is None else f"@{self.k}"
        return f"{self.family}{f'({given})' if given else ''}{at}"

    def __repr__(self) -> str:
        return self.name

    @property
    def rel(self) -> int | None:
        """The lowest label that counts as support; None: the collection's."""
        rel = self._given.get("rel")
        return rel if isinstance(rel, int) else None

    @property
    def needs_tokens(self) -> bool:
        """Whether it needs the lengths of chunks."""
        return FAMILIES[self.family].needs_tokens

    def __call__(self, ranking: Sequence[str], judged: Judged) -> float | None:
        """Measure one query; None where it has no value.

        Args:
            ranking: Chunk ids, best first, each once.
            judged: The judgments of the query, with this measure's `rel`.
        """
        if self._given.get("judged_only"):
            ranking = [chunk for chunk in ranking if chunk in judged.chunks]
        return FAMILIES[self.family].function(ranking, judged, self.k, **self._words)

    @cached_property
    def _given(self) -> dict[str, Value]:
        return dict(self.parameters)

    @cached_property
    def _words(self) -> dict[str, Value]:
        return {name: value for name, value in self.parameters if name not in EVERY}


def parse_measure(name: str) -> Measure:
    """Read the name of a measure, as `Coverage@20` or `nDCG(dcg='exp-log2')@5`.

    Raises:
        ConfigError: There is no such measure or parameter; the message lists those there are.
    """
    called, given, k = _taken_apart(name)
    if called not in _BY_ANY_NAME:
        raise ConfigError(f"there is no measure {name!r}; there are {_listed()}, as in Coverage@20")
    canonical = _BY_ANY_NAME[called]
    family = FAMILIES[canonical]
    if k is None and family.cutoff_required:
        raise ConfigError(f"measure {name!r} needs a cut-off; type {canonical}@10")
    allowed = {**family.parameters, **EVERY}
    for word, value in given.items():
        _check_parameter(name, canonical, word, value, allowed)
    parameters = tuple(
        (word, given[word])
        for word, parameter in allowed.items()
        if word in given and given[word] != parameter.default
    )
    return Measure(canonical, k, parameters)


def _taken_apart(name: str) -> tuple[str, dict[str, Value], int | None]:
    """Take `family(parameter=value, …)@k` apart; whatever is not written so has no family."""
    nothing: tuple[str, dict[str, Value], int | None] = ("", {}, None)
    if len(name) > _LONGEST_NAME:
        return nothing
    try:
        node = ast.parse(name.strip(), mode="eval").body
        k: object = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            k = ast.literal_eval(node.right)
            node = node.left
        given: dict[str, Value] = {}
        if isinstance(node, ast.Call):
            if node.args or any(word.arg is None for word in node.keywords):
                return nothing
            given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            node = node.func
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return nothing
    whole = isinstance(k, int) and not isinstance(k, bool) and 1 <= k < 10**9
    if not isinstance(node, ast.Name) or not (k is None or whole):
        return nothing
    return node.id, given, k if isinstance(k, int) else None


def _check_parameter(
    name: str, canonical: str, word: str, value: Value, allowed: dict[str, Parameter]
) -> None:
    if word not in allowed:
        raise ConfigError(
            f"measure {name!r}: {canonical} has no parameter {word!r}; it has {', '.join(allowed)}"
        )
    if not allowed[word].allows(value):
        raise ConfigError(f"measure {name!r}: {word} is {allowed[word].allowed}, not {value!r}")


def _listed() -> str:
    return ", ".join(_shown(name, family) for name, family in FAMILIES.items())


def _shown(name: str, family: Family) -> str:
    return f"{name}@k" if family.cutoff_required else f"{name}[@k]"
