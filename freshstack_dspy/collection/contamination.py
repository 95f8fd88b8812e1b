"""Contamination: how far a query can be known without the corpus of its collection."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from freshstack_dspy.records import Contamination, Nugget, Query
from freshstack_dspy.stored.near_duplicates import near_duplicates

if TYPE_CHECKING:
    from freshstack_dspy.config import ContaminationConfig

_WORD = re.compile(r"\w+")

Asked = Literal["before_cutoff", "after_cutoff"]


class Knowledge(NamedTuple):
    """What the closed-book answer to a query was judged to hold."""

    nugget_ids: tuple[str, ...]
    """Ids of the nuggets that it supports, ascending."""
    call_id: str | None


def contamination(
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    overlaps: Mapping[str, float | None],
    knowledge: Mapping[str, Knowledge],
    config: "ContaminationConfig",
) -> list[Contamination]:
    """Say for every query with nuggets how far it can be known without the corpus.

    `overlaps` has the `overlap` of each query with its supporting chunks; `knowledge` says what its
    closed-book answer holds, if that was judged.
    """
    own = Counter(nugget.query_id for nugget in nuggets if not nugget.doubtful)
    alike = near_duplicates({query.query_id: query for query in queries}, config.near_duplicate)
    records = []
    for query in queries:
        if query.query_id not in own:
            continue
        nugget_ids, call_id = knowledge.get(query.query_id, (None, None))
        records.append(
            Contamination(
                query_id=query.query_id,
                known_nuggets=nugget_ids,
                closed_book_coverage=None
                if nugget_ids is None
                else len(nugget_ids) / own[query.query_id],
                asked=asked(query.asked_at, config.cutoff),
                gold_overlap=overlaps.get(query.query_id),
                near_duplicates=alike.get(query.query_id, ()),
                call_id=call_id,
            )
        )
    return records


def asked(asked_at: str | None, cutoff: str | None) -> Asked | None:
    """Say whether a question was asked up to the day of a cut-off, or after it.

    Both are ISO 8601 dates; None if one is missing or not a date.
    """
    day, last = day_of(asked_at), day_of(cutoff)
    if day is None or last is None:
        return None
    return "before_cutoff" if day <= last else "after_cutoff"


def day_of(asked_at: str | None) -> date | None:
    """Give the day of an ISO 8601 date, in UTC where it has a zone; None where it is no date."""
    if asked_at is None:
        return None
    try:
        moment = datetime.fromisoformat(asked_at)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return None


def overlap(question: str, texts: Sequence[str], n: int) -> float | None:
    """Give the largest share of a question's word n-grams that one text holds.

    A word is a run of letters, digits and underscores, in lower case.

    Args:
        question: Title and body.
        texts: The texts of its supporting chunks.
        n: Words in a run.

    Returns:
        In [0, 1]; None where the question has fewer than n words, or there are no texts.

    Source:
        T. Brown et al., Language Models are Few-Shot Learners (arXiv 2005.14165), Appendix C:
        n-grams of lower-case words without punctuation, n at least 8. There one shared n-gram
        marks an example; here it is the share of them, which is containment (A. Broder, On the
        Resemblance and Containment of Documents, 1997).
    """
    asked_for = _ngrams(question, n)
    if not asked_for or not texts:
        return None
    return max(len(asked_for & _ngrams(text, n)) for text in texts) / len(asked_for)


def _ngrams(text: str, n: int) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}
