"""Groups of a collection's queries."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy import Query
from freshstack_dspy.collection.grouping import found_shares, query_groups
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import QueryGroups
from freshstack_dspy.records import Candidate, Found, TechniqueRank
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.folder import StoredCollection

from .small import CONTENTS, A, B, D, candidate, judgment, query, write_small


@pytest.fixture
def group(tmp_path: Path) -> Callable[..., QueryGroups]:
    """Group the queries of a collection that has these records."""
    small = write_small(tmp_path / "small")
    return lambda contents, *by, **at: query_groups(
        StoredCollection.holding(contents, small.manifest, small.corpus), *by, **at
    )


def of(**changes: object) -> Contents:
    return replace(CONTENTS, **changes)  # type: ignore[arg-type]


def asked(*days: str | None) -> Contents:
    queries = [
        query(str(place)).model_copy(update={"asked_at": day})
        for place, day in enumerate(days, start=1)
    ]
    return of(queries=queries)


def test_a_query_is_in_the_group_of_each_of_its_tags(group: Callable[..., QueryGroups]) -> None:
    first, *others = CONTENTS.queries
    tagged = first.model_copy(update={"tags": ("io", "api", "io")})
    untagged = others[0].model_copy(update={"tags": ()})
    found = group(of(queries=(tagged, untagged, *others[1:])), "tag")

    assert found.members == {"api": ("12", "5", "6"), "io": ("12",)}
    assert found.by == "tag"


def test_the_fields_of_the_queries_group_them_too(group: Callable[..., QueryGroups]) -> None:
    first, second, *others = CONTENTS.queries
    named = [
        one.model_copy(update={"fields": {"product": product, "tag": "x"}})
        for one, product in ((first, "Atlas"), (second, "Zeus"))
    ]
    contents = of(queries=(*named, *others))

    assert group(contents, "product").members == {"Atlas": ("12",), "Zeus": ("123",)}
    assert "x" not in group(contents, "tag").members, "a grouping of this name is there"
    with pytest.raises(CollectionError, match="cross_language, product, not by 'team'"):
        group(contents, "team")


def test_years_are_those_in_utc_and_what_has_no_date_is_in_none(
    group: Callable[..., QueryGroups],
) -> None:
    contents = asked("2025-12-31T23:30:00-02:00", "2025-06-01", None, "yesterday")

    assert group(contents, "date").members == {"2025": ("2",), "2026": ("1",)}


def test_a_date_divides_after_its_day(group: Callable[..., QueryGroups]) -> None:
    contents = asked("2024-06-30T23:59:59", "2024-07-01", "2020-01-01", None)
    found = group(contents, "date", at="2024-06-30")

    assert found.by == "date=2024-06-30"
    assert found.members == {"up to 2024-06-30": ("1", "3"), "after 2024-06-30": ("2",)}


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("slice", {"answerable": ("12", "123"), "unanswerable": ("5",), "without_nuggets": ("6",)}),
        ("cutoff", {"up to the cut-off": ("12",)}),
        ("contamination", {"known 50% or more": ("12",)}),
        ("origin", {"community": ("12", "123", "5", "6")}),
    ],
)
def test_groups_are_in_their_order_and_none_is_empty(
    kind: str, members: dict[str, tuple[str, ...]], group: Callable[..., QueryGroups]
) -> None:
    assert group(CONTENTS, kind).members == members


def ranked(query_id: str, chunk_id: str, rank: int, *, below: bool = False) -> Candidate:
    """A chunk that the question's list holds at this rank, and the answer's at the first."""
    by = (TechniqueRank(technique="question", rank=rank),)
    first = (TechniqueRank(technique="answer", rank=1),)
    return Candidate(
        query_id=query_id,
        chunk_id=chunk_id,
        pooled_by=first if below else (*by, *first),
        ranked_below=by if below else (),
        found_by=(Found(technique="answer", retriever="bm25", rank=1),),
    )


def test_difficulty_is_how_much_the_question_alone_found(group: Callable[..., QueryGroups]) -> None:
    """Query 12 has three supported nuggets; its chunks stand at ranks 20, 21 and nowhere."""
    pool = (ranked("12", A, 20), ranked("12", B, 21, below=True), candidate("123", A))
    unranked = ranked("12", D, 1).model_copy(
        update={"pooled_by": (TechniqueRank(technique="answer", rank=3),)}
    )
    judgments = (
        judgment("12_0", A, 1),
        judgment("12_1", B, 1),
        judgment("12_2", D, 1),
        judgment("12_3", A, 0),
        judgment("123_0", A, 1),
        judgment("5_0", A, 0),
        judgment("5_0", B, None),
    )
    contents = of(pool=(*pool, unranked), judgments=judgments)

    assert found_shares(contents) == {"12": pytest.approx(1 / 3), "123": 1.0}
    assert group(contents, "difficulty").members == {"easy": ("123",), "medium": ("12",)}


def without_tags(one: Query) -> Query:
    return one.model_copy(update={"tags": ()})


@pytest.mark.parametrize(
    ("contents", "kind", "said"),
    [
        (CONTENTS, "topic", "grouped by tag, slice, .*, not by 'topic'"),
        (of(queries=tuple(map(without_tags, CONTENTS.queries))), "tag", "no query what its tag is"),
        (asked(None), "date", "no query what its date is"),
        (of(contamination=()), "cutoff", "no query what its cutoff is"),
        (of(contamination=()), "contamination", "no closed-book answer"),
        (of(pool=()), "difficulty", "build it with question among"),
    ],
)
def test_what_is_known_of_no_query_is_an_error(
    contents: Contents, kind: str, said: str, group: Callable[..., QueryGroups]
) -> None:
    with pytest.raises(CollectionError, match=said):
        group(contents, kind)
