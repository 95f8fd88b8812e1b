"""Who wrote a post, where it stands, and its licence."""

import re
from datetime import UTC, datetime

from freshstack_dspy.errors import ConfigError

_LICENCES = (
    (datetime(2018, 5, 2, tzinfo=UTC), "CC BY-SA 4.0"),
    (datetime(2011, 4, 8, tzinfo=UTC), "CC BY-SA 3.0"),
)
_FIRST_LICENCE = "CC BY-SA 2.5"
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def licence_at(written: datetime) -> str:
    """Give the licence under which Stack Exchange published what was written at a time.

    Source: https://stackoverflow.com/help/licensing.
    """
    return next((name for since, name in _LICENCES if written >= since), _FIRST_LICENCE)


def site_address(site: str | None) -> str:
    """Give what a post's link begins with: empty where the site is not known.

    Without a site the link is the post's path on its site, as `/questions/1`: that much the
    dump says, and no host is invented.

    Raises:
        ConfigError: It is not the name of a host.
    """
    if site is None:
        return ""
    if not _HOST.fullmatch(site):
        raise ConfigError(
            f"queries.site is {site!r}; allowed: the site's host alone, as stackoverflow.com"
        )
    return f"https://{site}"


def author_of(display_name: str | None, user_id: str | None, listed: str | None) -> str:
    """Name the author: as the post does, else as the user list does, else by number."""
    if display_name and display_name.strip():
        return display_name.strip()
    if user_id is None:
        return "anonymous"
    return listed or f"user {user_id}"
