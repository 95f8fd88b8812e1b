"""A measure by its name, as `alpha_nDCG(alpha=0.9)@10`, in the notation of ir_measures.

To add a measure: a function of (ranking, judged, k) in `formulas.py`, and a row in
`FAMILIES`.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import Field

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures import formulas
from freshstack_dspy.measures.density import density, share_of
from freshstack_dspy.measures.passage_labels import byte_iou, byte_precision, byte_recall
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.registry import Registry

Value = int | float | str | bool | None
"""The value of a parameter."""
CutoffRule = Literal["required", "optional", "none"]
"""Whether the name of a measure must have @k, may, or may not."""
Cutoff = Annotated[int | str, Field(union_mode="left_to_right")]
"""What follows the @: a number of chunks, or of tokens, as in `2000tok`."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family."""

    default: Value
    allowed: str
    """The allowed values, in words that can end a sentence."""
    allows: Callable[[Value], bool]


@dataclass(frozen=True)
class Family:
    """Measures that differ only in their cut-off and parameters."""

    function: Callable[..., float | None]
    """Takes (top k of a ranking, judged, k, parameters by name); gives a value or None."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """By name; besides, every family has `rel` and `judged_only`."""
    aliases: tuple[str, ...] = ()
    """Other names; case does not matter."""
    cutoff: CutoffRule = "required"
    needs_support: bool = True
    """Whether it has no value if no chunk supports any nugget."""


def _number(default: float, low: float, high: float) -> Parameter:
    def allows(value: Value) -> bool:
        return isinstance(value, int | float) and low <= value <= high

    return Parameter(default, f"a number from {low:g} to {high:g}", allows)


def _choice(default: str, *others: str) -> Parameter:
    words = (default, *others)
    return Parameter(default, " or ".join(map(repr, words)), lambda value: value in words)


EVERY: dict[str, Parameter] = {
    "rel": Parameter(
        None, "a whole number from 1", lambda value: isinstance(value, int) and value >= 1
    ),
    "judged_only": Parameter(False, "True or False", lambda value: isinstance(value, bool)),
}
"""The parameters of every family. `rel`: the lowest label that counts as support; by default the
collection's. `judged_only`: chunks without a label, or with only labels below 0, are removed before
the cut, as in trec_eval."""

_ALPHA = {"alpha": _number(0.5, 0, 1)}
_ALPHA_BETA = {**_ALPHA, "beta": _number(0.5, 0, 1)}
_NDCG = {"dcg": _choice("log2", "exp-log2"), "grade": _choice("count", "sum", "max")}

FAMILIES: dict[str, Family] = {
    "alpha_nDCG": Family(formulas.alpha_ndcg, _ALPHA, ("α_nDCG",), "optional"),
    "Coverage": Family(
        formulas.coverage,
        {"of": _choice("all", "answerable")},
        (),
        "optional",
        needs_support=False,
    ),
    "Recall": Family(formulas.recall, aliases=("R",), cutoff="optional"),
    "nDCG": Family(formulas.ndcg, _NDCG, ("ndcg_cut",), "optional"),
    "P": Family(formulas.precision, aliases=("Precision",)),
    "F1": Family(formulas.f1),
    "RR": Family(
        formulas.reciprocal_rank,
        aliases=("MRR", "recip_rank", "reciprocal_rank"),
        cutoff="optional",
    ),
    "AP": Family(formulas.average_precision, aliases=("MAP", "map_cut"), cutoff="optional"),
    "Rprec": Family(formulas.r_precision, aliases=("r_precision",), cutoff="none"),
    "Bpref": Family(formulas.bpref, cutoff="none"),
    "RBP": Family(formulas.rbp, {"p": _number(0.8, 0, 1)}, cutoff="optional"),
    "Success": Family(formulas.success, aliases=("hit_rate", "HitRate", "hits")),
    "StRecall": Family(
        partial(formulas.coverage, of="answerable"),
        {},
        ("Cov", "subtopic_recall", "strec"),
        "optional",
    ),
    "alpha_DCG": Family(formulas.alpha_dcg, _ALPHA, ("α_DCG",)),
    "ERR_IA": Family(formulas.err_ia, _ALPHA),
    "nERR_IA": Family(formulas.nerr_ia, _ALPHA, cutoff="optional"),
    "NRBP": Family(formulas.nrbp, _ALPHA_BETA, cutoff="none"),
    "nNRBP": Family(formulas.nnrbp, _ALPHA_BETA, cutoff="none"),
    "P_IA": Family(formulas.precision_ia),
    "AP_IA": Family(formulas.average_precision_ia, aliases=("MAP_IA",), cutoff="none"),
    "Judged": Family(formulas.judged_share, cutoff="optional", needs_support=False),
    "BytePrecision": Family(byte_precision, cutoff="optional"),
    "ByteRecall": Family(byte_recall, cutoff="optional"),
    "ByteIoU": Family(byte_iou, cutoff="optional"),
    "Density": Family(density, {"w": _number(0.5, 0.01, 1)}, ("Den",), "optional"),
    "Required": Family(partial(share_of, kind="required"), cutoff="optional"),
    "PartlyRedundant": Family(partial(share_of, kind="partly_redundant"), cutoff="optional"),
    "Redundant": Family(partial(share_of, kind="redundant"), cutoff="optional"),
}
"""The families by the name that is printed."""
OTHER_FAMILIES = Registry(
    "freshstack_dspy.measures",
    "measure",
    {},
    lambda value: callable(value) or isinstance(value, Family),
)
"""Measures of other packages: a `Family`, or a function like the one of a family."""

_BY_ANY_NAME = {
    name.casefold(): family
    for family, definition in FAMILIES.items()
    for name in (family, *definition.aliases)
}


@cache
def family_of(name: str) -> Family:
    """Give the family with this printed name."""
    registered = FAMILIES.get(name) or OTHER_FAMILIES.get(name)
    return registered if isinstance(registered, Family) else Family(registered, cutoff="optional")


_DEEPEST = 10**6
_WRITTEN = re.compile(
    r"\s*(?P<family>[^\s@()]+)\s*(?:\((?P<given>.*)\)\s*)?(?:@\s*(?P<k>\S*)\s*)?", re.DOTALL
)
_TREC_EVAL = re.compile(r"(?P<family>\w+?)[_.](?P<k>[0-9]+)")
"""The names of trec_eval, such as `P_5` and `ndcg_cut_10`."""


@dataclass(frozen=True)
class Measure:
    """A measure of one query's ranking."""

    family: str
    """A key of `FAMILIES`, or of another package."""
    k: int | None = None
    """How many chunks are looked at; None: all, or as many as the budget allows."""
    parameters: tuple[tuple[str, Value], ...] = ()
    """Parameters that differ from the default, in the order of the family's table."""
    budget: int | None = None
    """The most tokens that the chunks that are looked at have together."""
    function: Callable[[Sequence[str], Judged], float | None] | None = None
    """The function of a custom measure, which has no family."""

    @cached_property
    def name(self) -> str:
        """The name that `parse_measure` reads."""
        written = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.family}{f'({written})' if written else ''}{at}"

    def __repr__(self) -> str:
        return self.name

    @property
    def cutoff(self) -> Cutoff | None:
        """What follows the @, if anything."""
        return self.k if self.budget is None else f"{self.budget}tok"

    @cached_property
    def rel(self) -> int | None:
        """The lowest label that counts as support; None: the collection's."""
        rel = self._given.get("rel")
        return rel if isinstance(rel, int) else None

    def __call__(self, ranking: Sequence[str], judged: Judged) -> float | None:
        """Measure one query; None where it has no value.

        Args:
            ranking: Chunk ids, best first, each once.
            judged: The judgments of the query, with this measure's `rel`.
        """
        if self.function is not None:
            return self.function(ranking, judged)
        family, judged_only, own = self._defined
        if family.needs_support and not judged.reference.supported:
            return None
        if judged_only:
            rated = judged.not_relevant | judged.supported.keys()
            ranking = [chunk for chunk in ranking if chunk in rated]
        return family.function(self.top(ranking, judged), judged, self.k, **own)

    def top(self, ranking: Sequence[str], judged: Judged) -> Sequence[str]:
        """Give the part of a ranking that is looked at."""
        if self.budget is None:
            return ranking[: self.k]
        return judged.within(ranking, self.budget)

    @cached_property
    def _given(self) -> dict[str, Value]:
        return dict(self.parameters)

    @cached_property
    def _defined(self) -> tuple[Family, bool, dict[str, Value]]:
        """The family, whether only judged chunks count, and the parameters of the family's function."""
        own = {name: value for name, value in self.parameters if name not in EVERY}
        return family_of(self.family), bool(self._given.get("judged_only")), own


