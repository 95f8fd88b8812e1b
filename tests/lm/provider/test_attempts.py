"""What becomes of the errors of providers."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import FatalModelError, ModelError, ReplyError, TransientModelError
from freshstack_dspy.lm.client import connect
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.asking import request
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect

SECRET = "sk-planted-0123456789"


def _files_with(text: str, folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            Scripted(f"Incorrect API key: {SECRET}", status=401),
            "refused the key: check OPENAI_API_KEY",
        ),
        (Scripted(f"Not for {SECRET}", status=403), "refused the key: check OPENAI_API_KEY"),
        (Scripted(f"No quota for {SECRET}", status=402), "is not paid for"),
        (Scripted(f"No model for {SECRET}", status=404), "is not known where it was asked for"),
    ],
)
def test_what_no_retry_can_help_stops_at_once_in_one_line_without_the_key(
    server: ChatServer,
    client_for: Connect,
    waits: list[float],
    tmp_path: Path,
    reply: Scripted,
    said: str,
) -> None:
    server.says(reply)
    with pytest.raises(FatalModelError) as caught:
        client_for(api_key=SECRET)(request())
    message = str(caught.value)

    assert message.startswith("openai/scripted")
    assert said in message
    assert SECRET not in message
    assert "\n" not in message
    assert (len(server.requests), waits) == (1, [])
    assert f"Bearer {SECRET}" == server.headers[0]["Authorization"]
    assert _files_with(SECRET, tmp_path) == []


def test_a_key_of_the_environment_is_used_and_not_shown(
    server: ChatServer, client_for: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.says(Scripted(f"\x1b[31mno\x1b[0m\n{SECRET}\n", status=401))
    with pytest.raises(FatalModelError) as caught:
        client_for()(request())

    assert f"Bearer {SECRET}" == server.headers[0]["Authorization"]
    assert SECRET not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_missing_key_names_the_variable_to_set(store: ReplyStore) -> None:
    lm = connect(ModelConfig(name="openai/scripted"), store=store)

    with pytest.raises(FatalModelError, match="set OPENAI_API_KEY in the environment"):
        lm(request())


@pytest.mark.parametrize("name", ["gpt-4o", "/gpt-4o", "openai/", ""])
def test_a_name_without_provider_and_model_is_explained(name: str, store: ReplyStore) -> None:
    with pytest.raises(FatalModelError, match=r"cannot be asked|takes a provider and a model"):
        connect(ModelConfig(name=name), store=store)("hello")


def test_a_model_that_dspy_refuses_is_explained(store: ReplyStore) -> None:
    with pytest.raises(FatalModelError, match=r"openai/gpt-5 cannot be asked: .*temperature=1.0"):
        connect(ModelConfig(name="openai/gpt-5"), store=store)


def test_a_rate_limit_is_waited_out_for_as_long_as_the_server_asks(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    slow_down = Scripted("slow down", status=429, headers={"Retry-After": "0.5"})
    server.says(slow_down, "there")

    assert client_for()(request()).text == "there"
    assert (waits, len(server.requests)) == ([0.5], 2)


def test_a_provider_that_asks_to_wait_for_an_hour_stops_the_build(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("tomorrow", status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(FatalModelError, match=r"asks to wait for 3,600 s: run this again then"):
        client_for()(request())

    assert (waits, len(server.requests)) == ([], 1)


class _Unwilling:
    """A provider that wants to be asked tomorrow."""

    def complete(self, _: Any) -> Any:
        error = TransientModelError("come back tomorrow")
        error.retry_after = 86_400
        raise error


def test_nobody_waits_for_more_than_a_minute(store: ReplyStore, waits: list[float]) -> None:
    lm = connect(ModelConfig(name="openai/scripted"), store=store, provider=_Unwilling())
    with pytest.raises(ReplyError, match="come back tomorrow"):
        lm(request())

    assert waits == [60.0] * 4


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "inf", ""])
def test_a_wait_that_makes_no_sense_is_not_taken_over(
    server: ChatServer, client_for: Connect, waits: list[float], header: str
) -> None:
    server.says(Scripted("slow down", status=429, headers={"Retry-After": header}), "there")
    client_for()(request())

    assert len(waits) == 1
    assert 0 <= waits[0] <= 60


@pytest.mark.parametrize(
    "trouble",
    [
        Scripted("oops", status=500),
        Scripted("busy", status=503),
        Scripted("gone", status=408),
        Scripted(drop=True),
        Scripted(body=b"<html>proxy error</html>"),
        Scripted(body=b'{"choices": [{"mess'),
        Scripted(body=b"{}"),
        Scripted(body=b'{"choices": []}'),
        Scripted(body=b"[]"),
        Scripted(body=b"null"),
        Scripted(body=b'{"choices": "none"}'),
        Scripted(body=b'{"choices": [{"message": "hi", "finish_reason": "stop"}]}'),
        Scripted(body=b""),
        Scripted("hi", usage={"prompt_tokens": -1, "completion_tokens": "many"}),
        Scripted("hi", usage="much"),
    ],
)
def test_trouble_that_passes_is_tried_again(
    server: ChatServer, client_for: Connect, waits: list[float], trouble: Scripted
) -> None:
    server.says(trouble, "there")

    assert client_for()(request()).text == "there"
    assert (len(waits), len(server.requests)) == (1, 2)


def test_a_server_that_does_not_answer_in_time_is_asked_again(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("late", delay=4), "there")

    assert client_for(timeout=1.5)(request()).text == "there"
    assert len(waits) == 1


def test_one_request_that_is_never_answered_is_a_failure_of_its_own(
    server: ChatServer, store: ReplyStore, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("oops", status=500))
    with pytest.raises(
        ReplyError, match=r"did not answer: .*oops.* \(after 3 attempts\)"
    ) as caught:
        client_for(retries=2)(request())

    (recorded,) = store.replies()
    assert (caught.value.status, caught.value.call_id) == ("failed", recorded.key)
    assert (len(server.requests), len(waits)) == (3, 2)
    assert (recorded.status, recorded.cost) == ("failed", None)


def test_three_unanswered_requests_in_a_row_stop_the_build(
    client_for: Connect, waits: list[float]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    lm = client_for(api_base=closed, retries=1)
    outcomes = []
    for number in range(3):
        with pytest.raises(ModelError) as caught:
            lm(request(str(number)))
        outcomes.append(type(caught.value))

    assert [ReplyError, ReplyError, TransientModelError] == outcomes
    assert "3 requests in a row: the build stops here" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_answer_in_between_means_that_it_is_no_outage(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    oops = Scripted("oops", status=500)
    server.says(oops, oops, "there", oops, oops, "there")
    lm = client_for(retries=0)
    outcomes = []
    for number in range(6):
        try:
            outcomes.append(lm(request(str(number))).text)
        except ReplyError as error:
            outcomes.append(error.status)

    assert outcomes == ["failed", "failed", "there"] * 2


def test_a_request_that_is_refused_as_malformed_is_not_tried_again(
    server: ChatServer, client_for: Connect, waits: list[float]
) -> None:
    server.says(Scripted("too long", status=400))
    with pytest.raises(ReplyError, match=r"refused the request: .*too long") as caught:
        client_for()(request())

    assert (caught.value.status, len(server.requests), waits) == ("failed", 1, [])


def test_a_request_that_a_content_filter_stops_is_a_refusal(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says(Scripted("stopped by the content filter", status=400))
    response = client_for()(request())

    assert response.finish_reason == "content_filter"
    assert [reply.status for reply in store.replies()] == ["refused"]


def test_a_server_that_refuses_everything_stops_the_build(
    server: ChatServer, client_for: Connect
) -> None:
    """A wrong setting would otherwise make a failure of every query."""
    server.says(Scripted("response_format is not supported", status=400))
    lm = client_for()
    outcomes = []
    for number in range(3):
        with pytest.raises(ModelError) as caught:
            lm(request(str(number)))
        outcomes.append(type(caught.value))

    assert [ReplyError, ReplyError, FatalModelError] == outcomes
    assert 'set structured = "none"' in str(caught.value)


def test_a_refused_request_after_an_accepted_one_is_a_failure_of_its_own(
    server: ChatServer, client_for: Connect
) -> None:
    server.says("there", Scripted("too long", status=400))
    lm = client_for()
    lm(request("first"))
    for number in range(4):
        with pytest.raises(ReplyError):
            lm(request(str(number)))


def test_a_reply_cut_inside_an_escape_is_kept_readable(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    r"""A server that escapes emoji cuts a long reply after `\ud83d`, which has no UTF-8."""
    body = Scripted("CUT", finish_reason="length").encoded().replace(b"CUT", b"cut \\ud83d")
    server.says(Scripted(body=body))
    client_for()(request())

    assert [(reply.text, reply.status) for reply in store.replies()] == [("cut �", "truncated")]


def test_no_key_of_the_machine_is_seen_by_a_test() -> None:
    assert [name for name in os.environ if name.endswith("_API_KEY")] == []


def test_litellm_is_not_imported_unless_it_is_needed() -> None:
    code = (
        "import sys, freshstack_dspy.lm.client, freshstack_dspy.programs\n"
        "print(sorted({'litellm', 'instructor', 'openai'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert json.loads(found) == []


def test_the_network_is_off() -> None:
    with socket.socket() as stray, pytest.raises(AssertionError, match="the network is off"):
        stray.connect(("192.0.2.1", 80))
