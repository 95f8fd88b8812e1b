"""What of a query can be known without the corpus: dates, n-grams, and what was judged."""

import pytest

from freshstack_dspy.collection.contamination import Knowledge, asked, contamination, overlap
from freshstack_dspy.config import ContaminationConfig
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import Contamination

from .small import CONTENTS, query


@pytest.mark.parametrize(
    ("asked_at", "said"),
    [
        ("2024-06-30T23:59:59.999", "before_cutoff"),
        ("2024-07-01", "after_cutoff"),
        ("2024-06-30T23:00:00-02:00", "after_cutoff"),
        ("2024-07-01T01:00:00+02:00", "before_cutoff"),
        ("0001-01-01T00:00:00+02:00", None),
        ("last summer", None),
        (None, None),
    ],
)
def test_a_date_is_compared_by_its_day_in_utc(asked_at: str | None, said: str | None) -> None:
    assert asked(asked_at, "2024-06-30") == said
    assert asked(asked_at, None) is None


def test_the_overlap_is_the_largest_share_of_one_text() -> None:
    """Of the bigrams of `how do I index it`, the first text holds two and the second one."""
    texts = ["Well, how do I?", "index it", "no word of this"]

    assert overlap("How do I index it?", texts, 2) == 2 / 4
    assert overlap("short", texts, 2) is None
    assert overlap("How do I index it?", [], 2) is None


def test_every_query_with_nuggets_has_a_record() -> None:
    knowledge = {"12": Knowledge(("12_0",), "k2")}

    found = {
        one.query_id: one
        for one in contamination(
            CONTENTS.queries, CONTENTS.nuggets, {}, knowledge, ContaminationConfig()
        )
    }

    assert sorted(found) == ["12", "123", "5"]
    assert found["12"].known_nuggets == ("12_0",)
    assert (found["12"].closed_book_coverage, found["12"].call_id) == (0.5, "k2")
    assert (found["5"].known_nuggets, found["5"].closed_book_coverage) == (None, None)
    assert found["5"].near_duplicates == ("12", "6"), "query 6 has no nuggets, and counts too"


def test_contaminated_queries_are_those_known_by_so_much() -> None:
    def known(query_id: str, coverage: float | None) -> Contamination:
        return Contamination(
            query_id=query_id,
            known_nuggets=None if coverage is None else (),
            closed_book_coverage=coverage,
            asked=None,
            gold_overlap=None,
        )

    records = (known("5", 0.5), known("12", 1.0), known("6", None), known("123", 0.49))
    contents = type(CONTENTS)(queries=(query("5"),), contamination=records)

    assert contents.contaminated() == ("12", "5")
    assert contents.contaminated(1.0) == ("12",)
    assert contents.contaminated(0) == ("12", "123", "5")
    with pytest.raises(CollectionError, match="closed_book_answer among"):
        type(CONTENTS)(contamination=(known("6", None),)).contaminated()
