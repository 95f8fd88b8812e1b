"""Which questions are kept: the filters of `[queries]`, and the order of query ids."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, Self

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.records import Query

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


class Intake:
    """Takes the questions of a file, one after the other."""

    def __init__(self, selection: Selection, rejected: Counter[str]) -> None:
        """Begin.

        Args:
            selection: The filters.
            rejected: Reason to count; added to.
        """
        self._selection = selection
        self._rejected = rejected
        self._first_place: dict[str, tuple[str, int]] = {}
        self.queries: list[Query] = []
        """Those that were kept, in the order in which they came."""

    def reject(self, reason: str) -> None:
        """Count a question that is not kept."""
        self._rejected[reason] += 1

    def take(self, query: Query, file: str, row: int) -> None:
        """Keep a question, or count it as rejected.

        Args:
            query: The question.
            file: Where it stands, for messages.
            row: At which line or row, from 1.

        Raises:
            SourceError: `file:row: …` for an id that was there already or holds white space, or a
                date that is none.
        """
        place = f"{file}:{row}"
        _check_id(query.query_id, place)
        first_file, first_row = self._first_place.setdefault(query.query_id, (file, row))
        if (first_file, first_row) != (file, row):
            where = "on line" if first_file == file else f"in {first_file}, line"
            raise SourceError(
                f"{place}: query_id {query.query_id!r} is already {where} {first_row}; "
                "each question needs an id of its own"
            )
        reason = self._reason_against(query, place)
        if reason:
            self.reject(reason)
        else:
            self.queries.append(query)

    def _reason_against(self, query: Query, place: str) -> str | None:
        try:
            asked = None if query.asked_at is None else instant(query.asked_at)
        except ValueError:
            raise SourceError(
                f"{place}: asked_at is {query.asked_at!r}; allowed: an ISO 8601 date and time, "
                "as 2023-01-31T12:00:00"
            ) from None
        if not query.answer.strip():
            return "empty answer"
        licences = [
            source.licence if source else None
            for source in (query.question_source, query.answer_source)
        ]
        return (
            self._selection.reason_against_id(query.query_id)
            or self._selection.reason_against(query.tags, asked, query.score)
            or self._selection.reason_against_licences(*licences)
        )


def _check_id(query_id: str, place: str) -> None:
    """Refuse ids that would break the lines of run and qrels files."""
    if any(character.isspace() or not character.isprintable() for character in query_id):
        raise SourceError(
            f"{place}: query_id is {query_id!r}: white space and control characters are not allowed"
        )
