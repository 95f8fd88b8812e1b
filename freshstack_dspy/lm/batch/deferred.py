"""Deferred requests: a file in the OpenAI batch format, answered by the cheapest means.

A provider's batch API, `vllm run-batch`, or a person answers it; the replies are imported, and
the build goes on. Each line of the replies is either what a batch API gives back,
`{"custom_id": …, "response": {"status_code": 200, "body": {…}}}`, or, for people,
`{"custom_id": …, "content": "…"}`, the content as a text or as the JSON object itself.
"""

import functools
import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import from_json

from freshstack_dspy.config import BuildConfig, ModelConfig, PricesConfig
from freshstack_dspy.errors import StoreError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import replace_file
from freshstack_dspy.lm.budget import spent_on
from freshstack_dspy.lm.capabilities import is_too_long
from freshstack_dspy.lm.engine import presentable
from freshstack_dspy.lm.prices import Price, price_of
from freshstack_dspy.lm.reply import MOST_TOKENS, NO_REPLY, Reply, receive
from freshstack_dspy.lm.request import ChatRequest, canonical_json
from freshstack_dspy.lm.schemas import mapped, without
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import Record


def requests_file(config: BuildConfig) -> Path:
    """Where a deferred build writes its missing requests."""
    return config.cache.path.parent / "requests" / f"{config.name}.jsonl"


def _command_file(requests: Path) -> Path:
    """Where the command that wrote a requests file is kept."""
    return requests.with_suffix(".command")


def keep_command(requests: Path, words: Sequence[str]) -> None:
    """Keep the command that wrote a requests file, with the folder where it was typed."""
    _command_file(requests).write_text(f"{_from_here()}{shlex.join(words)}", encoding="utf-8")


def kept_command(requests: Path) -> str | None:
    """The command that wrote a requests file, as it is to be typed here."""
    file = _command_file(requests)
    return file.read_text(encoding="utf-8").removeprefix(_from_here()) if file.is_file() else None


def _from_here() -> str:
    return f"cd {shlex.quote(str(Path.cwd()))} && "


def write_requests(store: ReplyStore, path: Path, steps: Mapping[str, str]) -> int:
    """Write the deferred requests of these keys as an OpenAI batch file; return how many.

    For people who answer by hand, each line also names its step and shows its question.
    """
    written = 0
    try:
        _command_file(path).unlink(missing_ok=True)
        with replace_file(path) as partial, partial.open("wb") as file:
            for request in store.deferred():
                if request.key in steps:
                    about = {"step": steps[request.key], "question": _question_of(request)}
                    file.write(request_line(request, **about) + b"\n")
                    written += 1
    except OSError as error:
        raise StoreError(f"{path}: the requests cannot be written: {error}") from error
    return written


def keys_in(file: Path) -> Iterator[str]:
    """The keys in a requests file, line by line."""
    again = "write it with: freshstack build CONFIG --mode defer"
    try:
        with file.open("rb") as lines:
            yield from (str(from_json(line)["custom_id"]) for line in lines)
    except OSError as error:
        raise StoreError(f"{file}: the requests cannot be read: {error}; {again}") from error
    except (ValueError, LookupError, TypeError):
        raise StoreError(f"{file}: not a file of deferred requests; {again}") from None


def requests_waiting(store: ReplyStore, config: BuildConfig) -> list[ChatRequest]:
    """The requests of a configuration's last deferred command that have no reply yet."""
    file = requests_file(config)
    return waiting_among(store, keys_in(file)) if file.is_file() else []


def waiting_among(store: ReplyStore, keys: Iterable[str]) -> list[ChatRequest]:
    """The requests of these keys that have no reply yet."""
    return [request for key in keys if (request := store.waiting(key)) is not None]


def _question_of(request: ChatRequest) -> str:
    """The question that a request is about; empty if the request shows none."""
    for message in reversed(request.messages):  # a re-ask ends with what was wrong
        with suppress(ValueError, LookupError, TypeError):
            question = json.loads(message.content)["question"]
            if isinstance(question, str):
                return question
            return str(question.get("title") or question["body"])
    return ""


def request_line(request: ChatRequest, url: str = "/v1/chat/completions", **about: str) -> bytes:
    """A request as one line of an OpenAI batch file, without the line break."""
    value = {"custom_id": request.key, "method": "POST", "url": url, "body": request.body()}
    value |= about
    return canonical_json(value).encode()


SHORT_ID = 16
"""Characters of a key by which a request may be named in replies; four billion requests differ."""
_HOW = """\
# {number} of {waiting} waiting requests

Answer each request as the language model that it is written to: from its instructions and its input
alone. Write one line of JSON for each into a file, without line breaks in it:

{{"custom_id": "the id of the request", "content": {{the JSON object that its instructions ask for}}}}

Then type: freshstack requests answer {config} --from FILE
It names each line that does not fit, and why. What it took is not handed out again.
"""


