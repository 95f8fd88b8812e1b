"""The table of measures: each family's name, function, parameters and other names.

To add one, write its function in a file of its own and give it a line in `FAMILIES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from freshstack_dspy.measures.contexts.density import density
from freshstack_dspy.measures.retrieval import (
    alpha_dcg,
    alpha_ndcg,
    average_precision,
    average_precision_ia,
    coverage,
    err_ia,
    f1,
    judged_share,
    ndcg,
    nerr_ia,
    nnrbp,
    nrbp,
    precision,
    precision_ia,
    r_precision,
    recall,
    reciprocal_rank,
    subtopic_recall,
    success,
)

Value = int | float | str | bool | None
"""What a parameter of a measure is given."""
Cutoff = Literal["required", "optional", "none"]
"""Whether the name of a measure must say @k, may, or may not."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family.

    Attributes:
        default: What it is where nothing is said.
        allowed: What it may be, in words that end a sentence.
        allows: Whether it may be this.
        kept: What is kept of what it is given, so that 1 and 1.0 make one measure.
    """

    default: Value
    allowed: str
    allows: Callable[[Value], bool]
    kept: Callable[[Value], Value] = lambda value: value


@dataclass(frozen=True)
class Family:
    """Measures that differ in their cut-off and parameters only.

    Attributes:
        function: Takes (ranking, judged, k, parameters by name); gives a value or None.
        parameters: By name; besides, every family has `rel` and `judged_only`.
        aliases: Other names by which it is asked for; capitals do not count.
        cutoff: Whether its name says @k.
        needs_tokens: Whether it needs the lengths of chunks.
    """

    function: Callable[..., float | None]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    cutoff: Cutoff = "required"
    needs_tokens: bool = False


def number(default: float, low: float, high: float) -> Parameter:
    """A parameter that is a number in a closed range; it is kept as a float, -0.0 as 0.0."""

    def allows(value: Value) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and low <= value <= high  # type: ignore[operator]

    def kept(value: Value) -> Value:
        return float(value) + 0.0 if isinstance(value, int | float) else value

    return Parameter(float(default), f"a number from {low:g} to {high:g}", allows, kept)


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

_ALPHA = {"alpha": number(0.5, 0, 1)}
_ALPHA_BETA = {**_ALPHA, "beta": number(0.5, 0, 1)}

FAMILIES: dict[str, Family] = {
    "alpha_nDCG": Family(alpha_ndcg, _ALPHA, ("α_nDCG",), "optional"),
    "Coverage": Family(coverage, {"of": choice("all", "answerable")}, cutoff="optional"),
    "Recall": Family(recall, aliases=("R",), cutoff="optional"),
    "nDCG": Family(
        ndcg,
        {"dcg": choice("log2", "exp-log2"), "grade": choice("sum", "count", "max")},
        ("NDCG",),
        "optional",
    ),
    "P": Family(precision, aliases=("Precision",)),
    "F1": Family(f1),
    "RR": Family(
        reciprocal_rank, aliases=("MRR", "recip_rank", "reciprocal_rank"), cutoff="optional"
    ),
    "AP": Family(average_precision, aliases=("MAP",), cutoff="optional"),
    "Rprec": Family(r_precision, aliases=("RPrec", "r_precision"), cutoff="none"),
    "Success": Family(success, aliases=("hit_rate", "HitRate")),
    "StRecall": Family(
        subtopic_recall, aliases=("Cov", "subtopic_recall", "strec"), cutoff="optional"
    ),
    "alpha_DCG": Family(alpha_dcg, _ALPHA, ("α_DCG",)),
    "ERR_IA": Family(err_ia, _ALPHA),
    "nERR_IA": Family(nerr_ia, _ALPHA, cutoff="optional"),
    "NRBP": Family(nrbp, _ALPHA_BETA, cutoff="none"),
    "nNRBP": Family(nnrbp, _ALPHA_BETA, cutoff="none"),
    "P_IA": Family(precision_ia),
    "AP_IA": Family(average_precision_ia, aliases=("MAP_IA",), cutoff="none"),
    "Judged": Family(judged_share, cutoff="optional"),
    "Density": Family(
        density, {"w": number(0.5, 0.01, 1)}, ("Den",), "optional", needs_tokens=True
    ),
}
"""By the name that is printed."""
