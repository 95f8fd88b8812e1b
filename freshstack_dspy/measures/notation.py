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


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Give the name that was probably meant, if any is close; case and signs count little."""
    from difflib import get_close_matches

    by_letters: dict[str, str] = {}
    for name in names:
        by_letters.setdefault(_letters(name), name)
    found = get_close_matches(_letters(word), by_letters, n=1, cutoff=0.5)
    return by_letters[found[0]] if found else None


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
