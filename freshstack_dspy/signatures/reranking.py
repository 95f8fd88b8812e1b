"""In which order do passages answer a question, and which of a few answers it best?"""

from functools import partial
from typing import Annotated

import dspy
from pydantic import AfterValidator, ValidationInfo

from freshstack_dspy.lm.schemas import PassageNumber
from freshstack_dspy.lm.typed import named
from freshstack_dspy.signatures.judge_support import NumberedChunk
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.signatures.reply_rules import numbers_of, raise_if

_TOKENS = 512
"""The answer to each of these questions is at most a hundred numbers."""


class RerankingInputs(dspy.Signature):
    """What rerankers are given."""

    question: ShownQuestion = dspy.InputField(desc="the question; its body is Markdown")
    passages: list[NumberedChunk] = dspy.InputField(desc="the passages, numbered")


@partial(named, tokens=_TOKENS)
class RankPassages(RerankingInputs):  # after RankGPT's permutation generation (arXiv 2304.09542)
    """Rank passages by how well they answer a question, the best first.

    Think of what the asker wants to know or to do, and how much of that someone learns who reads
    the passage alone. A passage that states the answer, or shows it in code or tests, comes before
    one that holds part of it, which comes before one that is only about the same matter; those that
    have nothing to do with the question come last. List the numbers of all passages, each once.
    """

    ranking: list[PassageNumber] = dspy.OutputField(
        desc="the numbers of all passages, the best first", min_length=1
    )


def _is_there(number: int, info: ValidationInfo) -> int:
    numbers = numbers_of(info.context, "passages")
    if numbers and number not in numbers:
        raise_if([f"there is no passage {number}; allowed: {sorted(numbers)}"])
    return number


@partial(named, tokens=_TOKENS)
class ChooseBestPassage(RerankingInputs):  # after Setwise prompting (arXiv 2310.09497)
    """Say which one of a few passages answers a question best.

    Think of what the asker wants to know or to do, and how much of that someone learns who reads
    the passage alone. A passage that states the answer, or shows it in code or tests, is better
    than one that holds part of it, and that is better than one that is only about the same matter.
    """

    best: Annotated[PassageNumber, AfterValidator(_is_there)] = dspy.OutputField(
        desc="the number of the passage that answers the question best"
    )
