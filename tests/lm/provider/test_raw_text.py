"""What is recorded of a reply is the text that the model wrote, whatever the schema."""

from typing import Any, Literal

import dspy
import pytest
from dspy.lm15 import DataPart, Message, Response, TextPart, Usage

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.engine import with_raw_text
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import TypedPredict
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect
from tests.signatures.examples import EXAMPLES


class Decide(dspy.Signature):
    """Decide."""

    question: str = dspy.InputField()
    yes: bool = dspy.OutputField()
    size: Literal["small", "large"] = dspy.OutputField()


@pytest.mark.parametrize(
    "said",
    ['{"yes": true, "size": "small"}', ' {\n"size":"large","yes":false}\n',
     '{"yes": true, "size": "small", "size": "large"}'],
)  # fmt: skip
def test_a_decision_is_recorded_as_it_was_written(
    server: ChatServer, store: ReplyStore, client_for: Connect, said: str
) -> None:
    server.script = lambda _: Scripted(said)

    with dspy.context(lm=client_for()):
        decided = TypedPredict(Decide)(question="which?")

    assert decided.size in said
    assert [reply.text for reply in store.replies()] == [said]


@pytest.mark.parametrize("signature", EXAMPLES, ids=lambda signature: signature.__name__)
def test_the_text_of_every_question_of_ours_arrives(
    server: ChatServer, store: ReplyStore, client_for: Connect, signature: Any
) -> None:
    said = '{"nothing": "that fits"}'
    server.script = lambda _: Scripted(said)

    with dspy.context(lm=client_for(reasks=0)), pytest.raises(ReplyError):
        TypedPredict(signature)(**EXAMPLES[signature])

    assert [reply.text for reply in store.replies()] == [said]


@pytest.mark.parametrize(
    "body",
    [
        {"content": [{"type": "text", "text": '{"a": 0, "a": 1}'}]},
        {"candidates": [{"content": {"parts": [{"text": '{"a": 0, "a": 1}'}]}}]},
        {"error": '{"a": 2}', "output": [[{"text": "{"}], {"text": '{"a": 0, "a": 1}'}]},
    ],
)
def test_the_text_is_found_in_the_body_of_any_provider(body: dict[str, Any]) -> None:
    assert with_raw_text(response(body)).message.parts == (TextPart('{"a": 0, "a": 1}'),)


def test_an_object_whose_text_is_nowhere_is_written_down() -> None:
    assert with_raw_text(response({"id": "x"})).message.parts == (TextPart('{"a": 1}'),)


def response(body: dict[str, Any]) -> Response:
    return Response(
        id=None,
        model="m",
        message=Message(role="assistant", parts=(DataPart(value={"a": 1}),)),
        finish_reason="stop",
        usage=Usage(input_tokens=1, output_tokens=1),
        provider_data=body,
    )
