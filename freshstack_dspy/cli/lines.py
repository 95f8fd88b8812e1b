"""Lines for the terminal that may quote foreign files: nothing in them moves the cursor."""

import sys


def say(text: str) -> None:
    """Print one line."""
    print(one_line(text))


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(one_line(text), file=sys.stderr)


def one_line(text: str) -> str:
    """Put a space for every line break and control character."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
