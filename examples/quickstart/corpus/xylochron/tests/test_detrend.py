"""Detrending: stiffness, fallbacks and curves that reach zero."""

import numpy as np
import pytest

from xylochron.detrend import cutoff_years, detrend
from xylochron.errors import GapError, NegativeCurveError
from xylochron.series import Series


def test_stiffness_below_one_is_a_fraction_of_the_length():
    assert cutoff_years(0.67, 200) == pytest.approx(134)
    assert cutoff_years(32, 200) == 32


@pytest.mark.parametrize("stiffness", [0, 1, 1.5])
def test_stiffness_between_one_and_two_is_refused(stiffness):
    with pytest.raises(ValueError, match="neither a fraction below 1"):
        detrend(Series("X", (1000,) * 60, 1900), stiffness=stiffness)


def test_rigidity_is_deprecated():
    series = Series("X", tuple(range(1000, 1060)), 1900)

    with pytest.warns(DeprecationWarning, match="use stiffness"):
        old = detrend(series, rigidity=32)
    assert old == detrend(series, stiffness=32)


def test_a_rising_series_falls_back_to_the_mean():
    series = Series("X", tuple(range(1000, 1060)), 1900)

    assert detrend(series, "negexp").fitted == "mean"
    assert detrend(series, "negexp", allow_rising=True).fitted == "line"


def test_gaps_must_be_filled_first():
    series = Series("X", (1000, None, 1200), 1900)

    with pytest.raises(GapError, match=r"call fill_gaps\(\) first"):
        detrend(series, "mean")
    assert series.fill_gaps().widths == (1000, 1100, 1200)


def test_a_curve_that_reaches_zero_is_an_error_for_ratios_only():
    widths = tuple(int(3000 * np.exp(-year / 6)) for year in range(80)) + (0,) * 20
    series = Series("X", widths, 1800)

    with pytest.raises(NegativeCurveError, match="use index='difference'"):
        detrend(series, stiffness=60)
    assert len(detrend(series, stiffness=60, index="difference").indices) == 100
