"""Re-asks: how an invalid reply is sent back, and how items that it left out are asked for alone.

The words of a re-ask are in its key. Pydantic and instructor change theirs from version to version,
so these are our own, written from the kinds of errors and their bounds.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from freshstack_dspy.errors import FailureStatus, ReplyError

_OPENING = (
    "Your reply is not a valid answer. Answer again with the whole JSON object, corrected, and "
    "nothing else. What is wrong:"
)
_LISTED = 20
_SHOWN = 60

_NOT_JSON = (
    "it is not one JSON object: the reply must begin with { and end with its }, with no text "
    "around it and nothing cut off"
)
_KINDS = {
    "string": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "an object",
    "model": "an object",
    "model_attributes": "an object",
    "none_required": "null",
}
_ALLOWED: dict[str, Callable[[dict[str, Any]], str]] = {
    "literal_error": lambda ctx: str(ctx["expected"]),
    "enum": lambda ctx: str(ctx["expected"]),
    "too_short": lambda ctx: f"at least {_counted(ctx['min_length'], 'item')}",
    "too_long": lambda ctx: f"at most {_counted(ctx['max_length'], 'item')}",
    "string_too_short": lambda ctx: f"at least {_counted(ctx['min_length'], 'character')}",
    "string_too_long": lambda ctx: f"at most {_counted(ctx['max_length'], 'character')}",
    "string_pattern_mismatch": lambda ctx: f"a text that matches {ctx['pattern']}",
    "greater_than": lambda ctx: f"more than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"{ctx['ge']} or more",
    "less_than": lambda ctx: f"less than {ctx['lt']}",
    "less_than_equal": lambda ctx: f"{ctx['le']} or less",
}


def correction(error: ValidationError) -> str:
    """The message that sends an invalid reply back: every fault, by its place in the reply."""
    found = faults_of(error)
    left = len(found) - _LISTED
    more = [f"- and {_counted(left, 'more fault')}"] if left > 0 else []
    return "\n".join([_OPENING, *(f"- {fault}" for fault in found[:_LISTED]), *more])


def faults_of(error: ValidationError) -> list[str]:
    """Each fault of a reply on one line: where it is, what was found there, what is allowed."""
    return [_in_words(fault) for fault in error.errors(include_url=False)]


def _in_words(fault: Any) -> str:
    kind, place, ctx = fault["type"], _place(fault["loc"]), fault.get("ctx", {})
    if kind == "json_invalid":
        return _NOT_JSON
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"{place} is not a field of the schema"
    if kind == "value_error":
        return f"{place}: {ctx['error']}"
    allowed = _allowed(kind, ctx)
    rest = f"; allowed: {allowed}" if allowed else f": {fault['msg']}"
    return f"{place} is {_shown(fault['input'])}{rest}"


def _allowed(kind: str, ctx: dict[str, Any]) -> str | None:
    if kind in _ALLOWED:
        return _ALLOWED[kind](ctx)
    return _KINDS.get(kind.removesuffix("_type").removesuffix("_from_float"))


def _place(location: tuple[int | str, ...]) -> str:
    """A place in the reply, as `verdicts[0].chunk`."""
    written = ""
    for part in location:
        if isinstance(part, int):
            written += f"[{part}]"
        else:  # a name that the model made up may be anything, of any length
            written += f".{part if part.isidentifier() else json.dumps(part)}"[:_SHOWN]
    return written.removeprefix(".") or "the reply"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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
