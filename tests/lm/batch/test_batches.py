"""Deferred requests through a batch API, over a server that speaks three of them."""

from pathlib import Path

import pytest

from freshstack_dspy.errors import FatalModelError, StoreError, TransientModelError
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.client import connect
from tests.lm.asking import BERN, ask_cities
from tests.lm.chat_server import Scripted

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
def test_requests_are_sent_once_and_their_replies_imported(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    here = waiting(provider)
    asks = here.defer(*TEXTS)

    (sent,) = here.submit()
    (ended,) = here.look()

    assert (sent.step, sent.batch_id, sent.keys) == (
        "underway",
        "batch_1",
        tuple(sorted(each.key for each in asks)),
    )
    assert (ended.step, ended.unanswered) == ("ended", 0)
    assert ended.report is not None
    assert str(ended.report) == "3 imported; 0 still waiting"
    assert here.texts() == {"re: one", "re: two", "re: three"}
    assert len(server.made) == 1
    assert server.keys == {SECRET}
    if provider != "anthropic":
        assert server.made[0].metadata == {"freshstack_submission": sent.submission}


@every_provider
def test_a_batch_reply_costs_what_batches_cost_and_is_charged_to_the_collection(
    waiting: OpenWaiting, provider: Provider
) -> None:
    here = waiting(
        provider, prices={"input": 2.0, "output": 4.0, "batch_input": 1.0, "batch_output": 2.0}
    )
    here.defer(*TEXTS)
    here.submit()
    here.look()

    assert [reply.cost for reply in here.store.replies()] == [pytest.approx(13e-6)] * 3
    spent = here.store.spent(here.config.name)
    assert (spent.calls, spent.tokens) == (3, 30)
    assert spent.dollars == pytest.approx(39e-6)


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


@every_provider
@pytest.mark.parametrize(
    ("finish", "status"), [("length", "truncated"), ("content_filter", "refused")]
)
def test_the_finish_reason_of_a_reply_gives_its_status(
    server: BatchServer, waiting: OpenWaiting, provider: Provider, finish: str, status: str
) -> None:
    server.script = lambda _: Scripted("cut", finish_reason=finish)
    here = waiting(provider)
    here.defer("one")
    here.submit()
    here.look()

    assert [reply.status for reply in here.store.replies()] == [status]


@every_provider
def test_what_has_no_reply_is_counted_with_its_reason_and_waits_again(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    """The error file is read too; a line that never came is missed."""
    server.script = only(two=Scripted("too long", status=400), three=Scripted(drop=True))
    here = waiting(provider)
    _, two, three = here.defer(*TEXTS)
    here.submit()
    (job,) = here.look()

    assert job.report is not None
    assert job.report.imported == 1
    assert two.key in job.report.failed
    assert "1 x too long" in job.report.reasons
    assert job.report.waiting == 2
    if provider == "anthropic":
        assert "1 x expired" in job.report.reasons
    else:
        assert job.unanswered == 1

    server.script = echo
    (again,) = here.submit()
    assert set(again.keys) == {two.key, three.key}
    here.look()
    assert list(here.store.deferred()) == []


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


def test_a_provider_without_a_batch_api_names_the_other_way(waiting: OpenWaiting) -> None:
    here = waiting(model={"name": "hosted_vllm/qwen"})
    here.defer("one")

    with pytest.raises(FatalModelError, match=r"vllm run-batch .* freshstack requests import"):
        here.submit()


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


def test_a_job_that_is_deleted_lets_its_requests_go(
    server: BatchServer, waiting: OpenWaiting
) -> None:
    server.course.looks = 99
    here = waiting()
    here.defer("one")
    (job,) = here.submit()
    here.batches.folder.record(job).unlink()

    assert [len(each.keys) for each in here.submit()] == [1]
    assert len(server.made) == 2


@every_provider
def test_a_batch_that_is_gone_says_how_to_go_on(
    server: BatchServer, waiting: OpenWaiting, provider: Provider
) -> None:
    here = waiting(provider)
    here.defer("one")
    (job,) = here.submit()
    server.made.clear()

    with pytest.raises(
        FatalModelError, match=f"no batch batch_1; .* delete .*{job.submission}.json"
    ):
        here.look()


def test_two_processes_do_not_submit_at_once(waiting: OpenWaiting) -> None:
    here = waiting()
    here.defer("one")

    with (
        JobFolder(here.batches.folder.path).exclusive(),
        pytest.raises(StoreError, match="another freshstack requests is at work"),
    ):
        here.submit()


@every_provider
def test_the_key_is_in_no_file(
    server: BatchServer, waiting: OpenWaiting, provider: Provider, tmp_path: Path
) -> None:
    server.script = only(two=Scripted(f"your key {SECRET} is bad", status=400))
    here = waiting(provider)
    here.defer(*TEXTS)
    here.submit()
    (job,) = here.look()

    assert job.report is not None
    assert "1 x your key [key] is bad" in job.report.reasons
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".toml"]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
