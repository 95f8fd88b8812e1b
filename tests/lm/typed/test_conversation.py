"""Replies that are no answer: sent back, given up, gone on with."""

import json

import pytest

from freshstack_dspy.errors import DeferredError, FatalModelError, ReplayMissError, ReplyError
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.typed import unfenced
from tests.lm.asking import BERN, PROSE, ask_cities
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.conftest import Connect


@pytest.mark.parametrize(
    ("invalid", "error"),
    [
        (PROSE, "it is not one JSON object"),
        ("", "it is not one JSON object"),
        ("null", "the reply is null; allowed: an object"),
        ("[]", "the reply is a list of 0; allowed: an object"),
        (BERN[:-10], "it is not one JSON object"),
        ("Sure: " + BERN, "it is not one JSON object"),
        ('{"cities": []}', "cities is a list of 0; allowed: at least 1 item"),
        (json.dumps({"cities": [{"name": "Ab", "people": 1}] * 3}), "allowed: at most 2 items"),
        ('{"cities": [{"name": "B", "people": 1}]}', 'cities[0].name is "B"; allowed: at least 2'),
        ('{"cities": [{"name": "Bern", "people": -1}]}', "people is -1; allowed: 0 or more"),
        ('{"cities": [{"name": "Bern", "people": "137000"}]}', "allowed: an integer"),
        ('{"cities": [{"name": "Bern"}]}', "cities[0].people is missing"),
        ('{"cities": [{"name": "Bern", "people": 1}], "note": "x"}', "note is not a field"),
        ('{"cities": [{"name": "B\\ud800n", "people": 1}]}', "it is not one JSON object"),
        ('{"cities": ' + "[" * 500 + "]" * 500 + "}", "it is not one JSON object"),
    ],
)
def test_an_invalid_reply_is_sent_back_with_its_error(
    server: ChatServer, store: ReplyStore, client_for: Connect, invalid: str, error: str
) -> None:
    server.says(invalid, BERN)
    answer = ask_cities(client_for())
    *_, fed_back = server.sent()
    first, second = sorted(store.replies(), key=lambda reply: len(reply.request.messages))

    assert answer.cities[0].name == "Bern"
    assert (fed_back["role"], len(server.requests)) == ("user", 2)
    assert error in fed_back["content"]
    assert invalid in [message["content"] for message in server.sent()] or not invalid
    assert ("unparsed", second.key) == (first.status, first.reasked_as)
    assert ("ok", second.key) == (second.status, answer.call_id)


def test_a_re_ask_is_in_our_words_from_beginning_to_end(
    server: ChatServer, client_for: Connect
) -> None:
    """Those of instructor and Pydantic change: an upgrade would miss every recorded re-ask."""
    server.says(PROSE, "", '{"cities": []}', BERN)
    ask_cities(client_for(reasks=3))
    told = "Your reply is not a valid answer. Answer again with the whole JSON object, corrected, and nothing else. What is wrong:\n- "
    not_json = "it is not one JSON object: the reply must begin with { and end with its }, with no text around it and nothing cut off"

    assert [(turn["role"], turn["content"]) for turn in server.sent()[2:]] == [
        ("assistant", PROSE),
        ("user", told + not_json),
        ("user", told + not_json),
        ("assistant", '{"cities": []}'),
        ("user", told + "cities is a list of 0; allowed: at least 1 item"),
    ]


def test_validators_see_the_inputs(server: ChatServer, client_for: Connect) -> None:
    server.says(BERN)
    with pytest.raises(ReplyError, match="Bern is not in Atlantis"):
        ask_cities(client_for(), country="Atlantis")


