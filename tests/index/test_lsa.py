import math
from pathlib import Path

import numpy as np
import pytest

from freshstack_dspy.index.lsa import FIT_SAMPLE, MAX_FEATURES, LsaModel, fit_lsa
from freshstack_dspy.index.term_rows import TermRows, number_terms
from freshstack_dspy.index.vectors import nearest
from freshstack_dspy.records import Chunk
from tests.index.pieces import GREEK, SMALL, many, piece


def corpus(chunks: list[Chunk]) -> TermRows:
    return number_terms(chunks, lambda _fraction: None)


def test_scores_are_those_of_a_dense_reimplementation() -> None:
    """TF-IDF, decomposition and cosine again, with word lists split at spaces and dense arrays."""
    texts = ["qa qb qb", "qb qc", "qc qd qd qd", "qa qd", "qe qa qe"]
    chunks = [piece("p", text, start=place) for place, text in enumerate(texts)]
    words = ["p", "qa", "qb", "qc", "qd", "qe"]
    documents = [["p", *text.split()] for text in texts]
    idf = [
        math.log(6 / (1 + sum(word in document for document in documents))) + 1 for word in words
    ]

    def weights(document: list[str]) -> list[float]:
        row = [
            (1 + math.log(document.count(word))) * idf[place] if word in document else 0.0
            for place, word in enumerate(words)
        ]
        return [value / math.hypot(*row) for value in row]

    matrix = np.array([weights(document) for document in documents])
    directions = np.linalg.svd(matrix)[2][:3].T
    query, rows = np.array(weights(["qa", "qb"])) @ directions, matrix @ directions
    expected = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)

    fitted = fit_lsa(corpus(chunks), 3)

    assert fitted.vectors.shape == (5, 3)
    found = fitted.vectors.astype(np.float64) @ fitted.model.embed(["qa qb"])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_words_of_one_context_find_each_other() -> None:
    """The point of latent vectors: `automobile` is found by `car`, with which it shares no text."""
    chunks = [
        piece("1", "car engine wheel road"),
        piece("2", "automobile engine wheel road"),
        piece("3", "car wheel engine brake"),
        piece("4", "soup onion carrot salt"),
        piece("5", "onion salt pepper soup"),
    ]
    fitted = fit_lsa(corpus(chunks), 2)

    (found,) = nearest(fitted.model.embed(["car"]), fitted.vectors.astype(np.float64), 10)

    assert {row for row, _ in found[:3]} == {0, 1, 2}


@pytest.mark.parametrize("query", ["", "the", "unheard", "!?"])
def test_a_query_without_a_known_word_has_no_direction(query: str) -> None:
    model = fit_lsa(corpus(SMALL), 4).model

    assert not model.embed([query]).any()


def test_all_vectors_have_length_one() -> None:
    vectors = fit_lsa(corpus(many(60)), 16).vectors

    assert vectors.shape == (60, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_one_chunk_is_enough() -> None:
    fitted = fit_lsa(corpus([GREEK]), 256)

    assert fitted.vectors.shape == (1, 1)
    assert fitted.vectors[0] @ fitted.model.embed(["日本語"])[0] == pytest.approx(1)


def test_a_saved_model_embeds_as_before(tmp_path: Path) -> None:
    model = fit_lsa(corpus(SMALL), 4).model
    model.save(tmp_path / "lsa")
    texts = ["user name", "größe", "unheard", ""]

    np.testing.assert_array_equal(LsaModel.load(tmp_path / "lsa").embed(texts), model.embed(texts))


def test_a_large_corpus_is_fitted_on_a_sample_and_embedded_whole() -> None:
    chunks = [piece("p", f"qa{n % 7} qb{n % 11}", start=n) for n in range(FIT_SAMPLE + 50)]

    vectors = fit_lsa(corpus(chunks), 5).vectors

    assert vectors.shape == (FIT_SAMPLE + 50, 5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors[-77:], vectors[-154:-77])


def test_of_too_many_terms_those_in_the_most_chunks_count() -> None:
    """Every number stands in one chunk, but the last hundred in two."""
    numbers = range(MAX_FEATURES + 100)
    chunks = [
        piece("p", " ".join(map(str, numbers[start : start + 1000])), start=start)
        for start in range(0, len(numbers), 1000)
    ]
    chunks.append(piece("p", " ".join(map(str, numbers[-100:])), start=len(numbers)))

    features = fit_lsa(corpus(chunks), 2).model.features

    assert len(features) == MAX_FEATURES
    assert {str(number) for number in numbers[-100:]} <= features.keys()
