"""The encoder: lines, temperature, debouncing, calibration."""

import pytest

from xylochron_bench.calibration import CalibrationError, calibrate
from xylochron_bench.encoder import (
    Debouncer,
    EncoderError,
    EncoderSettings,
    Reading,
    parse,
    remove_backlash,
    to_um,
)


def test_a_line_with_b_is_a_pressed_switch():
    assert parse("P+0012345 B\r\n", EncoderSettings()) == Reading(12345, True)


def test_direction_turns_the_sign():
    assert parse("P-0012345", EncoderSettings(direction=-1)).um == 12345


def test_ten_kelvin_make_a_metre_115_micrometres_longer():
    assert to_um(1_000_000, EncoderSettings(stage_temp_c=30)) == 1_000_115


@pytest.mark.parametrize(("line", "message"), [("E02", "moved too fast"), ("�@x", "check baud")])
def test_errors_say_what_to_check(line, message):
    with pytest.raises(EncoderError, match=message):
        parse(line, EncoderSettings())


def test_a_bouncing_switch_counts_once():
    debouncer = Debouncer(EncoderSettings(debounce_ms=120))
    pressed = Reading(100, True)

    assert [debouncer.accept(pressed, now) for now in (0.0, 0.05, 0.2)] == [True, False, True]


def test_play_is_taken_off_after_a_turn():
    assert list(remove_backlash([0, 100, 80, 100], play=8)) == [0, 100, 88, 100]


def test_a_wide_spread_is_refused():
    with pytest.raises(CalibrationError, match="spread over 14 µm, more than 5 µm allowed"):
        calibrate([50_000, 50_014, 50_002], 50_000)


def test_a_large_correction_is_a_wrong_setting():
    with pytest.raises(CalibrationError, match="check counts_per_mm first"):
        calibrate([25_000, 25_001, 25_000], 50_000)


def test_the_scale_is_true_over_shown():
    assert calibrate([49_990, 49_991, 49_989], 50_000).scale == pytest.approx(1.0002)
