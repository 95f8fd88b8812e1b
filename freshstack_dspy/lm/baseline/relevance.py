"""How relevant a passage is to a question, and the nuggets of passages, by their words."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from freshstack_dspy.lm.baseline.nuggets import most_telling, nuggets
from freshstack_dspy.lm.baseline.questions import sub_questions
from freshstack_dspy.lm.baseline.support import support
from freshstack_dspy.text import jaccard, restates, terms

CUT_POINTS = (0.1, 0.2, 0.35)
"""The least scores of the grades 1, 2 and 3."""
_ASKED = 3
_OF_A_PASSAGE = 2
_SAME = 0.6
"""From which Jaccard index of their terms on two statements are one nugget."""


def grades(question: str, passages: Mapping[int, str]) -> list[dict[str, Any]]:
    """Grade passages, by number, by the best score of what the question asks."""
    asked = sub_questions(question, _ASKED)
    found = support("", asked, passages.values())
    said = []
    for number, one in zip(passages, found, strict=True):
        best = max(range(len(asked)), key=lambda place: one.scores[place], default=None)
        score = one.scores[best] if best is not None else 0.0
        words = ", ".join(one.matched[best][:5]) if best is not None else ""
        reason = f"Its best score is {score:.2f}, by the words: {words or 'none'}."
        grade = bisect_right(CUT_POINTS, score)
        said.append({"passage": number, "reason": reason, "grade": grade})
    return said


def updated(
    question: str, passages: Mapping[int, str], listed: Mapping[int, str], limit: int
) -> list[dict[str, Any]]:
    """Keep the listed nuggets, and add what passages tell beyond the question; all by number."""
    found: list[dict[str, Any]] = [
        {"text": text, "nuggets": [number], "passages": []} for number, text in listed.items()
    ]
    for number, text in passages.items():
        for one in nuggets(question, text, _OF_A_PASSAGE):
            said = set(terms(one["text"]))
            same = (each for each in found if jaccard(set(terms(each["text"])), said) >= _SAME)
            if (first := next(same, None)) is None:
                found.append({"text": one["text"], "nuggets": [], "passages": [number]})
            elif number not in first["passages"]:
                first["passages"].append(number)
    found = [one for one in found if not restates(one["text"], question)]
    if len(found) <= limit:
        return found
    return [found[place] for place in most_telling([one["text"] for one in found], limit)]
