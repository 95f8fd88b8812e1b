"""What we rely on in DSPy beyond its documented API; a version that fails here moved it."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import dspy
import pytest

from freshstack_dspy.lm import dspy_parts
from freshstack_dspy.lm.typed import Named
from freshstack_dspy.signatures.nuggets import NuggetizeAnswer

PACKAGE = Path(dspy_parts.__file__).parents[1]
DOCUMENTED = r"dspy|dspy\.lm15|dspy\.teleprompt(\.\w+)?"


def test_no_other_file_imports_what_is_not_documented() -> None:
    others = {
        f"{path.name}: {node.module}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "dspy_parts.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dspy")
        if not re.fullmatch(DOCUMENTED, node.module or "")
    }
    assert others == set()


@pytest.mark.parametrize(
    "changed",
    [
        NuggetizeAnswer.with_instructions("List."),
        NuggetizeAnswer.append("hint", dspy.InputField(), type_=str),
        NuggetizeAnswer.load_state(NuggetizeAnswer.dump_state()),
        dspy.ChainOfThought(NuggetizeAnswer).predict.signature,
    ],
    ids=["with_instructions", "append", "load_state", "ChainOfThought"],
)
def test_a_copy_of_a_signature_keeps_the_marks_of_its_fields(changed: Any) -> None:
    marks = [mark for field in changed.output_fields.values() for mark in field.metadata]
    assert Named("NuggetizeAnswer") in marks


def test_a_predictor_hands_an_adapter_these_and_passes_on_all_that_it_gives() -> None:
    given: dict[str, Any] = {}

    class Noting(dspy.Adapter):
        def __call__(self, lm: Any, **others: Any) -> Any:
            given.update(others)
            return [{"answer": "a", "call_id": "k"}]

    with dspy.context(lm=dspy.LM("openai/x"), adapter=Noting()):
        made = dspy.Predict("question -> answer")(question="q", config={"rollout_id": 2})

    assert given.keys() == {"lm_kwargs", "signature", "demos", "inputs"}
    assert given["lm_kwargs"]["rollout_id"] == 2
    assert (made.answer, made.call_id) == ("a", "k")


def test_the_engines_are_made_and_asked_as_we_do() -> None:
    engine, lm15 = dspy_parts.LiteLLMEngine, dspy_parts.lm15
    assert list(inspect.signature(engine.complete).parameters)[:2] == ["self", "request"]
    assert callable(engine.close)
    assert {"env", "transport"} <= inspect.signature(lm15.RouterConfig).parameters.keys()
    config = lm15.RouterConfig(api_keys={"openai-chat": "key"})
    assert callable(lm15.LMRouter(config).lm("openai-chat:a").complete)
