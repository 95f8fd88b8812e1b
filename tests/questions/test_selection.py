"""How much a question has in common with a corpus."""

from collections import Counter

import pytest

from freshstack_dspy import Query
from freshstack_dspy.questions.selection import corpus_overlap


def query(title: str, answer: str) -> Query:
    return Query(query_id="1", title=title, body="Chatty words.", answer_id=None, answer=answer)


@pytest.mark.parametrize(
    ("title", "answer", "share"),
    [
        ("Winding the dial", "Call reset.", 0.5),  # wind and call are nowhere
        ("The dial", "Of 10 dials, reset\n```py\nfoo\n```\nhttps://foo.org/bar", 1),
        ("The moon", "Call it here, repeatedly.", 0),  # moon is in too many chunks to be rare
        ("The moon", "It is.", 1),
        ("Winding the dial", "", 1),  # a single term is a name or a misspelling
    ],
)
def test_it_is_the_share_of_rare_terms_of_title_and_answer_in_the_corpus(
    title: str, answer: str, share: float
) -> None:
    frequencies = Counter({"dial": 20, "reset": 1, "moon": 21})

    assert corpus_overlap(query(title, answer), frequencies.__getitem__, 2000) == share


def test_in_a_small_corpus_what_ten_chunks_have_is_rare() -> None:
    found = corpus_overlap(
        query("Dial, moon", "Suns, star."), Counter({"dial": 10, "moon": 11}).__getitem__, 50
    )

    assert found == pytest.approx(1 / 3)
