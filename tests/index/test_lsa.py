import math
import subprocess
import sys

import numpy as np
import pytest

from freshstack_dspy.index.lexical import CorpusTerms, count_terms
from freshstack_dspy.index.lsa import FIT_SAMPLE, LsaModel, fit_lsa
from tests.index.pieces import many

TEXTS = [chunk.text for chunk in many(60)]


def fitted(texts: list[str], dimensions: int) -> tuple[LsaModel, np.ndarray]:
    return fit_lsa(CorpusTerms.of([count_terms(texts)]), dimensions, lambda _: None)


def test_scores_are_those_of_a_dense_reimplementation() -> None:
    """TF-IDF, decomposition and cosine again, with word lists split at spaces and dense arrays."""
    texts = ["p qa qb qb", "p qb qc", "p qc qd qd qd", "p qa qd", "p qe qa qe"]
    words = ["p", "qa", "qb", "qc", "qd", "qe"]
    documents = [text.split() for text in texts]
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

    model, vectors = fitted(texts, 3)

    assert vectors.shape == (5, 3)
    found = vectors.astype(np.float64) @ model.embed([["qa", "qb"]])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_arpack_finds_the_directions_of_a_dense_decomposition() -> None:
    model, vectors = fitted(TEXTS, 16)
    dense, all_vectors = fitted(TEXTS, 59)

    assert dense.directions.shape[1] > 50
    overlap = np.abs(model.directions.T @ dense.directions[:, :16])
    np.testing.assert_allclose(overlap, np.eye(16), atol=1e-4)
    assert (vectors.shape, len(all_vectors)) == ((60, 16), 60)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_large_corpus_is_fitted_on_a_sample_and_embedded_whole() -> None:
    texts = [f"qa{n % 7} qb{n % 11}" for n in range(FIT_SAMPLE + 50)]

    vectors = fitted(texts, 5)[1]

    assert vectors.shape == (FIT_SAMPLE + 50, 5)
    np.testing.assert_array_equal(vectors[-77:], vectors[-154:-77])


def test_of_too_many_terms_those_in_the_most_chunks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number is in one chunk, but the last ten in two."""
    monkeypatch.setattr("freshstack_dspy.index.lsa.MAX_FEATURES", 50)
    numbers = [str(number) for number in range(60)]
    texts = [" ".join(numbers[start : start + 20]) for start in range(0, len(numbers), 20)]

    features = fitted([*texts, " ".join(numbers[-10:])], 2)[0].features

    assert len(features) == 50
    assert set(numbers[-10:]) <= features.keys()


@pytest.mark.slow
def test_the_same_corpus_gives_the_same_bytes_in_any_process() -> None:
    program = (
        "import hashlib; from tests.index.test_lsa import TEXTS, fitted; "
        "print(hashlib.sha256(fitted(TEXTS, 8)[1].tobytes()).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(hashes) == 1
