"""Typed questions: a DSPy adapter that asks for JSON, validates it fully, and re-asks with the error.

DSPy's own adapters accept truncated replies and unterminated JSON, ignore the constraints of
output fields, and make a silent second call in another format. This one

- sends the inputs as one JSON object, so that no text in a passage can imitate the structure;
- validates the reply once, against the signature's types, constraints and validators, which see
  the inputs as their validation context;
- on an invalid reply lets instructor feed the error back, a bounded number of times, each re-ask
  being a request of its own with its own recorded reply;
- asks anew about the items alone that a valid reply left out, where the answer is to have one for
  each (`targeted.py`);
- never parses a truncated or refused reply.
"""

import asyncio
from typing import Any

import dspy

from freshstack_dspy.lm.connect import DoorLM
from freshstack_dspy.lm.typed.answer_model import answer_model
from freshstack_dspy.lm.typed.conversation import Conversation, reasks_of, unfenced
from freshstack_dspy.lm.typed.prompt import instructions, plain, turns
from freshstack_dspy.lm.typed.targeted import answer_each, itemized_output

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

        Returns:
            The outputs and `call_id`; for an output marked with `OneForEach` also `call_ids`.

        Raises:
            IncompleteReplyError: Valid replies came that leave out items that were asked about.
            ReplyError: No valid reply came: it was unparsed, refused, truncated or failed.
            ModelError: The request could not be answered at all.
        """

        def ask(given: dict[str, Any]) -> dict[str, Any]:
            conversation = Conversation(lm, lm_kwargs, signature)
            answer = conversation.answer(self.format(signature, demos, given), given)
            fields = {name: getattr(answer, name) for name in signature.output_fields}
            return {**fields, "call_id": conversation.last_key or "unrecorded"}

        def reasked() -> None:
            if isinstance(lm, DoorLM):
                lm.ledger.reasked()

        output = itemized_output(signature)
        if output is None:
            return [ask(plain(inputs))]
        return [answer_each(output, plain(inputs), ask, rounds=reasks_of(lm), reasked=reasked)]

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
        # Not through `super()`, which looks for an adapter, and at every type, in each call.
        lm, settings, signature, demos, inputs = self._forward_preprocess(**kwargs)
        completions = TypedAdapter()(lm, settings, signature, demos, inputs)
        return self._forward_postprocess(completions, signature, **inputs)

    async def aforward(self, **kwargs: Any) -> Any:
        """Predict without blocking the event loop."""
        lm, settings, signature, demos, inputs = self._forward_preprocess(**kwargs)
        completions = await TypedAdapter().acall(lm, settings, signature, demos, inputs)
        return self._forward_postprocess(completions, signature, **inputs)
