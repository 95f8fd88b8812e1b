"""A reply with a lesser fault: sent back, and used where no better one comes."""

import json

import dspy
import pytest

from freshstack_dspy.errors import DeferredError
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.records import Query
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect

QUERY = Query(query_id="q", title="Widths?", body="", answer="Use `width`.")


def reply(text: str, quote: str) -> str:
    return json.dumps({"nuggets": [{"quote": quote, "text": text}]})


MISQUOTED, QUOTED = reply("first", "Using width"), reply("better", "Use width")


def asked(lm: object) -> dspy.Prediction:
    with dspy.context(lm=lm):
        return Nuggetizer()(QUERY)


def test_a_misquotation_is_sent_back_with_its_words(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(MISQUOTED, QUOTED)
    made = asked(client_for())

    assert (made.nuggets[0].text, made.nuggets[0].answer_span) == ("better", (0, 11))
    assert made.failure is None
    assert 'the quote "Using width" does not stand in the answer' in server.sent()[-1]["content"]


def test_after_the_last_re_ask_the_last_such_reply_is_used_and_not_asked_for_again(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says(MISQUOTED, reply("second", "Used"), reply("third", "Uses"))
    made = asked(client_for())
    replayed, live = asked(client_for("replay")), asked(client_for())
    (used,) = (one for one in store.replies() if one.key == made.nuggets[0].call_id)

    assert (
        made.nuggets[0].text,
        made.nuggets[0].answer_span,
        len(server.requests),
    ) == ("third", None, 3)
    assert made.failure.call_id == used.key
    assert used.status == "ok"
    assert [made.nuggets, made.failure] == [replayed.nuggets, replayed.failure]
    assert [made.nuggets, made.failure] == [live.nuggets, live.failure]


def test_a_refused_or_truncated_re_ask_does_not_lose_it(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(MISQUOTED, Scripted(QUOTED[:-9], finish_reason="length"))

    assert asked(client_for()).nuggets[0].text == "first"


def test_a_re_ask_that_is_put_off_is_waited_for(server: ChatServer, client_for: Connect) -> None:
    server.says(MISQUOTED)
    asked(client_for(reasks=0))

    with pytest.raises(DeferredError):
        asked(client_for("defer"))
