"""The importance of nuggets by extraction: what names something that the question names is vital."""

from collections.abc import Sequence
from typing import Literal

from freshstack_dspy.lm.baseline.rarity import is_common
from freshstack_dspy.terms import terms


def importance(question: str, nuggets: Sequence[str]) -> list[Literal["vital", "okay"]]:
    """Rate nuggets.

    A nugget is vital if at least one of its telling terms, those on no list of common words, is
    also one of the question; it is then about what was asked. The others are okay. If none is
    about what was asked, nothing tells them apart, and all are vital.

    Args:
        question: Whose nuggets they are, as Markdown.
        nuggets: Their texts.

    Returns:
        One rating for each nugget, in the order given.
    """
    asked = {term for term in terms(question) if not is_common(term)}
    vital = [not asked.isdisjoint(terms(nugget)) for nugget in nuggets]
    return ["vital" if about_it or not any(vital) else "okay" for about_it in vital]
