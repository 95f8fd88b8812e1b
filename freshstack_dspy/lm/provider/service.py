"""What is asked at a provider, and how: all that speaking to it needs to know."""

from typing import Protocol

from pydantic import SecretStr


class Service(Protocol):
    """A model at a provider; `ModelConfig` is one."""

    @property
    def name(self) -> str:
        """Of the model, with the provider's, as `openai/gpt-4o`."""
        ...

    @property
    def api_base(self) -> str | None:
        """Where it is, if not where the provider's models are."""
        ...

    @property
    def api_key(self) -> SecretStr | None:
        """The key, if it is not in the environment."""
        ...

    @property
    def concurrency(self) -> int:
        """Most requests in flight."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds for one attempt."""
        ...

    @property
    def retries(self) -> int:
        """Attempts after the first."""
        ...
