"""What a submission sends, in how many batches, and what it may cost."""

import json

import pytest

from freshstack_dspy.errors import BudgetError
from freshstack_dspy.lm.batch.providers import batch_api
from freshstack_dspy.lm.budget import Spent

from .batch_server import BatchServer
from .batching import TEXTS, OpenWaiting, Provider, every_provider


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
