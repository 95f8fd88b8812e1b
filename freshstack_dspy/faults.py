"""The faults of a configuration in one line: by key, with what was found and what is allowed."""

import difflib
import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

Location = tuple[int | str, ...]
_WORD = re.compile(r"[\w-]+")


def in_one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """Every fault that Pydantic found; a secret is never shown, nor a table, which may hold one."""
    faults = error.errors(include_url=False)
    # An array whose only items are at fault is also reported as too short.
    reported = {fault["loc"][:length] for fault in faults for length in range(len(fault["loc"]))}
    return "; ".join(
        _in_words(fault, model)
        for fault in faults
        if not (fault["type"] == "too_short" and fault["loc"] in reported)
    )


def first_fault(error: ValidationError) -> str:
    """Say the first fault of a record or a reply: its place and what is wrong, not what is there."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(_place(part) for part in fault["loc"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def _place(part: int | str) -> str:
    """One part of a place; a file of others may have put anything there."""
    return str(part) if _WORD.fullmatch(str(part)) and len(str(part)) <= 60 else reprlib.repr(part)


def _in_words(fault: Any, model: type[BaseModel]) -> str:
    location: Location = fault["loc"]
    key = _key(location)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        fields = _table_at(location[:-1], model).model_fields
        # Those that are not printed hold what only Python can give.
        allowed = sorted(name for name, field in fields.items() if field.repr)
        near = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    if fault["type"] == "missing":
        return f"{key} is missing"
    if fault["type"] == "value_error":
        return f"{key}: {message}"
    return f"{key} is {_shown(location, fault['input'])}: {message[:1].lower()}{message[1:]}"


def _key(location: Location) -> str:
    """Write a place in the file as `corpus[0].name`; a key that is no plain word is quoted."""
    written = ""
    for part in location:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            written += f".{part if _WORD.fullmatch(part) else repr(part)}"
    return written.removeprefix(".") or "the file"


def _shown(location: Location, value: Any) -> str:
    if location[-1:] == ("api_key",):
        return "a value that is not shown"
    if isinstance(value, dict):
        return "a table"
    return f"an array of {len(value)}" if isinstance(value, list) else reprlib.repr(value)


def _table_at(location: Location, model: type[BaseModel]) -> type[BaseModel]:
    """The model of the table at a place."""
    names = iter([part for part in location if isinstance(part, str)])
    for name in names:
        annotation = model.model_fields[name].annotation
        model = next(_models(annotation))
        if get_origin(annotation) in (dict, Mapping):
            next(names, None)  # a key of the file's own
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field takes."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _models(each)
