"""How long a server asks to wait: `Retry-After` in both its forms, and in milliseconds."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")


def retry_after(headers: Iterable[tuple[str, str]], now: datetime | None = None) -> float | None:
    """Read the seconds to wait out of a reply's headers.

    Args:
        headers: Names, in any case, and values.
        now: What a date is measured from; the clock's time by default.

    Returns:
        Finite seconds, at least 0; None where the server names none or what makes no sense.
        `Retry-After` is a number of seconds or a date (RFC 9110, section 10.2.3); the OpenAI and
        Azure services name milliseconds beside it, which are more exact.
    """
    values = {name.lower(): value.strip() for name, value in headers}
    for name in _IN_MILLISECONDS:
        milliseconds = _number(values.get(name, ""))
        if milliseconds is not None:
            return milliseconds / 1000
    value = values.get("retry-after", "")
    seconds = _number(value)
    return _seconds_until(value, now or datetime.now(UTC)) if seconds is None else seconds


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
