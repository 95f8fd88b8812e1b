"""Deferred requests: a file in the OpenAI batch format, answered by whatever is cheapest.

A provider's batch API, `vllm run-batch`, or a person answers it; the replies are imported, and
the build goes on. Each line of the replies is either what a batch API gives back,
`{"custom_id": …, "response": {"status_code": 200, "body": {…}}}`, or, for people,
`{"custom_id": …, "content": "…"}`.
"""

from collections.abc import Container
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from freshstack_dspy.config import PricesConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.reply import Reply, receive
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.records import Record

_LISTED = 5
_SHOWN = 16
_MOST_TOKENS = 2**53


class ImportReport(Record):
    """What became of the lines of a replies file; the lists name custom ids."""

    imported: int = 0
    failed: tuple[str, ...] = ()
    """Lines that hold an error in place of a reply; their requests still wait."""
    unknown: tuple[str, ...] = ()
    """Lines whose request this store does not wait for, and has no reply to."""
    repeated: tuple[str, ...] = ()
    """Lines for a request that an earlier line, or the store, has a reply to."""
    waiting: int = Field(default=0, ge=0)
    """Requests that still wait for a reply."""

    def __str__(self) -> str:
        parts = [f"{self.imported} imported"]
        for name in ("failed", "unknown", "repeated"):
            ids = getattr(self, name)
            if ids:
                listed = [ascii(custom_id[:_SHOWN])[1:-1] for custom_id in ids[:_LISTED]]
                shown = ", ".join(listed) + (", …" if len(ids) > _LISTED else "")
                parts.append(f"{len(ids)} {name} ({shown})")
        return "; ".join([*parts, f"{self.waiting} still waiting"])


def write_requests(store: ReplyStore, path: Path, keys: Container[str] | None = None) -> int:
    """Write deferred requests, each as one line of an OpenAI batch file; return how many.

    Args:
        store: Where they wait.
        path: The file.
        keys: Which; None: all that wait, those of earlier configurations too.

    Raises:
        StoreError: The file cannot be written.
    """
    lines = [
        canonical_json(
            {
                "custom_id": ask.key,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": ask.body(),
            }
        )
        + "\n"
        for ask in store.deferred()
        if keys is None or ask.key in keys
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StoreError(f"{path}: the requests cannot be written: {error}") from error
    return len(lines)


def import_replies(
    store: ReplyStore, path: Path, prices: PricesConfig | None = None
) -> ImportReport:
    """Record the replies of a file; never overwrite one that is there.

    Args:
        store: Where the requests wait.
        path: The file.
        prices: What the model costs, over LiteLLM's table.

    Raises:
        StoreError: The file cannot be read, or a line is not in one of the two formats; then
            nothing is recorded.
    """
    waiting = {ask.key: ask for ask in store.deferred()}
    imported = 0
    failed: list[str] = []
    unknown: list[str] = []
    repeated: list[str] = []
    for line in _lines(path):
        key = line.custom_id
        if key not in waiting:
            (unknown if store.get(key) is None else repeated).append(key)
        elif (completion := line.completion()) is None:
            failed.append(key)
        else:
            ask = waiting.pop(key)
            price = price_of(ask.model, prices)
            store.put(completion.as_reply_to(ask, price, batch=line.response is not None))
            imported += 1
    return ImportReport(
        imported=imported,
        failed=tuple(failed),
        unknown=tuple(unknown),
        repeated=tuple(repeated),
        waiting=len(waiting),
    )


def _lines(path: Path) -> list["_Line"]:
    """Every line of a replies file, validated before the first is used."""
    found = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the replies cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_Line.model_validate_json(line))
        except ValidationError as error:
            raise StoreError(
                f"{path}:{number}: neither a batch reply (custom_id, response.body.choices) nor a "
                f"hand-written one (custom_id, content): {first_fault(error)}"
            ) from None
    return found


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)
    completion_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)


class _Completion(BaseModel):
    """The body of a chat completion, as far as it is read."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None

    def as_reply_to(self, ask: Ask, price: Price | None, *, batch: bool) -> Reply:
        message = self.choices[0].message
        usage = self.usage or _Usage()
        return receive(
            ask,
            text=message.content or message.refusal or "",
            finish_reason="refusal" if message.refusal else self.choices[0].finish_reason or "stop",
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            origin="import",
            price=price,
            batch=batch,
        )


class _Response(BaseModel):
    status_code: int = 200
    body: Any = None


class _Line(BaseModel):
    """One line of a replies file, in either format."""

    custom_id: str
    content: str | None = None
    error: Any = None
    response: _Response | None = None

    @model_validator(mode="after")
    def _body_is_a_completion(self) -> Self:
        self.completion()
        return self

    def completion(self) -> _Completion | None:
        """What the line holds, or None where it holds an error."""
        if self.content is not None:
            return _Completion(choices=[_Choice(message=_Message(content=self.content))])
        if self.error or self.response is None or self.response.status_code != 200:
            return None
        return _Completion.model_validate(self.response.body)
