"""Re-asks: how often and in which words to send invalid replies back or ask for left-out items.

The conversation itself, for one answer, is in `typed`.

The words of a re-ask are in its key. Pydantic and instructor change theirs from version to version,
so these are our own, written from the kinds of errors and their bounds.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import DeferredError, FailureStatus, ReplyError, TooLongError
from freshstack_dspy.lm.schemas import Bound

Fields = dict[str, Any]

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
    "none_required": "null",
}
_BOUNDS = {
    "expected": "{}",
    "min_length": "at least {}",
    "max_length": "at most {}",
    "pattern": "a text that matches {}",
    "gt": "more than {}",
    "ge": "{} or more",
    "lt": "less than {}",
    "le": "{} or less",
}


def reasks_of(lm: Any) -> int:
    """How often an invalid reply is sent back: as `[model] reasks` says, or by its default."""
    reasks: int = getattr(lm, "reasks", ModelConfig.model_fields["reasks"].default)
    return reasks


def correction(error: ValidationError) -> str:
    """The message that sends an invalid reply back: every fault, by its place in the reply."""
    faults = faults_of(error)
    left = len(faults) - _LISTED
    more = [f"- and {_counted(left, 'more fault')}"] if left > 0 else []
    return "\n".join([_OPENING, *(f"- {fault}" for fault in faults[:_LISTED]), *more])


def faults_of(error: ValidationError) -> list[str]:
    """Each fault of a reply on one line: its place, the value there, and what is allowed."""
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
    for name, words in _BOUNDS.items():
        if name in ctx:
            item = "character" if kind.startswith("string") else "item"
            bound = _counted(ctx[name], item) if name.endswith("_length") else ctx[name]
            return words.format(bound)
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


@dataclass(frozen=True)
class OneForEach:
    """Marks an output list, in its annotation: one item for each item of an input list."""

    input_name: str
    """The name of the input list."""
    number: str
    """The field that numbers an item of the input list."""
    answered: str
    """The field of an output item with the number of the input item that it is about."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return Bound(least=True).__get_pydantic_json_schema__(core_schema, handler)

    def left_out(self, inputs: Fields, items: Sequence[Any]) -> list[Any]:
        """The input items, as JSON has them, that no output item is about."""
        answered = {getattr(item, self.answered) for item in items}
        return [
            item for item in inputs.get(self.input_name, []) if item[self.number] not in answered
        ]


class IncompleteReplyError(ReplyError):
    """Valid replies came, but together they leave out some of the items asked about.

    Attributes:
        outputs: The outputs as far as they came, with `call_ids`, one for each item.
    """

    def __init__(
        self, message: str, *, status: FailureStatus, call_id: str | None, outputs: Fields
    ) -> None:
        super().__init__(message, status=status, call_id=call_id)
        self.outputs = outputs


@functools.lru_cache(maxsize=256)
def itemized_output(signature: Any) -> tuple[str, OneForEach] | None:
    """The output list of a signature that is marked with `OneForEach`, and the mark."""
    for name, field in signature.output_fields.items():
        for mark in field.metadata:
            if isinstance(mark, OneForEach):
                return name, mark
    return None


@dataclass(frozen=True)
class After:
    """The reply that a follow-up question continues."""

    key: str | None
    invalid: str | None = None
    """The reply with its invalid items alone."""
    status: FailureStatus | None = None
    """Why it is not an answer."""


