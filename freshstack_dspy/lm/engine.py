"""What answers a model's name: the embedded baseline, a command, DSPy's own client, or LiteLLM's.

Each makes exactly one attempt at a request (`retry.py` repeats), and its errors become ours.
"""

import base64
import functools
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies

from pydantic import SecretStr

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import (
    FatalModelError,
    ModelError,
    ReplyError,
    TooLongError,
    TransientModelError,
)
from freshstack_dspy.lm.capabilities import is_too_long
from freshstack_dspy.lm.request import (
    BASELINE,
    BY_HAND,
    COMMAND,
    ChatRequest,
    base_from_environment,
    endpoint_identity,
)

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response, RouterConfig

    from freshstack_dspy.lm.dspy_parts import LiteLLMEngine

LITELLM_IN_FLIGHT = 64
"""Most requests in flight through LiteLLM: with more threads httpx's pool loses connections."""
_CLOUDS = ("azure", "bedrock", "sagemaker", "vertex_ai")
_ANY_KEY = "none"
"""For a local server, which takes any key, when the client insists on one."""


class HostedModel(NamedTuple):
    """An embedding model or a reranker at a provider, and how it is asked."""

    name: str
    """With the provider's, as LiteLLM takes it."""
    section: str
    """The section of the configuration in which it is named."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    concurrency: int = 8
    timeout: float = 120
    retries: int = 4


Model = ModelConfig | HostedModel


class Provider(Protocol):
    """What answers one request, once."""

    def complete(self, request: "Request") -> "Response":
        """Answer one request or raise."""
        ...


def provider_for(model: ModelConfig) -> Provider:
    """Choose what answers a model, or raise a FatalModelError; nothing is sent."""
    if model.name == BASELINE:
        return BaselineProvider()
    prefix, _, name = model.name.partition("/")
    if not (prefix and name) or prefix == BASELINE.partition("/")[0]:
        raise FatalModelError(
            f"{model.section} name is {model.name!r}; it takes a provider and a model, such as openai/gpt-4o, "
            f"anthropic/…, hosted_vllm/…, or {BASELINE}, which needs no network"
        )
    if model.name.startswith(BY_HAND):
        raise FatalModelError(
            f"{model.section} name is {model.name!r}, whose requests are answered by hand: add --mode "
            "defer, and then type: freshstack requests next CONFIG; commands without that option need "
            "another model"
        )
    if model.name.startswith(COMMAND):
        return CommandProvider(model)
    native = _native(model)
    if native is not None:
        return native
    return LiteLLMProvider(model)


def check_model(model: ModelConfig) -> None:
    """Raise a FatalModelError if a model's provider is not known or has no key; nothing is sent."""
    provider = provider_for(model)
    if isinstance(provider, NetworkProvider):
        if not model.name.startswith(_CLOUDS):  # which have other credentials
            provider.check_key()
        provider.close()


def check_reachable(model: ModelConfig) -> None:
    """Raise a FatalModelError if nobody listens at a model's own address; nothing is sent."""
    base = model.api_base or base_from_environment(model.name)
    where = endpoint_identity(model.name, base)
    if not base or getproxies():
        return
    url = urlsplit(base)
    try:
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        socket.create_connection((url.hostname, port), model.timeout).close()
    except OSError as error:
        raise FatalModelError(
            f"{model.name}: nobody answers at {where} ({error.strerror or error}): start the "
            "server, or check [model] api_base"
        ) from None


_MODELS_WAIT = 10.0
"""Seconds; the list of models is not worth a longer wait."""


def listed_models(model: ModelConfig) -> Any:
    """The body of `/models` of a model's own address; None where there is none, or none that is JSON.

    The first request reports a wrong address.
    """
    from freshstack_dspy.lm.dspy_parts import TransportError, TransportRequest, lm15
    from freshstack_dspy.lm.transport import BoundedTransport

    base = model.api_base or base_from_environment(model.name)
    if not base or "@" in urlsplit(base).netloc:
        return None
    key = _key_for(model, base, lambda: False)
    request = TransportRequest(
        "GET", f"{base.rstrip('/')}/models", headers=[("Authorization", f"Bearer {key}")]
    )
    with BoundedTransport(read_timeout=min(model.timeout, _MODELS_WAIT)) as transport:
        try:
            with transport.stream(request) as response:
                return json.loads(response.read())
        except (lm15.LM15Error, TransportError, OSError, ValueError, RecursionError):
            return None


