"""The lines of a replies file: what a batch API gives back, or what a person types."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.lm.json_text import MOST_STRUCTURE, is_dense
from freshstack_dspy.lm.reply import MOST_TOKENS, Reply, encodable, receive
from freshstack_dspy.lm.request import Ask, canonical_json
from freshstack_dspy.lm.spending.prices import Price

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
    if is_dense(line.encode("utf-8", "surrogatepass")):
        fault = f"more than {MOST_STRUCTURE:,} bytes of it are no text"
        return BadLine(f"line {number}", number, fault)
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

    def as_reply_to(self, ask: Ask, price: Price | None, *, batch: bool) -> Reply:
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
