"""The tree of errors, as it is drawn in `errors.py`."""

import inspect
import re

import pytest

from freshstack_dspy import errors

CLASSES = {
    name: value
    for name, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, BaseException)
}


def drawn() -> dict[str, str]:
    """The parent of each error in the drawing, by the error's name."""
    parents: dict[str, str] = {}
    open_branches: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^(?P<branch>[ │├└─]*)(?P<name>[A-Z]\w+Error)\s", line)
        if found is None:
            continue
        depth = len(found["branch"])
        while open_branches and open_branches[-1][0] >= depth:
            open_branches.pop()
        if open_branches:
            parents[found["name"]] = open_branches[-1][1]
        open_branches.append((depth, found["name"]))
    return parents


def test_the_drawn_tree_is_the_real_tree() -> None:
    real = {name: error.__base__.__name__ for name, error in CLASSES.items() if error.__base__}

    assert real.pop("FreshstackError") == "Exception"
    assert drawn() == real


def test_an_argument_is_named_as_whoever_reads_the_message_types_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert errors.argument("mode", "live") == "mode='live'"
    monkeypatch.setattr(errors, "options_are_typed", True)
    assert errors.argument("keep_labels") == "--keep-labels"
    assert errors.argument("mode", "live") == "--mode live"