class NextRequests(NamedTuple):
    """Some of the waiting requests of a build."""

    text: str
    """Empty where none waits."""
    number: int
    waiting: int
    """How many wait, these among them."""


def next_requests(
    waiting: Sequence[ChatRequest], config: Path | str, *, max_tokens: int = 30_000
) -> NextRequests:
    """Write the next waiting requests as one text, for a coding agent or a person to answer.

    Requests with the same instructions stand together below them.

    Args:
        waiting: The requests of one build.
        config: Its configuration, for what to type.
        max_tokens: How long the text may be, in tokens of cl100k_base; one request at least is given.
    """
    texts: dict[str, list[str]] = {}
    room, number = max_tokens, 0
    for request in waiting:
        first, *others = request.messages
        instructions, turns = (first.content, others) if others else ("", [first])
        shown = "\n\n".join(
            f"[{turn.role}]\n{turn.content}" if len(turns) > 1 else turn.content for turn in turns
        )
        shown = f"### id {request.key[:SHORT_ID]}\n\n{shown}\n"
        new = shown if instructions in texts else f"{instructions}{shown}"
        room -= count_tokens(new)
        if room < 0 and number:
            break
        number += 1
        texts.setdefault(instructions, []).append(shown)
    if not number:
        return NextRequests("", 0, 0)
    parts = [_HOW.format(number=number, waiting=len(waiting), config=config)]
    for place, (instructions, shown_requests) in enumerate(texts.items(), 1):
        parts += [f"## Instructions {place}\n\n{instructions}\n", *shown_requests]
    return NextRequests("\n".join(parts), number, len(waiting))


_GROUPS = ("replaced", "failed", "invalid", "unknown", "repeated")


class ImportReport(Record):
    """The outcome of importing a replies file; the lists hold custom ids."""

    imported: int = 0
    replaced: tuple[str, ...] = ()
    """A person's lines that replaced another reply, which stays in the store under a number."""
    failed: tuple[str, ...] = ()
    """Lines that hold an error in place of a reply; their requests still wait."""
    invalid: tuple[str, ...] = ()
    """Lines that do not answer their request, which still waits."""
    unknown: tuple[str, ...] = ()
    """Lines whose request is neither waiting nor answered in this store."""
    repeated: tuple[str, ...] = ()
    """Lines whose request was answered by an earlier line, or already in the store."""
    waiting: int = Field(default=0, ge=0)
    """Requests of the build, or of the batch, that still wait for a reply."""
    reasons: tuple[str, ...] = ()
    """Why lines failed or are invalid: by line if a person wrote them, or else how often."""

    @property
    def faulty(self) -> bool:
        """Whether a line brought no reply."""
        return bool(self.failed or self.invalid or self.unknown)

    def summary(self) -> str:
        """The outcome of the lines, without the requests that wait."""
        parts = [f"{self.imported} imported"]
        for name in _GROUPS:
            if ids := getattr(self, name):
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
    keys: Iterable[str] = (),
    fault: "Fault | None" = None,
) -> ImportReport:
    """Record the replies of a file, line by line, to the requests that wait in a store.

    A request is named by its key, or, if that is one of `keys`, by the first 16 characters of it;
    those of `keys` that still wait are counted.

    A person's answer that does not fit its request is refused, and one that does replaces what was
    recorded before. A batch's reply is paid for, in the name of the account, and recorded as it is;
    the next build asks again with its error. A line in neither format is invalid, and costs only
    itself. Secrets of the model are not shown.
    """
    named = {key[:SHORT_ID]: key for key in keys}

    def numbered(lines: Iterable[str]) -> Iterator[AnswerLine]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            answer = read_answer(line)
            answer = answer._replace(
                line=number, custom_id=named.get(answer.custom_id, answer.custom_id)
            )
            if answer.fault:
                fault = (
                    "neither a batch reply (custom_id, response.body.choices) nor a hand-written "
                    f"one (custom_id, content): {answer.fault}"
                )
                answer = answer._replace(fault=fault)
            yield answer

    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            answers, keys = numbered(lines), named.values()
            model = model or ModelConfig()
            return record_answers(store, answers, prices, account, model, keys, fault=fault)
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the replies cannot be read: {error}") from error


# Lines of replies


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


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _Response(BaseModel):
    status_code: int = 200
    body: Any = None


class _Line(BaseModel):
    custom_id: str
    content: str | dict[str, Any] | None = None
    error: Any = None
    response: _Response | None = None


class AnswerLine(NamedTuple):
    """One line of a replies file, in either format."""

    custom_id: str
    text: str = ""
    finish_reason: str = "stop"
    usage: _Usage = _Usage()
    by_hand: bool = False
    error: str = ""
    """Why there is no reply, in the provider's words."""
    fault: str = ""
    """Why the line fits neither format."""
    line: int = 0
    """Its number in the file; 0 if it is from no file."""


