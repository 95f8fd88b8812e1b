import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.term_rows import number_terms
from freshstack_dspy.records import ranked
from tests.index.pieces import SMALL, piece

WORDS = ("qa", "qb", "qc", "qd", "qe", "qf")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def indexed(texts: list[str]) -> LexicalIndex:
    chunks = [piece("p", text, start=place) for place, text in enumerate(texts)]
    return LexicalIndex.build(number_terms(chunks, lambda _fraction: None))


def lucene(texts: list[str], query: str, k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Score by the formula as Lucene's BM25Similarity documents it, on word lists split at spaces.

    Every document has the word `p`, its path.
    """
    documents = [["p", *text.split()] for text in texts]
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts = Counter(words)
        score = 0.0
        for word in query.split():
            with_word = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - with_word + 0.5) / (with_word + 0.5))
            norm = k1 * (1 - b + b * len(words) / average)
            score += idf * counts[word] / (counts[word] + norm)
        scores.append(score)
    return scores


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS, st.integers(1, 15))
def test_scores_and_order_are_lucenes(texts: list[str], query: str, depth: int) -> None:
    expected = {
        f"{row:02}": round(score, 6) for row, score in enumerate(lucene(texts, query)) if score > 0
    }

    (found,) = indexed(texts).search([query], depth)

    assert [f"{row:02}" for row, _ in found] == [
        chunk_id for chunk_id, _ in ranked(expected, depth)
    ]
    for row, score in found:
        assert math.isclose(score, expected[f"{row:02}"], abs_tol=1.1e-6)


def test_a_score_by_hand() -> None:
    """Two chunks of two words each with their path, so |d| is the average; df 1 of 2.

    ln(1 + 1.5 / 1.5) · 1 / (1 + 1.2) = .693147 / 2.2 = .315067
    """
    (found,) = indexed(["qa qb", "qc qd"]).search(["qa"], 10)

    assert found == [(0, 0.315067)]


def test_a_repeated_query_word_counts_again() -> None:
    once, twice = indexed(["qa qb", "qc qd"]).search(["qa", "qa qa"], 10)

    assert twice[0].score == pytest.approx(2 * once[0].score, abs=1e-6)


@pytest.mark.parametrize("query", ["", "   ", "the of and", "unheard words", "!?"])
def test_a_query_without_a_known_word_finds_nothing(query: str) -> None:
    assert indexed(["qa qb", "qc"]).search([query], 10) == [[]]


def test_a_saved_index_answers_as_before(tmp_path: Path) -> None:
    built = LexicalIndex.build(number_terms(SMALL, lambda _fraction: None))
    built.save(tmp_path / "bm25")
    queries = ["user name", "größe 日本語", "permission", "nothing known"]

    loaded = LexicalIndex.load(tmp_path / "bm25")

    assert len(loaded) == len(SMALL)
    assert loaded.search(queries, 10) == built.search(queries, 10)
