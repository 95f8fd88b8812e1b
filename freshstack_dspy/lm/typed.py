"""Typed questions: a DSPy adapter that asks for JSON, validates it fully, and re-asks with the error.

DSPy's own adapters accept truncated replies and unterminated JSON, ignore the constraints of
output fields, and make a silent second call in another format. This one

- sends the inputs as one JSON object, so that no text in a passage can imitate the structure;
- validates the reply once, against the signature's types, constraints and validators, which see
  the inputs as their validation context;
- on an invalid reply lets instructor feed the error back, a bounded number of times, each re-ask
  being a request of its own with its own recorded reply;
- never parses a truncated or refused reply.
"""

import asyncio
from typing import Any

import dspy

from freshstack_dspy.lm.answer_model import answer_model
from freshstack_dspy.lm.conversation import Conversation, unfenced
from freshstack_dspy.lm.prompt import instructions, plain, turns

__all__ = ["TypedAdapter", "TypedPredict", "instructions"]


class TypedAdapter(dspy.Adapter):
    """Ask for one JSON object and return it validated, with the `call_id` of its reply."""

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: Any,
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """Ask, validate, re-ask.

        Raises:
            ReplyError: No valid reply came: it was unparsed, refused, truncated or failed.
            ModelError: The request could not be answered at all.
        """
        conversation = Conversation(lm, lm_kwargs, signature)
        answer = conversation.answer(self.format(signature, demos, inputs), plain(inputs))
        fields = {name: getattr(answer, name) for name in signature.output_fields}
        return [{**fields, "call_id": conversation.last_key or "unrecorded"}]

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask in a thread: there is one implementation, and it is synchronous."""
        return await asyncio.to_thread(self, *args, **kwargs)

    def format(
        self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Write the prompt; see `prompt.py`."""
        return turns(signature, demos, inputs)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Validate one reply without its inputs, as DSPy's tools ask for."""
        answer = answer_model(signature).model_validate_json(unfenced(completion), strict=True)
        return {name: getattr(answer, name) for name in signature.output_fields}


class TypedPredict(dspy.Predict):
    """`dspy.Predict` that always goes through the typed adapter, whatever is configured."""

    def forward(self, **kwargs: Any) -> Any:
        """Predict; the prediction has the signature's outputs and `call_id`."""
        with dspy.context(adapter=TypedAdapter()):
            return super().forward(**kwargs)

    async def aforward(self, **kwargs: Any) -> Any:
        """Predict without blocking the event loop."""
        with dspy.context(adapter=TypedAdapter()):
            return await super().aforward(**kwargs)