def read_answer(text: str) -> AnswerLine:
    """Read one line of a replies file."""
    try:
        line = _Line.model_validate_json(text)
        if (content := line.content) is not None:
            written = (
                content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            )
            return AnswerLine(line.custom_id, written, by_hand=True)
        if line.error or line.response is None or line.response.status_code != 200:
            return AnswerLine(line.custom_id, error=_reason(line))
        completion = _Completion.model_validate(line.response.body)
    except ValidationError as error:
        try:
            custom_id = str(from_json(text)["custom_id"])
        except (LookupError, TypeError, ValueError):
            custom_id = "no custom_id"
        return AnswerLine(custom_id, fault=first_fault(error))
    message, finish_reason = completion.choices[0].message, completion.choices[0].finish_reason
    return AnswerLine(
        line.custom_id,
        message.content or message.refusal or "",
        "refusal" if message.refusal else finish_reason or "stop",
        completion.usage or _Usage(),
    )


def _reason(line: _Line) -> str:
    if line.response is None and not line.error:
        return "the line is empty"
    detail = line.error or (line.response and line.response.body)
    while isinstance(detail, dict):
        detail = detail.get("message") or detail.get("error") or detail.get("code")
    if isinstance(detail, str):
        return detail
    return f"status {line.response.status_code}" if line.response else "no reason given"


# Recording


def record_answers(
    store: ReplyStore,
    answers: Iterable[AnswerLine],
    prices: PricesConfig | None,
    account: str | None,
    model: ModelConfig,
    keys: Collection[str],
    *,
    only: bool = False,
    fault: "Fault | None" = None,
) -> ImportReport:
    """Record answers, to `keys` alone if `only`; see `import_replies`."""
    fault = fault or fault_in
    groups: dict[str, list[str]] = {name: [] for name in ("imported", *_GROUPS)}
    reasons: Counter[str] = Counter()
    lines: list[str] = []
    recorded: set[str] = set()

    def record(request: ChatRequest, answer: AnswerLine, price: Price | None) -> None:
        usage = answer.usage
        reply = receive(
            request,
            text=answer.text,
            finish_reason=answer.finish_reason,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
            origin="import",
            price=price,
        )
        payer = None if answer.by_hand else account
        store.put(reply, account=payer, spent=spent_on(reply, price))

    for answer in answers:
        key = answer.custom_id
        waiting = store.waiting(key)
        existing = store.get(key) if waiting is None else None
        request = waiting if existing is None else existing.request
        if only and key not in keys:
            request = None
        group, why = _judged(answer, request, existing, fault, again=key in recorded)
        if request is not None and group in ("imported", "replaced"):
            price = price_of(request.model, prices if request.model == model.name else None)
            record(request, answer, price.batched if price and not answer.by_hand else price)
            recorded.add(key)
        elif request is not None and group == "failed" and is_too_long(why):
            # Final: the next build asks for fewer texts at once.
            record(request, AnswerLine(key, why, NO_REPLY), None)
        groups[group].append(key)
        if why:
            why = presentable(" ".join(why.split()), model)
            if answer.line and (answer.by_hand or answer.fault):
                lines.append(f"line {answer.line}: {why}")
            else:
                reasons[why] += 1
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ImportReport(
        imported=len(groups["imported"]),
        waiting=len(waiting_among(store, keys)),
        reasons=(*lines, *(f"{count} x {why}" for why, count in ordered)),
        **{name: tuple(groups[name]) for name in _GROUPS},
    )


Fault = Callable[[ChatRequest, str], str | None]
"""What is wrong with a hand-written reply to a request, in a line; None if nothing is."""


def _judged(
    answer: AnswerLine,
    request: ChatRequest | None,
    existing: Reply | None,
    fault: Fault,
    *,
    again: bool,
) -> tuple[str, str]:
    """Say to which group of an `ImportReport` an answer belongs, and why if it brings no reply."""
    if answer.fault:
        return "invalid", answer.fault
    if request is None:
        return "unknown", "no such request waits, or was answered, here"
    if existing and (not answer.by_hand or answer.text == existing.text or again):
        return "repeated", ""
    if answer.error:
        return "failed", answer.error
    if answer.by_hand and (why := fault(request, answer.text)):
        return "invalid", why
    return ("replaced" if existing else "imported"), ""


def fault_in(request: ChatRequest, text: str) -> str | None:
    """Say in one line how a hand-written reply, fenced or not, does not fit its request."""
    from freshstack_dspy.lm.typed import json_object

    wanted = request.parameters.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_schema", "json_object"):
        return None
    try:
        value = json.loads(json_object(text))
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
    """A validator without the bounds of a call, which only guide the decoder."""
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    # JSON Schema takes 1.0 for an integer; the models that read the reply do not.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    exactly: Any = validators.extend(Draft202012Validator, type_checker=types)
    unbounded = without(json.loads(schema), "maxLength", "prefixItems")
    return exactly(
        mapped(unbounded, lambda node: node | {"minItems": min(1, node.get("minItems", 0))})
    )
