"""A measure by its name, as `alpha_nDCG(alpha=0.9)@10`, in the notation of ir_measures."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.contexts import density
from freshstack_dspy.measures.diversity import (
    alpha_dcg,
    alpha_ndcg,
    average_precision_ia,
    coverage,
    err_ia,
    nerr_ia,
    nnrbp,
    nrbp,
    precision_ia,
    subtopic_recall,
)
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.ranking import (
    average_precision,
    f1,
    judged_share,
    ndcg,
    precision,
    r_precision,
    recall,
    reciprocal_rank,
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


LONGEST_NAME = 200
DEEPEST = 10**6
"""Deeper than any ranking, and shallow enough to add up as many discounts."""
_WRITTEN = re.compile(
    r"\s*(?P<family>[^\s@()]+)\s*(?:\((?P<given>.*)\)\s*)?(?:@\s*(?P<k>[^\s@()]*)\s*)?", re.DOTALL
)

_TREC_EVAL = re.compile(
    r"\s*(?:(?P<family>P|recall|success)[_.]|(?P<cut>ndcg|map)_cut[_.@])(?P<k>[^\s@()]+)\s*",
    re.IGNORECASE,
)
"""The names of trec_eval (`P_5`, `ndcg_cut_10`) and its parameters (`P.5`, `ndcg_cut.10`)."""
_ENDS_WITH_K = re.compile(
    r"(?P<word>.+?)(?:[_.]at)?(?:[_.]|(?<=[^\W\d_]))(?P<k>[1-9][0-9]{0,5})", re.DOTALL
)
_ALIKE = 0.8
"""How much of two names is the same, at least, for one to be a typo of the other."""
_SHORTEST = 3
"""So many letters, at least, are the beginning of a name."""


class Written(NamedTuple):
    """The parts of a measure's name."""

    family: str
    """As it was written, with `_` for `-`: ndeval and FreshStack write alpha-nDCG and ERR-IA."""
    given: dict[str, Value]
    k: int | None


def take_apart(name: str) -> Written:
    """Take the name of a measure apart; nothing in it is evaluated but literal values.

    Raises:
        ConfigError: It is not written as measures are.
    """
    if len(name) > LONGEST_NAME:
        raise ConfigError(
            f"{name[:40]!r}… is no measure: it has {len(name)} characters, a name at most "
            f"{LONGEST_NAME}"
        )
    there = _TREC_EVAL.fullmatch(name)
    if there is not None and re.fullmatch("[0-9]+", there["k"]):
        return Written(there["family"] or there["cut"], {}, _cutoff(name, there["k"]))
    found = _WRITTEN.fullmatch(name)
    if found is None:
        raise ConfigError(
            f"there is no measure {name!r}; write the name, its parameters if any, and the "
            "cut-off, as in alpha_nDCG(alpha=0.9)@10"
        )
    k, given = found["k"], _parameters(name, found["given"])
    if k is None and "cutoff" in given:
        k = repr(given.pop("cutoff"))
    family = found["family"].replace("-", "_")
    return Written(family, given, None if k is None else _cutoff(name, k))


def nearest(word: str, names: Iterable[str], alike: float = 0.5) -> str | None:
    """Give the name that was probably meant, if any is close; case and signs count little.

    Args:
        word: What was written.
        names: What there is.
        alike: How much of two names is the same, from 0 to 1.
    """
    from difflib import get_close_matches

    by_letters = _by_letters(names)
    found = get_close_matches(_letters(word), by_letters, n=1, cutoff=alike)
    return by_letters[found[0]] if found else None


def nearest_family(word: str, names: Iterable[str]) -> str | None:
    """Give the family that was probably meant: few letters make very different measures alike.

    It begins with the word, has the same letters in another order, or differs in one or two.
    """
    by_letters = _by_letters(names)
    letters = _letters(word)
    if letters in by_letters:
        return by_letters[letters]
    if len(letters) >= _SHORTEST:
        for name, written in by_letters.items():
            if name.startswith(letters) or sorted(name) == sorted(letters):
                return written
    return nearest(word, by_letters.values(), _ALIKE)


def without_cutoff(word: str) -> tuple[str, int | None]:
    """Part a word and the cut-off that it seems to end with, as in `ndcg_10` and `recall-at-5`."""
    found = _ENDS_WITH_K.fullmatch(word)
    return (found["word"], int(found["k"])) if found else (word, None)


def _by_letters(names: Iterable[str]) -> dict[str, str]:
    by_letters: dict[str, str] = {}
    for name in names:
        by_letters.setdefault(_letters(name), name)
    return by_letters


