"""Which questions are kept: the filters of `[queries]`, and the order of query ids."""

from datetime import UTC, datetime
from typing import NamedTuple, Self

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError


def id_order(query_id: str) -> tuple[bool, int, str, str]:
    """Give the sort key of a query id: numbers first, by value; then the others as text.

    `007` and `7` are different ids of the same value and are put in order as text.
    """
    if query_id.isascii() and query_id.isdecimal():
        digits = query_id.lstrip("0")
        return False, len(digits), digits, query_id
    return True, 0, "", query_id


def instant(text: str) -> datetime:
    """Read an ISO 8601 date, or date and time; without a zone it is UTC.

    Raises:
        ValueError: It is neither.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class Selection(NamedTuple):
    """The filters, ready to be applied."""

    tags: frozenset[str]
    since: datetime | None
    until: datetime | None
    min_score: int | None

    @classmethod
    def of(cls, config: QueriesConfig) -> Self:
        """Take the filters of a configuration.

        Raises:
            ConfigError: A date is not an ISO date.
        """
        return cls(
            tags=frozenset(map(str.casefold, config.tags)),
            since=_config_instant("since", config.since),
            until=_config_instant("until", config.until),
            min_score=config.min_score,
        )

    def reason_against(
        self, tags: tuple[str, ...], asked: datetime | None, score: int | None
    ) -> str | None:
        """Say why a question is left out, or None where it is kept.

        A question without the date or score that a filter looks at is left out.
        """
        since, until, least = self.since, self.until, self.min_score
        rules = (
            (self.tags and self.tags.isdisjoint(map(str.casefold, tags)), "outside the tags"),
            (asked is None and (since or until), "no date to compare with since and until"),
            (asked and since and asked < since, "before since"),
            (asked and until and asked >= until, "not before until"),
            (score is None and least is not None, "no score to compare with min_score"),
            (score is not None and least is not None and score < least, "score below min_score"),
        )
        return next((reason for broken, reason in rules if broken), None)


def _config_instant(key: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return instant(text)
    except ValueError:
        raise ConfigError(
            f"queries.{key} is {text!r}; allowed: an ISO 8601 date, as 2023-01-31"
        ) from None
