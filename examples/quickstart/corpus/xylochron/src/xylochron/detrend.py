"""Removing the age trend: a growth curve is fitted and the widths are set against it."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from xylochron.errors import NegativeCurveError
from xylochron.series import Series

Method = Literal["spline", "negexp", "mean"]
Index = Literal["ratio", "difference"]
Array = np.ndarray


@dataclass(frozen=True)
class Detrended:
    """The dimensionless indices of one series, with the curve they were made with."""

    id: str
    first_year: int | None
    indices: tuple[float, ...]
    curve: tuple[float, ...]
    """The growth curve in µm."""
    fitted: str
    """What was fitted in the end: a failed ``negexp`` says ``line`` or ``mean`` here."""


def detrend(
    series: Series,
    method: str = "spline",
    *,
    stiffness: float = 0.67,
    index: Index = "ratio",
    allow_rising: bool = False,
    rigidity: float | None = None,
) -> Detrended:
    """Fit a growth curve and return the indices.

    Args:
        series: Ring widths without gaps.
        method: ``spline``, ``negexp`` (modified negative exponential) or ``mean``.
        stiffness: Wavelength at which the spline keeps half of the amplitude. Below 1 it
            is a fraction of the series' length, from 2 on a number of years; values
            from 1 up to 2 are refused because they could mean either.
        index: ``ratio`` divides by the curve, ``difference`` subtracts it.
        allow_rising: Let the straight line that replaces a failed ``negexp`` rise. If
            not, a rising line is replaced by the mean.
        rigidity: Deprecated since 3.1, to be removed in 4.0. Years only; use
            ``stiffness``.

    Raises:
        GapError: a ring was not measured.
        NegativeCurveError: the curve reaches zero and ``index`` is ``ratio``.
    """
    if rigidity is not None:
        warnings.warn(
            "rigidity is deprecated, use stiffness (same meaning from 2 years on)",
            DeprecationWarning,
            stacklevel=2,
        )
        stiffness = rigidity
    if method == "friedman":
        warnings.warn(
            "method 'friedman' is deprecated and now means 'spline'",
            DeprecationWarning,
            stacklevel=2,
        )
        method = "spline"
    widths = np.asarray(series.complete_widths(), dtype=float)
    curve, fitted = _fit(widths, method, stiffness, allow_rising)
    if index == "difference":
        indices = widths - curve
    else:
        _check_positive(series, curve, fitted)
        indices = widths / curve
    return Detrended(series.id, series.first_year, tuple(indices), tuple(curve), fitted)


def cutoff_years(stiffness: float, length: int) -> float:
    """Turn a stiffness into years."""
    if stiffness <= 0 or 1 <= stiffness < 2:
        raise ValueError(
            f"stiffness={stiffness!r} is neither a fraction below 1 nor a number of "
            "years from 2 on"
        )
    return stiffness * length if stiffness < 1 else stiffness


def _fit(widths: Array, method: str, stiffness: float, allow_rising: bool) -> tuple[Array, str]:
    if method == "spline":
        return spline(widths, cutoff_years(stiffness, len(widths))), "spline"
    if method == "negexp":
        return _negexp(widths, allow_rising)
    if method == "mean":
        return np.full(len(widths), widths.mean()), "mean"
    raise ValueError(f"method={method!r} is not one of 'spline', 'negexp', 'mean'")


def spline(widths: Array, years: float) -> Array:
    """A smoothing spline that keeps half of the amplitude of waves of ``years`` length."""
    count = len(widths)
    step = np.diff(np.eye(count), n=2, axis=0)
    penalty = 1.0 / (2.0 - 2.0 * np.cos(2.0 * np.pi / years)) ** 2
    return np.linalg.solve(np.eye(count) + penalty * step.T @ step, widths)


def _negexp(widths: Array, allow_rising: bool) -> tuple[Array, str]:
    """``a·exp(-b·t) + k`` with a > 0 and k > 0, or else a line, or else the mean."""
    time = np.arange(len(widths), dtype=float)
    best: tuple[float, Array] | None = None
    for rate in np.geomspace(0.002, 0.5, 60):
        design = np.column_stack([np.exp(-rate * time), np.ones_like(time)])
        (height, floor), *_ = np.linalg.lstsq(design, widths, rcond=None)
        if height > 0 and floor > 0:
            curve = design @ np.array([height, floor])
            error = float(np.sum((widths - curve) ** 2))
            if best is None or error < best[0]:
                best = (error, curve)
    if best is not None:
        return best[1], "negexp"
    slope, start = np.polyfit(time, widths, 1)
    if slope > 0 and not allow_rising:
        return np.full(len(widths), widths.mean()), "mean"
    return start + slope * time, "line"


def _check_positive(series: Series, curve: Array, fitted: str) -> None:
    low = int(curve.argmin())
    if curve[low] <= 0:
        where = f"ring {low + 1}" if series.first_year is None else str(series.first_year + low)
        raise NegativeCurveError(
            f"the {fitted} of {series.id!r} reaches {curve[low]:.1f} µm in {where}; "
            "use index='difference', a stiffer curve, or method='negexp'"
        )
