"""The cap that a prompt names, held to exactly."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar
from pydantic import AfterValidator
from pydantic import ValidationInfo

Items = TypeVar("Items", bound=Sequence[Any])


def within_limit(what: str) -> AfterValidator:
    """Refuse more items than the input field `limit` allows, saying so to the model."""
    return AfterValidator(_counter(what))


def _counter(what: str) -> Callable[[Items, ValidationInfo], Items]:
    def count(items: Items, info: ValidationInfo) -> Items:
        limit = (info.context or {}).get("limit")
        if limit is not None and len(items) > limit:
            raise ValueError(f"at most {limit} {what} are allowed, and there are {len(items)}")
        return items

    return count
