"""Does an answer agree with one from the gold chunks? By a model or by its words."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from freshstack_dspy.answering.scores import Combination
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.programs.answers import AnswerComparer
from freshstack_dspy.programs.own import program_in_place_of
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    Query,
    StepName,
)
from freshstack_dspy.registry import Registry

COMPARERS = {
    "yes_no": 1.0,
    "graded": 2.0,
    "exact_match": 1.0,
    "token_f1": 0.5,
}
"""The comparers of answers (§2.2), and the default score from which on two answers agree. A model
says yes (1) or no (0), or gives a grade from 0 to 3; the other scores are from 0 to 1."""
OTHER_COMPARERS = Registry("freshstack_dspy.comparers", "comparer", {})
"""Comparers of other packages: functions from a gold answer and an answer to a number from 0 to 1."""
_HIGHEST = {"graded": 3.0}
YES_OR_NO = {"yes_no": COMPARERS["yes_no"]}
Comparer = Callable[[Query, Sequence[str], str], Mapping[str, Any]]
"""From a query, its gold answers and an answer to `score`, `reason` and perhaps `call_id`."""


# Similarities of two answers by their words; each is from 0 to 1 and symmetric.

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_words(text: str) -> list[str]:
    """Split into lower-case words without punctuation and articles, like SQuAD's evaluation."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def exact_match(first: str, second: str) -> float:
    """Give 1 if the words are the same, else 0 (SQuAD, arXiv 1606.05250)."""
    return float(answer_words(first) == answer_words(second))


def token_f1(first: str, second: str) -> float:
    """Compute 2 * shared words / (words of first + words of second), like SQuAD."""
    words, others = Counter(answer_words(first)), Counter(answer_words(second))
    if not words or not others:
        return float(words == others)
    return 2 * (words & others).total() / (words.total() + others.total())


SIMILARITIES: dict[str, Callable[[str, str], float]] = {
    "exact_match": exact_match,
    "token_f1": token_f1,
}
"""The similarities by name of the comparer."""


class RecordAndFailure(NamedTuple):
    """An answer or an agreement; with a failure, the record has no content."""

    record: Any
    failure: AnsweringFailure | None = None


def agree(
    session: Session,
    comparers: Mapping[str, float],
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    golds: Mapping[str, Sequence[Answer]],
    *,
    combine: Combination = "first",
    gold_per_call: int | None = None,
    step: StepName = "comparison",
) -> tuple[list[Agreement], list[AnsweringFailure]]:
    """Compare every answer with the gold answers, by every comparer, and combine the verdicts."""
    columns: list[list[Agreement]] = []
    failures: list[AnsweringFailure] = []
    for name, threshold in comparers.items():
        ask = partial(_compared, _comparer(session, name), name, threshold, queries, step)
        asks_model = name in ("yes_no", "graded")
        size = gold_per_call if asks_model else None
        calls = [call for each in answers for call in _calls(each, golds[each.topic_id], size)]
        outcomes = session.each(step, ask, calls) if asks_model else [*map(ask, calls)]
        failures += [outcome.failure for outcome in outcomes if outcome.failure is not None]
        records: Iterable[Agreement] = (outcome.record for outcome in outcomes)
        columns.append(
            [
                max(of_answer, key=_nearest)
                for _, of_answer in groupby(records, lambda each: (each.run_id, each.query_id))
            ]
        )
    # Deferred ones are missing from a column.
    verdicts = [_combined(each, combine) for each in zip(*columns, strict=False)]
    return verdicts, failures


class _Call(NamedTuple):
    """An answer, all gold answers to its query, and the texts of those that it is compared with."""

    answer: Answer
    gold: Sequence[Answer]
    references: Sequence[str]


def _calls(answer: Answer, gold: Sequence[Answer], size: int | None) -> list[_Call]:
    """Give what is compared in each call: all gold answers at once, or at most `size` of them."""
    references = [gold_answer.text for gold_answer in gold if gold_answer.is_answered]
    if size is None or _known(answer, references, None):
        return [_Call(answer, gold, references)]
    starts = range(0, len(references), size)
    return [_Call(answer, gold, references[start : start + size]) for start in starts]


def _nearest(agreement: Agreement) -> tuple[int, float]:
    """Rank the verdicts of one comparer: agreeing with any gold answer is enough."""
    rank = {True: 2, None: 1, False: 0}[agreement.agrees]
    return rank, max(agreement.scores.values(), default=0.0)


