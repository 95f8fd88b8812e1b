import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.index.lexical import LexicalIndex
from freshstack_dspy.index.term_counts import TermCounts, indexed_text
from freshstack_dspy.records import ranked
from freshstack_dspy.text import terms
from tests.index.pieces import SMALL, piece

WORDS = ("qa", "qb", "qc", "qd", "qe", "qf")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def indexed(texts: list[str]) -> LexicalIndex:
    chunks = [piece("p", text, start=place) for place, text in enumerate(texts)]
    return LexicalIndex.build(TermCounts.of(chunks))


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
    built = LexicalIndex.build(TermCounts.of(SMALL))
    built.save(tmp_path / "bm25")
    queries = ["user name", "größe 日本語", "permission", "nothing known"]

    loaded = LexicalIndex.load(tmp_path / "bm25", len(SMALL))

    assert len(loaded) == len(SMALL)
    assert loaded.search(queries, 10) == built.search(queries, 10)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS.map("p {}".format))
def test_scores_are_those_of_bm25s_itself(texts: list[str], query: str) -> None:
    """Its own indexing, in the same precision, of the same terms."""
    import bm25s

    chunks = [piece("p", text, start=place) for place, text in enumerate(texts)]
    documents = [terms(indexed_text(chunk)) for chunk in chunks]
    model = bm25s.BM25(k1=1.2, b=0.75, method="lucene", dtype="float64")
    model.index(documents, show_progress=False)
    expected = model.get_scores([term for term in terms(query) if term in model.vocab_dict])

    (found,) = LexicalIndex.build(TermCounts.of(chunks)).search([query], len(texts))

    assert dict(found) == {
        row: pytest.approx(score, abs=1e-6) for row, score in enumerate(expected) if score > 5e-7
    }


def test_what_is_saved_is_an_index_of_bm25s(tmp_path: Path) -> None:
    import bm25s

    LexicalIndex.build(TermCounts.of(SMALL)).save(tmp_path)

    model = bm25s.BM25.load(tmp_path, allow_pickle=False, show_progress=False)
    scores = model.get_scores(["permiss"])

    assert [round(float(score), 6) > 0 for score in scores] == [False] * 4 + [True] * 2


def test_rows_outside_of_a_mask_are_not_found() -> None:
    index = indexed(["qa", "qa qa", "qa qb"])

    (found,) = index.search(["qa"], 10, np.array([True, False, True]))

    assert [row for row, _ in found] == [0, 2]


def test_counts_of_some_old_and_some_new_rows_are_those_of_all() -> None:
    old, new = SMALL[:4], [piece("new", "user zebra zebra"), SMALL[4]]
    counts = TermCounts.of(old)
    merged = counts.merged(TermCounts.of(new, known=counts.vocabulary), np.array([3, -1, 0, -1]))

    def words(corpus: TermCounts) -> list[dict[str, int]]:
        names = list(corpus.vocabulary)
        return [
            {names[column]: int(count) for column, count in zip(row.indices, row.data, strict=True)}
            for row in corpus.counts
        ]

    assert words(merged) == words(TermCounts.of([old[3], new[0], old[0], new[1]]))
    assert words(merged.used()) == words(merged)
    assert len(merged.used().vocabulary) < len(merged.vocabulary)