def _cutoff(name: str, k: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", k) or int(k) > DEEPEST:
        raise ConfigError(
            f"measure {name!r}: the cut-off is a whole number from 1 to {DEEPEST}, as in "
            f"Recall@50, not {k!r}"
        )
    return int(k)


def _parameters(name: str, given: str | None) -> dict[str, Value]:
    if given is None:
        return {}
    try:
        return _keywords(ast.parse(f"_({given}\n)", mode="eval").body)
    # The parser of Python raises all of these for a text that is too deep or makes no sense.
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ConfigError(
            f"measure {name!r}: parameters are written name=value, each once, with a number, a "
            "'word', True or False, as in nDCG(dcg='exp-log2',rel=2)@10"
        ) from None


def _keywords(call: ast.expr) -> dict[str, Value]:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError("not a list of parameters")
    given = {
        str(word.arg): ast.literal_eval(word.value)
        for word in call.keywords
        if word.arg is not None
    }
    if len(given) != len(call.keywords):
        raise ValueError("a parameter without a name, or twice")
    return given


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


_BY_ANY_NAME = {
    name.casefold(): canonical
    for canonical, family in FAMILIES.items()
    for name in (canonical, *family.aliases)
}

_USUAL = 10
"""The cut-off of an example."""
_ELSEWHERE = {
    "hits": "Success@10",
    "acc": "Success@10",
    "accuracy": "Success@10",
    "dcg": "nDCG",
    "map_cut": "AP@10",
    "ndcg_burges": "nDCG(dcg='exp-log2')",
    "ndcg_cut": "nDCG@10",
    "rbp": "NRBP(alpha=0,beta=0.8)",
    "set_recall": "Recall",
}
"""Names in other programs that do not mean quite the same, or need a cut-off there, and ours."""


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
        return self._function(ranking, judged, self.k, **self._words)

    @cached_property
    def _function(self) -> Callable[..., float | None]:
        return FAMILIES[self.family].function

    @cached_property
    def _given(self) -> dict[str, Value]:
        return dict(self.parameters)

    @cached_property
    def _words(self) -> dict[str, Value]:
        return {name: value for name, value in self.parameters if name not in EVERY}


def parse_measure(name: str) -> Measure:
    """Read the name of a measure, as `Coverage@20` or `nDCG(dcg='exp-log2')@5`.

    A family may be called by any of its names, whatever the capitals, and `-` in it is `_`:
    `alpha-nDCG@10`, as the official `freshstack` package writes it, is `alpha_nDCG@10`. trec_eval's
    own names are understood, as `map`, `ndcg_cut_10` and `P_5`. As in ir_measures, the cut-off may
    also stand among the parameters, as `cutoff=10`.

    Raises:
        ConfigError: There is no such measure or parameter, or its value is not allowed; the
            message says what there is and what was probably meant.
    """
    if not isinstance(name, str):
        raise ConfigError(
            f"a measure is named by a text, as 'nDCG@10', not {name!r:.200}; type str(measure)"
        )
    written = take_apart(name)
    canonical = _BY_ANY_NAME.get(written.family.casefold())
    if canonical is None:
        raise ConfigError(f"there is no measure {name!r}; {_meant(written)}")
    family = FAMILIES[canonical]
    _check_cutoff(name, canonical, family, written.k)
    allowed = {**family.parameters, **EVERY}
    given = {
        word: _checked(name, canonical, word, value, allowed)
        for word, value in written.given.items()
    }
    parameters = tuple(
        (word, given[word])
        for word, parameter in allowed.items()
        if word in given and given[word] != parameter.default
    )
    return Measure(canonical, written.k, parameters)


def _check_cutoff(name: str, canonical: str, family: Family, k: int | None) -> None:
    if k is None and family.cutoff == "required":
        raise ConfigError(f"measure {name!r} needs a cut-off; type {canonical}@{_USUAL}")
    if k is not None and family.cutoff == "none":
        raise ConfigError(f"measure {name!r} takes no cut-off; type {canonical}")


def _checked(
    name: str, canonical: str, word: str, value: Value, allowed: dict[str, Parameter]
) -> Value:
    if word not in allowed:
        meant = nearest(word, allowed)
        raise ConfigError(
            f"measure {name!r}: {canonical} has no parameter {word!r}; "
            + (f"did you mean {meant}? " if meant else "")
            + f"its parameters are {', '.join(allowed)}"
        )
    if not allowed[word].allows(value):
        raise ConfigError(f"measure {name!r}: {word} is {allowed[word].allowed}, not {value!r}")
    return allowed[word].kept(value)


def _meant(written: Written) -> str:
    """Say which measure was probably meant, or list those there are."""
    word, cut = (written.family, written.k) if written.k else without_cutoff(written.family)
    meant = _family_meant(word)
    if meant is None and word != written.family:
        meant, cut = _family_meant(written.family), None
    if meant is None:
        listed = ", ".join(_shown(each, family) for each, family in FAMILIES.items())
        return f"the measures are {listed}"
    usual = take_apart(meant)
    canonical = _BY_ANY_NAME[usual.family.casefold()]
    cutoff = FAMILIES[canonical].cutoff
    k = cut or usual.k or (_USUAL if cutoff == "required" else None)
    given = ",".join(
        f"{word}={value!r}" for word, value in {**usual.given, **written.given}.items()
    )
    at = "" if k is None or cutoff == "none" else f"@{k}"
    return f"did you mean {canonical}{f'({given})' if given else ''}{at}?"


def _family_meant(word: str) -> str | None:
    return _ELSEWHERE.get(word.casefold()) or nearest_family(word, _BY_ANY_NAME)


def _shown(name: str, family: Family) -> str:
    return name + {"required": "@k", "optional": "[@k]", "none": ""}[family.cutoff]