def _combined(verdicts: Sequence[Agreement], combine: Combination) -> Agreement:
    """Combine the verdicts of all comparers; what a failed one would have decided has none."""
    scores = {name: score for verdict in verdicts for name, score in verdict.scores.items()}
    if combine == "first":
        return verdicts[0].model_copy(update={"scores": scores})
    counts = Counter(verdict.agrees for verdict in verdicts)
    needed = {"any": 1, "majority": len(verdicts) // 2 + 1, "all": len(verdicts)}[combine]
    possible = counts[True] + counts[None] >= needed
    agrees = None if possible and counts[True] < needed else possible
    decisive = next(verdict for verdict in verdicts if verdict.agrees is agrees)
    call_id = next((verdict.call_id for verdict in verdicts if verdict.call_id), None)
    reason = f"{counts[True]} of {len(verdicts)} comparers agree; {decisive.reason}"
    return decisive.model_copy(update={"scores": scores, "reason": reason, "call_id": call_id})


def comparer_names() -> tuple[str, ...]:
    """Name the comparers of answers: ours, and those of installed packages."""
    return (*COMPARERS, *OTHER_COMPARERS.names())


def check_comparers(comparers: Iterable[str]) -> None:
    """Check that all comparers exist, before any request is made."""
    for name in comparers:
        if name not in COMPARERS and name not in (allowed := comparer_names()):
            raise ConfigError(f"no comparer {name!r}; allowed: {', '.join(allowed)}")


def answer_comparer(session: Session, name: str) -> Any:
    """Give the comparer `yes_no` or `graded`; the user's own program can replace `yes_no`."""
    plain = AnswerComparer(graded=name == "graded")
    return own_or(session, plain, "comparer") if name == "yes_no" else plain


def own_or(session: Session, plain: Any, name: str) -> Any:
    """Give the user's own program of a name, or ours."""
    if (own := session.programs.get(name)) is None:
        return plain
    return session.recorded(program_in_place_of(plain, own, name, session.config.file.parent))


def _comparer(session: Session, name: str) -> Comparer:
    if name in ("yes_no", "graded"):
        program = answer_comparer(session, name)
        return lambda query, references, answer: program(query, references, answer).toDict()
    similarity = SIMILARITIES.get(name) or OTHER_COMPARERS.get(name)

    def compare(_: Query, references: Sequence[str], answer: str) -> Mapping[str, Any]:
        score = max(similarity(reference, answer) for reference in references)
        return {"score": score, "reason": f"{name} with the nearest gold answer: {score:.3f}"}

    return compare


def _compared(
    compare: Comparer,
    name: str,
    threshold: float,
    queries: Mapping[str, Query],
    step: StepName,
    call: _Call,
) -> RecordAndFailure:
    """Tell whether an answer agrees with a gold one; the comparer is asked only if needed."""
    answer, gold, references = call
    query = queries[answer.topic_id]
    failed = next((gold_answer for gold_answer in gold if gold_answer.status != "ok"), None)
    verdict, failure = _known(answer, references, failed), None
    if not verdict:
        try:
            reply = compare(query, references, answer.text)
            agrees = reply["score"] >= threshold
            verdict = {"agrees": agrees, "reason": reply["reason"], "call_id": reply.get("call_id")}
            if failed is None or agrees:
                verdict["scores"] = {name: reply["score"]}
            else:
                reason = "it agrees with no gold answer, and one of them failed"
                verdict |= {"agrees": None, "status": failed.status, "reason": reason}
        except ReplyError as error:
            verdict = {"status": error.status, "reason": str(error), "call_id": error.call_id}
            failure = AnsweringFailure.of(answer, step, error)
    elif "agrees" in verdict:
        verdict["scores"] = {name: verdict["agrees"] * _HIGHEST.get(name, 1.0)}
    agreement = Agreement(
        run_id=answer.run_id,
        query_id=query.query_id,
        answer_call_id=answer.call_id,
        gold_call_ids=tuple(
            gold_answer.call_id for gold_answer in gold if gold_answer.call_id is not None
        ),
        **{"agrees": None, "status": "ok", "call_id": None, **verdict},
    )
    return RecordAndFailure(agreement, failure)


def _known(answer: Answer, references: Sequence[str], failed: Answer | None) -> dict[str, Any]:
    """Give what is known of an agreement without a comparer; empty if the comparer is needed."""
    if answer.status not in ("ok", "not_retrieved"):
        reason = "the answer failed"
        return {"status": answer.status, "reason": reason}
    if not references and failed is not None:
        return {"status": failed.status, "reason": "the answer from the gold context failed"}
    if not references:
        reason = "the generator found no answer in the gold context"
        return {"status": "no_gold_answer", "reason": reason}
    if answer.status == "not_retrieved":
        reason = "there is nothing for the query, so nothing was asked"
        return {"status": "not_retrieved", "reason": reason}
    if not answer.is_answered:
        reason = "there is no answer"
        return {"agrees": False, "reason": reason}
    return {"agrees": True, "reason": "the same text"} if answer.text in references else {}
