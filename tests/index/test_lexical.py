import math
from collections import Counter

import bm25s
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.corpus.parquet import batches_of
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import (
    CorpusTerms,
    LexicalIndex,
    count_terms,
    cut_batches,
    indexed_text,
    terms_of,
)
from freshstack_dspy.records import ranked
from freshstack_dspy.text import terms
from tests.index.pieces import piece
from tests.test_text import ANY_TEXT

WORDS = ("qa", "qb", "qc", "qd", "qe", "qf")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


K1S, BS = st.sampled_from([0.0, 0.9, 1.2, 2.0]), st.sampled_from([0.0, 0.4, 0.75, 1.0])


def indexed(texts: list[str], k1: float = 1.2, b: float = 0.75) -> LexicalIndex:
    return LexicalIndex.build(count_terms(f"p {text}" for text in texts), k1, b)


def lucene(texts: list[str], query: str, k1: float, b: float) -> list[float]:
    """Score by the formula as Lucene's BM25Similarity documents it, on word lists split at spaces."""
    documents = [["p", *text.split()] for text in texts]
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts = Counter(words)
        score = 0.0
        for word in filter(counts.get, query.split()):
            with_word = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - with_word + 0.5) / (with_word + 0.5))
            norm = k1 * (1 - b + b * len(words) / average)
            score += idf * counts[word] / (counts[word] + norm)
        scores.append(score)
    return scores


def test_the_frequency_of_a_term_is_how_many_rows_have_it() -> None:
    index = indexed(["qa qa qb", "qb", "qc qb"])

    assert [index.frequency(term) for term in ("qa", "qb", "p", "qd")] == [1, 3, 3, 0]


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS, st.integers(1, 15), K1S, BS)
def test_scores_and_order_are_lucenes(
    texts: list[str], query: str, depth: int, k1: float, b: float
) -> None:
    scores = lucene(texts, query, k1, b)
    expected = {f"{row:02}": round(score, 6) for row, score in enumerate(scores) if score > 0}

    (found,) = indexed(texts, k1, b).search([terms(query)], depth)

    assert [f"{row:02}" for row, _ in found] == [
        chunk_id for chunk_id, _ in ranked(expected, depth)
    ]
    for row, score in found:
        assert math.isclose(score, expected[f"{row:02}"], abs_tol=1.1e-6)


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4)])
def test_scores_are_those_of_an_index_that_bm25s_makes_itself(k1: float, b: float) -> None:
    rows = [["qa", "qa", "qb"], ["qb"], ["qc", "qb", "qd", "qd", "qd"], ["qe"]]
    theirs = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
    theirs.index(rows, show_progress=False)
    expected = theirs.get_scores(["qa", "qb", "qd"])

    (found,) = LexicalIndex.build(count_terms(map(" ".join, rows)), k1, b).search(
        [["qa", "qb", "qd"]], 10
    )

    assert dict(found) == {
        row: pytest.approx(score, abs=1e-6) for row, score in enumerate(expected) if score
    }


def test_a_corpus_without_a_word_is_an_error() -> None:
    with pytest.raises(IndexingError, match="none of the 2 chunks holds a word"):
        LexicalIndex.build(CorpusTerms.of([count_terms(["!", "the"])]))


@settings(deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.data())
def test_the_counts_of_batches_are_those_of_each_chunk(
    texts: list[str], data: st.DataObject
) -> None:
    """Whatever batches there are, and whichever language each chunk is in."""
    language = st.sampled_from(["en", "de", "ko", None])
    chunks = [
        piece("802", text).model_copy(update={"language": data.draw(language)}) for text in texts
    ]
    size, languages = data.draw(st.integers(1, 4)), ("en", "de")
    batches = [[*batches_of(chunks[start : start + size])] for start in range(0, len(chunks), size)]

    corpus = CorpusTerms.of(cut_batches(batch, languages) for batch in batches)

    counts, names = corpus.counts.toarray(), list(corpus.vocabulary)
    assert [{names[column]: row[column] for column in row.nonzero()[0]} for row in counts] == [
        Counter(terms_of(chunk, languages)) for chunk in chunks
    ]


@pytest.mark.parametrize(
    ("path", "searched"),
    [("src/http2/client.py", True), ("getting started", True), ("802", False), ("MED-802", False)],
)
def test_paths_of_files_are_searched_and_ids_of_documents_are_not(
    path: str, searched: bool
) -> None:
    """A query with "802" found the document of id 802."""
    assert (indexed_text(piece(path, "text")) == f"{path}\ntext") is searched
