"""Which questions are kept: the filters of `[queries]`, and the order of query ids."""

from collections.abc import Iterable
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
    """The filters, ready to be applied. Case does not count in tags and licences."""

    tags: frozenset[str]
    all_tags: frozenset[str]
    exclude_tags: frozenset[str]
    since: datetime | None
    until: datetime | None
    min_score: int | None
    min_answer_score: int | None
    licences: frozenset[str]
    retired: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: QueriesConfig) -> Self:
        """Take the filters of a configuration.

        Raises:
            ConfigError: A date is not an ISO date.
        """
        return cls(
            tags=_folded(config.tags),
            all_tags=_folded(config.all_tags),
            exclude_tags=_folded(config.exclude_tags),
            since=_config_instant("since", config.since),
            until=_config_instant("until", config.until),
            min_score=config.min_score,
            min_answer_score=config.min_answer_score,
            licences=_folded(config.licences),
            retired=frozenset(config.retired),
        )

    def reason_against_id(self, query_id: str) -> str | None:
        """Say why a question of this id is left out, or None where it is kept."""
        return "retired" if query_id in self.retired else None

    def reason_against(
        self, tags: Iterable[str], asked: datetime | None, score: int | None
    ) -> str | None:
        """Say why a question is left out, or None where it is kept.

        A question without the date or score that a filter looks at is left out.
        """
        has, since, until = _folded(tags), self.since, self.until
        rules = (
            (self.tags and self.tags.isdisjoint(has), "outside the tags"),
            (not self.all_tags <= has, "without some of all_tags"),
            (not self.exclude_tags.isdisjoint(has), "with some of exclude_tags"),
            (asked is None and (since or until), "no date to compare with since and until"),
            (asked and since and asked < since, "before since"),
            (asked and until and asked >= until, "not before until"),
        )
        broken = next((reason for broken, reason in rules if broken), None)
        return broken or _score_reason(score, self.min_score, "score", "min_score")

    def reason_against_answer(self, score: int | None) -> str | None:
        """Say why a question is left out for the score of its accepted answer."""
        return _score_reason(score, self.min_answer_score, "answer score", "min_answer_score")

    def reason_against_licences(self, *licences: str | None) -> str | None:
        """Say why a question is left out for the licences of its question and answer."""
        if not self.licences:
            return None
        if not all(licences):
            return "no licence to compare with licences"
        return None if _folded(map(str, licences)) <= self.licences else "under another licence"


def _score_reason(score: int | None, least: int | None, what: str, key: str) -> str | None:
    if least is None:
        return None
    if score is None:
        return f"no {what} to compare with {key}"
    return f"{what} below {key}" if score < least else None


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str.casefold, words))


def _config_instant(key: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return instant(text)
    except ValueError:
        raise ConfigError(
            f"queries.{key} is {text!r}; allowed: an ISO 8601 date, as 2023-01-31"
        ) from None
