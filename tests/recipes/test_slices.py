"""The slices, by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy import Judgment, Nugget, Query
from freshstack_dspy.records import SliceName
from freshstack_dspy.stored.contents import slice_queries

# What the judgments of each nugget say: 1, 0, or ! for one that failed.
BY_HAND: dict[str, tuple[SliceName, int, int]] = {
    "": ("without_nuggets", 0, 0),
    "1": ("answerable", 1, 0),
    "0": ("unanswerable", 0, 0),
    "!": ("undetermined", 0, 1),
    "01": ("answerable", 1, 0),
    "!1": ("answerable", 1, 0),
    "1!": ("answerable", 1, 0),
    "!0": ("undetermined", 0, 1),
    "00": ("unanswerable", 0, 0),
    "1 1": ("answerable", 2, 0),
    "1 0": ("partly_supported", 1, 0),
    "0 0": ("unanswerable", 0, 0),
    "1 !": ("partly_supported", 1, 1),
    "0 !": ("undetermined", 0, 1),
    "! !": ("undetermined", 0, 2),
    "1 0 !": ("partly_supported", 1, 1),
    "0! 10": ("partly_supported", 1, 1),
    "01! 10": ("answerable", 2, 0),
}


def query(query_id: str) -> Query:
    return Query(query_id=query_id, title="How?", body="", answer="So.")


def nuggets(query_id: str, said: str) -> list[Nugget]:
    return [
        Nugget(nugget_id=f"{query_id}_{number}", query_id=query_id, text="a", call_id="k")
        for number, _ in enumerate(said.split())
    ]


def judgments(query_id: str, said: str) -> list[Judgment]:
    return [
        Judgment(
            query_id=query_id,
            nugget_id=f"{query_id}_{number}",
            chunk_id=f"chunk {place}",
            label=None if letter == "!" else int(letter),
            status="refused" if letter == "!" else "ok",
            reason="",
            call_id=None,
        )
        for number, letters in enumerate(said.split())
        for place, letter in enumerate(letters)
    ]


@pytest.mark.parametrize("said", BY_HAND)
def test_slices_by_hand(said: str) -> None:
    (found,) = slice_queries([query("7")], nuggets("7", said), judgments("7", said))

    assert (found.slice, found.supported, found.undetermined) == BY_HAND[said]
    assert found.nuggets == len(said.split())


@settings(deadline=None)
@given(st.lists(st.text(alphabet="01!", min_size=1, max_size=3), max_size=4))
def test_a_failure_makes_no_query_answerable_or_unanswerable(said: list[str]) -> None:
    """The oracle replaces every failed judgment by 0 and by 1 in all ways."""

    def slice_of(text: str) -> SliceName:
        return slice_queries([query("7")], nuggets("7", text), judgments("7", text))[0].slice

    worlds = [""]
    for letter in " ".join(said):
        worlds = [world + each for world in worlds for each in ("01" if letter == "!" else letter)]
    possible = {slice_of(world) for world in worlds}

    found = slice_of(" ".join(said))

    if found in ("answerable", "unanswerable"):
        assert possible == {found}
    else:
        assert found == "undetermined" or "unanswerable" not in possible
