"""How a measure is written, `family(parameter=value, …)@k`: taken apart, and told from typos."""

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.measures.families import Value

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
