"""The table of measures: each family's name, function, parameters and other names.

To add one, write its function in a file of its own and give it a line in `FAMILIES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from freshstack_dspy.measures.retrieval.alpha_ndcg import alpha_ndcg
from freshstack_dspy.measures.retrieval.coverage import coverage
from freshstack_dspy.measures.retrieval.recall import recall

Value = int | float | str | bool | None
"""What a parameter of a measure is given."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family.

    Attributes:
        default: What it is where nothing is said.
        allowed: What it may be, in words that end a sentence.
        allows: Whether it may be this.
    """

    default: Value
    allowed: str
    allows: Callable[[Value], bool]


@dataclass(frozen=True)
class Family:
    """Measures that differ in their cut-off and parameters only.

    Attributes:
        function: Takes (ranking, judged, k, parameters by name); gives a value or None.
        parameters: By name; besides, every family has `rel` and `judged_only`.
        aliases: Other names by which it is asked for.
        cutoff: Whether its name must say @k, may, or may not.
        needs_tokens: Whether it needs the lengths of chunks.
    """

    function: Callable[..., float | None]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    cutoff_required: bool = True
    needs_tokens: bool = False


def number(default: float, low: float, high: float) -> Parameter:
    """A parameter that is a number in a closed range."""

    def allows(value: Value) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and low <= value <= high  # type: ignore[operator]

    return Parameter(default, f"a number from {low:g} to {high:g}", allows)


def choice(default: str, *others: str) -> Parameter:
    """A parameter that is one of several words."""
    words = (default, *others)
    return Parameter(default, " or ".join(map(repr, words)), lambda value: value in words)


EVERY: dict[str, Parameter] = {
    "rel": Parameter(
        None,
        "a whole number from 1",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    ),
    "judged_only": Parameter(False, "True or False", lambda value: isinstance(value, bool)),
}
"""The parameters of every family. `rel`: the lowest label that counts as support; by default the
collection's. `judged_only`: chunks without a label are taken out before the cut."""

FAMILIES: dict[str, Family] = {
    "alpha_nDCG": Family(alpha_ndcg, {"alpha": number(0.5, 0, 1)}, ("α_nDCG",)),
    "Coverage": Family(coverage, {"of": choice("all", "answerable")}),
    "Recall": Family(recall, aliases=("R",), cutoff_required=False),
}
"""By the name that is printed."""