def test_a_mended_answer_is_replayed_with_all_its_calls_and_asked_again_never(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(PROSE, '{"cities": []}', BERN)
    first = ask_cities(client_for())
    replay, live = client_for("replay"), client_for()
    answers = [ask_cities(replay), ask_cities(live)]

    assert [first.call_id] * 2 == [answer.call_id for answer in answers]
    assert len(server.requests) == 3
    for lm in (replay, live):
        account = lm.ledger.steps()["other"]
        assert (account.calls, account.cached, account.reasked) == (0, 3, 2)


def test_a_reply_that_never_becomes_valid_is_unparsed_after_bounded_calls(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    server.says(PROSE)
    with pytest.raises(
        ReplyError, match="no valid reply in 3 attempts; last: it is not one JSON object"
    ) as caught:
        ask_cities(client_for())

    assert (caught.value.status, len(server.requests)) == ("unparsed", 3)
    assert {"unparsed"} == {reply.status for reply in store.replies()}
    assert caught.value.call_id in {reply.key for reply in store.replies()}


def test_the_number_of_re_asks_is_the_configurations(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(PROSE)
    for reasks in (0, 1, 4):
        with pytest.raises(ReplyError, match=f"in {reasks + 1} attempts"):
            ask_cities(client_for(reasks=reasks), country=str(reasks))

    assert len(server.requests) == 1 + 2 + 5


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Scripted(BERN, finish_reason="length"), "truncated"),
        (Scripted(BERN[:20], finish_reason="length"), "truncated"),
        (Scripted("", finish_reason="length"), "truncated"),
        (Scripted(None, refusal="I cannot help with that"), "refused"),
        (Scripted(BERN, finish_reason="content_filter"), "refused"),
    ],
)
def test_a_truncated_or_refused_reply_is_no_answer_and_not_sent_back(
    server: ChatServer, store: ReplyStore, client_for: Connect, reply: Scripted, status: str
) -> None:
    server.says(reply)
    with pytest.raises(ReplyError, match=status) as caught:
        ask_cities(client_for())
    with pytest.raises(ReplyError, match=status):
        ask_cities(client_for("replay"))

    assert (status, 1) == (caught.value.status, len(server.requests))
    assert [(status, caught.value.call_id)] == [
        (reply.status, reply.key) for reply in store.replies()
    ]


@pytest.mark.parametrize(
    "dead_end",
    [Scripted(PROSE), Scripted(BERN, finish_reason="length"), Scripted(None, refusal="no")],
)
def test_a_rerun_asks_again_where_there_was_no_answer(
    server: ChatServer, store: ReplyStore, client_for: Connect, dead_end: Scripted
) -> None:
    server.says(dead_end)
    with pytest.raises(ReplyError):
        ask_cities(client_for(reasks=0))
    server.says(BERN)

    assert ask_cities(client_for(reasks=0)).cities[0].name == "Bern"
    assert ask_cities(client_for("replay", reasks=0)).cities[0].name == "Bern"
    assert (len(server.requests), [reply.status for reply in store.replies()]) == (2, ["ok"])


def test_a_re_ask_that_was_put_off_goes_on_where_it_stopped(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    """An interrupted or deferred re-ask must not ask, and pay, for the first reply again."""
    server.says(PROSE, BERN)
    with pytest.raises(ReplyError):
        ask_cities(client_for(reasks=0))
    (first,) = store.replies()
    store.note(first.key, "ok")
    for _ in range(2):
        with pytest.raises(Exception, match="written down"):
            ask_cities(client_for("defer"))
    (waiting,) = store.deferred()
    noted = store.get(first.key)

    assert noted is not None
    assert ("unparsed", waiting.key) == (noted.status, noted.reasked_as)
    assert waiting.key == ask_cities(client_for()).call_id
    assert len(server.requests) == 2


def test_defer_asks_once_more_for_what_was_refused_live_and_takes_a_batchs_refusal_for_one(
    server: ChatServer, store: ReplyStore, client_for: Connect
) -> None:
    """It would otherwise be deferred again in every round, and the build would never end."""
    server.says(Scripted(None, refusal="no"))
    with pytest.raises(ReplyError, match="refused"):
        ask_cities(client_for())
    with pytest.raises(DeferredError):
        ask_cities(client_for("defer"))
    ((refused,), (waiting,)) = store.replies(), store.deferred()
    assert refused.key == waiting.key

    store.put(refused.model_copy(update={"origin": "import"}))
    with pytest.raises(ReplyError, match="refused"):
        ask_cities(client_for("defer"))
    assert len(server.requests) == 1


def test_an_error_in_the_middle_of_a_re_ask_is_raised_as_it_is(
    server: ChatServer, client_for: Connect
) -> None:
    server.says(PROSE, Scripted("no", status=401))
    with pytest.raises(FatalModelError, match="refused the key"):
        ask_cities(client_for())
    with pytest.raises(ReplayMissError, match="the nearest recorded request"):
        ask_cities(client_for("replay"))


@pytest.mark.parametrize(
    ("text", "within"),
    [
        ("so:\n```json\n{}\n```\nand so", "{}"),
        ("```\n\n```", ""),
        ("```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```"),
    ],
)
def test_one_fence_is_taken_off_and_of_two_none(text: str, within: str) -> None:
    assert unfenced(text) == within
