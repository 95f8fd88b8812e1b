"""The figures that a run was given, of all its embedders and its reranker: to hand on, and a hash."""

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.request import sha256_of


@runtime_checkable
class Recording(Protocol):
    """A model whose numbers are recorded."""

    def used(self) -> dict[str, str]:
        """The hash of what was given out, by key."""
        ...

    def recorded(self, key: str) -> Figures | None:
        """The recorded figures of a key."""
        ...


def used_figures(models: Iterable[object]) -> Iterator[Figures]:
    """All figures that were given out, as they are recorded now, each once, by key.

    Args:
        models: Embedders and rerankers; those whose numbers are not recorded are passed over.

    Raises:
        StoreError: One cannot be read or trusted.
    """
    by_key = {key: model for model in _recording(models) for key in model.used()}
    for key in sorted(by_key):
        figures = by_key[key].recorded(key)
        if figures is not None:
            yield figures


def fingerprint_figures(models: Iterable[object]) -> str:
    """One hash of all figures that were given out."""
    return sha256_of(
        {key: said for model in _recording(models) for key, said in model.used().items()}
    )


def _recording(models: Iterable[object]) -> list[Recording]:
    return [model for model in models if isinstance(model, Recording)]
