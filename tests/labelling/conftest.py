"""A collection whose page is served, in the process of the test."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from freshstack_dspy import Collection
from freshstack_dspy.labelling.judged import JudgmentTasks
from freshstack_dspy.labelling.label_file import LabelFile
from freshstack_dspy.labelling.server import ADDRESS, Labelling
from freshstack_dspy.labelling.tasks import Tasks
from tests.collection.small import write_small

Serve = Callable[..., httpx.Client]
TOKEN = "the-token"


class InProcess(httpx.BaseTransport):
    """Asks an application without a server."""

    def __init__(self, app: Any) -> None:
        self._app = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def asked() -> httpx.Response:
            found = await self._app.handle_async_request(request)
            return httpx.Response(
                found.status_code, headers=found.headers, content=await found.aread()
            )

        return asyncio.run(asked())


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    write_small(tmp_path / "small")
    return tmp_path / "small"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve tasks to an annotator; the client sends the token."""
    with ExitStack() as served:
        yield lambda *words, **options: served.enter_context(_served(tmp_path, *words, **options))


@contextmanager
def _served(
    folder: Path, target: Path, annotator: str = "ana", *, blind: bool = False
) -> Iterator[httpx.Client]:
    tasks = JudgmentTasks(Collection.load(target)) if target.is_dir() else Tasks.open(target)
    path = folder / f"labels-{annotator}.jsonl"
    with closing(LabelFile(path, annotator, tasks.by_id, tasks.collection)) as file:
        app = Labelling(tasks, file, TOKEN, blind=blind).app()
        base, headers = f"http://{ADDRESS}", {"X-Token": TOKEN}
        with httpx.Client(base_url=base, headers=headers, transport=InProcess(app)) as client:
            yield client
