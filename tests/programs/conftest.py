"""A scripted model behind the real client."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import dspy
import pytest

from freshstack_dspy import ModelConfig, Query, ReplyStore, connect
from tests.recipes.scripted import Inputs, ScriptedProvider

QUERY = Query(query_id="q7", title="Widths?", body="How are they read?", answer="Use `width`.")
Answering = Callable[..., ScriptedProvider]


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answering]:
    """Make the given answers those of the model that programs ask."""
    store = ReplyStore(tmp_path / "cache")
    contexts = []

    def answer(**answers: object) -> ScriptedProvider:
        model = ScriptedProvider(**{task: partial(_same, each) for task, each in answers.items()})
        lm = connect(ModelConfig(name="openai/scripted", reasks=0), store=store, provider=model)
        context = dspy.context(lm=lm)
        context.__enter__()
        contexts.append(context)
        return model

    yield answer
    for context in reversed(contexts):
        context.__exit__(None, None, None)
    store.close()


def _same(answer: object, _: Inputs) -> object:
    return answer
