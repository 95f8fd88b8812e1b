"""The schema of every question compiles into a grammar, and in its strict form is taken everywhere."""

from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request, Response

from freshstack_dspy import ModelConfig, connect
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.schemas import fits_strict_modes, in_strict_form
from freshstack_dspy.lm.typed import TypedAdapter
from tests.lm.asking import Scribe
from tests.lm.strict_servers import compiled, gemini_schema_faults, schema_faults

from .examples import EXAMPLES


@pytest.mark.parametrize("signature", EXAMPLES, ids=lambda signature: signature.__name__)
def test_servers_and_providers_take_the_schema(signature: Any, tmp_path: Path) -> None:
    def sent(model: str) -> Any:
        return _schema_sent(model, signature, EXAMPLES[signature], tmp_path)

    assert list(compiled(sent("hosted_vllm/any"))) == []
    strict = in_strict_form(sent("openai/any"))
    assert fits_strict_modes(strict)
    assert list(schema_faults(strict)) == []
    assert list(gemini_schema_faults(strict)) == []
    assert list(compiled(strict)) == []


def _schema_sent(model: str, signature: Any, inputs: dict[str, Any], store: Path) -> Any:
    asked: list[Request] = []

    class Seen:
        def complete(self, request: Request) -> Response:
            asked.append(request)
            return Scribe("none").complete(request)

    lm = connect(ModelConfig(name=model, reasks=0), provider=Seen(), store=store)
    with dspy.context(lm=lm, adapter=TypedAdapter()), pytest.raises(ReplyError):
        dspy.Predict(signature)(**inputs)
    lm.client.close()
    response_format: Any = asked[0].config.response_format
    return response_format["schema"]
