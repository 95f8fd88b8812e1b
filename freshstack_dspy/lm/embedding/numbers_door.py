"""What the doors to embedders and to rerankers have in common."""

from abc import ABC, abstractmethod
from typing import Generic

from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.embedding.flights import Flights
from freshstack_dspy.lm.embedding.live import Asked, LiveNumbers, Said
from freshstack_dspy.lm.embedding.model import HostedModel
from freshstack_dspy.lm.embedding.recall import Recall
from freshstack_dspy.lm.provider.attempts import Exchange


class NumbersDoor(ABC, Generic[Asked, Said]):
    """Recorded numbers of one hosted model, and the way to ask it for more; shared by threads."""

    def __init__(self, model: HostedModel, access: Access, *, priced: bool) -> None:
        """Open the door.

        Args:
            model: Which model is asked, and how.
            access: What is recorded, who pays, and who listens.
            priced: Whether the price of the model is known.

        Raises:
            FatalModelError: The model's endpoint cannot be used, or there is no store to record in.
            ConfigError: The budget has a cap on dollars, and the model has no price.
        """
        self._model = model
        self._endpoint = model.endpoint
        self._ledger = access.ledger
        self._recall = Recall(access.mode, access.store, access.recorded)
        self._flights = Flights()
        self._told = False
        store = access.written()
        self._live = (
            None
            if store is None
            else LiveNumbers(model, self._opened, store=store, access=access, priced=priced)
        )

    def recorded(self, key: str) -> Figures | None:
        """The recorded numbers of a key.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        return self._recall.recorded(key)

    def used(self) -> dict[str, str]:
        """The hash of all numbers that were given out, by key."""
        return self._recall.used()

    def close(self) -> None:
        """Close the provider's connections."""
        if self._live is not None:
            self._live.close()

    @abstractmethod
    def _opened(self) -> Exchange[Asked, Said]:
        """Make what answers, when it is first asked."""
