"""Which questions are kept: the filters of `[queries]`, and the order of query ids."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import UTC, datetime

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.languages import ENGLISH
from freshstack_dspy.records import Query, instant
from freshstack_dspy.text import terms

_LICENCES = (
    (datetime(2018, 5, 2, tzinfo=UTC), "CC BY-SA 4.0"),
    (datetime(2011, 4, 8, tzinfo=UTC), "CC BY-SA 3.0"),
)
_FIRST_LICENCE = "CC BY-SA 2.5"
_NO_PROSE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1|https?://\S+", re.MULTILINE | re.DOTALL)
_RARE_SHARE, _RARE_CHUNKS = 0.01, 10
_NAMED = 10
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def licence_at(written: datetime) -> str:
    """Give the licence under which Stack Exchange published what was written at a time.

    Source: https://stackoverflow.com/help/licensing.
    """
    return next((name for since, name in _LICENCES if written >= since), _FIRST_LICENCE)


def site_address(site: str | None) -> str:
    """Give what a post's link begins with; nothing where the site is not known."""
    if site is None:
        return ""
    if not _HOST.fullmatch(site):
        raise ConfigError(
            f"queries.site is {site!r}; allowed: the site's host alone, such as stackoverflow.com"
        )
    return f"https://{site}"


def id_order(query_id: str) -> tuple[bool, int, str, str]:
    """Give the sort key of a query id: numbers first, by value; then the others as text."""
    if query_id.isascii() and query_id.isdecimal():
        digits = query_id.lstrip("0")
        return False, len(digits), digits, query_id
    return True, 0, "", query_id


_IMAGE = re.compile(r"!\[[^\]]*\][(\[][^)\]]*[)\]](?:\]\([^)]*\))?|<img\b[^>]*>")
_CODE_BLOCK = re.compile(r"^ {0,3}(?:```|~~~)|^\s*\n(?: {4}|\t)\s*\S", re.MULTILINE)
_FEW_WORDS = 80


def is_in_image(body: str) -> bool:
    """Tell whether a question's content is in an image: it has one, no code, and little text.

    That is fewer than 80 words for each image. In a dump of bioinformatics.stackexchange.com, it
    marks 6 of 22 questions with images; 3 of these, and 2 others, need their image.
    """
    images = len(_IMAGE.findall(body))
    words = len(re.findall(r"\w+", _IMAGE.sub(" ", body)))
    return words < _FEW_WORDS * images and not _CODE_BLOCK.search(body)


def corpus_overlaps(
    queries: Iterable[Query],
    frequencies: Callable[[Set[str]], Mapping[str, int]],
    chunks: int,
    languages: tuple[str, ...] = ENGLISH,
) -> dict[str, float]:
    """Give by id the share of each question's rare terms that a corpus has, from 0 to 1.

    Its terms are those of the prose of title (without one, of the body) and accepted answer, of
    three characters or more, without numbers; blocks of code and addresses hold too many names
    that occur once. Rare is what at most 1% of the chunks have, or 10 of a small corpus. It is 1
    where the corpus lacks none of them, or a single one: a name or a misspelling.

    `frequencies` gives how many chunks have each of some terms, and is called once.
    """
    words = {}
    for query in queries:
        prose = _NO_PROSE.sub(" ", f"{query.title or query.body}\n{query.answer}")
        some = {term for term in terms(prose, languages) if len(term) > 2 and not term.isdigit()}
        words[query.query_id] = some
    chunks_with = frequencies(frozenset().union(*words.values()))
    most = max(_RARE_SHARE * chunks, _RARE_CHUNKS)
    shares = {}
    for query_id, some in words.items():
        rare = [found for found in map(chunks_with.__getitem__, some) if found <= most]
        lacking = rare.count(0)
        shares[query_id] = 1 - lacking / len(rare) if lacking > 1 else 1.0
    return shares


def overlap_note(little: Mapping[str, float], queries: int) -> str:
    """Say which questions use words that the corpus lacks."""
    note = f"{len(little):,} of {queries:,} questions use words that the corpus lacks"
    named = ", ".join(list(little)[:_NAMED]) + ", …" * (len(little) > _NAMED)
    return f"{note}: {named}" if little else note


class SelectedQuestions:
    """The filters of a configuration. Case does not count in tags and licences."""

    def __init__(self, config: QueriesConfig) -> None:
        self._config = config
        self._tags = _folded(config.tags)
        self._all_tags = _folded(config.all_tags)
        self._exclude_tags = _folded(config.exclude_tags)
        self._since = _config_instant("since", config.since)
        self._until = _config_instant("until", config.until)
        self._licences = _folded(config.licences)
        self._retired = frozenset(config.retired)
        self._seen_tags: set[str] = set()

    def reason_against(
        self, query_id: str, tags: Iterable[str], asked: datetime | None, score: int | None
    ) -> str | None:
        """Say why a question is left out, or None where it is kept.

        A question without the date or score that a filter looks at is left out.
        """
        has, since, until = _folded(tags), self._since, self._until
        self._seen_tags |= has
        rules = (
            (query_id in self._retired, "retired"),
            (self._tags and self._tags.isdisjoint(has), "outside the tags"),
            (not self._all_tags <= has, "without some of all_tags"),
            (not self._exclude_tags.isdisjoint(has), "with some of exclude_tags"),
            (asked is None and (since or until), "no date to compare with since and until"),
            (asked and since and asked < since, "before since"),
            (asked and until and asked >= until, "not before until"),
        )
        broken = next((reason for broken, reason in rules if broken), None)
        return broken or score_reason(score, self._config.min_score, "score", "min_score")

    def reason_against_query(
        self, query: Query, place: str, *, answered: bool = True
    ) -> str | None:
        """Say why a question of a table is left out, or None where it is kept."""
        try:
            asked = None if query.asked_at is None else instant(query.asked_at)
        except ValueError:
            raise SourceError(
                f"{place}: asked_at is {query.asked_at!r}; allowed: an ISO 8601 date and time, "
                "as 2023-01-31T12:00:00"
            ) from None
        sources = (query.question_source, query.answer_source)[: 1 + bool(query.answer)]
        licences = (source.licence if source else None for source in sources)
        return (
            (None if query.answer.strip() or not answered else "empty answer")
            or self.reason_against(query.query_id, query.tags, asked, query.score)
            or self.reason_against_licences(*licences)
        )

    def reason_against_licences(self, *licences: str | None) -> str | None:
        """Say why a question is left out for the licences of its question and answer."""
        if not self._licences:
            return None
        if not all(licences):
            return "no licence to compare with licences"
        return None if _folded(map(str, licences)) <= self._licences else "under another licence"

    def check_tags(self) -> None:
        """Check, once all questions were seen, that each wanted tag occurs."""
        for key in ("tags", "all_tags"):
            for tag in getattr(self._config, key):
                if self._seen_tags and tag.casefold() not in self._seen_tags:
                    near = difflib.get_close_matches(tag.casefold(), sorted(self._seen_tags))
                    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                    raise ConfigError(f"queries.{key}: no question has the tag {tag!r}{hint}")


def score_reason(score: int | None, least: int | None, what: str, key: str) -> str | None:
    """Say why a question is left out for a score, or None where it is kept."""
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
