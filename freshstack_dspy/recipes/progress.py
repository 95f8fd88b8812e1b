"""How a build tells how far it is; the terminal's bars are in `cli/`."""

from typing import Protocol


class Progress(Protocol):
    """Whoever wants to know how a build goes on."""

    def start(self, step: str, total: int) -> None:
        """A step begins, of so many parts."""
        ...

    def advance(self, step: str) -> None:
        """One part is done."""
        ...

    def finish(self, step: str, note: str = "") -> None:
        """The step is done."""
        ...


class Silence:
    """Progress for nobody."""

    def start(self, step: str, total: int) -> None:
        """Say nothing."""

    def advance(self, step: str) -> None:
        """Say nothing."""

    def finish(self, step: str, note: str = "") -> None:
        """Say nothing."""
