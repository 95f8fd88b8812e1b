"""Typed questions: who may ask them, with which settings, and from where."""

import asyncio
import json
from typing import Any, Literal

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, Usage
from dspy.utils import DummyLM
from pydantic import BaseModel

from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import TypedAdapter, TypedPredict
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.asking import BERN, PROSE, City, ListCities, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect


def test_a_valid_reply_is_an_answer_with_the_key_of_its_reply(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says(BERN)
    answer = ask_cities(client_for())
    reply = store.get(answer.call_id)

    assert [City(name="Bern", people=137000)] == answer.cities
    assert reply is not None
    assert (reply.text, reply.status, reply.reasked_as) == (BERN, "ok", None)


def test_two_signatures_of_one_name_do_not_share_a_model(
    server: ChatServer, client_for: Connect
) -> None:
    """In a notebook a signature is defined again and again under its name."""

    def signature(lowest: int) -> Any:
        class Grade(BaseModel):
            value: Literal[1, 2, 3] if lowest else Literal[0, 1]  # type: ignore[valid-type]

        class GradeIt(dspy.Signature):
            """Grade."""

            text: str = dspy.InputField()
            grade: Grade = dspy.OutputField()

        return GradeIt

    server.says('{"grade": {"value": 0}}')
    with dspy.context(lm=client_for(reasks=0)):
        assert TypedPredict(signature(0))(text="x").grade.value == 0
        with pytest.raises(ReplyError, match=r"grade\.value is 0; allowed: 1, 2 or 3"):
            TypedPredict(signature(1))(text="x")


def test_sampling_parameters_are_sent_and_reach_the_key(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(BERN)
    lm = client_for(temperature=0.3, max_tokens=100)
    keys = {ask_cities(lm, **config).call_id for config in ({}, {"top_p": 0.5}, {"seed": 3})}
    keys.add(ask_cities(lm.copy(temperature=0.9)).call_id)

    assert len(keys) == 4
    assert [body["temperature"] for body in server.requests] == [0.3, 0.3, 0.3, 0.9]
    assert [body.get("top_p") for body in server.requests] == [None, 0.5, None, None]
    assert [body.get("seed") for body in server.requests] == [None, None, 3, None]
    assert {100} == {body["max_completion_tokens"] for body in server.requests}


def test_a_sample_number_of_one_call_or_of_a_copy_is_a_question_of_its_own(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(PROSE, BERN)
    lm = client_for()
    keys = [
        ask_cities(lm).call_id,
        ask_cities(lm, rollout_id=1).call_id,
        ask_cities(lm.copy(rollout_id=1)).call_id,
        ask_cities(lm, rollout_id=2).call_id,
    ]

    assert (keys[1], 3) == (keys[2], len(set(keys)))
    assert len(server.requests) == 4


def test_a_setting_that_cannot_be_kept_is_refused(server: ChatServer, client_for: Connect) -> None:
    with pytest.raises(FatalModelError, match="does not take n, tempreature"):
        ask_cities(client_for(), n=3, tempreature=1.0)
    with pytest.raises(FatalModelError, match="a sampling parameter cannot be used"):
        ask_cities(client_for(), temperature=7)

    assert server.requests == []


def test_a_model_that_dspy_takes_for_a_reasoner_keeps_its_limit(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(BERN)
    ask_cities(client_for(name="openai/gpt-5", temperature=1.0, max_tokens=16000))

    assert server.requests[0]["max_completion_tokens"] == 16000


def test_an_asynchronous_program_asks_the_same_typed_question(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(PROSE, BERN)
    lm = client_for()

    async def ask() -> Any:
        with dspy.context(lm=lm):
            return await TypedPredict(ListCities).acall(country="Switzerland")

    assert ask_cities(lm).call_id == asyncio.run(ask()).call_id
    assert len(server.requests) == 2


class Scribe:
    """Somebody else's engine."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)

    def complete(self, request: Request) -> Response:
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(self.replies.pop(0)),
            finish_reason="stop",
            usage=Usage(),
        )


@pytest.mark.parametrize(
    "lm",
    [
        dspy.LM("openai/x", engine=Scribe(PROSE, BERN), cache=False, num_retries=0),
        DummyLM([json.loads(BERN)], adapter=dspy.JSONAdapter()),
    ],
    ids=["LM", "DummyLM"],
)
def test_any_dspy_model_works_unrecorded(lm: Any) -> None:
    answer = ask_cities(lm)

    assert (answer.cities[0].name, answer.call_id) == ("Bern", "unrecorded")


def test_the_typed_adapter_can_be_configured_for_any_program(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(BERN)
    with dspy.context(lm=client_for(), adapter=TypedAdapter()):
        assert dspy.Predict(ListCities)(country="Switzerland").cities[0].name == "Bern"


def test_sixteen_threads_get_their_own_answers_and_re_asks(
    server: ChatServer, client_for: Connect
) -> None:
    """instructor and DSPy keep state of their own; none of it may leak between threads."""

    def script(body: dict[str, Any]) -> Scripted:
        country = json.loads(body["messages"][1]["content"])["country"]
        if len(body["messages"]) == 2 and int(country) % 2:
            return Scripted(f"prose about {country}")
        return Scripted(json.dumps({"cities": [{"name": f"City {country}", "people": 1}]}))

    server.script = script
    lm = client_for(reasks=1)
    names = [f"City {number}" for number in range(200)]

    def ask(number: int) -> str:
        name: str = ask_cities(lm, str(number)).cities[0].name
        return name

    assert map_in_order(ask, range(200), workers=16) == names
    assert len(server.requests) == 300
    assert map_in_order(ask, range(200), workers=16) == names
    assert len(server.requests) == 300
    account = lm.ledger.steps()["other"]
    assert (account.calls, account.cached, account.reasked) == (300, 300, 200)
