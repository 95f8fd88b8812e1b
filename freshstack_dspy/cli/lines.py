"""Lines for the terminal that may quote foreign files: nothing in them moves the cursor."""

import os
import shutil
import sys
import textwrap
from pathlib import Path

_NARROWEST = 40


def say(text: str) -> None:
    """Print one line."""
    print(one_line(text))


def say_wrapped(text: str, indent: int = 0) -> None:
    """Print a long text in as many lines as the screen takes; those after the first hang."""
    for line in textwrap.wrap(
        one_line(text),
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        print(line)


def counted(number: int, one: str, several: str = "") -> str:
    """Write a number with its noun: `1 pair`, `1,200 pairs`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def cut(text: str, longest: int = 80) -> str:
    """Cut a foreign name, which may be of any length, and put … where something is missing."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def shown_name(path: Path, parts: int = 1) -> str:
    r"""Name a file by the end of its path in Unicode: a byte that is no UTF-8 is written as `\xff`."""
    return os.fsencode(Path(*path.parts[-parts:])).decode("utf-8", "backslashreplace")


def percent(share: float) -> str:
    """Write a share in per cent, as exactly as it was given: `95%`, `99.99%`."""
    return f"{100 * share:.10g}%"


def width() -> int:
    """How many characters a line of the screen takes; 80 where there is none."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(one_line(text), file=sys.stderr)


def one_line(text: str) -> str:
    """Put a space for every line break and control character."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
