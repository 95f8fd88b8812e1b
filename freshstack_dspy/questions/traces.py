"""What users asked a system, from its exported traces: OpenTelemetry, OpenInference, Langfuse, Phoenix.

A trace is one asking. Its question is the input of its root; without one, that of the first step
that is no model's and no tool's; else the last message of a user to a model. What the system answered
is kept apart: it is not an accepted answer.

Sources:
    https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/ (OTLP JSON),
    https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai/retrieval.md),
    https://arize-ai.github.io/openinference/spec/semantic_conventions.html,
    https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import instant
from freshstack_dspy.rows import Row, decoded_cell

NO_MESSAGE = "no message of a user"
"""Why an input is not a question: its messages are from a system, a tool or a model."""
_INPUTS = (
    *("langfuse.trace.input", "langfuse.observation.input", "input.value", "gen_ai.input.messages"),
    *("llm.input_messages", "gen_ai.retrieval.query.text", "traceloop.entity.input"),
    "gen_ai.prompt",
)
_OUTPUTS = (
    *("langfuse.trace.output", "langfuse.observation.output", "output.value"),
    *("gen_ai.output.messages", "traceloop.entity.output"),
)
_DOCUMENTS = ("gen_ai.retrieval.documents", "retrieval.documents")
_SESSIONS = ("session.id", "langfuse.session.id", "gen_ai.conversation.id", "user.id", "enduser.id")
_KINDS = ("openinference.span.kind", "langfuse.observation.type", "gen_ai.operation.name")
_AS_KIND = {
    "RETRIEVAL": "RETRIEVER",
    **dict.fromkeys(("CHAT", "TEXT_COMPLETION", "GENERATE_CONTENT", "GENERATION"), "LLM"),
    **dict.fromkeys(("EMBEDDINGS", "EXECUTE_TOOL"), "TOOL"),
}
_ASK_NOTHING = ("EMBEDDING", "TOOL", "RERANKER", "EVALUATOR", "GUARDRAIL", "EVENT", "PROMPT")
_QUESTION_KEYS = (
    *("question", "query", "user_query", "user_input", "input", "inputs", "message", "messages"),
    *("prompt", "text", "content", "kwargs", "args"),
)
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d+)\.document\.(\w+)")
_SCORES = ("score", "document.score", "relevance_score", "similarity")


class Asking(NamedTuple):
    """A question as a user asked it once."""

    text: str | None
    """None: there is none, for `reason`."""
    reason: str = ""
    session: str = ""
    """Of the session or user; empty where it is not known."""
    times: float = 1
    results: int | None = None
    clicks: int | None = None
    scores: Sequence[float] = ()
    answer: str = ""
    """What the system answered."""
    at: datetime | None = None


class Span(NamedTuple):
    """A step of a trace."""

    trace_id: str
    root: bool
    kind: str
    start: str
    """Sorts the spans of a trace."""
    attributes: Mapping[str, Any]


# From rows to spans


def spans_of(row: Row) -> list[Span] | None:
    """Give the spans of a row of any export; None where it is no part of one."""
    values = row.values
    if "resourceSpans" in values:
        return [*_otlp(row)]
    if "resourceLogs" in values or "resourceMetrics" in values:
        return []
    if isinstance(inner := values.get("data"), list) or isinstance(
        inner := values.get("observations"), list
    ):
        whole = values["trace"] if isinstance(values.get("trace"), dict) else values
        parts = [Row(row.place, whole), *(Row.of(each, row.place) for each in inner)]
        return [span for part in parts for span in spans_of(part) or ()]
    context = values.get("context")
    if isinstance(context, dict) and "trace_id" in context:
        return [_span(row, str(context["trace_id"]), _flat(row.inner("attributes").values))]
    if "context.trace_id" in values:
        attributes = {
            name.removeprefix("attributes."): value
            for name, value in values.items()
            if name.startswith("attributes.")
        }
        return [_span(row, str(values["context.trace_id"]), attributes)]
    return _langfuse(row)


def _span(row: Row, trace_id: str, attributes: Mapping[str, Any]) -> Span:
    kind = row.values.get("span_kind") or _first(attributes, _KINDS)
    start = str(row.values.get("start_time") or "")
    return Span(trace_id, not row.values.get("parent_id"), _kind(kind), start, attributes)


def _kind(name: Any) -> str:
    upper = str(name or "").upper()
    return _AS_KIND.get(upper, upper)


def _first(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) not in (None, "")), None)


def _attribute(span: Span, names: Iterable[str]) -> Any:
    """Give the first of these attributes that a span has."""
    values = (decoded_cell(span.attributes.get(name)) for name in names)
    return next((value for value in values if value not in (None, "")), None)


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Give nested attributes dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, Mapping) and name != "value"  # of `input`, which may be an object
        flat |= _flat(value, f"{above}{name}.") if inner else {f"{above}{name}": value}
    return flat


def _otlp(row: Row) -> Iterator[Span]:
    for resource in row.inners("resourceSpans"):
        for scope in resource.inners("scopeSpans"):
            for span in scope.inners("spans"):
                pairs = span.inners("attributes") if span.has("attributes") else ()
                attributes = {pair.text("key"): _value(pair) for pair in pairs}
                yield Span(
                    span.text("traceId"),
                    not span.values.get("parentSpanId"),
                    _kind(_first(attributes, _KINDS)),
                    str(span.values.get("startTimeUnixNano", "")),
                    attributes,
                )


def _value(attribute: Row) -> Any:
    try:
        return _any(attribute.values.get("value"))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise attribute.fault("value", "an AnyValue of OTLP, as stringValue") from None


def _any(value: Any) -> Any:
    """Read an `AnyValue` of OTLP."""
    if not isinstance(value, dict) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return [_any(each) for each in inner.get("values", ())]
    if kind == "kvlistValue":
        return {each["key"]: _any(each.get("value")) for each in inner.get("values", ())}
    return int(inner) if kind == "intValue" else inner  # whole numbers are texts in it


def _langfuse(row: Row) -> list[Span] | None:
    """Read an observation or a trace, by the names of the API or of the exports."""
    values = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): v for name, v in row.values.items()
    }
    if "input" not in values or not ({"trace_id", "output"} & values.keys()):
        return None
    trace_id = values.get("trace_id") or values.get("id")
    if trace_id is None:
        return None
    kind = _kind(values.get("type"))
    attributes = {
        "input.value": values["input"],
        "output.value": values.get("output"),
        "session.id": values.get("session_id") or values.get("user_id"),
    }
    if kind == "RETRIEVER":
        attributes["retrieval.documents"] = values.get("output")
    start = values.get("start_time") or values.get("timestamp") or ""
    root = "trace_id" not in values or not values.get("parent_observation_id")
    return [Span(str(trace_id), root, kind, str(start), attributes)]


# From spans to askings


class _Trace:
    """What is known of a trace."""

    def __init__(self) -> None:
        self.asked: tuple[int, str, str | None] | None = None
        self.retrieved: tuple[str, list[float], int] | None = None
        self.answer = self.session = self.start = ""

    def take(self, span: Span) -> None:
        if session := _attribute(span, _SESSIONS):
            self.session = self.session or str(session)
        if span.start and (not self.start or span.start < self.start):
            self.start = span.start
        if span.root:
            self.answer = (
                message_text(_attribute(span, _OUTPUTS), ("assistant", "ai")) or self.answer
            )
        if span.kind == "RETRIEVER":
            scores, number = _retrieved(span)
            if self.retrieved is None or span.start < self.retrieved[0]:
                self.retrieved = span.start, scores, number
        value = _attribute(span, _INPUTS)
        if value is None or span.kind in _ASK_NOTHING:
            return
        prompt = span.kind == "LLM" and isinstance(value, str)  # more than the question, mostly
        rank = 0 if span.root else 1 + (span.kind == "LLM") + prompt
        text = message_text(value)
        known = self.asked
        if known is None or ((text is None, rank, span.start) < (known[2] is None, *known[:2])):
            self.asked = rank, span.start, text

    def asking(self) -> Asking | None:
        """Give what was asked; None where no span has an input."""
        if self.asked is None:
            return None
        _, scores, number = self.retrieved or ("", (), None)
        return Asking(
            text=self.asked[2],
            reason=NO_MESSAGE,
            session=self.session,
            results=number,
            scores=scores,
            answer=self.answer,
            at=_instant(self.start),
        )


def askings_of(rows: Iterable[Row]) -> Iterator[Asking]:
    """Give what was asked in each trace, in the order of their first spans.

    Raises:
        SourceError: A row is no part of an export as the first rows are.
    """
    traces: dict[str, _Trace] = {}
    for row in rows:
        spans = spans_of(row)
        if spans is None:
            raise SourceError(
                f"{row.place}: no trace, as the first rows are; allowed: spans of OpenTelemetry "
                "(resourceSpans) or Phoenix (context, attributes), observations or traces of Langfuse"
            )
        for span in spans:
            traces.setdefault(span.trace_id, _Trace()).take(span)
    for trace_id in [*traces]:
        yield traces.pop(trace_id).asking() or Asking(None, "no input")


def message_text(value: Any, roles: Sequence[str] = ("user", "human")) -> str | None:
    """Give the text of an input or output: a text, an object that holds one, or messages.

    Of messages it is the last by one of these roles; None where there is none.
    """
    value = decoded_cell(value)
    if isinstance(value, str | int | float):
        return str(value).strip()
    if isinstance(value, Mapping):
        if "role" in value and value["role"] not in roles:
            return None
        parts = value.get("parts", value.get("message.content"))
        inner = (parts, *(value.get(key) for key in _QUESTION_KEYS))
        texts = [message_text(each, roles) for each in inner if each not in (None, "", [], {})]
        return next((text for text in texts if text), None)
    if isinstance(value, Sequence):
        if not any(isinstance(each, Mapping) and _role(each) for each in value):
            return "\n".join(filter(None, (message_text(each, roles) for each in value))) or None
        by_role = [each for each in value if isinstance(each, Mapping) and _role(each) in roles]
        return message_text({**by_role[-1], "role": roles[0]}, roles) if by_role else None
    return None


def _role(message: Mapping[str, Any]) -> str:
    """Who wrote a message; LangChain says so by its type. Parts of a message have none."""
    kind = message.get("type")
    named = kind if kind in ("human", "ai", "system", "tool") else ""
    return str(message.get("role") or message.get("message.role") or named)


def _retrieved(span: Span) -> tuple[list[float], int]:
    """The scores of the documents of a retrieval, in its order, and their number."""
    documents = _attribute(span, _DOCUMENTS)
    if not isinstance(documents, list):  # OpenInference gives each field an attribute
        by_number: dict[int, dict[str, Any]] = {}
        for name, value in span.attributes.items():
            if field := _DOCUMENT.fullmatch(name):
                by_number.setdefault(int(field[1]), {})[field[2]] = value
        documents = [by_number[number] for number in sorted(by_number)]
    if not documents and span.kind == "RETRIEVER" and isinstance(_attribute(span, _OUTPUTS), list):
        documents = _attribute(span, _OUTPUTS)
    return scores_of(documents), len(documents)


def scores_of(documents: Sequence[Any]) -> list[float]:
    """The scores of documents, or scores as they are; nothing where one has none."""
    flat = [_flat(each) if isinstance(each, Mapping) else {"score": each} for each in documents]
    scores = [_first(each, (*_SCORES, "metadata.score")) for each in flat]
    numbers = [float(s) for s in scores if isinstance(s, int | float) and not isinstance(s, bool)]
    return numbers if len(numbers) == len(documents) else []


def _instant(start: str) -> datetime | None:
    """Read the start of a span: nanoseconds of OTLP, or ISO 8601."""
    try:
        if start.isdecimal():
            return datetime.fromtimestamp(int(start) / 1e9, UTC)
        return instant(start)
    except (ValueError, OverflowError, OSError):  # the last two: a time that is out of range
        return None
