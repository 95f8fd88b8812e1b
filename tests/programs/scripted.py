"""A model that answers each task with one reply, and remembers what it was asked."""

import json
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from freshstack_dspy import Query

QUERY = Query(query_id="q7", title="Widths?", body="How are they read?", answer="Use `width`.")


class ScriptedModel:
    """A provider, as `connect(…, provider=…)` takes it."""

    def __init__(self, **answers: Any) -> None:
        """Take the answer to each task, by the name of its signature."""
        self.answers = answers
        self.inputs: list[Any] = []
        self.turns: list[list[Any]] = []

    def complete(self, request: Request) -> Response:
        """Answer by the task that the request names."""
        response_format = request.config.response_format
        assert response_format is not None
        turns = [json.loads(message.text or "") for message in request.messages]
        self.turns.append(turns)
        self.inputs.append(turns[-1])
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(json.dumps(self.answers[str(response_format["name"])])),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1),
        )
