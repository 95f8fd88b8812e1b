"""Crossdating: the right position, the minimum of overlap, and segment flags."""

import numpy as np
import pytest

from xylochron.crossdate import crossdate, gleichlaeufigkeit, segment_check
from xylochron.errors import OverlapTooShortError
from xylochron.series import Series


@pytest.fixture
def master() -> Series:
    noise = np.random.default_rng(11).lognormal(7, 0.4, size=300)
    return Series("MASTER", tuple(int(width) for width in noise), 1700)


def test_a_cut_of_the_master_is_found_where_it_was_cut(master):
    sample = Series("CUT", master.widths[100:180])

    best = crossdate(sample, master)[0]

    assert best.first_year == 1800
    assert best.glk == 100.0


def test_a_sample_shorter_than_min_overlap_gives_an_empty_list(master):
    sample = Series("SHORT", master.widths[100:140])

    assert crossdate(sample, master) == []
    assert crossdate(sample, master, min_overlap=40)[0].first_year == 1800


def test_below_thirty_rings_allow_short_is_needed(master):
    sample = Series("SHORT", master.widths[100:125])

    with pytest.raises(OverlapTooShortError, match="allow_short=True"):
        crossdate(sample, master, min_overlap=25)
    assert crossdate(sample, master, min_overlap=25, allow_short=True)[0].first_year == 1800


def test_below_twenty_rings_nothing_helps(master):
    with pytest.raises(OverlapTooShortError, match="below 20"):
        crossdate(master, master, min_overlap=19, allow_short=True)


def test_a_step_of_zero_counts_half():
    assert gleichlaeufigkeit(np.array([1, 2, 3]), np.array([1, 2, 2])) == 75.0


def test_a_missing_ring_flags_the_older_segments_b(master):
    rings = master.widths[:150] + master.widths[151:]
    series = Series("LOST", rings, 1701)

    flags = segment_check(series, master)

    assert {flag.flag for flag in flags if flag.end < 1850} == {"B"}
    assert {flag.shift for flag in flags if flag.end < 1850} == {-1}


def test_insert_ring_repairs_it_with_the_bark_year_fixed(master):
    rings = master.widths[:150] + master.widths[151:]
    series = Series("LOST", rings, 1701).insert_ring(1850)

    assert series.first_year == 1700
    assert series.last_year == 1999
    assert series.widths[150] == 0
