"""Globs over the paths of a corpus, as in `.gitignore`: `*.md`, `docs/**`, `src/**/test_?.py`."""

import re
from typing import NamedTuple, Self

_PIECE = re.compile(r"/\*\*/|^\*\*/|/\*\*$|^\*\*$|\*+|\?|\[!?[^\]/]+\]|.", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_REGEX = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "?": "[^/]"}


class Glob(NamedTuple):
    """A compiled glob.

    A glob without a slash is compared with the name of the file and of each folder it is in; one
    with a slash, with the path from the root of the corpus. What matches a folder matches
    everything below it. `*` and `?` stop at slashes, `**` does not; `[a-z]` and `[!a-z]` are one
    character. Case counts.
    """

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Self:
        """Compile a glob.

        Raises:
            ValueError: A range in it is reversed, as `[z-a]`.
        """
        anywhere = "" if "/" in text.rstrip("/") else "(?:.*/)?"
        path = re.sub(r"(?:\*\*/)+", "**/", text.strip("/"))
        regex = "".join(_translated(piece[0]) for piece in _PIECE.finditer(path))
        try:
            return cls(text, re.compile(f"{anywhere}{regex}(?:/.*)?", re.DOTALL))
        except re.error as error:
            raise ValueError(f"{text!r} is not a glob: {error}") from None

    def matches(self, path: str) -> bool:
        """Say whether a path, relative and with forward slashes, is meant."""
        return self.pattern.fullmatch(path) is not None


def _translated(piece: str) -> str:
    if piece in _REGEX:
        return _REGEX[piece]
    if piece.startswith("*"):
        return "[^/]*"
    if len(piece) == 1:
        return re.escape(piece)
    inverted = piece[1] == "!"
    members = "".join(
        re.escape(one) or f"{re.escape(low)}-{re.escape(high)}"
        for low, high, one in _RANGE.findall(piece[2 if inverted else 1 : -1])
    )
    return f"[{'^/' if inverted else ''}{members}]"
