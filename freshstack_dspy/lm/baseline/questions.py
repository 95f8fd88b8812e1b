"""Questions by extraction: what a question asks, and what a passage could be asked."""

import re
from collections.abc import Sequence

from freshstack_dspy.lm.baseline.markdown import Statement, blocks, statements
from freshstack_dspy.lm.baseline.nuggets import facts, is_chatter, most_telling, shortened, shown
from freshstack_dspy.lm.baseline.phrases import faults, is_common, key_phrases, names
from freshstack_dspy.text import is_alike, terms

_ASKS = re.compile(
    r"(?:how|why|what|which|where|when|who|is|are|can|could|should|does|do)\b", re.IGNORECASE
)
_LONGEST_SENTENCE = 300
_CONTEXT = 3
_FEW_TERMS = 6


def sub_questions(question: str, limit: int) -> list[str]:
    """Cut a question into what it asks, each part with its names, and its error message last."""
    found = prose(question)
    asked = [place for place, text in enumerate(found) if place == 0 or _asks(text)]
    causes = [f"What causes {fault}?" for fault in faults(question, 1)] if limit > 1 else []
    places = most_telling(found, limit - len(causes), favoured=asked)
    about = [*names(question, _CONTEXT), *key_phrases(question, _CONTEXT)]
    parts = [_standalone(found[place], about) for place in places]
    return list(dict.fromkeys([*parts, *causes]))


def queries(
    passages: Sequence[str], style_examples: Sequence[str], limit: int
) -> list[dict[str, str]]:
    """Turn the most telling statements of passages into at most `limit` questions with answers."""
    marked = sum(example.rstrip().endswith("?") for example in style_examples)
    bare = 2 * marked < len(style_examples)
    answers: dict[str, str] = {}
    for together in zip(*(_telling(passage, limit) for passage in passages), strict=False):
        ask = _ask_for(together[0]) if len(together) == 1 else _ask_for_all(together)
        answer = "\n\n".join(map(shown, together))
        answers.setdefault(ask.rstrip("?") if bare else ask, answer)
    return [{"question": ask, "answer": answer} for ask, answer in answers.items()]


def report_request(report: str) -> str:
    """The request for a report on its names and key phrases; empty if it has no text."""
    about = [*names(report, _CONTEXT), *key_phrases(report, _PHRASES)] or prose(report)[:1]
    return f"Write a report about {listed(list(dict.fromkeys(about)))}." if about else ""


def report_questions(report: str, count: int) -> list[str]:
    """`count` different questions on a report's statements and key phrases, or none."""
    asks = [*map(_ask_for, _telling(report, count))]
    asks += [f"What is {phrase}?" for phrase in key_phrases(report, 4 * count)]
    found: dict[str, set[str]] = {}
    for ask in asks:
        asked = set(terms(ask))
        if not is_alike(asked, found.values()):
            found[ask] = asked
    return list(found)[:count] if len(found) >= count else []


def prose(text: str) -> list[str]:
    """The different sentences of a text outside its code, without greetings and thanks.

    Of a text that is all code its statements.
    """
    found = [
        shortened(statement.text, _LONGEST_SENTENCE)
        for block in blocks(text)
        if block.kind != "code"
        for statement in statements(block)
        if not is_chatter(statement.text)
    ]
    return list(dict.fromkeys(found)) or [fact.text for fact in facts(text)]


def listed(texts: Sequence[str]) -> str:
    """Texts as English lists them: `a, b and c`."""
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def _asks(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_ASKS.match(sentence))


def _standalone(sentence: str, about: Sequence[str]) -> str:
    """A sentence as a question that names what it is about."""
    ask = sentence if _asks(sentence) else _about(key_phrases(sentence, _CONTEXT) or [sentence])
    missing = [name for name in about if name.lower() not in sentence.lower()][:_CONTEXT]
    telling = sum(not is_common(term) for term in terms(sentence))
    return f"{ask} ({', '.join(missing)})" if missing and telling < _FEW_TERMS else ask


def _telling(passage: str, limit: int) -> list[Statement]:
    """The most telling statements of a passage, in its order."""
    found = facts(passage)
    return [found[place] for place in most_telling([fact.text for fact in found], limit)]


def _ask_for_all(together: Sequence[Statement]) -> str:
    """A question that names what each of several statements is about."""
    subjects = [
        next(iter([*names(fact.text, 1), *key_phrases(fact.text, 1)]), shown(fact))
        for fact in together
    ]
    return f"How do {listed(list(dict.fromkeys(subjects)))} work together?"


def _ask_for(fact: Statement) -> str:
    if fact.is_code:
        return f"How does one use {listed(names(fact.text, _CONTEXT) or [shown(fact)])}?"
    return _about(
        [*names(fact.text, 2), *key_phrases(fact.text, _CONTEXT)][:_CONTEXT] or [fact.text]
    )


def _about(subjects: Sequence[str]) -> str:
    return f"What should one know about {listed(subjects)}?"


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
    """Declare what a question asks, with its names, key phrases and error messages."""
    found = prose(question)
    declared = [_declared(found[place]) for place in most_telling(found, _SENTENCES)]
    if phrases := key_phrases(question, _PHRASES):
        declared.append(f"It concerns {listed(phrases)}.")
    if called := names(question, _PHRASES):
        declared.append(f"Its functions, classes and options are {listed(called)}.")
    return " ".join([*declared, *(f"It fails with {fault}." for fault in faults(question, 2))])


def _declared(sentence: str) -> str:
    """A question as a statement; a statement as it is."""
    if not sentence.endswith("?"):
        return sentence
    body = sentence.rstrip("?! ")
    for pattern, declared in _DECLARED:
        if match := pattern.fullmatch(body):
            return declared.format(match[1])
    return f"{body}."
