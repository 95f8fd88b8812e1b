"""The language model as programs see it: a `dspy.LM` whose engine is the door."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.lm15 import Request
from dspy.utils.exceptions import LMError

from freshstack_dspy.config import Mode, ModelConfig
from freshstack_dspy.errors import FatalModelError, FreshstackError
from freshstack_dspy.lm.door import AsyncDoor, Door, sample_number
from freshstack_dspy.lm.events import Listener
from freshstack_dspy.lm.provider.choice import Provider
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.lm.replies.recorded import Recorded
from freshstack_dspy.lm.spending.budget import Account
from freshstack_dspy.lm.spending.ledger import Ledger
from freshstack_dspy.records import Status


class DoorLM(dspy.LM):
    """A `dspy.LM` that hands DSPy's sample number on, which engines do not see by themselves."""

    def __init__(self, door: Door) -> None:
        """Put a model behind a door; DSPy's own cache and retries are off."""
        model = door.model
        try:
            super().__init__(
                model.name,
                engine=door,
                async_engine=AsyncDoor(door),
                cache=False,
                num_retries=0,
                temperature=model.temperature,
                max_tokens=model.max_tokens,
            )
        except (ValueError, LMError) as error:
            raise FatalModelError(f"{model.name} cannot be asked: {error}") from None
        self.door = door
        self.reasks = model.reasks
        self.structured = model.structured

    @property
    def ledger(self) -> Ledger:
        """What was asked, by step."""
        return self.door.ledger

    def note(self, key: str, status: Status, reasked_as: str | None = None) -> None:
        """Write down what a reply turned out to be worth."""
        self.door.note(key, status, reasked_as)

    def key_of(self, request: Request, rollout_id: int | None = None) -> str:
        """The key under which this request's reply is, or will be, recorded."""
        return self.door.key_of(request, self._sample({"rollout_id": rollout_id}))

    def _sample(self, kwargs: dict[str, Any]) -> int | None:
        """Take the sample number out of a call's arguments; this copy's own is the default."""
        sample = kwargs.pop("rollout_id", None)
        chosen: int | None = self.kwargs.get("rollout_id") if sample is None else sample
        return chosen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask; `rollout_id`, of the call or of this copy of the model, becomes the sample.

        Raises:
            ModelError: As the door raised it, out of the error that DSPy wraps around it.
        """
        token = sample_number.set(self._sample(kwargs))
        try:
            return super().__call__(*args, **kwargs)
        except LMError as error:
            if isinstance(error.__cause__, FreshstackError):
                raise error.__cause__ from None
            raise
        finally:
            sample_number.reset(token)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask without blocking the event loop."""
        token = sample_number.set(self._sample(kwargs))
        try:
            return await super().acall(*args, **kwargs)
        except LMError as error:
            if isinstance(error.__cause__, FreshstackError):
                raise error.__cause__ from None
            raise
        finally:
            sample_number.reset(token)


def connect(
    model: ModelConfig,
    *,
    mode: Mode = "live",
    store: ReadOnlyStore | None = None,
    recorded: Recorded | None = None,
    provider: Provider | None = None,
    account: Account | None = None,
    on_call: Listener | None = None,
) -> DoorLM:
    """Open the door to a model and put a `dspy.LM` before it; for the arguments see `Door`."""
    return DoorLM(
        Door(
            model,
            mode=mode,
            store=store,
            recorded=recorded,
            provider=provider,
            account=account,
            on_call=on_call,
        )
    )


@contextmanager
def in_bulk(lm: DoorLM) -> Iterator[None]:
    """Let programs inside ask this model, without DSPy's own records of each call.

    DSPy would keep the last 10,000 prompts as history, and as many inputs and answers as traces.
    """
    with dspy.context(lm=lm, disable_history=True, trace=None):
        yield