MeasureSource = str | Measure | Callable[..., Any]
"""A measure's name, an object of ir_measures such as `nDCG @ 10`, or a user's function that takes the
chunk ids of one query's ranking, the best first, and its judgments (`Judged`), and gives a value or
None; the measure then has the function's name."""


def cutoff_of(name: str) -> Cutoff | None:
    """Give what follows the @ in the name of a measure, if anything; also of a user's function."""
    _, _, at = name.rpartition("@") if "@" in name else ("", "", "")
    return int(at) if at.isdecimal() else at or None


def parse_measure(name: MeasureSource) -> Measure:
    """Read the name of a measure, such as `Coverage@20` or `nDCG(dcg='exp-log2')@5`.

    An object of ir_measures stands for its name, and a function is a measure by itself. A family
    has several names, in any case, and `-` is read as `_`: `alpha-nDCG@10`, which the official
    `freshstack` package writes, is `alpha_nDCG@10`. trec_eval's own names are understood too, such
    as `map`, `ndcg_cut_10` and `P_5`.

    Raises:
        ConfigError: There is no such measure or parameter, or its value is not allowed; the
            message names what exists and what was probably meant.
    """
    if isinstance(name, Measure):
        return name
    if type(name).__module__.startswith("ir_measures."):
        name = str(name)
    if not isinstance(name, str):
        if callable(name):
            return Measure(getattr(name, "__name__", type(name).__name__), function=name)
        raise ConfigError(
            f"{name!r:.80} is no measure; allowed: names as 'alpha_nDCG@10', objects of "
            "ir_measures, and functions of a ranking and its judgments"
        )
    word, parameters, k, budget = _take_apart(name)
    family = _BY_ANY_NAME.get(word)
    if family is None:  # of another package: looking for these takes a while
        family = next((own for own in OTHER_FAMILIES.names() if own.casefold() == word), None)
    if family is None:
        raise ConfigError(f"there is no measure {name!r}; {_meant(word)}")
    definition = family_of(family)
    at = k or budget
    if at is None and definition.cutoff == "required":
        raise ConfigError(f"measure {name!r} needs a cut-off; type {family}@10")
    if at is not None and definition.cutoff == "none":
        raise ConfigError(f"measure {name!r} takes no cut-off; type {family}")
    return Measure(family, k, _parameters(name, family, parameters), budget)