class BaselineProvider:
    """The embedded model: it reads the JSON of the prompt and answers by counting words."""

    def complete(self, request: "Request") -> "Response":
        """Answer from the request's own texts."""
        from freshstack_dspy.baseline.replies import reply
        from freshstack_dspy.lm.dspy_parts import lm15

        task = str((request.config.response_format or {}).get("name"))
        texts = [message.text or "" for message in request.messages]
        while len(texts) > 2 and not texts[-1].startswith("{"):
            texts = texts[:-2]  # its reply and what is wrong with it: it has no other
        *history, last = texts
        try:
            turns = [json.loads(text) for text in history]
            demos = list(zip(turns[::2], turns[1::2], strict=True))
            inputs = json.loads(last)
        except ValueError:
            raise FatalModelError(
                f"{BASELINE} answers the programs of this package only; "
                "for other prompts name a real model in [model] name"
            ) from None
        outputs = reply(task, inputs, demos)
        schema: Any = (request.config.response_format or {}).get("schema") or {}
        if "reasoning" in schema.get("properties", {}):  # of a ChainOfThought
            outputs = {"reasoning": "It counts words.", **outputs}
        text = json.dumps(outputs, ensure_ascii=False)
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(text),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=0, output_tokens=0),
        )


_MOST_OF_COMMAND = 16 * 2**20
"""The longest reply."""
_MOST_OF_ERRORS = 4096
"""How much of stderr is shown: its end, where errors are."""


