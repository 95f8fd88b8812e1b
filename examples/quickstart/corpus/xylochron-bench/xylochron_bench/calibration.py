"""Calibration: several passes over a gauge block of known length give one scale factor."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_SPREAD_UM = 5
"""The longest pass may exceed the shortest by so much."""
MAX_CORRECTION = 0.002
"""A scale further from 1 than this is a wrong counts_per_mm, not a calibration."""
MIN_PASSES = 3


class CalibrationError(Exception):
    """The passes cannot be trusted; nothing is written."""


@dataclass(frozen=True)
class Calibration:
    """The content of ``calibration.json``."""

    scale: float
    reference_um: int
    passes: tuple[int, ...]
    stage_temp_c: float | None


def calibrate(
    passes: Sequence[int], reference_um: int, *, stage_temp_c: float | None = None
) -> Calibration:
    """Compute the scale: the true length over the mean of the passes.

    Args:
        passes: Lengths shown by the encoder in µm, all in the same direction.
        reference_um: Length of the gauge block at 20 °C.
        stage_temp_c: Temperature of stage and block.

    Raises:
        CalibrationError: too few passes, too wide a spread, too large a correction.
    """
    if len(passes) < MIN_PASSES:
        raise CalibrationError(f"{len(passes)} passes are too few, {MIN_PASSES} are needed")
    spread = max(passes) - min(passes)
    if spread > MAX_SPREAD_UM:
        raise CalibrationError(
            f"passes spread over {spread} µm, more than {MAX_SPREAD_UM} µm allowed; "
            "approach every mark from the same side"
        )
    scale = reference_um / statistics.fmean(passes)
    if abs(scale - 1) > MAX_CORRECTION:
        raise CalibrationError(
            f"scale {scale:.5f} is more than 0.2 % off; check counts_per_mm first"
        )
    return Calibration(round(scale, 7), reference_um, tuple(passes), stage_temp_c)


def save(calibration: Calibration, state_dir: Path) -> Path:
    """Write ``calibration.json`` and keep the one before as ``calibration.previous.json``."""
    target = state_dir / "calibration.json"
    if target.exists():
        target.replace(state_dir / "calibration.previous.json")
    target.write_text(json.dumps(asdict(calibration), indent=2), encoding="utf-8")
    return target


def load_scale(state_dir: Path) -> float:
    """The scale in force; 1.0 when the bench was never calibrated."""
    path = state_dir / "calibration.json"
    if not path.is_file():
        return 1.0
    return float(json.loads(path.read_text(encoding="utf-8"))["scale"])
