"""Rules for replies that no schema states, and that several signatures share.

A reply that answers for a chunk or nugget twice, or for one that it was not given, is sent back to
the model (`each_once`); an item that only repeats another, in whatever words, is dropped (`DISTINCT`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo

from freshstack_dspy.lm.schemas import SENTENCE


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is blank")
    return text


FilledText = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""One that is not blank, which no JSON schema says; a blank one is sent back to the model."""

Sentence = Annotated[FilledText, SENTENCE]
"""One of a few lines at most, as the schema of a call says."""

Items = TypeVar("Items", bound=Sequence[Any])


def distinct(items: list[Any]) -> list[Any]:
    """Leave out items that only repeat an earlier one, whatever words they give for it."""
    first: dict[Any, Any] = {}
    for item in items:
        first.setdefault(_content(item), item)
    return list(first.values())


_WORDS = ("reason", "quote", "quotes")


def _content(value: Any) -> Any:
    """What an item of an answer decides, apart from the words that explain it."""
    if isinstance(value, BaseModel):
        parts = vars(value).items()
        return tuple([(name, _content(part)) for name, part in parts if name not in _WORDS])
    if isinstance(value, list):
        return frozenset(map(_content, value))
    return " ".join(value.lower().split()) if isinstance(value, str) else value


DISTINCT = AfterValidator(distinct)
"""An answer's list is a set: repeating an item is no fault, contradicting it is."""


def within_limit(what: str, counted: Callable[[Any], bool] = lambda _: True) -> AfterValidator:
    """Check that no more items are `counted` than the input field `limit` allows."""

    def check(items: Items, info: ValidationInfo) -> Items:
        limit = (info.context or {}).get("limit")
        number = sum(map(counted, items))
        if limit is not None and number > limit:
            raise ValueError(f"at most {limit} {what} are allowed, and there are {number}")
        return items

    return AfterValidator(check)


def numbers_of(inputs: Mapping[str, Any] | None, name: str) -> set[int]:
    """The numbers of the nuggets or chunks of a question; none where the question is not known."""
    return {item["number"] for item in (inputs or {}).get(name, [])}


def each_once(
    item: str, about: str, faults_of: Callable[[Any, Any], list[str]] = lambda _item, _inputs: []
) -> AfterValidator:
    """Check that each `item` of a list is about something that is given, and no two about the same.

    What is left out is no fault: it is asked about again by itself.

    Args:
        item: What an item is called, as `verdict`.
        about: The field that numbers what it is about, as `chunk`; the input is `chunks`.
        faults_of: What else is wrong with an item, from it and the inputs.
    """

    def check(items: list[Any], info: ValidationInfo) -> list[Any]:
        inputs = info.context or {}
        if numbers := numbers_of(inputs, f"{about}s"):
            counts = Counter(getattr(each, about) for each in items)
            faults = []
            if unknown := sorted(counts.keys() - numbers):
                faults.append(f"there is no {about} {unknown}")
            if repeated := sorted(number for number, count in counts.items() if count > 1):
                faults.append(f"more than one {item} for {about} {repeated}")
            for each in items:
                named = f"{about} {getattr(each, about)}"
                faults += [f"{named} {fault}" for fault in faults_of(each, inputs)]
            raise_if(faults)
        return items

    return AfterValidator(check)


def _whole_number(grade: Any) -> Any:
    """`true` and `1.0` equal 1, which is all that a `Literal` asks, strict or not."""
    if type(grade) is not int:
        raise ValueError(f"a grade is a whole number, not {grade!r}")
    return grade


WHOLE = BeforeValidator(_whole_number)


def raise_if(faults: Iterable[str]) -> None:
    """Tell the model all that is wrong at once."""
    if message := "; ".join(faults):
        raise ValueError(message)


_SHOWN = 120


def quoted(text: str) -> str:
    """A text in a message: its beginning, in quotation marks."""
    return json.dumps(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", ensure_ascii=False)
