"""Deferred requests: a file in the OpenAI batch format, answered by whatever is cheapest.

A provider's batch API, `vllm run-batch`, or a person answers it; the replies are imported, and
the build goes on. Each line of the replies is either what a batch API gives back,
`{"custom_id": …, "response": {"status_code": 200, "body": {…}}}`, or, for people,
`{"custom_id": …, "content": "…"}`.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from freshstack_dspy.config import ModelConfig, PricesConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.budget import Spent, worst_case
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.reply import MOST_TOKENS, Reply, encodable, receive
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import unfenced
from freshstack_dspy.records import Record

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be half a surrogate pair, as in a reply that was cut inside an emoji."""


class BadLine(NamedTuple):
    """A line in neither of the two formats."""

    custom_id: str
    """As it stands there, or `line N`."""
    number: int
    fault: str


def read_lines(path: Path) -> Iterator["ReplyLine | BadLine"]:
    """Read a replies file.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the replies cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield read_line(line, number)


def read_line(line: str, number: int = 1) -> "ReplyLine | BadLine":
    """Read one line of a replies file."""
    line = _mended(line)
    try:
        return ReplyLine.model_validate_json(line)
    except ValidationError as error:
        return BadLine(_id_of(line) or f"line {number}", number, first_fault(error))


def _mended(line: str) -> str:
    """A batch's line without halves of surrogate pairs, which have no UTF-8: it is paid for."""
    if not _HALF.search(line):
        return encodable(line)
    try:
        value = json.loads(line)
        paid = isinstance(value, dict) and "content" not in value
        return encodable(canonical_json(value)) if paid else line
    except (ValueError, RecursionError):
        return line


def _id_of(line: str) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = value.get("custom_id") if isinstance(value, dict) else None
    return encodable(found) if isinstance(found, str) else None


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
        """What it says."""
        message = self.choices[0].message
        return message.content or message.refusal or ""

    def as_reply_to(self, ask: ChatRequest, price: Price | None, *, batch: bool) -> Reply:
        """The record of this reply."""
        choice = self.choices[0]
        usage = self.usage or _Usage()
        return receive(
            ask,
            text=self.text,
            finish_reason="refusal" if choice.message.refusal else choice.finish_reason or "stop",
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.output_tokens,
            origin="import",
            price=price,
            batch=batch,
        )


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
        """What the line holds, or None where it holds an error."""
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
        status = self.response.status_code if self.response is not None else None
        return "the line is empty" if status is None else f"status {status}"


_LISTED = 5
_SHOWN = 16
_GROUPS = ("replaced", "failed", "invalid", "unknown", "repeated")


class ImportReport(Record):
    """What became of the lines of a replies file; the lists name custom ids."""

    imported: int = 0
    replaced: tuple[str, ...] = ()
    """Lines that took the place of a recorded reply; that one is kept under a number."""
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
        """Whether something did not go as it should."""
        return bool(self.failed or self.invalid or self.unknown)

    def summary(self) -> str:
        """What became of the lines, without what waits."""
        parts = [f"{self.imported} imported"]
        for name in _GROUPS:
            ids = getattr(self, name)
            if ids:
                listed = [ascii(custom_id[:_SHOWN])[1:-1] for custom_id in ids[:_LISTED]]
                shown = ", ".join(listed) + (", …" if len(ids) > _LISTED else "")
                parts.append(f"{len(ids)} {name} ({shown})")
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"{self.summary()}; {self.waiting} still waiting"


def request_line(ask: ChatRequest, url: str = "/v1/chat/completions") -> bytes:
    """A request as one line of an OpenAI batch file, without the line break."""
    value = {"custom_id": ask.key, "method": "POST", "url": url, "body": ask.body()}
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
    return write_asks((ask for ask in store.deferred() if keys is None or ask.key in keys), path)