class CommandProvider:
    """Runs the command that a model's name holds, without a shell, once for each request.

    No settings of a request are passed on: the prompt describes the reply. A command that does not
    answer in time is killed with all that it started.
    """

    def __init__(self, model: ModelConfig) -> None:
        """Find the program, or raise a FatalModelError; nothing is run."""
        self._model = model
        try:
            self._words = shlex.split(model.name.removeprefix(COMMAND))
        except ValueError as error:
            raise FatalModelError(f"{model.section} name is {model.name!r}: {error}") from None
        program = shutil.which(self._words[0]) if self._words else None
        if program is None:
            raise FatalModelError(
                f"{model.section} name is {model.name!r}, and there is no such program: install it, "
                'or name its path, such as "command//home/me/judge.sh"'
            )
        self._words[0] = program
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()

    def complete(self, request: "Request") -> "Response":
        """Run the command once.

        A TransientModelError: it failed, wrote nothing or took too long. A ReplyError: it wrote
        too much. A FatalModelError: it cannot be run.
        """
        from freshstack_dspy.lm.dspy_parts import lm15

        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(self._run(_prompt_of(request))),
            finish_reason="stop",
            usage=lm15.Usage(),
        )

    def close(self) -> None:
        """Kill the processes that still run."""
        with self._guard:
            for process in self._running:
                _kill(process)

    def _run(self, prompt: str) -> str:
        deadline = time.monotonic() + self._model.timeout
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(prompt.encode())
            stdin.seek(0)
            with self._started(stdin, stderr) as process:
                with self._guard:
                    self._running.add(process)
                try:
                    output = self._read(process, deadline)
                    code = process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    seconds = self._model.timeout
                    late = f"no whole reply within timeout = {seconds:g} s"
                    raise did_not_answer(late, self._model) from None
                finally:
                    _kill(process)
                    with self._guard:
                        self._running.discard(process)
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _MOST_OF_ERRORS))
            complaint = stderr.read().decode(errors="replace")
        if code:
            how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise did_not_answer(f"{how}: {complaint}", self._model)
        try:
            text = output.decode().strip()
        except UnicodeDecodeError as error:
            raise did_not_answer(f"its output is not UTF-8: {error}", self._model) from None
        if not text:
            raise did_not_answer(f"it wrote nothing: {complaint}", self._model)
        return text

    def _started(self, stdin: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the user's own command, and no shell
                self._words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise FatalModelError(f"{self._model.name} cannot be run: {error}") from None

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Read stdout until it is closed, or raise a TimeoutExpired."""
        assert process.stdout is not None
        output = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return bytes(output)
                output += data
                if len(output) > _MOST_OF_COMMAND:
                    raise ReplyError(
                        f"{self._model.name} wrote more than {_MOST_OF_COMMAND >> 20} MiB",
                        status="failed",
                        call_id=None,
                    )
        raise subprocess.TimeoutExpired(self._words, self._model.timeout)


def _prompt_of(request: "Request") -> str:
    """The system message and the user's; in longer conversations, each turn below its role."""
    turns = [(message.role, message.text or "") for message in request.messages]
    texts = [text for _, text in turns]
    if len(turns) > 1:
        texts = [f"# {role.capitalize()}\n\n{text}" for role, text in turns]
    system = [request.system] if isinstance(request.system, str) else []
    return "\n\n".join([*system, *texts]) + "\n"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that is not waited for yet, and those that it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class NetworkProvider:
    """A client of DSPy's."""

    def __init__(self, model: ModelConfig, connections: Any) -> None:
        self._model, self._connections = model, connections

    def complete(self, request: "Request") -> "Response":
        """Ask once.

        A FatalModelError: no key, no access, unknown model. A ReplyError: this request was refused.
        A TransientModelError: rate limit, timeout, server error, or a reply that cannot be read.
        """
        with errors_explained(self._model):
            response = self._asked(request)
        parts, usage = response.message.parts, response.usage
        if usage.input_tokens is None and not any(
            part.type != "text" or part.text for part in parts
        ):
            raise did_not_answer("there is no reply in what it sent", self._model)
        return _with_raw_text(response)

    def check_key(self) -> None:
        """Raise a FatalModelError if there is no key."""
        with errors_explained(self._model):
            self._check_key()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    @abstractmethod
    def _asked(self, request: "Request") -> "Response":
        """Ask, with the client's own errors."""

    @abstractmethod
    def _check_key(self) -> None:
        """Check, with the client's own errors."""


class NativeProvider(NetworkProvider):
    """DSPy's own client."""

    def __init__(self, model: ModelConfig, config: "RouterConfig") -> None:
        from freshstack_dspy.lm.dspy_parts import lm15

        super().__init__(model, config.transport)
        self.most_in_flight = model.concurrency
        self._router = lm15.LMRouter(config)
        self._route = self._router.resolve_openai_chat(model.name)

    @functools.cached_property
    def _client(self) -> Any:
        return self._router.lm(f"{self._route.provider}:{self._route.model}")

    def _asked(self, request: "Request") -> "Response":
        response: Response = self._client.complete(replace(request, model=self._route.model))
        return response

    def _check_key(self) -> None:
        assert self._client


class LiteLLMProvider(NetworkProvider):
    """LiteLLM's."""

    most_in_flight = LITELLM_IN_FLIGHT

    def __init__(self, model: ModelConfig) -> None:
        imported_litellm(model)
        self._engine = litellm_engine()(**litellm_address(model))
        super().__init__(model, self._engine)

    def _asked(self, request: "Request") -> "Response":
        from freshstack_dspy.lm.transport import answer_within

        ask = functools.partial(self._engine.complete, request)
        response: Response = answer_within(self._model.timeout, ask)
        return response

    def _check_key(self) -> None:
        from freshstack_dspy.lm.dspy_parts import lm15

        if not self._engine.client_options.get("api_key"):
            environment = imported_litellm(self._model).validate_environment(self._model.name)
            if len(environment["missing_keys"]) == 1:
                raise lm15.NotConfiguredError(f"not set: {environment['missing_keys'][0]}")


def _native(model: ModelConfig) -> NativeProvider | None:
    """DSPy's own client, or None for a provider or an address that it does not know."""
    from freshstack_dspy.lm.dspy_parts import lm15
    from freshstack_dspy.lm.transport import BoundedTransport

    try:
        route = lm15.LMRouter(lm15.RouterConfig(env={})).resolve_openai_chat(model.name)
    except (lm15.UnknownModelError, lm15.UnsupportedFeatureError):
        return None
    base = model.api_base or base_from_environment(model.name)
    if base and (route.provider.startswith("azure") or "@" in urlsplit(base).netloc):
        return None  # an address with further parts or a password, which LiteLLM knows to use

    def has_key() -> bool:
        variable = lm15.LMRouter(lm15.RouterConfig()).resolve_openai_chat(model.name).env_key
        return bool(os.environ.get(variable or ""))

    key = _key_for(model, base, has_key)
    transport = BoundedTransport(
        read_timeout=model.timeout,
        pool_timeout=None,
        max_connections=model.concurrency,
        trust_env=bool(getproxies()),  # it looks through the environment at each request
    )
    config = lm15.RouterConfig(
        api_keys={route.provider: key} if key else {},
        base_urls={route.provider: base} if base else {},
        transport=transport,
    )
    return NativeProvider(model, config)


@functools.cache
def litellm_engine() -> "type[LiteLLMEngine]":
    """DSPy's engine over LiteLLM, which makes one attempt and keeps refusals."""
    from freshstack_dspy.lm.dspy_parts import LiteLLMEngine, lm15

    class _LiteLLM(LiteLLMEngine):
        def _arguments(self, request: "Request", *, streaming: bool = False) -> dict[str, Any]:
            data: dict[str, Any] = super()._arguments(request, streaming=streaming)
            taken = _litellm().get_supported_openai_params(request.model) or ()
            if "max_completion_tokens" in data and "max_completion_tokens" not in taken:
                data["max_tokens"] = data.pop("max_completion_tokens")
            return {**data, "max_retries": 0}

        def complete(self, request: "Request") -> "Response":
            response: Response = super().complete(request)
            if not response.usage.input_tokens:  # it counts 0 where the provider does not say
                response = replace(response, usage=lm15.Usage())
            data: Any = response.provider_data or {}
            fields = data.get("choices", [{}])[0].get("message") or {}
            refusal = (fields.get("provider_specific_fields") or {}).get("refusal")
            if not refusal:
                return response
            message = lm15.Message(role="assistant", parts=(lm15.RefusalPart(refusal),))
            return replace(response, message=message)

    return _LiteLLM


def imported_litellm(model: Model) -> Any:
    """LiteLLM, if it knows a model's provider; else a FatalModelError.

    It fetches its table of prices when it is imported, unless a variable is set.
    """
    try:
        litellm = _litellm()
    except ImportError as error:
        raise FatalModelError(f"{model.name} cannot be asked: {error}") from error
    try:
        litellm.get_llm_provider(model.name)
    except litellm.BadRequestError:
        raise FatalModelError(
            f"{model.section}: {model.name!r} has no known provider; "
            "those of LiteLLM are at https://docs.litellm.ai/docs/providers; for a server of one's "
            "own it is hosted_vllm/… with api_base"
        ) from None
    return litellm


@functools.cache
def _litellm() -> Any:
    from freshstack_dspy.lm.dspy_parts import get_litellm
    from freshstack_dspy.lm.transport import bound_httpx

    bound_httpx()
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        litellm = get_litellm(feature="a model of LiteLLM")
        litellm.ModelResponse()  # Pydantic warns of its types when the first is made
    return litellm


def litellm_address(model: Model) -> dict[str, Any]:
    """Timeout, endpoint and key, if they differ from the provider's and the environment's."""
    base = model.api_base or base_from_environment(model.name)

    def has_key() -> bool:
        environment = imported_litellm(model).validate_environment(model.name)
        return bool(environment["keys_in_environment"])

    key = _key_for(model, base, has_key)
    address = {"timeout": model.timeout, "api_base": base, "api_key": key}
    return {name: value for name, value in address.items() if value}


def _key_for(model: Model, base: str | None, has_key: Callable[[], bool]) -> str | None:
    """The configuration's key or the provider's variable; None leaves it to the client.

    For some providers, such as `hosted_vllm`, the client reads no variable; for others it reads
    further ones, and `has_key` tells whether one is set.
    """
    if model.api_key is not None:
        return model.api_key.get_secret_value()
    in_environment = os.environ.get(f"{model.name.partition('/')[0].upper()}_API_KEY")
    return in_environment or (_ANY_KEY if base and not has_key() else None)


_NOT_KNOWN = "is not known where it was asked for: check the name and api_base in {section}"
_FATAL = {
    "BillingError": "is not paid for",
    "NotConfiguredError": "has no key: set {key} in the environment",
    "AuthError": "refused the key: check {key}",
    "UnsupportedModelError": _NOT_KNOWN,
    "UnknownModelError": _NOT_KNOWN,
    "CapabilityError": "cannot be asked: if it is the response format, set [model] "
    'structured = "none"',
    "ConfigurationError": "cannot be asked: check {section}",
    "ImportError": "cannot be asked: check {section}",
}
"""Messages for errors that end a build, by the name of their class or nearest base class."""
_PASSING = (408, 409, 425, 429, 529)
_NOT_THERE = (404, 405, 410)
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors that clients raise if a body is not a reply."""
_FILTERED = re.compile(r"content.?(filter|policy|management)", re.IGNORECASE)
_CLASS_NAMES = re.compile(r"^((litellm\.)?\w+(Error|Exception|Timeout)( Error)?( -|:)\s*)+")


@contextmanager
def errors_explained(model: Model) -> Iterator[None]:
    """Turn the errors of DSPy's client, of LiteLLM and of the SDK below it into ours."""
    from freshstack_dspy.lm.dspy_parts import lm15, to_lm15_error

    try:
        yield
    except (lm15.LM15Error, ImportError) as error:
        raise _explained(error, model) from None
    except Exception as error:
        # LiteLLM's errors are those of the OpenAI SDK. It is not imported for this, and another
        # thread may be at it: then nobody has raised one yet.
        sdk = getattr(sys.modules.get("openai"), "OpenAIError", None)
        if sdk is not None and isinstance(error, sdk):
            mapped = to_lm15_error(error, model=model.name)
            if mapped is not error:
                mapped.__cause__ = error
            raise _explained(mapped, model) from None
        if isinstance(error, UNREADABLE):
            raise did_not_answer(f"its reply cannot be read: {error}", model) from None
        raise


def _explained(error: Exception, model: Model) -> ModelError:
    """Turn lm15's error into ours: fatal, a refusal of this request, or transient."""
    from freshstack_dspy.lm.dspy_parts import lm15

    status = getattr(error, "status", None) or 0
    message = str(getattr(error, "message", "") or error).partition("\n\n")[0]
    message = message.partition(", or pass RouterConfig")[0]  # there is none to pass it to
    shown = _CLASS_NAMES.sub("", message) + (f", HTTP {status}" if status else "")
    kind = lm15.UnsupportedModelError if status in _NOT_THERE else type(error)
    for parent in kind.__mro__:
        if reason := _FATAL.get(parent.__name__):
            key = f"{model.name.partition('/')[0].upper()}_API_KEY"
            why = reason.format(key=key, section=model.section)
            return FatalModelError(f"{model.name} {why} ({presentable(shown, model)})")
    is_request = isinstance(error, lm15.InvalidRequestError) or 300 <= status < 500
    if is_request and status not in _PASSING:
        if isinstance(error, lm15.ContextLengthError) and not is_too_long(shown):
            shown += ", context_length_exceeded"
        refused = f"{model.name} refused the request: {presentable(shown, model)}"
        if is_too_long(shown):
            return TooLongError(refused, status="failed", call_id=None)
        is_filtered = _FILTERED.search(f"{getattr(error, 'provider_code', None)} {message}")
        return ReplyError(refused, status="refused" if is_filtered else "failed", call_id=None)
    cause = error.__cause__
    # LiteLLM keeps the server's headers in a field of its own, and makes a 500 without headers of
    # what broke off.
    headers = getattr(cause or error, "litellm_response_headers", None) or {}
    if type(cause).__module__.startswith(("litellm", "openai")):
        maybe_billed = status == 200 or not headers
    else:
        maybe_billed = status in (0, 200)
    if isinstance(error, lm15.TransportError) and type(cause).__name__.startswith("Connect"):
        maybe_billed = False
    transient = did_not_answer(shown, model, maybe_billed=maybe_billed)
    transient.retry_after = _seconds(getattr(error, "retry_after", None), headers)
    busy = status == 529 or (status == 503 and transient.retry_after is not None)
    transient.rate_limited = busy or isinstance(error, lm15.RateLimitError)
    return transient


def _seconds(retry_after: float | None, headers: Any) -> float | None:
    """Seconds that the server asked to wait."""
    try:
        seconds = float(headers.get("retry-after", "") if retry_after is None else retry_after)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def sendable(request: ChatRequest, model: Model) -> "Request":
    """The request that a live call with this body sends.

    Raises:
        ReplyError: It cannot be sent.
    """
    from freshstack_dspy.lm.dspy_parts import lm15

    try:
        return replace(lm15.request_from_openai_chat(request.body()), model=model.name)
    except (*UNREADABLE, lm15.LM15Error) as error:
        why = f"the request cannot be sent: {presentable(str(error), model)}"
        raise ReplyError(why, status="failed", call_id=None) from None


def did_not_answer(why: str, model: Model, *, maybe_billed: bool = True) -> TransientModelError:
    """The error for a request without an answer, which a retry may bring."""
    error = TransientModelError(f"{model.name} did not answer: {presentable(why, model)}")
    error.maybe_billed = maybe_billed
    return error


_LONGEST = 400
_SHORTEST_SECRET = 6
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS)(_?\d+)?$", re.I)
_LOGIN = re.compile(r"://([^/]*)@")


