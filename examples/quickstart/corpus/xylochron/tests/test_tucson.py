"""Tucson files: units by stop marker, absent rings, ids and years."""

import pytest

from xylochron.errors import IdTooLongError, StopMarkerCollisionWarning, StopMarkerError
from xylochron.formats import tucson
from xylochron.series import Series

HUNDREDTHS = "ABC01A  1898   120   135\nABC01A  1900     0   999\n"


def test_999_means_hundredths_of_a_millimetre():
    (series,) = tucson.read(HUNDREDTHS)

    assert series.widths == (1200, 1350, 0)
    assert series.first_year == 1898


def test_minus_9999_means_micrometres():
    (series,) = tucson.read("ABC01A  1898  1201  1353 -9999\n")

    assert series.widths == (1201, 1353)


def test_no_marker_and_no_units_is_an_error():
    with pytest.raises(StopMarkerError, match="has no stop marker"):
        tucson.read("ABC01A  1898   120   135\n")


def test_units_never_override_a_marker():
    (series,) = tucson.read(HUNDREDTHS, units="1/1000mm")

    assert series.meta["units"] == "1/100mm"


def test_not_measured_is_none_and_absent_is_zero():
    (series,) = tucson.read("ABC01A  1898  1201  -999     0 -9999\n")

    assert series.widths == (1201, None, 0)


def test_a_width_of_9990_micrometres_is_written_as_998():
    with pytest.warns(StopMarkerCollisionWarning, match="written as 998"):
        text = tucson.write([Series("ABC01A", (9990,), 1900)], units="1/100mm")

    assert text.split()[2:] == ["998", "999"]


def test_long_ids_are_an_error_unless_truncated():
    series = Series("ABCDEFGHIJ", (1000,), 1900)

    with pytest.raises(IdTooLongError, match="10 characters, Tucson holds 8"):
        tucson.write([series])
    assert tucson.write([series], long_ids="truncate").startswith("ABCDEFGH1900")


def test_years_before_minus_999_need_wide_years():
    series = Series("OAK7", (500, 510), -1204)

    text = tucson.write([series], wide_years=True)

    assert tucson.read(text, wide_years=True)[0].first_year == -1204
