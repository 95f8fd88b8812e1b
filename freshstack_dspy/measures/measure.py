"""A measure by its name, as `alpha_nDCG(alpha=0.9)@10`, in the notation of ir_measures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.families import EVERY, FAMILIES, Family, Parameter, Value
from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.notation import (
    Written,
    nearest,
    nearest_family,
    take_apart,
    without_cutoff,
)

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
