"""Which answers are compared, and what is plain of them without asking."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.programs.answer_comparer import AnswerComparer, comparer_inputs
from freshstack_dspy.recipes.judging.window import Window
from freshstack_dspy.records import Agreement, AgreementStatus, Answer, AnsweringFailure, Query


class ToCompare(NamedTuple):
    """An answer from a run's context, and those from the gold context."""

    query: Query
    answer: Answer
    gold: Sequence[Answer]
    unfit: str | None = None
    """Why they cannot be compared: they do not fit into the model's window."""

    @property
    def references(self) -> list[str]:
        """The texts of the gold answers that there are."""
        return [gold.text for gold in self.gold if gold.is_answered]

    @property
    def failed(self) -> Answer | None:
        """The first gold answer that failed."""
        return next((gold for gold in self.gold if gold.status != "ok"), None)

    @property
    def inputs(self) -> dict[str, Any]:
        """What the comparer is asked."""
        return comparer_inputs(self.query, self.references, self.answer.text)


def to_compare(
    model: ModelConfig,
    answers: Sequence[Answer],
    golds: Iterable[Answer],
    queries: Mapping[str, Query],
) -> list[ToCompare]:
    """Put every answer from a run's context beside all gold answers to its query.

    Args:
        model: With its window.
        answers: From runs.
        golds: From gold contexts.
        queries: By id.

    Raises:
        ConfigError: The longest reply leaves no room for a prompt.
    """
    window = Window(model, AnswerComparer().predict)
    of_query: dict[str, list[Answer]] = {}
    for gold in golds:
        of_query.setdefault(gold.topic_id, []).append(gold)
    asked = [
        ToCompare(queries[one.topic_id], one, of_query.get(one.topic_id, [])) for one in answers
    ]
    return [one._replace(unfit=_unfit(window, one)) for one in asked]


def settled(asked: ToCompare) -> Agreement | None:
    """What needs no comparer: an answer or a gold answer is not there, or both are the same text.

    Returns:
        None where the comparer has to be asked.
    """
    if open_ := _undecidable(asked):
        status, reason = open_
        return agreement(asked, status=status, reason=reason)
    if not asked.answer.is_answered:
        return agreement(
            asked, agrees=False, reason="the generator found no answer in the retrieved context"
        )
    if asked.answer.text in asked.references:
        return agreement(asked, agrees=True, reason="the same text")
    return None


def _undecidable(asked: ToCompare) -> tuple[AgreementStatus, str] | None:
    """Why an answer cannot be compared, whatever a comparer would say."""
    if not asked.gold:
        return "no_gold_context", "no chunk supports a nugget of the query"
    if asked.answer.status not in ("ok", "not_retrieved"):
        return failed_status(asked.answer), "the answer from the retrieved context failed"
    if not asked.references:
        if asked.failed is not None:
            return failed_status(asked.failed), "the answer from the gold context failed"
        return "no_gold_answer", "the generator found no answer in the gold context"
    if asked.answer.status == "not_retrieved":
        return "not_retrieved", "the run has nothing for the query, and nobody was asked"
    return None


def agreement(
    asked: ToCompare,
    *,
    reason: str,
    agrees: bool | None = None,
    status: AgreementStatus = "ok",
    call_id: str | None = None,
) -> Agreement:
    """Write down what was found of two answers, with the replies that they came from."""
    return Agreement(
        run_id=asked.answer.run_id,
        query_id=asked.query.query_id,
        agrees=agrees,
        status=status,
        reason=reason,
        call_id=call_id,
        answer_call_id=asked.answer.call_id,
        gold_call_ids=tuple(gold.call_id for gold in asked.gold if gold.call_id is not None),
    )


def verdict(asked: ToCompare, found: Agreement | AnsweringFailure) -> Agreement:
    """What was found, or the record that nobody could say."""
    if isinstance(found, Agreement):
        return found
    return agreement(asked, status=found.status, reason=found.message, call_id=found.call_id)


def failed_status(answer: Answer) -> AgreementStatus:
    """Why an answer failed."""
    assert answer.status != "ok"
    return answer.status


def _unfit(window: Window, asked: ToCompare) -> str | None:
    room = window.room_beside(asked.inputs)
    if room is None or room >= 0:
        return None
    return (
        f"the question with an answer and {len(asked.gold)} gold answers does not fit into the "
        "model's window: take a model with a larger one, or lower [model] max_tokens"
    )
