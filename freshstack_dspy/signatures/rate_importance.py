"""Which nuggets must a good answer hold, and which are good to have?"""

from typing import Annotated

import dspy
from pydantic import AfterValidator, Field, ValidationInfo

from freshstack_dspy.records import Importance
from freshstack_dspy.signatures.checks import Item, number_faults, numbers_of, raise_if
from freshstack_dspy.signatures.judge_support import NumberedNugget


class RatedNugget(Item):
    """How important one nugget is."""

    nugget: int = Field(description="the number of the nugget")
    importance: Importance


def _each_exactly_once(ratings: list[RatedNugget], info: ValidationInfo) -> list[RatedNugget]:
    if numbers := numbers_of(info.context, "nuggets"):
        rated = [rating.nugget for rating in ratings]
        faults = number_faults("nugget", "rating", rated, numbers)
        if left_out := sorted(numbers - set(rated)):
            faults.append(f"no rating for nugget {left_out}")
        raise_if(faults)
    return ratings


class RateImportance(dspy.Signature):
    """Rate how important each nugget is to a good answer to the question.

    A nugget is a fact that an answer may hold. It is `vital` if an answer without it would not
    answer the question: what solves the problem, or explains it. It is `okay` if it is true and
    worth knowing, but an answer without it could still be a good one: background, alternatives,
    details, cautions. Rate every nugget exactly once, by its number.
    """

    question: str = dspy.InputField(desc="the question that the nuggets belong to, as Markdown")
    nuggets: list[NumberedNugget] = dspy.InputField(desc="the nuggets, numbered")
    ratings: Annotated[list[RatedNugget], AfterValidator(_each_exactly_once)] = dspy.OutputField(
        desc="one rating for each nugget", min_length=1
    )
