"""Quoted words in an edited file: the chunk that still says them, or none where that is not sure."""

import pytest

from freshstack_dspy.corpus.shown_chunks import chunk_with_words
from freshstack_dspy.records import Chunk

LINE = "An option can read an environment variable."
OLD = f"# Options\n\n{LINE}\nIt is one.\n"


def chunks(*texts: str) -> list[Chunk]:
    return [
        Chunk(chunk_id=text, source="s", path="p", start_byte=0, end_byte=9, text=text, tokens=1)
        for text in texts
    ]


@pytest.mark.parametrize(
    ("quotes", "before", "now", "where"),
    [
        (("environment variable",), (), ("Other.\n", f"New.\n{LINE}\nIt is two.\n"), 1),
        (("environment variable", "It is"), (), (f"{LINE}\n\nIt is one.\n",), 0),
        (("option can read",), (), (LINE,), 0),  # without a line end
        (("environment variable",), (), (f"{LINE} No longer.\n",), None),  # on an edited line
        (("environment variable",), (), (f"Not so: {LINE}\n",), None),
        (("environment variable",), (), (f"{LINE}\n", f"{LINE}\n"), None),  # twice now
        (("environment variable",), (f"{LINE}\n",), (f"{LINE}\n",), None),  # twice before
        (("environment variable", "It is"), (), (f"{LINE}\n", "It is one.\n"), None),  # apart
        (("environment  variable",), (), (f"{LINE}\n",), None),
        (("It is",), (), ("It is one.\n",), None),  # too short to be sure
        ((), (), (OLD,), None),
    ],
)
def test_words_are_followed_on_unchanged_lines_that_are_there_once(
    quotes: tuple[str, ...], before: tuple[str, ...], now: tuple[str, ...], where: int | None
) -> None:
    places = [(start, start + len(words)) for words in quotes if (start := OLD.find(words)) >= 0]
    found = chunk_with_words(OLD, places, [OLD, *before], chunks(*now))
    assert (found and found.text) == (None if where is None else now[where])
