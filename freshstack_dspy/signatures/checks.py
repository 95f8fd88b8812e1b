"""What the answers of several signatures share: strict items, and checks that no schema has."""

import json
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.schemas import SENTENCE
from freshstack_dspy.records import Query


class PromptPart(BaseModel):
    """A part of a question or an answer; it has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


class ShownQuestion(PromptPart):
    """A question as a model is shown it, without the fields that are empty."""

    title: str = ""
    body: str = ""
    asked: str = ""
    """The date, as 2017-05-16."""
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: Query) -> Self:
        """What a model is shown of a query; never its answer."""
        if not isinstance(query, Query):
            raise ConfigError(
                f"the query is {reprlib.repr(query)}; give a Query, as Query(query_id='1', "
                "title='…', body='…', answer='…')"
            )
        day = (query.asked_at or "")[:10]
        return cls(title=query.title, body=query.body, asked=day, tags=query.tags)

    @property
    def text(self) -> str:
        """Title and body, as `Query.text`."""
        return f"{self.title} {self.body}".strip()


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
        return tuple((name, _content(part)) for name, part in value if name not in _WORDS)
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
