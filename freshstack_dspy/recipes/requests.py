"""The requests of the last deferred build, answered from here."""

import functools
import json
import pkgutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError, file_named
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.batch.deferred import fault_in, requests_file
from freshstack_dspy.lm.batch.jobs import Batches, JobFolder
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.client import Client
from freshstack_dspy.lm.engine import check_model, check_reachable
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.lm.recorder import Access
from freshstack_dspy.lm.reply import NO_REPLY, UNANSWERED
from freshstack_dspy.lm.request import ChatMessage, ChatRequest
from freshstack_dspy.lm.usage import step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.pages.page import counted
from freshstack_dspy.progress import Progress
from freshstack_dspy.recipes.session import open_replies
from freshstack_dspy.records import Record

STEP = "requests"


class Answered(Record):
    """What became of deferred requests."""

    answered: int
    failed: Mapping[str, int]
    """Requests without a reply for good, by reason; a live build asks for them again."""
    left_out: Mapping[str, int]
    """Requests that were not sent, by reason."""

    def __str__(self) -> str:
        failed = sum(self.failed.values())
        parts = [f"{counted(self.answered, 'request')} answered"]
        parts += [f"{failed:,} failed"] if failed else []
        parts += [f"{count:,} {why}" for why, count in sorted(self.left_out.items())]
        return "; ".join(parts)


def answer_requests(
    config: BuildConfig, progress: Progress, callback: Callback | None = None
) -> Answered:
    """Have the requests answered that the last deferred build wrote, but for those under way.

    Each reply is recorded as it comes, and what is recorded is not asked again.

    Raises:
        BudgetError: The next request could pass a cap; every reply that came is recorded.
        ConfigError: None of the requests are of this configuration.
        ConfigError: Another process writes the collection, and may ask for the same.
        StoreError: There are no requests, or another process sends them.
        FatalModelError: The model's provider is not known, or nobody is there, or there is no key.
    """
    with (
        only_writer(config.out, "freshstack requests answer"),
        open_replies(config, "defer") as (store, _),
    ):
        assert store is not None
        folder = JobFolder.of(config)
        with folder.exclusive():
            left_out: Counter[str] = Counter()
            keys: dict[int, list[str]] = {}
            for at, model in enumerate(config.models):
                left_out.clear()  # for each it is the same
                keys[at] = [one.key for one in Batches(config, store, model).to_send(left_out)]
            done = left_out["answered already"] + left_out["underway already"]
            if not any(keys.values()) and left_out.total() > done:
                reasons = ", ".join(f"{count} {why}" for why, count in sorted((+left_out).items()))
                raise ConfigError(
                    f"{requests_file(config)}: none of its requests can be sent: {reasons}; write "
                    f"it again with: freshstack build {config.file} --mode defer"
                )
            account = Account(config.name, config.budget, config.prices, folder.reserved())
            answered, failed = 0, Counter[str]()
            for at, model in enumerate(config.models):
                if not keys[at]:
                    continue
                with file_named(config.file):
                    check_model(model)
                check_reachable(model)
                access = Access("live", store, account=account, callback=callback)
                with closing(Client(model, access)) as client, step(STEP):
                    why = _answer(client, keys[at], progress)
                answered += len(keys[at]) - why.total()
                failed += why
            return Answered(answered=answered, failed=failed, left_out=+left_out)


def fault_in_reply(request: ChatRequest, text: str) -> str | None:
    """Say in one line what a program would send a hand-written reply back for.

    Replies to signatures of this package are validated as a program validates them, quotes too;
    others by the schema of their request.
    """
    from freshstack_dspy.lm.reask import faults_of
    from freshstack_dspy.lm.typed import answer_model, json_object, validating_against

    signature = _signatures().get(request.task or "")
    inputs = next(filter(None, map(_inputs, reversed(request.messages))), None)
    if signature is None or inputs is None:
        return fault_in(request, text)
    try:
        with validating_against(inputs):
            answer_model(signature).model_validate_json(json_object(text), strict=True)
    except ValidationError as error:
        return "; ".join(faults_of(error))
    except ValueError:
        return fault_in(request, text)
    return None


def _inputs(message: ChatMessage) -> dict[str, Any] | None:
    """The inputs in a message; None in one that sends a reply back."""
    with suppress(ValueError):
        value = json.loads(message.content)
        return value if isinstance(value, dict) else None
    return None


@functools.cache
def _signatures() -> dict[str, Any]:
    """The signatures of this package, by the name that their requests have."""
    import dspy

    from freshstack_dspy import signatures
    from freshstack_dspy.lm.typed import name_of

    modules = (
        import_module(f"{signatures.__name__}.{each.name}")
        for each in pkgutil.iter_modules(signatures.__path__)
    )
    values = (value for module in modules for value in vars(module).values())
    kinds = (each for each in values if isinstance(each, type) and issubclass(each, dspy.Signature))
    return {name_of(each): each for each in kinds if each is not dspy.Signature}


def _answer(client: Client, keys: Sequence[str], progress: Progress) -> Counter[str]:
    """Have requests answered, several at once; why some have no reply for good, with how often."""
    failed: Counter[str] = Counter()

    def answer(key: str) -> None:
        request = client.writable().waiting(key)
        if request is None:  # another process answered it
            return
        reply = client.answer_waiting(request)
        if reply.finish_reason in (NO_REPLY, UNANSWERED, "refusal"):
            failed[reply.text] += 1
        progress.advance(STEP, client.ledger.of(STEP).spent)

    progress.start(STEP, len(keys))
    map_in_order(answer, keys, workers=client.model.concurrency)
    client.retries.check_answered()
    shown = f", {failed.total():,} failed" if failed else ""
    progress.finish(STEP, f"{len(keys) - failed.total():,} answered{shown}")
    return failed
