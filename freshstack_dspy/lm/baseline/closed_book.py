"""The closed-book answer: what a question says, declared, in its own words."""

import re

from freshstack_dspy.lm.baseline.phrases import faults, key_phrases, names
from freshstack_dspy.lm.baseline.questions import listed, prose
from freshstack_dspy.lm.baseline.selection import most_telling

_DECLARED = tuple(
    (re.compile(pattern, re.IGNORECASE), declared)
    for pattern, declared in (
        (r"how (?:do|can|could|should|would|to) (?:(?:i|we|you|one) )?(.+)", "This is how to {}."),
        (r"(?:is|are) there (.+)", "There is {}."),
        (r"(?:can|could|should|do|must) (?:i|we|you|one) (.+)", "One can {}."),
        (r"what (?:is|are|does|do) (.+)", "This is {}."),
        (r"why (?:is|are|does|do|did|can't|doesn't|don't|won't) (.+)", "This is why {}."),
    )
)
_SENTENCES = 4
_PHRASES = 8


def closed_book_answer(question: str) -> str:
    """Declare what a question asks, with its names, key phrases and error messages.

    Args:
        question: Long Markdown with code.

    Returns:
        A paragraph to search with; empty if the question is blank.
    """
    found = prose(question)
    said = [_declared(found[place]) for place in most_telling(found, _SENTENCES)]
    if phrases := key_phrases(question, _PHRASES):
        said.append(f"It concerns {listed(phrases)}.")
    if called := names(question, _PHRASES):
        said.append(f"Its functions, classes and options are {listed(called)}.")
    said += [f"It fails with {fault}." for fault in faults(question, 2)]
    return " ".join(said)


def _declared(sentence: str) -> str:
    """A question as a statement; a statement as it is."""
    if not sentence.endswith("?"):
        return sentence
    body = sentence.rstrip("?! ")
    for pattern, declared in _DECLARED:
        if match := pattern.fullmatch(body):
            return declared.format(match[1])
    return f"{body}."
