"""Averaging indices into a chronology, and saying how good it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from xylochron.series import Series


class Indexed(Protocol):
    """What a chronology is built from: see ``detrend.Detrended``."""

    id: str
    first_year: int | None
    indices: tuple[float, ...]


@dataclass(frozen=True)
class Chronology:
    """Mean indices by year; years with too few samples are ``None``."""

    name: str
    first_year: int
    values: tuple[float | None, ...]
    depth: tuple[int, ...]
    """How many samples each year is the mean of."""

    def as_series(self) -> Series:
        """The chronology as a master for crossdating: indices times 1000, as "µm".

        Years without a value at either end are cut off.
        """
        known = [index for index, value in enumerate(self.values) if value is not None]
        low, high = known[0], known[-1] + 1
        widths = tuple(
            None if value is None else round(value * 1000) for value in self.values[low:high]
        )
        return Series(self.name, widths, self.first_year + low)


def build_chronology(
    detrended: Sequence[Indexed],
    *,
    name: str = "chronology",
    average: Literal["biweight", "mean"] = "biweight",
    min_depth: int = 5,
    prewhiten: bool = False,
) -> Chronology:
    """Average detrended series by calendar year.

    Args:
        detrended: Dated results of ``detrend``; floating ones are an error.
        name: The chronology's name.
        average: Tukey's ``biweight`` (robust, falls back to the mean below 6 samples)
            or the arithmetic ``mean``.
        min_depth: Years with fewer samples get no value. The early end of a chronology
            is therefore often younger than its oldest sample.
        prewhiten: Remove the persistence of each series with an AR model whose order
            AIC chooses (at most 10): a *residual* chronology.
    """
    floating = [one.id for one in detrended if one.first_year is None]
    if floating:
        raise ValueError(f"floating series cannot be averaged: {', '.join(sorted(floating))}")
    starts = [one.first_year or 0 for one in detrended]
    first = min(starts)
    last = max(start + len(one.indices) for start, one in zip(starts, detrended, strict=True))
    by_year: list[list[float]] = [[] for _ in range(last - first)]
    for start, one in zip(starts, detrended, strict=True):
        indices = residuals(np.asarray(one.indices)) if prewhiten else one.indices
        for position, value in enumerate(indices, start=start - first):
            by_year[position].append(float(value))
    mean = biweight if average == "biweight" else _mean
    values = tuple(mean(year) if len(year) >= min_depth else None for year in by_year)
    return Chronology(name, first, values, tuple(len(year) for year in by_year))


def biweight(values: Sequence[float]) -> float:
    """Tukey's biweight mean with c = 9; the plain mean for fewer than 6 values."""
    if len(values) < 6:
        return _mean(values)
    data = np.asarray(values)
    centre = float(np.median(data))
    spread = float(np.median(np.abs(data - centre)))
    if spread == 0:
        return centre
    distance = (data - centre) / (9 * spread)
    weight = np.where(np.abs(distance) < 1, (1 - distance**2) ** 2, 0)
    return float(np.sum(weight * data) / np.sum(weight))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def residuals(indices: np.ndarray, max_order: int = 10) -> np.ndarray:
    """What an autoregressive model of the best AIC leaves, set back to a mean of 1."""
    centred = indices - indices.mean()
    count = len(centred)
    best = (count * np.log(max(centred.var(), 1e-12)), centred)
    for order in range(1, min(max_order, count // 4) + 1):
        lagged = np.column_stack([centred[order - k - 1 : count - k - 1] for k in range(order)])
        target = centred[order:]
        weights, *_ = np.linalg.lstsq(lagged, target, rcond=None)
        rest = np.concatenate([centred[:order], target - lagged @ weights])
        aic = count * np.log(max(rest.var(), 1e-12)) + 2 * order
        if aic < best[0]:
            best = (aic, rest)
    return best[1] + 1.0


def rbar(matrix: np.ndarray) -> float:
    """Mean correlation between all pairs of columns."""
    correlations = np.corrcoef(matrix, rowvar=False)
    return float(correlations[np.triu_indices_from(correlations, k=1)].mean())


def eps(mean_correlation: float, samples: int) -> float:
    """Expressed population signal; 0.85 is the customary threshold."""
    return samples * mean_correlation / (samples * mean_correlation + 1 - mean_correlation)
