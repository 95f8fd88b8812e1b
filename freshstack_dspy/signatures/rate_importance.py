"""Which nuggets must a good answer hold, and which are good to have?"""

from collections import Counter
from typing import Annotated, Any

import dspy
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from freshstack_dspy.records import Importance


class RatedNugget(BaseModel):
    """How important one nugget is."""

    model_config = ConfigDict(extra="forbid")

    nugget: int = Field(description="the number of the nugget")
    importance: Importance


class NuggetToRate(BaseModel):
    """A nugget as the rater sees it."""

    model_config = ConfigDict(extra="forbid")

    number: int
    text: str


def _each_exactly_once(ratings: list[RatedNugget], info: ValidationInfo) -> list[RatedNugget]:
    given: list[Any] = (info.context or {}).get("nuggets", [])
    numbers = {nugget["number"] for nugget in given}
    if not numbers:
        return ratings
    rated = Counter(rating.nugget for rating in ratings)
    faults = []
    if unknown := sorted(rated.keys() - numbers):
        faults.append(f"there is no nugget {unknown}")
    if repeated := sorted(number for number, count in rated.items() if count > 1):
        faults.append(f"more than one rating for nugget {repeated}")
    if left_out := sorted(numbers - rated.keys()):
        faults.append(f"no rating for nugget {left_out}")
    if faults:
        raise ValueError("; ".join(faults))
    return ratings


class RateImportance(dspy.Signature):
    """Rate how important each nugget is to a good answer to the question.

    A nugget is a fact that an answer may hold. It is `vital` if an answer without it would not
    answer the question: what solves the problem, or explains it. It is `okay` if it is true and
    worth knowing, but an answer without it could still be a good one: background, alternatives,
    details, cautions. Rate every nugget exactly once, by its number.
    """

    question: str = dspy.InputField(desc="the question that the nuggets belong to, as Markdown")
    nuggets: list[NuggetToRate] = dspy.InputField(desc="the nuggets, numbered")
    ratings: Annotated[list[RatedNugget], AfterValidator(_each_exactly_once)] = dspy.OutputField(
        desc="one rating for each nugget", min_length=1
    )
