"""A scripted model behind the real client."""

from collections.abc import Callable, Iterator
from pathlib import Path

import dspy
import pytest

from freshstack_dspy import ModelConfig, ReplyStore, connect

from .scripted import ScriptedModel

Answering = Callable[..., ScriptedModel]


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answering]:
    """Make the given answers those of the model that programs ask."""
    store = ReplyStore(tmp_path / "cache")
    contexts = []

    def answer(**answers: object) -> ScriptedModel:
        model = ScriptedModel(**answers)
        lm = connect(ModelConfig(name="openai/scripted", reasks=0), store=store, provider=model)
        context = dspy.context(lm=lm)
        context.__enter__()
        contexts.append(context)
        return model

    yield answer
    for context in reversed(contexts):
        context.__exit__(None, None, None)
    store.close()