def presentable(text: str, model: Model) -> str:
    """Put a provider's message on one line, without keys and control characters."""
    line = _in_one_line(text[: 1 << 18])
    forms = {_in_one_line(form) for secret in _secrets(model) for form in _forms(secret)}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        line = line.replace(form, "[key]")
    return line[:_LONGEST]


def _in_one_line(text: str) -> str:
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _secrets(model: Model) -> Iterator[str]:
    """Keys of the environment and the configuration, and the logins of addresses, as of a proxy."""
    secrets = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    if model.api_key is not None:
        secrets.add(model.api_key.get_secret_value())
    for address in (model.api_base or "", *os.environ.values()):
        for login in map(unquote, _LOGIN.findall(address)):
            user, colon, password = login.partition(":")
            # HTTP's Basic authorization has the colon also where there is only a token.
            secrets |= {login, password} if colon else {user, f"{user}:"}
    return (secret.strip() for secret in secrets if len(secret.strip()) >= _SHORTEST_SECRET)


def _forms(secret: str) -> Iterator[str]:
    """A secret itself, in a URL, in JSON, and as HTTP's Basic authorization."""
    yield from (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])
    yield base64.b64encode(secret.encode()).decode().rstrip("=")


def _with_raw_text(response: "Response") -> "Response":
    """Put the text of a reply back where lm15 gives the object that it parsed from it."""
    from freshstack_dspy.lm.dspy_parts import lm15

    body = response.provider_data
    if all(part.type != "data" for part in response.message.parts):
        return response
    parts = tuple(
        lm15.TextPart(_text_in(body, part.value) or json.dumps(part.value, ensure_ascii=False))
        if part.type == "data"
        else part
        for part in response.message.parts
    )
    return replace(response, message=replace(response.message, parts=parts))


def _text_in(body: Any, value: Any) -> str | None:
    """The string in a provider's body that is the JSON of a value."""
    if isinstance(body, str):
        try:
            return body if json.loads(body) == value else None
        except ValueError:
            return None
    items = body.values() if isinstance(body, dict) else body
    if not isinstance(body, dict | list | tuple):
        return None
    return next((text for item in items if (text := _text_in(item, value)) is not None), None)
