"""Requests that are refused are sent in halves, until it is known what is refused."""

from typing import Any

import numpy as np
import pytest

from freshstack_dspy.errors import FatalModelError
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenClient
from .numbers_server import answer, vector


@pytest.mark.parametrize("place", [0, 5, 15])
def test_one_refused_text_among_many_is_found_and_named(
    server: ChatServer, open_client: OpenClient, place: int
) -> None:
    texts = [f"text {number}" for number in range(16)]
    texts[place] = "far too long " * 9

    def script(body: dict[str, Any]) -> Scripted:
        if texts[place] in body["input"]:
            return Scripted(status=400, content="maximum context length is 8 tokens")
        return answer(body)

    server.script = script

    with pytest.raises(FatalModelError) as raised:
        open_client(batch=16).vectors(texts)

    assert str(raised.value) == (
        "openai/scripted refused the request: maximum context length is 8 tokens, HTTP 400; "
        "the text, of 117 characters, begins 'far too long far too long far too long far too long "
        "far too…': if it is too long, set [[embedder]] max_tokens, and longer ones are cut"
    )
    assert len(server.requests) <= 2 * 5


def test_texts_that_are_too_many_for_one_request_are_sent_in_halves(
    server: ChatServer, open_client: OpenClient
) -> None:
    texts = [f"text {number}" for number in range(16)]

    def script(body: dict[str, Any]) -> Scripted:
        if len(body["input"]) > 4:
            return Scripted(status=400, content="at most 4 inputs")
        return answer(body)

    server.script = script

    found = open_client(batch=16).vectors(texts)

    np.testing.assert_array_equal(np.array([vector(text) for text in texts]), found)
    assert len(server.requests) == 3 + 4


def test_a_provider_that_refuses_everything_is_not_asked_for_ever(
    server: ChatServer, open_client: OpenClient
) -> None:
    server.script = lambda _: Scripted(status=422, content="encoding_format is unknown")

    with pytest.raises(FatalModelError, match="encoding_format is unknown"):
        open_client(batch=64).vectors([f"text {number}" for number in range(640)])
    assert len(server.requests) <= 12 + 8