def separated(
    name: str, each: OneForEach, text: str, model: type[BaseModel], inputs: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Split a reply into one with its valid items and one with the others; None if either is empty.

    Also None if an item has a number that was not asked about: the others may be wrong too.
    """
    try:
        reply = from_json(text)
    except ValueError:
        return None
    items = reply.get(name) if isinstance(reply, dict) else None
    numbers = {item[each.number] for item in inputs.get(each.input_name, [])}
    by_number: dict[int, list[Any]] = {}
    for item in items if isinstance(items, list) else [None]:
        number = item.get(each.answered) if isinstance(item, dict) else None
        if type(number) is not int or number not in numbers:
            return None
        by_number.setdefault(number, []).append(item)
    parts: dict[bool, list[Any]] = {True: [], False: []}
    for group in by_number.values():
        try:
            model.model_validate_json(json.dumps({**reply, name: group}), strict=True)
        except ValidationError:
            parts[False] += group
        else:
            parts[True] += group
    if not all(parts.values()):
        return None
    valid, invalid = (
        json.dumps({**reply, name: parts[kind]}, ensure_ascii=False) for kind in (True, False)
    )
    return valid, invalid


def answer_each(
    name: str,
    each: OneForEach,
    inputs: Fields,
    ask: Callable[..., Fields],
    note: Callable[[str], None],
    rounds: int,
) -> Fields:
    """Ask about all items, then, a bounded number of times, about those still without an answer.

    `ask` takes inputs and the reply that they follow, and returns outputs, `call_id` and `after`.
    `note` is given the keys of the last replies where these leave items out. `call_ids` are the
    keys of the replies that the items came from.
    """
    replies: list[Fields] = []
    error: ReplyError | None = None
    waiting: list[tuple[Fields, After | None]] = [(inputs, None)]
    for _ in range(rounds + 1):
        more, error = _asked_parts(each, waiting, ask, rounds)
        replies += more
        if not replies and error is not None:
            raise error
        waiting = [
            ({**inputs, each.input_name: left}, reply["after"])
            for reply in more
            if (left := each.left_out({each.input_name: reply["asked"]}, reply[name]))
        ]
        if not waiting or error is not None:
            break
    else:
        for _, after in waiting:
            if after is not None and after.key is not None:
                note(after.key)
    items = [item for reply in replies for item in reply[name]]
    call_ids = [reply["call_id"] for reply in replies for _ in reply[name]]
    status: FailureStatus = "unparsed"
    call_id = replies[-1]["call_id"]
    why = f"left out of {rounds + 1} replies; raise [model] reasks to ask again for them alone"
    if error is not None:
        status, call_id, why = error.status, error.call_id, str(error)
    outputs = {**replies[0], name: items, "call_ids": call_ids}
    del outputs["after"], outputs["asked"]
    if left := each.left_out(inputs, items):
        numbers = ", ".join(str(item[each.number]) for item in left)
        raise IncompleteReplyError(
            f"nothing is said of {each.input_name} {numbers}: {why}",
            status=status,
            call_id=call_id,
            outputs=outputs,
        )
    return outputs


def _asked_parts(
    each: OneForEach,
    parts: Sequence[tuple[Fields, After | None]],
    ask: Callable[..., Fields],
    halvings: int,
) -> tuple[list[Fields], ReplyError | None]:
    """The replies to several questions, and the last error of those that failed."""
    replies: list[Fields] = []
    last: ReplyError | None = None
    deferred: DeferredError | None = None
    for inputs, after in parts:
        try:
            more, error = _asked(each, inputs, ask, after, halvings)
        except DeferredError as put_off:  # the others are written down with it
            deferred = put_off
            continue
        replies += more
        last = error or last
        if not more and error is not None and error.status == "truncated":
            break  # nor would the rest be answered: fewer items did not help
    if deferred is not None:
        raise deferred
    return replies, last


def _asked(
    each: OneForEach,
    inputs: Fields,
    ask: Callable[..., Fields],
    after: After | None,
    halvings: int,
) -> tuple[list[Fields], ReplyError | None]:
    """Ask about all items in one request; if they are too many, ask for each half, and so on.

    They are too many if the request is too long for the model's context, or the reply is truncated.
    What is asked follows from the items and from recorded replies alone.
    """
    items = inputs.get(each.input_name, [])
    try:
        return [{**ask(inputs, after), "asked": items}], None
    except ReplyError as error:
        is_truncated = error.status == "truncated"
        if len(items) < 2 or not (isinstance(error, TooLongError) or (is_truncated and halvings)):
            return [], error
        halvings -= is_truncated
        then = after and After(after.key)
        after = After(error.call_id, status="truncated") if is_truncated else then
    middle = len(items) // 2
    first, second = ({**inputs, each.input_name: some} for some in (items[:middle], items[middle:]))
    return _asked_parts(each, [(first, after), (second, then)], ask, halvings)