def write_asks(asks: Iterable[ChatRequest], path: Path) -> int:
    """Write requests, each as one line of an OpenAI batch file; return how many.

    Raises:
        StoreError: The file cannot be written.
    """
    lines = [request_line(ask) + b"\n" for ask in asks]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
    except OSError as error:
        raise StoreError(f"{path}: the requests cannot be written: {error}") from error
    return len(lines)


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
        replace: Record also what there is a reply to already; that one is kept under a number.
        lenient: Count a line in neither format as invalid, in place of refusing the file.
        only: The keys that were asked; a reply to another request counts as unknown. None: all.

    Raises:
        StoreError: The file cannot be read, or a line is not in one of the two formats; then
            nothing is recorded.
    """
    lines = list(read_lines(path))
    if not lenient:
        _check_bad_lines(path, lines)
    run = _Import(store, prices, account, replace=replace)
    for line in lines:
        run.take(line, asked=only is None or line.custom_id in only)
    return run.report(model or ModelConfig())


def _check_bad_lines(path: Path, lines: list[ReplyLine | BadLine]) -> None:
    for line in lines:
        if isinstance(line, BadLine):
            raise StoreError(
                f"{path}:{line.number}: neither a batch reply (custom_id, response.body.choices) "
                f"nor a hand-written one (custom_id, content): {line.fault}"
            )


class _Import:
    """One file's way into the store."""

    def __init__(
        self, store: ReplyStore, prices: PricesConfig | None, account: str | None, *, replace: bool
    ) -> None:
        self._store = store
        self._prices = prices
        self._account = account
        self._replace = replace
        self._waiting = {ask.key: ask for ask in store.deferred()}
        self._taken: set[str] = set()
        self._imported = 0
        self._groups: dict[str, list[str]] = {name: [] for name in _GROUPS}
        self._reasons: Counter[str] = Counter()

    def take(self, line: ReplyLine | BadLine, *, asked: bool = True) -> None:
        """Record one line, or enter why not."""
        key = line.custom_id
        if isinstance(line, BadLine):
            self._refuse("invalid", key, line.fault)
            return
        if not asked:
            self._groups["unknown"].append(key)
            return
        known = self._store.get(key) if key not in self._waiting else None
        if key not in self._waiting and (known is None or not self._replace or key in self._taken):
            self._groups["unknown" if known is None else "repeated"].append(key)
        elif (completion := line.completion()) is None:
            self._refuse("failed", key, line.reason())
        else:
            ask = known.request if known is not None else self._waiting[key]
            self._answer(ask, line, completion, replaces=known is not None)

    def report(self, model: ModelConfig) -> ImportReport:
        """What became of all lines."""
        ordered = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
        return ImportReport(
            imported=self._imported,
            waiting=len(self._waiting),
            reasons=tuple(f"{count} x {presentable(why, model)}" for why, count in ordered),
            **{name: tuple(ids) for name, ids in self._groups.items()},
        )

    def _answer(
        self, ask: ChatRequest, line: ReplyLine, completion: Completion, *, replaces: bool
    ) -> None:
        fault = _fault_of_a_person(ask, completion.text) if line.by_hand else None
        if fault is not None:
            self._refuse("invalid", ask.key, fault)
            return
        price = price_of(ask.model, self._prices)
        reply = completion.as_reply_to(ask, price, batch=not line.by_hand)
        self._record(reply, price, paid=not line.by_hand)
        self._waiting.pop(ask.key, None)
        self._taken.add(ask.key)
        if replaces:
            self._groups["replaced"].append(ask.key)
        else:
            self._imported += 1

    def _record(self, reply: Reply, price: Price | None, *, paid: bool) -> None:
        if paid and self._account is not None:
            if reply.input_tokens is None or reply.output_tokens is None:
                spent = worst_case(reply.request, price, batch=True)  # nobody counted
            else:
                spent = Spent(calls=1, tokens=reply.tokens, dollars=reply.cost or 0.0)
            self._store.put(reply, account=self._account, spent=spent)
        else:
            self._store.put(reply)

    def _refuse(self, group: str, key: str, why: str) -> None:
        self._groups[group].append(key)
        self._reasons[" ".join(why.split())] += 1


def _fault_of_a_person(ask: ChatRequest, text: str) -> str | None:

    return fault_in(ask, text)


_LONGEST = 200


def fault_in(ask: ChatRequest, text: str) -> str | None:
    """Say in one line how a text does not fit its request, or return None if it does.

    Args:
        ask: The request; one that asks for no JSON takes any text.
        text: The reply; one Markdown fence around it is not counted against it.
    """
    wanted = ask.parameters.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_schema", "json_object"):
        return None
    try:
        value = json.loads(unfenced(text), parse_constant=_refuse)
        canonical_json(value).encode()
    except (ValueError, RecursionError):
        return "not JSON: it must be one JSON object and nothing else"
    if not isinstance(value, dict):
        return "not a JSON object"
    schema = wanted.get("schema")
    return _misfit(value, schema) if isinstance(schema, dict) else None


def _misfit(value: dict[str, Any], schema: dict[str, Any]) -> str | None:
    from jsonschema.exceptions import SchemaError, best_match  # type: ignore[import-untyped]

    try:
        error = best_match(_validator(canonical_json(schema)).iter_errors(value))
    except SchemaError:
        return None  # not a schema, so nothing can be held against it
    if error is None:
        return None
    said = " ".join(ascii(error.message)[1:-1].split())
    return f"{error.json_path.removeprefix('$').removeprefix('.') or 'it'}: {said}"[:_LONGEST]


@functools.lru_cache(maxsize=32)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    # JSON Schema takes 1.0 for an integer; the models that read the reply do not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    exactly: Any = validators.extend(Draft202012Validator, type_checker=types)
    loaded = json.loads(schema)
    exactly.check_schema(loaded)
    return exactly(loaded)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
