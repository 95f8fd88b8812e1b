"""Deferred requests: a file in the OpenAI batch format, answered by whatever is cheapest.

A provider's batch API, `vllm run-batch`, or a person answers it; the replies are imported, and
the build goes on. Each line of the replies is either what a batch API gives back,
`{"custom_id": …, "response": {"status_code": 200, "body": {…}}}`, or, for people,
`{"custom_id": …, "content": "…"}`.
"""

import functools
import json
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from freshstack_dspy.config import ModelConfig, PricesConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.budget import Spent, upper_bound
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import price_of
from freshstack_dspy.lm.reply import MOST_TOKENS, receive
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import unfenced
from freshstack_dspy.records import Record


def request_line(request: ChatRequest, url: str = "/v1/chat/completions") -> bytes:
    """A request as one line of an OpenAI batch file, without the line break."""
    value = {"custom_id": request.key, "method": "POST", "url": url, "body": request.body()}
    return canonical_json(value).encode()


def write_requests(store: ReplyStore, path: Path, keys: Container[str] | None = None) -> int:
    """Write deferred requests, each as one line of an OpenAI batch file; return how many.

    Args:
        store: Where they wait.
        path: The file.
        keys: Which; None: all that wait, those of earlier configurations too.

    Raises:
        StoreError: The file cannot be written.
    """
    chosen = (one for one in store.deferred() if keys is None or one.key in keys)
    lines = [request_line(request) + b"\n" for request in chosen]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
    except OSError as error:
        raise StoreError(f"{path}: the requests cannot be written: {error}") from error
    return len(lines)


# The lines of a replies file


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    completion_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    total_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)

    @property
    def output_tokens(self) -> int | None:
        """What is billed as output; some count what a model thinks in the total alone."""
        prompt, completion, total = self.prompt_tokens, self.completion_tokens, self.total_tokens
        if prompt is None or completion is None or total is None:
            return completion
        return max(completion, total - prompt)


class Completion(BaseModel):
    """The body of a chat completion, as far as it is read."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None

    @property
    def text(self) -> str:
        """The reply."""
        message = self.choices[0].message
        return message.content or message.refusal or ""

    @property
    def finish_reason(self) -> str:
        """Why it ended."""
        choice = self.choices[0]
        return "refusal" if choice.message.refusal else choice.finish_reason or "stop"


class _Response(BaseModel):
    status_code: int = 200
    body: Any = None


class ReplyLine(BaseModel):
    """One line of a replies file, in either format."""

    custom_id: str
    content: str | None = None
    error: Any = None
    response: _Response | None = None

    @model_validator(mode="after")
    def _body_is_a_completion(self) -> Self:
        self.completion()
        return self

    @property
    def by_hand(self) -> bool:
        """Whether a person typed it."""
        return self.content is not None

    def completion(self) -> Completion | None:
        """The completion, or None where the line holds an error."""
        if self.content is not None:
            return Completion(choices=[_Choice(message=_Message(content=self.content))])
        if self.error or self.response is None or self.response.status_code != 200:
            return None
        return Completion.model_validate(self.response.body)

    def reason(self) -> str:
        """Why there is no reply, in the provider's words."""
        found = self.error or (self.response.body if self.response is not None else None)
        while isinstance(found, dict):
            inner = found.get("message") or found.get("error") or found.get("code")
            if inner is None:
                break
            found = inner
        if isinstance(found, str):
            return found
        return (
            "the line is empty" if self.response is None else f"status {self.response.status_code}"
        )


class BadLine(NamedTuple):
    """A line in neither of the two formats."""

    custom_id: str
    """As it is written there, or `line N`."""
    number: int
    fault: str


def read_line(line: str, number: int = 1) -> ReplyLine | BadLine:
    """Read one line of a replies file."""
    try:
        return ReplyLine.model_validate_json(line)
    except ValidationError as error:
        return BadLine(custom_id_of(line) or f"line {number}", number, first_fault(error))


def custom_id_of(line: str) -> str | None:
    """The custom id in a line of JSON, if there is one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = value.get("custom_id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def numbered_lines(path: Path, what: str, advice: str = "") -> Iterator[tuple[int, str]]:
    """The lines of a file that are not empty, with their numbers.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the {what} cannot be read: {error}{advice}") from error
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


# Import

_GROUPS = ("replaced", "failed", "invalid", "unknown", "repeated")


class ImportReport(Record):
    """What became of the lines of a replies file; the lists name custom ids."""

    imported: int = 0
    replaced: tuple[str, ...] = ()
    """Lines that took the place of a recorded reply, which stays under a number."""
    failed: tuple[str, ...] = ()
    """Lines that hold an error in place of a reply; their requests still wait."""
    invalid: tuple[str, ...] = ()
    """Lines that are no answer to their request; it still waits."""
    unknown: tuple[str, ...] = ()
    """Lines whose request this store does not wait for, and has no reply to."""
    repeated: tuple[str, ...] = ()
    """Lines for a request that an earlier line, or the store, has a reply to."""
    waiting: int = Field(default=0, ge=0)
    """Requests that still wait for a reply."""
    reasons: tuple[str, ...] = ()
    """Why lines failed or are invalid, the most frequent first, with how often."""

    @property
    def faulty(self) -> bool:
        """Whether a line brought no reply."""
        return bool(self.failed or self.invalid or self.unknown)

    def summary(self) -> str:
        """What became of the lines, without what waits."""
        parts = [f"{self.imported} imported"]
        for name in _GROUPS:
            ids = getattr(self, name)
            if ids:
                shown = ", ".join(ascii(custom_id[:16])[1:-1] for custom_id in ids[:5])
                parts.append(f"{len(ids)} {name} ({shown}{', …' if len(ids) > 5 else ''})")
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"{self.summary()}; {self.waiting} still waiting"


