"""What is wrong with the description of a leaderboard, in its own words rather than Pydantic's."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from freshstack_dspy.collection.leaderboard.quoting import quoted

_LINE = "one line of 1 to 200 printable characters, with no space around it"
_PATH = "a path of 1 to 500 characters, relative to the leaderboard"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_KEYS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "board": {
            "name": _LINE,
            "measures": 'an array of one measure or more, as ["alpha_nDCG@10"]',
            "collections": "one table or more, [collections.TOPIC]",
            "entries": "one table or more, [[entries]]",
        },
        "collection": {"path": _PATH, "content_hash": "64 digits, 0 to 9 and a to f"},
        "entry": {
            "name": _LINE,
            "size": f"{_LINE}, as 9B",
            "type": "open_source, proprietary or upper_baseline",
            "date": "a date that exists, as 2026-01-31",
            "link": "an http or https address of at most 1,000 printable characters, or empty",
            "runs": 'a table with a run file for one topic or more, { TOPIC = "runs/mine.run" }',
        },
    }
)
"""What is allowed for each key, by the table it stands in."""
_ITEMS = MappingProxyType(
    {
        "runs": f"{_PATH}, of a run file",
        "measures": "the name of a measure, of at most 200 characters",
    }
)


def board_fault(error: ValidationError, values: Any) -> str:
    """Say the first fault of a description: where, what was found and what is allowed.

    Args:
        error: What validation raised.
        values: What was validated, for the names of the entries.
    """
    fault = error.errors(include_url=False)[0]
    place: list[int | str] = list(fault["loc"])
    if not place:
        return _message(fault)
    if place[0] == "entries" and len(place) > 1:
        return f"{_entry(values, place[1])}: {_said(fault, place[2:], 'entry')}"
    if place[0] == "collections" and len(place) > 1:
        return f"collections.{_key(place[1])}: {_said(fault, place[2:], 'collection')}"
    return _said(fault, place, "board")


def entry_fault(error: ValidationError) -> str:
    """Say the first fault of what is told of one entry."""
    fault = error.errors(include_url=False)[0]
    return _said(fault, list(fault["loc"]), "entry")


def _said(fault: Any, place: list[int | str], table: str) -> str:
    """Say a fault at a place that is relative to a table."""
    keys = _KEYS[table]
    if not place:
        return f"it is {quoted(fault['input'])}; allowed: a table with {', '.join(keys)}"
    if fault["type"] == "extra_forbidden":
        return f"unknown key {quoted(place[-1])}; allowed here: {', '.join(keys)}"
    named = ".".join(map(_key, place))
    if fault["type"] == "missing":
        return f"{named} is missing; allowed: {keys[str(place[0])]}"
    allowed = _ITEMS[str(place[0])] if len(place) > 1 else keys[str(place[0])]
    return f"{named} is {quoted(fault['input'])}; allowed: {allowed}"


def _entry(values: Any, number: int | str) -> str:
    """Name an entry, or tell which it is where it has no name."""
    try:
        name = values["entries"][number]["name"]
    except (KeyError, IndexError, TypeError):
        name = None
    if isinstance(name, str) and name:
        return f"entry {quoted(name)}"
    return f"entry {int(number) + 1} of {len(values['entries'])}"


def _key(part: int | str) -> str:
    return str(part) if _WORD.fullmatch(str(part)) else quoted(part)


def _message(fault: Any) -> str:
    if fault["type"] == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    return f"it is {quoted(fault['input'])}; allowed: a table"
