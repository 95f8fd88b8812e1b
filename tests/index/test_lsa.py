import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from freshstack_dspy.index.lsa import FIT_SAMPLE, MAX_FEATURES, LsaModel, fit_lsa
from freshstack_dspy.index.rows import as_digests, digest_of
from freshstack_dspy.index.term_counts import TermCounts
from freshstack_dspy.index.vectors import nearest
from freshstack_dspy.records import Chunk
from tests.index.pieces import GREEK, SMALL, many, piece


def fitted(chunks: list[Chunk], dimensions: int) -> tuple[LsaModel, NDArray[np.float32]]:
    """A model, and the vectors it gives the chunks it was fitted on."""
    counts = TermCounts.of(chunks)
    digests = as_digests([digest_of(chunk, "") for chunk in chunks])
    model = fit_lsa(counts, dimensions, "mark", digests)
    return model, model.embed_counts(counts)


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

    model, vectors = fitted(chunks, 3)

    assert vectors.shape == (5, 3)
    found = vectors.astype(np.float64) @ model.embed(["qa qb"])[0]
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
    model, vectors = fitted(chunks, 2)

    (found,) = nearest(model.embed(["car"]), vectors, 10)

    assert {row for row, _ in found[:3]} == {0, 1, 2}


@pytest.mark.parametrize("query", ["", "the", "unheard", "!?"])
def test_a_query_without_a_known_word_has_no_direction(query: str) -> None:
    model = fitted(SMALL, 4)[0]

    assert not model.embed([query]).any()


def test_all_vectors_have_length_one() -> None:
    vectors = fitted(many(60), 16)[1]

    assert vectors.shape == (60, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_one_chunk_is_enough() -> None:
    model, vectors = fitted([GREEK], 256)

    assert vectors.shape == (1, 1)
    assert vectors[0] @ model.embed(["日本語"])[0] == pytest.approx(1)


def test_a_saved_model_embeds_as_before(tmp_path: Path) -> None:
    model = fitted(SMALL, 4)[0]
    model.save(tmp_path)
    texts = ["user name", "größe", "unheard", ""]

    loaded = LsaModel.load(tmp_path)

    np.testing.assert_array_equal(loaded.embed(texts), model.embed(texts))
    assert loaded.fitted_on == "mark"
    assert loaded.changed(model.fitted_rows) == 0


def test_a_large_corpus_is_fitted_on_a_sample_and_embedded_whole() -> None:
    chunks = [piece("p", f"qa{n % 7} qb{n % 11}", start=n) for n in range(FIT_SAMPLE + 50)]

    vectors = fitted(chunks, 5)[1]

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

    features = fitted(chunks, 2)[0].features

    assert len(features) == MAX_FEATURES
    assert {str(number) for number in numbers[-100:]} <= features.keys()


def test_a_fit_does_not_depend_on_how_terms_are_numbered() -> None:
    """An update numbers them otherwise than a build from nothing does."""
    chunks = many(50)
    backwards = TermCounts.of(chunks[::-1])
    merged = backwards.merged(
        TermCounts.of([], known=backwards.vocabulary), np.arange(len(chunks))[::-1]
    )
    model, vectors = fitted(chunks, 8)

    other = fit_lsa(merged, 8, "mark", model.fitted_rows)

    assert list(other.features) == list(model.features)
    np.testing.assert_array_equal(other.directions, model.directions)
    np.testing.assert_array_equal(other.embed_counts(merged), vectors)


def test_chunks_alone_get_the_vectors_they_get_among_others() -> None:
    chunks = many(50)
    model, vectors = fitted(chunks, 8)

    alone = model.embed_counts(TermCounts.of(chunks[7:9]))

    np.testing.assert_array_equal(alone, vectors[7:9])
