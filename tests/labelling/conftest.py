"""A collection whose page is served over HTTP, in a thread."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from freshstack_dspy.labelling.label_file import open_labels
from freshstack_dspy.labelling.server import ADDRESS, Labelling
from freshstack_dspy.labelling.tasks import Tasks
from tests.collection.small import write_small

Serve = Callable[..., httpx.Client]
TOKEN = "the-token"


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
    tasks = Tasks.open(target)
    path = folder / f"labels-{annotator}.jsonl"
    with (
        open_labels(path, annotator, tasks.by_id, tasks.collection) as file,
        socket.create_server((ADDRESS, 0)) as listener,
    ):
        app = Labelling(tasks, file, annotator, TOKEN, blind=blind).app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        base = f"http://{ADDRESS}:{listener.getsockname()[1]}"
        with httpx.Client(base_url=base, headers={"X-Token": TOKEN}, trust_env=False) as client:
            while not server.started:
                time.sleep(0.005)
            yield client
        server.should_exit = True
        thread.join()
