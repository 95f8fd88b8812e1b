"""Checks of answers that no JSON schema says; the model is told what is wrong."""

import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo

_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and a Braille pattern by their category, and yet nothing is drawn for them."""


def has_visible(text: str) -> bool:
    """Tell whether a text has a letter, number, mark of punctuation or symbol in it.

    Separators, control and format characters (as the zero-width space), and combining marks
    without a letter are nothing that could be read; nor are characters of private use.
    """
    return any(
        unicodedata.category(letter)[0] in "LNPS" and letter not in _FILLERS for letter in text
    )


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is blank")
    return text


def _visible(text: str) -> str:
    if not has_visible(text):
        raise ValueError("the text is blank")
    return text


FilledText = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""One that is not blank, which no JSON schema says; the model is told when it happens."""

VisibleText = Annotated[str, Field(min_length=1), AfterValidator(_visible)]
"""One that has something to be read in it: two answers of nothing visible would be the same."""

Items = TypeVar("Items", bound=Sequence[Any])


def within_limit(what: str) -> AfterValidator:
    """Check that there are no more items than the input field `limit` allows."""

    def count(items: Items, info: ValidationInfo) -> Items:
        limit = (info.context or {}).get("limit")
        if limit is not None and len(items) > limit:
            raise ValueError(f"at most {limit} {what} are allowed, and there are {len(items)}")
        return items

    return AfterValidator(count)
