"""Batch servers whose answers make no sense, or are about what nobody asked them."""

import json

import pytest

from freshstack_dspy.errors import TransientModelError
from freshstack_dspy.lm.batch import jobs as batches
from freshstack_dspy.lm.batch.deferred import requests_file
from freshstack_dspy.lm.budget import upper_bound
from freshstack_dspy.lm.capabilities import price_of
from tests.lm.chat_server import Scripted
from tests.lm.recording import ask

from .batch_server import BatchServer
from .batching import TEXTS, OpenWaiting, Provider


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