def import_replies(
    store: ReplyStore,
    path: Path,
    prices: PricesConfig | None = None,
    *,
    account: str | None = None,
    model: ModelConfig | None = None,
    replace: bool = False,
    lenient: bool = False,
    only: Container[str] | None = None,
) -> ImportReport:
    """Record the replies of a file.

    A person's answer that does not fit its request is refused. A batch's reply is paid for and
    recorded as it is; the next build asks again with its error.

    Args:
        store: Where the requests wait.
        path: The file.
        prices: What the model costs, over LiteLLM's table.
        account: In whose name a batch's replies are charged; None: nobody's.
        model: Whose secrets must not be shown with a provider's words.
        replace: Record also what there is a reply to already; that one stays under a number.
        lenient: Count a line in neither format as invalid, in place of refusing the file.
        only: The keys that were asked; a reply to another request counts as unknown. None: all.

    Raises:
        StoreError: The file cannot be read, or a line is not in one of the two formats; then
            nothing is recorded.
    """
    lines = [read_line(line, number) for number, line in numbered_lines(path, "replies")]
    for line in lines:
        if isinstance(line, BadLine) and not lenient:
            raise StoreError(
                f"{path}:{line.number}: neither a batch reply (custom_id, response.body.choices) "
                f"nor a hand-written one (custom_id, content): {line.fault}"
            )
    waiting = {request.key: request for request in store.deferred()}
    groups: dict[str, list[str]] = {name: [] for name in ("imported", *_GROUPS)}
    reasons: Counter[str] = Counter()
    taken: set[str] = set()
    for line in lines:
        key = line.custom_id
        known = None if key in waiting else store.get(key)
        request = known.request if known is not None else waiting.get(key)
        if isinstance(line, BadLine):
            group, why = "invalid", line.fault
        elif request is None or (only is not None and key not in only):
            group, why = "unknown", ""
        elif known is not None and (not replace or key in taken):
            group, why = "repeated", ""
        elif (completion := line.completion()) is None:
            group, why = "failed", line.reason()
        elif line.by_hand and (fault := fault_in(request, completion.text)) is not None:
            group, why = "invalid", fault
        else:
            _record(store, request, line, completion, prices, account)
            waiting.pop(key, None)
            taken.add(key)
            group, why = "imported" if known is None else "replaced", ""
        groups[group].append(key)
        if why:
            reasons[presentable(" ".join(why.split()), model or ModelConfig())] += 1
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ImportReport(
        imported=len(groups["imported"]),
        waiting=len(waiting),
        reasons=tuple(f"{count} x {why}" for why, count in ordered),
        **{name: tuple(groups[name]) for name in _GROUPS},
    )


def _record(
    store: ReplyStore,
    request: ChatRequest,
    line: ReplyLine,
    completion: Completion,
    prices: PricesConfig | None,
    account: str | None,
) -> None:
    price = price_of(request.model, prices)
    usage = completion.usage or _Usage()
    reply = receive(
        request,
        text=completion.text,
        finish_reason=completion.finish_reason,
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        origin="import",
        price=price,
        batch=not line.by_hand,
    )
    if line.by_hand or account is None:
        store.put(reply)
    elif reply.input_tokens is None or reply.output_tokens is None:  # nobody counted
        store.put(reply, account=account, spent=upper_bound(request, price, batch=True))
    else:
        spent = Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)
        store.put(reply, account=account, spent=spent)


# Whether a hand-written reply fits its request


def fault_in(request: ChatRequest, text: str) -> str | None:
    """Say in one line how a text does not fit its request, or return None if it does.

    Args:
        request: One that asks for no JSON takes any text.
        text: The reply; one Markdown fence around it is not counted against it.
    """
    wanted = request.parameters.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_schema", "json_object"):
        return None
    try:
        value = json.loads(unfenced(text))
        canonical_json(value)
    except (ValueError, RecursionError):
        return "not JSON: it must be one JSON object and nothing else"
    if not isinstance(value, dict):
        return "not a JSON object"
    if not isinstance(wanted.get("schema"), dict):
        return None
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]

    error = best_match(_validator(canonical_json(wanted["schema"])).iter_errors(value))
    if error is None:
        return None
    message = " ".join(ascii(error.message)[1:-1].split())
    return f"{error.json_path.removeprefix('$').removeprefix('.') or 'it'}: {message}"[:200]


@functools.lru_cache(maxsize=32)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    # JSON Schema takes 1.0 for an integer; the models that read the reply do not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    exactly: Any = validators.extend(Draft202012Validator, type_checker=types)
    return exactly(json.loads(schema))
