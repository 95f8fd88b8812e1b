"""Deferred requests through a batch API, over a server that speaks three of them."""

import json
from pathlib import Path

import pytest

from freshstack_dspy import connect
from freshstack_dspy.errors import BudgetError, FatalModelError, TransientModelError
from freshstack_dspy.lm.batch import jobs as batches
from freshstack_dspy.lm.batch.deferred import requests_file
from freshstack_dspy.lm.batch.providers import batch_api
from freshstack_dspy.lm.budget import Spent, upper_bound
from freshstack_dspy.lm.prices import price_of
from tests.lm.asking import BERN, ask_cities
from tests.lm.chat_server import Scripted
from tests.lm.recording import ask

from .batch_server import BatchServer
from .batching import (
    SECRET,
    TEXTS,
    OpenWaiting,
    Provider,
    echo,
    every_provider,
    only,
)


@every_provider
def test_requests_are_sent_once_and_their_replies_imported_and_charged(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    server.script = only(
        two=Scripted("cut", finish_reason="length"),
        three=Scripted("no", finish_reason="content_filter"),
    )
    here = waiting(
        provider, prices={"input": 2.0, "output": 4.0, "batch_input": 1.0, "batch_output": 2.0}
    )
    asks = here.defer(*TEXTS)
    (sent,) = here.submit()
    (ended,) = here.look()

    keys = tuple(sorted(each.key for each in asks))
    assert (sent.step, sent.batch_id, sent.keys) == ("underway", "batch_1", keys)
    assert (ended.step, ended.unanswered) == ("ended", 0)
    assert str(ended.report) == "3 imported; 0 still waiting"
    replies = [here.store.get(each.key) for each in asks]
    assert [(reply.text, reply.status) for reply in replies if reply] == [
        ("re: one", "ok"),
        ("cut", "truncated"),
        ("no", "refused"),
    ]
    assert [reply.cost for reply in replies if reply] == pytest.approx([13e-6] * 3)
    spent = here.store.spent(here.config.name)
    assert (spent.calls, spent.tokens) == (3, 30)
    assert spent.dollars == pytest.approx(39e-6)
    assert (len(server.made), server.keys) == (1, {SECRET})
    if provider != "anthropic":
        assert server.made[0].metadata == {"freshstack_submission": sent.submission}


@every_provider
def test_what_has_no_reply_is_counted_with_its_reason_and_waits_again(
    server: BatchServer, waiting: OpenWaiting, provider: Provider, tmp_path: Path
) -> None:
    """The error file is read too; a line that never came is missed; the key is in no file."""
    bad = Scripted(f"your key {SECRET} is bad", status=400)
    server.script = only(two=bad, three=Scripted(drop=True))
    here = waiting(provider)
    _, two, three = here.defer(*TEXTS)
    here.submit()
    (job,) = here.look()

    assert job.report is not None
    assert (job.report.imported, job.report.waiting) == (1, 2)
    assert two.key in job.report.failed
    assert "1 x your key [key] is bad" in job.report.reasons
    assert job.unanswered == (0 if provider == "anthropic" else 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".toml"]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []

    server.script = echo
    (again,) = here.submit()
    assert set(again.keys) == {two.key, three.key}
    here.look()
    assert list(here.store.deferred()) == []


@every_provider
def test_live_and_batch_ask_the_same(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    server.script = lambda _: Scripted(BERN)
    here = waiting(provider)
    lm = connect(here.config.model, mode="live", store=here.store)
    ask_cities(lm, temperature=0.25)
    lm.client.close()
    (live,) = here.store.replies()
    there = waiting(provider, name="b")
    there.store.defer(live.request)
    there.defer()
    there.submit()
    there.look()

    (line,) = server.made[0].requests
    assert line["custom_id"] == live.key
    # LiteLLM, which asks Azure, writes out the default number of replies.
    assert (line.get("params") or line["body"]) == {
        name: value for name, value in server.live[0].items() if (name, value) != ("n", 1)
    }
    (batch,) = there.store.replies()
    fields = ("key", "request", "text", "finish_reason", "status", "input_tokens", "output_tokens")
    assert [getattr(batch, name) for name in fields] == [getattr(live, name) for name in fields]


def test_a_batch_that_failed_validation_says_why_and_its_requests_wait_again(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    server.course.end = "failed"
    server.course.faults = [
        {"code": "invalid", "message": f"bad\nmodel {SECRET}", "line": 2, "param": None},
        {"code": "token_limit_exceeded", "message": None, "line": None, "param": None},
    ]
    here = waiting()
    here.defer(*TEXTS)
    here.submit()
    (job,) = here.look()

    assert job.status == "failed"
    assert job.faults == ("line 2: bad model [key]", "token_limit_exceeded")
    assert job.unanswered == 3
    assert here.batches.plan().requests == 3


@every_provider
def test_what_is_underway_is_not_sent_again(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    server.course.looks = 2
    here = waiting(provider)
    here.defer(*TEXTS)
    here.submit()
    here.defer("four")
    planned = here.batches.plan()

    assert (planned.requests, planned.left_out) == (1, {"underway already": 3})
    assert [len(job.keys) for job in here.submit()] == [1]
    assert here.submit() == []
    assert [job.step for job in here.look()] == ["underway", "underway"]
    here.look()
    assert [job.step for job in here.look()] == ["ended", "ended"]
    assert len(server.made) == 2
    planned = here.batches.plan()
    assert (planned.requests, planned.left_out) == (0, {"answered already": 4})


@pytest.mark.parametrize(
    ("provider", "call", "status", "kind"),
    [
        ("openai", "upload", 401, FatalModelError),
        ("azure", "upload", 429, TransientModelError),
        ("azure", "create", 400, FatalModelError),
        ("anthropic", "create", 429, TransientModelError),
    ],
)
def test_a_refused_submission_is_over_and_can_be_repeated(
    server: BatchServer,
    waiting: OpenWaiting,
    provider: Provider,
    call: str,
    status: int,
    kind: type[Exception],
) -> None:
    server.before[call] = lambda: Scripted(f"no, {SECRET}", status=status)
    here = waiting(provider)
    here.defer("one")

    with pytest.raises(kind) as caught:
        here.submit()
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert server.calls[call] == 1, "no client tries a second time behind our back"
    assert here.batches.folder.pending() == []

    server.before.clear()
    assert len(here.submit()) == 1
    assert len(server.made) == 1


# What a submission sends, in how many batches, and what it may cost


def test_requests_to_another_model_and_unknown_ones_are_left_out(waiting: OpenWaiting) -> None:
    here = waiting()
    here.defer("one")
    here.defer("other", model="openai/other")
    line = json.dumps({"custom_id": "stranger", "body": {}})
    here.file.write_text(here.file.read_text() + line + "\n")
    planned = here.batches.plan()

    assert planned.requests == 1
    assert sorted(planned.left_out.values()) == [1, 1]


@every_provider
def test_many_requests_are_cut_into_several_batches(
    server: BatchServer,
    waiting: OpenWaiting,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = waiting(provider)
    asks = here.defer(*TEXTS, "four", "five")
    api = batch_api(here.config.model)
    assert (api.most_requests, api.most_bytes) == (
        (100_000, 256_000_000) if provider == "anthropic" else (50_000, 200_000_000)
    )
    monkeypatch.setattr(type(api), "most_requests", 2)

    jobs = here.submit()

    assert [len(job.keys) for job in jobs] == [2, 2, 1]
    assert [len(made.requests) for made in server.made] == [2, 2, 1]
    assert {key for job in jobs for key in job.keys} == {each.key for each in asks}
    assert here.look()[-1].report is not None
    assert list(here.store.deferred()) == []


def test_no_batch_that_could_pass_the_budget_is_sent(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    """What is underway counts at its upper bound, and what was imported at what it cost."""
    server.course.looks = 1
    here = waiting(budget={"calls": 4})
    here.defer(*TEXTS)
    here.submit()
    here.defer("four", "five")

    with pytest.raises(BudgetError, match="0 spent so far, 3 reserved for batches underway"):
        here.submit()
    here.look()
    here.look()
    with pytest.raises(
        BudgetError, match=r"3 spent so far, 0 reserved .* could take 2; nothing was"
    ):
        here.submit()
    assert len(server.made) == 1
    assert here.batches.folder.reserved() == Spent()


# Servers whose answers make no sense, or are about what nobody asked them


@pytest.mark.parametrize("provider", ["openai", "azure"])
@pytest.mark.parametrize(
    "answer", ["{}", '{"data": 5}', '{"data": [{"id": "b", "created_at": "2026-01-01T00:00:00"}]}']
)
def test_an_unreadable_list_is_not_taken_for_an_empty_one(
    server: BatchServer,
    waiting: OpenWaiting,
    monkeypatch: pytest.MonkeyPatch,
    provider: Provider,
    answer: str,
) -> None:
    """A batch whose creation was cut off would count as never made, and be paid for twice."""
    monkeypatch.setattr(batches, "SETTLING_SECONDS", 0.0)
    here = waiting(provider)
    here.defer(*TEXTS)
    server.after["create"] = lambda: Scripted(drop=True)
    with pytest.raises(TransientModelError, match="whether the batch was made is not known"):
        here.submit()
    server.before["list"] = lambda: Scripted(body=answer.encode())

    with pytest.raises(TransientModelError, match="its reply cannot be read"):
        here.look()
    (job,) = here.batches.folder.pending()
    assert job.step == "creating"


def test_a_reply_to_what_a_batch_was_not_asked_is_not_recorded(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    """The store also holds requests to other models at other servers."""
    here = waiting()
    here.defer("one")
    here.submit()
    others = ask("private", model="openai/other", endpoint="https://elsewhere")
    here.store.defer(others)
    body = {"choices": [{"message": {"content": "planted"}}]}
    line = {"custom_id": others.key, "response": {"status_code": 200, "body": body}}
    server.course.extra_lines = [json.dumps(line)]
    (job,) = here.look()

    assert here.store.get(others.key) is None
    assert [each.key for each in here.store.deferred()] == [others.key]
    assert job.report is not None
    assert job.report.unknown == (others.key,)
    assert here.texts() == {"re: one"}


def test_collections_that_share_a_store_do_not_pay_twice_for_a_request(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    one = waiting()
    one.defer("both", "one")
    one.submit()
    other = waiting()
    renamed = other.config.model_copy(update={"name": "other"})
    other.batches, other.file = batches.Batches(renamed, other.store), requests_file(renamed)
    other.defer("both", "other")
    planned = other.batches.plan()

    assert other.batches.folder.path != one.batches.folder.path
    assert (planned.requests, planned.left_out) == (1, {"underway already": 2})


def test_a_batch_s_reply_without_a_count_is_charged_at_its_upper_bound(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    """As a live one is, or a provider that counts nothing could be paid without end."""
    server.script = lambda _: Scripted("there", usage=None)
    here = waiting()
    (asked,) = here.defer("one")
    here.submit()
    here.look()
    price = price_of(asked.model, here.config.prices)
    assert price is not None

    assert here.texts() == {"there"}
    assert here.store.spent(here.config.name) == upper_bound(asked, price.batched)
