"""What the error of a client means: whether asking again can help, and what to do about it.

The clients wrap what a provider says in words of their own, each in its own way. Where a reply
came, it is read itself: its status, its headers, and the message in its body.
"""

import json
import re
from http import HTTPStatus
from typing import Any, NamedTuple

from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.provider.connection import HttpReply, NoReplyError
from freshstack_dspy.lm.provider.redaction import presentable
from freshstack_dspy.lm.provider.retry_after import retry_after
from freshstack_dspy.lm.provider.service import Service
from freshstack_dspy.lm.provider.transport import Wire

_TOO_MANY = (HTTPStatus.TOO_MANY_REQUESTS, 529)
_PASSING = (*_TOO_MANY, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY)
_NO_ACCESS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE)
_UNPAID = re.compile(r"insufficient_quota|billing")
_NO_KEY = re.compile(r"missing credentials|locate credentials|api_key", re.IGNORECASE)
_WRONG_KEY = re.compile(r"(api key not valid|(incorrect|invalid) api key)", re.IGNORECASE)
_FILTERED = re.compile(r"content.?(filter|policy|management)", re.IGNORECASE)
# Every branch ends where another tag begins or the text does, so that no page takes long.
_MARKUP = re.compile(r"<(head|script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_ADVICE = re.compile(r"(\n\n  (To fix:|credential came from:)|To drop these, set).*", re.DOTALL)
_CLASS_NAMES = re.compile(r"^((litellm\.)?\w+(Error|Exception|Timeout)( -|:)\s*)+")
_CREDENTIALS = {
    "bedrock": "the credentials of AWS",
    "sagemaker": "the credentials of AWS",
    "vertex_ai": "the credentials of Google Cloud",
}


class _Said(NamedTuple):
    """What the provider said, or the client where the provider said nothing."""

    message: str
    codes: str
    status: int | None
    retry_after: float | None
    replied: bool


def explained(error: Exception, wire: Wire, model: Service) -> ModelError:
    """Say in one line what went wrong.

    Args:
        error: What the client raised.
        wire: What came over the network in this attempt.
        model: Which model was asked; its secrets are left out.

    Returns:
        `FatalModelError`, where no retry can help; `ReplyError`, where this one request was
        refused; `TransientModelError`, where asking again may help.
    """
    unanswered = _unanswered(error, wire, model)
    if unanswered is not None:
        return unanswered
    said = _said(error, wire.reply)
    if said.status == HTTPStatus.OK:
        return did_not_answer(f"its reply cannot be read: {said.message or 'it is empty'}", model)
    status = f"HTTP {said.status}" if said.replied else ""
    shown = ", ".join(filter(None, (said.message.strip(), status)))
    fatal = _fatal_reason(error, said, model.name, wire.section)
    if fatal is not None:
        return FatalModelError(f"{fatal} ({presentable(shown, model)})")
    if _is_refusal(error, said):
        return ReplyError(
            f"{model.name} refused the request: {presentable(shown, model)}",
            status="refused" if _FILTERED.search(f"{said.codes} {said.message}") else "failed",
            call_id=None,
        )
    return _slowed(did_not_answer(shown, model, maybe_billed=said.status is None), said)


def did_not_answer(why: str, model: Service, *, maybe_billed: bool = True) -> TransientModelError:
    """The error for a request without an answer, which may have one when it is asked again."""
    error = TransientModelError(f"{model.name} did not answer: {presentable(why, model)}")
    error.maybe_billed = maybe_billed
    return error


def _unanswered(error: Exception, wire: Wire, model: Service) -> ModelError | None:
    """What to say where there is no reply, or None where there is one."""
    causes = _causes(error)
    if wire.failure in causes:
        if isinstance(wire.failure, NoReplyError):
            billed = wire.failure.maybe_billed
            return did_not_answer(str(wire.failure), model, maybe_billed=billed)
        return FatalModelError(f"{model.name} cannot be asked: {wire.failure}")
    missing = next((cause for cause in causes if isinstance(cause, ImportError)), None)
    if wire.reply is None and missing is not None:
        return FatalModelError(f"{model.name} cannot be asked: {presentable(str(missing), model)}")
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what was behind it: the clients raise theirs in place of ours."""
    causes = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _slowed(error: TransientModelError, said: _Said) -> TransientModelError:
    busy = said.status == HTTPStatus.SERVICE_UNAVAILABLE and said.retry_after is not None
    error.retry_after = said.retry_after
    error.rate_limited = busy or said.status in _TOO_MANY
    return error


def _said(error: Any, reply: HttpReply | None) -> _Said:
    wait: float | None = getattr(error, "retry_after", None)
    if reply is None:
        message = _ADVICE.sub("", str(getattr(error, "message", "") or error))
        status, code = getattr(error, "status", None), getattr(error, "provider_code", None)
        if _NO_KEY.search(message):
            status = HTTPStatus.UNAUTHORIZED  # LiteLLM gives some of these the status 500
        return _Said(_CLASS_NAMES.sub("", message), str(code), status, wait, replied=False)
    text = reply.body.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    problem = (body.get("error") or body) if isinstance(body, dict) else body
    codes: dict[str, Any] = problem if isinstance(problem, dict) else {}
    status, code = reply.status, codes.get("code")
    if status == HTTPStatus.OK and isinstance(code, int) and 400 <= code < 600:
        status = code  # some gateways pass an upstream's failure on in a reply of status 200
    return _Said(
        message=_message(problem) or _MARKUP.sub(" ", text),
        codes=" ".join(str(codes.get(name)) for name in ("code", "type", "status")),
        status=status,
        retry_after=retry_after(reply.headers) if wait is None else wait,
        replied=True,
    )


def _message(problem: Any) -> str:
    """The text, in whichever of the usual places a provider has put it."""
    if isinstance(problem, list) and problem:
        return _message(problem[0])
    if isinstance(problem, dict):
        places = (problem.get(name) for name in ("message", "msg", "detail", "error"))
        return next(filter(None, map(_message, places)), "")
    return problem if isinstance(problem, str) else ""


def _fatal_reason(error: Exception, said: _Said, name: str, section: str) -> str | None:
    """Why no retry can help, and what to do; None where one can."""
    from dspy import lm15

    status = said.status or 0
    prefix = name.partition("/")[0]
    key = _CREDENTIALS.get(prefix, f"{prefix.upper()}_API_KEY")
    named = f"{section} name" if section == "[model]" else f"{section} model"
    unpaid = isinstance(error, lm15.BillingError) or status == HTTPStatus.PAYMENT_REQUIRED
    if unpaid or _UNPAID.search(said.codes):
        return f"{name} is not paid for"
    if status >= 500 or status in _PASSING:
        return None
    denied = isinstance(error, lm15.AuthError) or status in _NO_ACCESS
    unknown = isinstance(error, lm15.UnsupportedModelError | lm15.UnknownModelError)
    reasons = (
        (
            isinstance(error, lm15.NotConfiguredError),
            f"no key for {name}: set {key} in the environment",
        ),
        (denied and not said.replied, f"no key for {name}: set {key} in the environment"),
        (denied or bool(_WRONG_KEY.match(said.message)), f"{name} refused the key: check {key}"),
        (
            status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
            "the proxy refused to pass a request on",
        ),
        (
            unknown or status in _NOT_THERE,
            f"{name} is not known where it was asked for: check {named} and api_base",
        ),
        (300 <= status < 400, f"{name} is asked for at another address: check {section} api_base"),
        (isinstance(error, lm15.ConfigurationError), f"{name} cannot be asked: check {section}"),
        (
            isinstance(error, lm15.CapabilityError),
            f'{name} cannot be asked: if it is the response format, set [model] structured = "none"',
        ),
    )
    return next((reason for holds, reason in reasons if holds), None)


def _is_refusal(error: Exception, said: _Said) -> bool:
    from dspy import lm15

    if said.status is None:
        return isinstance(error, lm15.InvalidRequestError)
    return 400 <= said.status < 500 and said.status not in _PASSING
