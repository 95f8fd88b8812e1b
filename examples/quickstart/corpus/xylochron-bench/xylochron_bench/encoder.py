"""The linear encoder: lines of text from the serial port become positions in µm.

The counter sends one line a reading::

    P+0012345        position in counts
    P+0012345 B      the same, and the foot switch was pressed
    E02              an error of the counter; see ``COUNTER_ERRORS``
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

LINE = re.compile(r"^P([+-]\d{1,9})( B)?$")
COUNTER_ERRORS = {
    "E01": "counter overflow: zero the encoder",
    "E02": "reading head lost the scale: the stage was moved too fast (limit 80 mm/s)",
    "E03": "supply voltage below 4.5 V",
}
REFERENCE_C = 20.0
"""Temperature in °C to which lengths are reduced."""
EXPANSION = 11.5e-6
"""Linear expansion of the steel scale per kelvin: 11.5 µm in a metre."""


class EncoderError(Exception):
    """The counter reported an error or sent a line that is none of its own."""


@dataclass(frozen=True)
class EncoderSettings:
    """How counts become micrometres; see ``docs/encoders.md``."""

    counts_per_mm: int = 1000
    direction: Literal[1, -1] = 1
    scale: float = 1.0
    """From ``calibration.json``: true length over shown length."""
    stage_temp_c: float | None = None
    """Temperature of the stage in °C; without it lengths are not reduced to 20 °C."""
    debounce_ms: int = 120
    """Presses of the foot switch closer together than this count as one."""
    backlash_um: int = 0
    """Play of the spindle, taken off after each reversal."""


@dataclass(frozen=True)
class Reading:
    """A position, and whether the operator marked a ring boundary there."""

    um: int
    pressed: bool


def to_um(counts: int, settings: EncoderSettings) -> int:
    """Counts to whole micrometres: direction, scale, then temperature."""
    length = 1000 * counts / settings.counts_per_mm * settings.direction * settings.scale
    if settings.stage_temp_c is not None:
        length *= 1 + EXPANSION * (settings.stage_temp_c - REFERENCE_C)
    return round(length)


def parse(line: str, settings: EncoderSettings) -> Reading:
    """One line of the counter.

    Raises:
        EncoderError: an error code, or a line that does not parse (wrong baud rate?).
    """
    text = line.strip()
    if text in COUNTER_ERRORS:
        raise EncoderError(f"{text}: {COUNTER_ERRORS[text]}")
    match = LINE.match(text)
    if match is None:
        raise EncoderError(f"unreadable line {text!r}: check baud and parity of the port")
    return Reading(to_um(int(match[1]), settings), match[2] is not None)


class Debouncer:
    """Lets a press through only if the last one is long enough ago."""

    def __init__(self, settings: EncoderSettings) -> None:
        self.wait = settings.debounce_ms / 1000
        self.last: float | None = None

    def accept(self, reading: Reading, now: float) -> bool:
        """Whether this press marks a ring."""
        if not reading.pressed:
            return False
        if self.last is not None and now - self.last < self.wait:
            return False
        self.last = now
        return True


def remove_backlash(positions: Iterable[int], play: int) -> Iterator[int]:
    """Take the play of the spindle off whenever the stage turns round."""
    previous: int | None = None
    sense, shift = 1, 0
    for position in positions:
        if previous is not None and position != previous:
            now = 1 if position > previous else -1
            if now != sense:
                shift, sense = shift - now * play, now
        previous = position
        yield position + shift
