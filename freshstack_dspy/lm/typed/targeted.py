"""Answers item by item, and the targeted re-ask for the items that a reply left out.

A reply that is valid as far as it goes is not thrown away for what it lacks: the question is asked
anew about the missing items alone. That is a request like any other, with a recorded reply of its
own, and it says nothing of the reply that came before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from freshstack_dspy.errors import FailureStatus, ReplyError

Fields = dict[str, Any]
Asking = Callable[[Fields], Fields]
"""From a question's inputs to its outputs and `call_id`."""


@dataclass(frozen=True)
class OneForEach:
    """Marks an output list, in its annotation: one item for each item of an input list."""

    given: str
    """The input list."""
    number: str
    """The field that numbers an item of the input list."""
    answered: str
    """The field of an output item with the number of the input item that it is about."""

    def left_out(self, inputs: Fields, items: Sequence[Any]) -> list[Any]:
        """The input items, as JSON has them, that no output item is about."""
        answered = {getattr(item, self.answered) for item in items}
        return [item for item in inputs.get(self.given, []) if item[self.number] not in answered]


@dataclass(frozen=True)
class ItemizedOutput:
    """An output list of a signature, and what its items are about."""

    name: str
    each: OneForEach


class IncompleteReplyError(ReplyError):
    """Valid replies came, and together they leave out some of the items that were asked about.

    Attributes:
        outputs: The outputs as far as they came, with `call_ids`, one for each item.
    """

    def __init__(
        self, message: str, *, status: FailureStatus, call_id: str | None, outputs: Fields
    ) -> None:
        super().__init__(message, status=status, call_id=call_id)
        self.outputs = outputs


def itemized_output(signature: Any) -> ItemizedOutput | None:
    """The output list of a signature that is marked with `OneForEach`, if there is one."""
    for name, field in signature.output_fields.items():
        for mark in field.metadata:
            if isinstance(mark, OneForEach):
                return ItemizedOutput(name, mark)
    return None


def answer_each(
    output: ItemizedOutput, inputs: Fields, ask: Asking, *, rounds: int, reasked: Callable[[], None]
) -> Fields:
    """Ask about all items, then, a bounded number of times, about those still left out.

    Args:
        output: The list of answers.
        inputs: The question, as JSON has it.
        ask: What asks it.
        rounds: The most targeted re-asks.
        reasked: Called before each of them.

    Returns:
        The outputs, and `call_ids`, the key of the reply that each item came from.

    Raises:
        IncompleteReplyError: Some items are still left out.
        ReplyError: The first question was not answered at all.
    """
    outputs = ask(inputs)
    items = list(outputs[output.name])
    call_ids = [outputs["call_id"]] * len(items)
    status: FailureStatus = "unparsed"
    call_id = outputs["call_id"]
    why = f"left out of {rounds + 1} replies; raise [model] reasks to ask again for them alone"
    left = output.each.left_out(inputs, items)
    for _ in range(rounds):
        if not left:
            break
        reasked()
        try:
            more = ask({**inputs, output.each.given: left})
        except ReplyError as error:
            status, call_id, why = error.status, error.call_id, str(error)
            break
        call_id = more["call_id"]
        items += more[output.name]
        call_ids += [call_id] * len(more[output.name])
        left = output.each.left_out(inputs, items)
    outputs = {**outputs, output.name: items, "call_ids": call_ids}
    if left:
        numbers = ", ".join(str(item[output.each.number]) for item in left)
        raise IncompleteReplyError(
            f"nothing is said of {output.each.given} {numbers}: {why}",
            status=status,
            call_id=call_id,
            outputs=outputs,
        )
    return outputs
