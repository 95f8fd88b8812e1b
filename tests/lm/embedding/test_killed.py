"""A run that is killed loses what was in flight, and nothing else."""

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freshstack_dspy.lm.store import ReplyStore
from tests.lm.chat_server import ChatServer, Scripted

from .conftest import OpenClient
from .numbers_server import answer, texts_asked, vector

_RUN = """
    import sys
    from pathlib import Path
    from freshstack_dspy.lm.vectors import Access
    from freshstack_dspy.lm.vectors import EmbeddingClient
    from freshstack_dspy.lm.vectors import HostedModel
    from freshstack_dspy.lm.store import ReplyStore

    model = HostedModel("openai/scripted", "[[embedder]]", api_base=sys.argv[2], concurrency=2)
    client = EmbeddingClient(model, Access(store=ReplyStore(Path(sys.argv[1]))), batch=4)
    client.vectors([f"text {number}" for number in range(80)])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_with_what_is_missing(
    server: ChatServer, open_client: OpenClient, store: ReplyStore, tmp_path: Path
) -> None:
    reached, stopped = threading.Event(), threading.Event()
    guard = threading.Lock()
    served: list[int] = []

    def script(body: dict[str, Any]) -> Scripted:
        with guard:
            served.append(len(body["input"]))
            stuck = len(served) > 10
        if stuck:
            reached.set()
            stopped.wait(30)
        return answer(body)

    server.script = script
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_RUN), str(tmp_path / "cache"), server.api_base],
        cwd=Path(__file__).parents[3],
    )
    try:
        assert reached.wait(120)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
        stopped.set()
    server.script = answer
    recorded = len(list(store.lines()))
    before = len(texts_asked(server))
    texts = [f"text {number}" for number in range(80)]

    found = open_client().vectors(texts)

    asked_again = texts_asked(server)[before:]
    np.testing.assert_array_equal(np.array([vector(text) for text in texts]), found)
    assert 32 <= recorded <= 40, "ten requests were answered; the last may not have been written"
    assert len(asked_again) == len(set(asked_again)) == 80 - recorded
