"""A step of which only failures came: it is no reason to replace a collection."""

from collections.abc import Sequence

from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.recipes.freshstack import Nuggetized
from freshstack_dspy.recipes.judging.judge_calls import ToJudge
from freshstack_dspy.recipes.judging.judging import Judged


def check_no_nuggets(nuggets: Sequence[Nuggetized]) -> None:
    """Stop where no answer could be nuggetized.

    Args:
        nuggets: What came of each answer.

    Raises:
        FatalModelError: Says what the first failure was.
    """
    if not nuggets or any(each.nuggets for each in nuggets):
        return
    first = nuggets[0].failure
    raise FatalModelError(
        f"no nuggets came of any of the {len(nuggets)} answers, so nothing was written; "
        f"the first: {first.message if first is not None else 'there were none'}"
    )


def check_no_labels(asked: Sequence[ToJudge], judged: Judged) -> None:
    """Stop where no pair that was asked about has a label.

    Where some were put off it is not known yet.

    Args:
        asked: What was to be judged.
        judged: What came of it.

    Raises:
        FatalModelError: Says what the first failure was.
    """
    pairs = sum(len(one.nuggets) * len(one.chunks) for one in asked)
    without = sum(judgment.label is None for judgment in judged.judgments)
    if not pairs or without < pairs or not judged.failures:
        return
    raise FatalModelError(
        f"no label came of any of the {pairs} pairs of nugget and chunk, so nothing was written; "
        f"the first: {judged.failures[0].message}"
    )
