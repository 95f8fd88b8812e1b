"""Dictionaries of labels and scores that others hand in, checked before they are believed."""

from collections.abc import Mapping
from typing import Any

from freshstack_dspy.errors import CollectionError


def checked_keys(where: str, given: object, form: str) -> Mapping[str, Any]:
    """Check that something is a dictionary whose keys are ids.

    Args:
        where: What it is, as a message begins.
        given: It.
        form: What is expected as a whole, as a message ends.

    Raises:
        CollectionError: It is none, or an id is not a text.
    """
    if not isinstance(given, Mapping):
        raise CollectionError(
            f"{where}: a {type(given).__name__}, {given!r:.80}, and not a dictionary; "
            f"they are {form}"
        )
    for key in given:
        if not isinstance(key, str):
            raise CollectionError(
                f"{where}: an id is a text, as '1', not {key!r:.80}; type str(id)"
            )
    return given
