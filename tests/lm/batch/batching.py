"""A collection whose requests wait, and the batch API of the provider that will answer them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from freshstack_dspy import BuildConfig, ReplyStore
from freshstack_dspy.lm.batch.deferred import requests_file, write_requests
from freshstack_dspy.lm.batch.jobs import Batches, Job
from freshstack_dspy.lm.request import ChatRequest, endpoint_identity
from tests.lm.chat_server import Script, Scripted
from tests.lm.recording import ask
from tests.recipes.domain import domain

from .batch_server import BatchServer

Provider = Literal["openai", "azure", "anthropic"]
PROVIDERS: tuple[Provider, ...] = ("openai", "azure", "anthropic")
every_provider = pytest.mark.parametrize("provider", PROVIDERS)
SECRET = "sk-planted-secret-key"
TEXTS = ("one", "two", "three")


def echo(body: dict[str, Any]) -> Scripted:
    return Scripted(f"re: {question(body)}")


def question(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def only(**replies: Scripted) -> Script:
    """Answer some questions otherwise than `echo` does."""
    return lambda body: replies.get(question(body)) or echo(body)


def model_at(server: BatchServer, provider: Provider) -> dict[str, Any]:
    """A `[model]` whose provider is the server."""
    name = {"anthropic": "claude-sonnet-4-5"}.get(provider, "gpt-4o")
    base = server.address if provider == "azure" else server.api_base
    return {"name": f"{provider}/{name}", "api_base": base, "api_key": SECRET, "retries": 0}


class Waiting:
    """A collection in a folder of its own, with deferred requests and the file of them."""

    def __init__(self, folder: Path, server: BatchServer, provider: Provider, **sections: Any):
        model = model_at(server, provider) | sections.pop("model", {})
        self.config: BuildConfig = domain(folder, model=model, **sections)
        self.store = ReplyStore(self.config.cache.path)
        self.file = requests_file(self.config)
        self.batches = Batches(self.config, self.store)

    def defer(self, *texts: str, **fields: Any) -> list[ChatRequest]:
        """Let requests wait, and write the file of all that wait."""
        endpoint = endpoint_identity(self.config.model.name, self.config.model.api_base)
        asked = {"model": self.config.model.name, "endpoint": endpoint, **fields}
        asks = [ask(text, **asked) for text in texts]
        for each in asks:
            self.store.defer(each)
        write_requests(self.store, self.file, {each.key: "other" for each in self.store.deferred()})
        return asks

    def submit(self) -> list[Job]:
        with self.batches.at_work():
            return list(self.batches.send(self.batches.plan()))

    def look(self) -> list[Job]:
        with self.batches.at_work():
            return list(self.batches.look())

    def texts(self) -> set[str]:
        """What the recorded replies say."""
        return {reply.text for reply in self.store.replies()}


OpenWaiting = Callable[..., Waiting]
