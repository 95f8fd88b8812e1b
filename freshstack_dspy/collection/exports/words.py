"""Ids as words: of visible ASCII, in the order of the ids, and back again.

TREC's tools cut lines at white space, and those of BEIR read quotes and line ends in their own
way; an id that would not survive is called differently.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

_LOW, _HIGH = '"', "~"
"""The characters up to and from which are escaped; what is between is visible ASCII."""
_KEPT = re.compile("[#-}]+")
_ESCAPE = re.compile("!([0-9A-F]{2})|~([0-9A-F]{6})")
_IN_A_TABLE = re.compile('[^\\x00-\\x1f"\\x7f-\\x9f\u2028\u2029\ufeff]+')


def word(id_: str) -> str:
    """Give the word that stands for an id: `a b` is `a!20b`, and `ä` is `~0000E4`.

    No two ids have the same word, words sort as their ids do, and most ids are words already.
    """
    if _KEPT.fullmatch(id_):
        return id_
    if not id_:
        return "!"
    return "".join(_escaped(char) if char <= _LOW or char >= _HIGH else char for char in id_)


def id_of(word: str) -> str:
    """Give the id that a word stands for."""
    if word == "!":
        return ""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), word)


def table_words(ids: Iterable[str]) -> dict[str, str]:
    """Name ids in a table with tabs: all by themselves, or, where one cannot be, all by words.

    Returns:
        Id -> its name.
    """
    given = list(ids)
    name: Callable[[str], str] = str if all(map(_IN_A_TABLE.fullmatch, given)) else word
    return {id_: name(id_) for id_ in given}


def _escaped(char: str) -> str:
    return f"!{ord(char):02X}" if char <= _LOW else f"~{ord(char):06X}"


class Names(NamedTuple):
    """What our ids are called in an export; each maps ours to the exported."""

    queries: Mapping[str, str]
    chunks: Mapping[str, str]
    nuggets: Mapping[str, str] = {}

    def changed(self) -> dict[str, dict[str, str]]:
        """Give exported id -> ours of those that differ, by kind; kinds without any left out."""
        kinds = {
            kind: {exported: ours for ours, exported in ids.items() if exported != ours}
            for kind, ids in self._asdict().items()
        }
        return {kind: ids for kind, ids in kinds.items() if ids}