def _parameters(
    name: str, family: str, parameters: Mapping[str, Value]
) -> tuple[tuple[str, Value], ...]:
    """Check parameters, and give those that differ from the default, in the family's order."""
    allowed = {**family_of(family).parameters, **EVERY}
    for each, value in parameters.items():
        if each not in allowed:
            raise ConfigError(
                f"measure {name!r}: {family} has no parameter {each!r}; its parameters are "
                f"{', '.join(allowed)}"
            )
        if not allowed[each].allows(value):
            raise ConfigError(f"measure {name!r}: {each} is {allowed[each].allowed}, not {value!r}")
    return tuple(
        (
            each,
            float(parameters[each] or 0) + 0.0
            if isinstance(parameter.default, float)
            else parameters[each],
        )
        for each, parameter in allowed.items()
        if each in parameters and parameters[each] != parameter.default
    )


def parse_measures(sources: MeasureSource | Iterable[MeasureSource]) -> list[Measure]:
    """Read one measure or several; a measure that is named twice is measured once.

    Raises:
        ConfigError: As for `parse_measure`; no measure is named; or two functions have the same
            name.
    """
    alone = isinstance(sources, str) or callable(sources) or not isinstance(sources, Iterable)
    several: Any = [sources] if alone else sources
    measures = list(dict.fromkeys(map(parse_measure, several)))
    if not measures:
        raise ConfigError("name at least one measure, as in alpha_nDCG@10")
    names = [measure.name for measure in measures]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"two measures are called {twice[0]!r}; give each function its own name")
    return measures


def _take_apart(name: str) -> tuple[str, dict[str, Value], int | None, int | None]:
    """Give family, parameters, cut-off and budget; only literal values are evaluated."""
    written = _WRITTEN.fullmatch(name)
    if written is None:
        raise ConfigError(f"there is no measure {name!r}; measures are as alpha_nDCG(alpha=0.9)@10")
    word, k, parameters = written["family"].replace("-", "_").casefold(), written["k"], {}
    if written["given"] is not None:
        try:
            call = ast.parse(f"_({written['given']}\n)", mode="eval").body
            if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
                raise ValueError  # noqa: TRY301 - as what cannot be parsed
            parameters = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        except (SyntaxError, ValueError, TypeError):
            raise ConfigError(
                f"measure {name!r}: parameters are written name=value, each once, with a number, a "
                "'word', True or False, as in nDCG(dcg='exp-log2',rel=2)@10"
            ) from None
    trec_eval = _TREC_EVAL.fullmatch(word)
    if k is None and trec_eval is not None and trec_eval["family"] in _BY_ANY_NAME:
        word, k = trec_eval["family"], trec_eval["k"]
    if k is None:
        return word, parameters, None, None
    number = k.removesuffix("tok")
    if not re.fullmatch("[1-9][0-9]{0,6}", number) or int(number) > _DEEPEST:
        raise ConfigError(
            f"measure {name!r}: the cut-off is a whole number from 1 to {_DEEPEST}, or a number of "
            f"tokens as 2000tok, not {k!r}"
        )
    return (
        (word, parameters, int(k), None) if k == number else (word, parameters, None, int(number))
    )


def _meant(word: str) -> str:
    """Name the measure that was probably meant, or list those there are."""
    family = word.rstrip("0123456789").rstrip("_.").removesuffix("_at")
    close = [name for name in _BY_ANY_NAME if len(family) > 2 and name.startswith(family)]
    close = close or get_close_matches(family, _BY_ANY_NAME, n=1, cutoff=0.7)
    if not close:
        return f"the measures are {', '.join((*map(_shown, FAMILIES), *OTHER_FAMILIES.names()))}"
    return f"did you mean {_shown(_BY_ANY_NAME[close[0]])}?"


def _shown(family: str) -> str:
    return family + {"required": "@k", "optional": "[@k]", "none": ""}[FAMILIES[family].cutoff]
