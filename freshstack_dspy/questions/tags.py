"""Which tags occur together, and how many questions they cover: what to gather a corpus from.

FreshStack chooses the repositories of a topic by the tags that occur next to the topic's own: the
first k of them, where k balances the questions covered against the size of the index.
Source: arXiv 2504.13128, §3.2.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.files import ReadProgress
from freshstack_dspy.questions.reading import read_queries
from freshstack_dspy.questions.stackexchange import tags_of_questions
from freshstack_dspy.records import Record


class TagCount(Record):
    """One tag in a list."""

    tag: str
    questions: int
    """How many questions have it."""
    share: float
    """The share of all questions."""
    added: int
    """How many questions have it and none of the tags before it in the list."""
    coverage: float
    """The share of questions that have this tag or one before it."""
    query_ids: tuple[str, ...] | None = None
    """The questions that have it; None where only tags were read."""


class TagCoverage(Record):
    """How the questions of a topic spread over other tags."""

    questions: int
    without: int
    """Questions that have none of the tags that count: nothing covers them."""
    distinct: int
    """How many tags there are that count."""
    tags: tuple[TagCount, ...]


def question_tags(
    config: QueriesConfig, progress: ReadProgress | None = None
) -> list[tuple[str, ...]]:
    """Give the tags of each question that passes the filters, but for `limit`.

    In a Stack Exchange dump the questions alone are looked at: filters of answers, licences and
    duplicates do not count. Of other sources it is the queries that would be read, and those without
    an answer.
    """
    if config.source == "stackexchange":
        return tags_of_questions(config, progress)
    unlimited = config.model_copy(update={"limit": None})
    return [query.tags for query in read_queries(unlimited, progress, answered=False).queries]


def tag_coverage(
    questions: Iterable[Collection[str]],
    *,
    ignored: Collection[str] = (),
    limit: int | None = None,
) -> TagCoverage:
    """Count the tags of questions, and how many questions they cover one after the other.

    Next in the list is the tag that adds the most questions; it ends when none adds any. Ties go
    to the tag of more questions, then by name. Case does not matter.
    """
    passed = {tag.casefold() for tag in ignored}
    sets: Counter[frozenset[str]] = Counter()
    for tags in questions:
        sets[frozenset(tag for tag in map(str.casefold, tags) if tag not in passed)] += 1
    counts: Counter[str] = Counter()
    having: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for tags, number in sets.items():
        for tag in tags:
            counts[tag] += number
            having[tag].append(tags)
    total, covered = sets.total(), 0
    gains, uncovered = dict(counts), dict(sets)
    listed: list[TagCount] = []
    while gains and (limit is None or len(listed) < limit):
        tag = min(gains, key=lambda tag: (-gains[tag], -counts[tag], tag))
        added = gains.pop(tag)
        if not added:
            break
        covered += added
        listed.append(
            TagCount(
                tag=tag,
                questions=counts[tag],
                share=counts[tag] / total,
                added=added,
                coverage=covered / total,
            )
        )
        for tags in having[tag]:
            number = uncovered.pop(tags, 0)
            for other in tags & gains.keys():
                gains[other] -= number
    return TagCoverage(
        questions=total, without=sets[frozenset()], distinct=len(counts), tags=tuple(listed)
    )
