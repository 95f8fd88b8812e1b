"""Recorded figures: which of them a mode serves, and why one is not there."""

import hashlib
import logging
import threading

from freshstack_dspy.config import Mode
from freshstack_dspy.errors import DamagedReplyError
from freshstack_dspy.lm.embedding.asks import NumbersAsk
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.replies.recorded import RecordedFigures

_SHOWN = 60
_TWO_VALUES = "two values in one run"
_log = logging.getLogger(__name__)


class Recall:
    """What is recorded, and what of it was used; shared by threads."""

    def __init__(self, mode: Mode, *sources: RecordedFigures | None) -> None:
        """Prepare.

        Args:
            mode: As for the door; `defer` serves as `live` does.
            sources: Where figures are; the first that has any is believed.
        """
        self._mode = mode
        self._sources = [source for source in sources if source is not None]
        self._refreshed: set[str] = set()
        self._used: dict[str, bytes] = {}
        self._doubled: set[str] = set()
        self._guard = threading.Lock()

    def servable(self, key: str) -> Figures | None:
        """The recorded figures, unless this mode asks again in their place.

        Raises:
            DamagedReplyError: In a replay, the entry cannot be trusted.
        """
        if self._mode == "refresh" and key not in self._refreshed:
            return None
        try:
            return self.recorded(key)
        except DamagedReplyError as error:
            if self._mode == "replay":
                raise
            _log.warning("%s: asked again", error)
            return None

    def recorded(self, key: str) -> Figures | None:
        """The figures of a key in the first place that has them.

        Raises:
            StoreError: They cannot be read or trusted.
        """
        found = (source.figures(key) for source in self._sources)
        return next((figures for figures in found if figures is not None), None)

    def enter(self, figures: Figures, *, asked: bool) -> None:
        """Enter figures that are given out, and whether they were asked for now."""
        said = hashlib.sha256(figures.values.encode()).digest()
        with self._guard:
            if asked:
                self._refreshed.add(figures.key)
            if self._used.setdefault(figures.key, said) != said:
                # Asked again in one run: nothing single stands for all that was made of this key.
                self._doubled.add(figures.key)

    def used(self) -> dict[str, str]:
        """The hash of the values that were given out, by key, in the order of the keys."""
        with self._guard:
            return {
                key: _TWO_VALUES if key in self._doubled else said.hex()
                for key, said in sorted(self._used.items())
            }

    def missing(self, ask: NumbersAsk, text: str, count: int) -> str:
        """Say in words that figures are not recorded, and how the recorded ones differ.

        Args:
            ask: What was asked first.
            text: Its text, or its query.
            count: How many are missing.
        """
        what = "vector" if ask.kind == "embedding" else "scores"
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        return (
            f"no recorded {what} by {ask.model} for {shown!r} (request {ask.key}); {count:,} "
            f"missing: {self._nearest(ask)}record them with --mode live, or name a bundle that "
            "has them in [cache] bundles"
        )

    def _nearest(self, ask: NumbersAsk) -> str:
        found = (source.any_figures() for source in self._sources)
        other = next((figures.request for figures in found if figures is not None), None)
        if other is None:
            return "no vectors are recorded at all; "
        names = ("model", "endpoint", "dimensions", "input_type")
        pairs = ((name, getattr(other, name, None), getattr(ask, name, None)) for name in names)
        differing = [f"{name} {old!r}, not {new!r}" for name, old, new in pairs if old != new]
        if other.kind != ask.kind or not differing:
            return ""
        return f"others are recorded with {', '.join(differing)}; "
