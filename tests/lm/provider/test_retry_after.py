"""How long a server asks to wait."""

from datetime import UTC, datetime

import pytest

from freshstack_dspy.lm.engine import retry_after

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "Sun, 22 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"Retry-After": "Sunday, 22-Nov-26 12:00:30 GMT"}, 30.0),
        ({"Retry-After": "Sun Nov 22 12:00:30 2026"}, 30.0),
        ({"Retry-After": "Sun, 22 Nov 2026 14:00:30 +0200"}, 30.0),
        ({"Retry-After": "Sun, 22 Nov 2026 11:59:00 GMT"}, 0.0),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "soon", "Retry-After": "2"}, 2.0),
    ],
)
def test_a_number_and_each_form_of_a_date_are_read(headers: dict[str, str], seconds: float) -> None:
    """RFC 9110 asks receivers for all three forms of a date."""
    assert retry_after(headers.items(), NOW) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-5", "nan", "inf", "-inf", "1e999", "99 Foo 2026"])
def test_what_makes_no_sense_is_as_good_as_nothing(value: str) -> None:
    assert retry_after([("Retry-After", value)], NOW) is None
