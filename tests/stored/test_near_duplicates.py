"""Which questions ask nearly the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, Nugget, Query
from freshstack_dspy.stored.near_duplicates import (
    MOST_LISTED,
    near_duplicates,
    same_texts,
)
from freshstack_dspy.text import alike_pairs, clusters, jaccard, terms

TEXTS = st.lists(
    st.lists(st.sampled_from("abcdefghijkl"), max_size=9).map(" ".join), max_size=12
).map(lambda texts: {str(number): text for number, text in enumerate(texts)})


def asked(titles: dict[str, str]) -> dict[str, Query]:
    return {id_: Query(query_id=id_, title=title, body="") for id_, title in titles.items()}


@given(TEXTS, st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1.0]))
def test_the_pairs_are_those_of_comparing_all(texts: dict[str, str], similarity: float) -> None:
    sets = {id_: set(terms(text)) for id_, text in texts.items()}
    expected = {
        one: tuple(
            sorted(o for o in sets if o != one and jaccard(sets[one], sets[o]) >= similarity)
        )
        for one in sorted(sets)
    }

    assert near_duplicates(asked(texts), similarity) == {
        one: others for one, others in expected.items() if others
    }


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (
            "The parser stops at line seven of the file, and the exit code is zero, without any message in the log.",
            True,
        ),
        ("Please help me with this, thanks a lot.", False),
    ],
)
def test_an_equal_body_under_another_title_is_the_same_question(body: str, alike: bool) -> None:
    titles = {"1": "Atlas import broken after upgrade yesterday", "2": "Urgent: nightly job fails!"}
    questions = {id_: Query(query_id=id_, title=title, body=body) for id_, title in titles.items()}

    assert near_duplicates(questions, 0.8) == ({"1": ("2",), "2": ("1",)} if alike else {})


def test_clusters_are_alike_at_whatever_remove() -> None:
    alike = [("a", "c"), ("d", "c"), ("d", "gone")]

    assert clusters(["d", "b", "a", "c"], alike) == [("d", "a", "c"), ("b",)]


def test_of_many_that_ask_the_same_the_first_are_listed_and_all_are_one_group() -> None:
    texts = {f"{number:04}": "index a bam file" for number in range(300)}

    found = near_duplicates(asked(texts), 0.8)

    assert found["0000"] == tuple(f"{number:04}" for number in range(1, MOST_LISTED + 1))
    assert found["0299"] == tuple(f"{number:04}" for number in range(MOST_LISTED))
    assert len(clusters(list(texts), alike_pairs(texts, 0.8))) == 1


LONG = " ".join(f"The reader opens {word} and closes it." for word in "abcdefghijklmnopqrst")


@pytest.mark.parametrize(
    ("text", "nugget", "same"),
    [
        (LONG.replace(" ", "\n  "), "", True),
        (LONG.replace("t and", "t or"), "", True),
        (LONG.replace("opens a", "opens alpha").replace("opens b", "opens beta"), "", False),
        (LONG.replace("t and", "t and not"), "", False),
        (LONG.replace("t and", "t 2 and"), "", False),
        (LONG.replace("opens t", "shuts t"), "A file is opened.", True),
        (LONG.replace("opens t", "shuts t"), "A file is shut.", False),
    ],
)
def test_nearly_the_same_text_says_the_same_if_no_number_denial_or_nugget_tells_it_apart(
    text: str, nugget: str, same: bool
) -> None:
    first, second = (
        Chunk(chunk_id=id_, source="s", path=id_, start_byte=0, end_byte=1, text=each, tokens=1)
        for id_, each in (("a", LONG), ("b", text))
    )
    nuggets = [Nugget(nugget_id="1_0", query_id="1", text=nugget or "x", call_id=None)]

    assert same_texts([first, second], nuggets) == ({"b": first} if same else {})
